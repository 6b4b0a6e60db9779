//! The plan of a job: the options decide which process runs on which host.

use std::{collections::BTreeMap, env, time::Duration};

use clap::Parser;
use hikyaku::internals::bootstrap::names;
use hikyaku_bench::{
    failure::{Failure, While},
    machine::pin,
};

use super::{
    args::{AppArgs, OnFailure, RunArgs},
    frame::App,
    hosts::{self, Binding, Host, Place},
    private::PrivateDir,
};

const BACKEND: &str = "HIKYAKU_BACKEND";
const DEVICE: &str = "HIKYAKU_DPDK_DEVICE";
const BULK: &str = "HIKYAKU_POLLER_BULK";

/// A job before it starts.
pub(super) struct Plan {
    /// Hosts that have ranks, with the ranks.
    pub(super) hosts: Vec<(Host, Vec<Place>)>,
    pub(super) apps: Vec<App>,
    pub(super) size: u32,
    pub(super) directory: String,
    /// `None`: on cores where there are enough.
    pub(super) binding: Option<Binding>,
    pub(super) report_bindings: bool,
    pub(super) tag_output: bool,
    /// Ranks that fail do not end the others.
    pub(super) goes_on: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) startup_timeout: Duration,
    pub(super) ssh: Vec<String>,
    /// Path of this program on other hosts.
    pub(super) remote_path: String,
    /// Where the socket of a memif is: a process that can open it is in the job.
    _memif: Option<PrivateDir>,
    /// How many ranks there are beyond the slots of the hosts that were named.
    pub(super) missing_slots: u32,
}

impl Plan {
    pub(super) fn new(args: &RunArgs) -> Result<Self, Failure> {
        let hosts = match (&args.host, &args.hostfile) {
            (Some(list), _) => hosts::parse_list(list),
            (None, Some(file)) => hosts::read_file(file),
            (None, None) => Ok(vec![Host {
                name: "localhost".into(),
                slots: u32::try_from(pin::places().len()).unwrap_or(1).max(1),
            }]),
        };
        let hosts = hosts.map_err(|error| Failure::usage(error.to_string()))?;
        let slots = hosts.iter().fold(0_u32, |sum, host| sum.saturating_add(host.slots));
        let mut memif = None;
        let (counts, apps) = apps(args, slots, &mut memif)?;
        let size = counts.iter().sum();
        let places = hosts::place(&hosts, &counts);
        let used = hosts.into_iter().zip(places).filter(|(_, places)| !places.is_empty());
        let here = env::current_dir().or_fail("the current directory")?;
        let own = env::current_exe().or_fail("the path of this program")?;
        let text = |path: &std::path::Path| match path.to_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(Failure::usage(format!("{}: not UTF-8", path.display()))),
        };
        Ok(Self {
            hosts: used.collect(),
            apps,
            size,
            directory: text(&here.join(args.wdir.clone().unwrap_or_default()))?,
            binding: args.bind_to,
            report_bindings: args.report_bindings,
            tag_output: args.tag_output,
            goes_on: args.on_failure == OnFailure::Continue,
            timeout: args.timeout.map(Duration::from_secs_f64),
            startup_timeout: Duration::from_secs_f64(args.startup_timeout),
            ssh: args.ssh.split_whitespace().map(str::to_owned).collect(),
            remote_path: match &args.remote_path {
                Some(path) => path.clone(),
                None => text(&own)?,
            },
            _memif: memif,
            missing_slots: if args.host.is_some() || args.hostfile.is_some() {
                size.saturating_sub(slots)
            } else {
                0
            },
        })
    }
}

/// The programs, with how many processes each has.
fn apps(args: &RunArgs, slots: u32, memif: &mut Option<PrivateDir>) -> Result<(Vec<u32>, Vec<App>), Failure> {
    let mut segments = args.command.split(|word| word == ":");
    let first = segments.next().unwrap_or_default();
    let rest: Vec<&[String]> = segments.collect();
    if first.is_empty() {
        return Err(Failure::usage("no program before ':'"));
    }
    let count = match args.n {
        Some(count) => count,
        None if rest.is_empty() => slots,
        None => return Err(Failure::usage("with several programs, each needs its -n")),
    };
    let mut common = settings(args, memif)?;
    common.extend(args.env.iter().cloned());
    let mut counts = vec![count];
    let mut apps = vec![app(&common, &[], first)];
    for segment in rest {
        let parsed = AppArgs::try_parse_from(segment).map_err(|error| {
            let text = error.to_string();
            Failure::usage(format!("after ':': {}", text.trim_start_matches("error: ").trim_end()))
        })?;
        counts.push(parsed.n);
        apps.push(app(&common, &parsed.env, &parsed.command));
    }
    Ok((counts, apps))
}

fn app(common: &BTreeMap<String, String>, own: &[(String, String)], command: &[String]) -> App {
    let mut env = common.clone();
    env.extend(own.iter().cloned());
    App {
        command: command.to_vec(),
        env: env.into_iter().collect(),
    }
}

/// Settings of hikyaku in this environment, which ranks on other hosts should have too.
fn settings(args: &RunArgs, memif: &mut Option<PrivateDir>) -> Result<BTreeMap<String, String>, Failure> {
    let mut settings: BTreeMap<String, String> = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("HIKYAKU_"))
        .collect();
    // The launcher knows better who is missing, so it speaks first.
    settings
        .entry(names::TIMEOUT.into())
        .or_insert_with(|| (args.startup_timeout + 10.0).to_string());
    if let Some(backend) = &args.backend {
        settings.insert(BACKEND.into(), backend.clone());
    }
    if let Some(device) = &args.device {
        let is_dpdk = |name| settings.get(name).is_some_and(|backend| backend == "dpdk");
        if !is_dpdk(BACKEND) && !is_dpdk(BULK) {
            return Err(Failure::usage(
                "--device is for --backend dpdk, or with --backend poller for HIKYAKU_POLLER_BULK=dpdk",
            ));
        }
        settings.insert(DEVICE.into(), device.clone());
    }
    let is_memif = |device: &&mut String| device.split(',').all(|port| port == "memif");
    if let Some(device) = settings.get_mut(DEVICE).filter(is_memif) {
        // A name without a path (an abstract socket) could be connected to by any process on this host.
        let dir = PrivateDir::new().or_fail("a directory for the socket of the memif")?;
        let socket = |port: usize| dir.path().join(format!("memif{port}"));
        let ports = (0..device.split(',').count()).map(|port| format!("memif:socket={}", socket(port).display()));
        *device = ports.collect::<Vec<_>>().join(",");
        *memif = Some(dir);
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Cli, Command};

    fn plan(line: &str) -> Result<Plan, String> {
        let words = ["hikyaku", "run"].into_iter().chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let Command::Run(args) = cli.command else {
            panic!("not run")
        };
        Plan::new(&args).map_err(|failure| failure.to_string())
    }

    #[test]
    fn programs_and_their_options() {
        let plan = plan("-n 1 --env A=1 --backend udp ./one -x --tag-output : -n 2 --env B=2 two -n 3").unwrap();
        assert_eq!((plan.size, plan.tag_output), (3, false));
        assert_eq!(plan.apps[0].command, ["./one", "-x", "--tag-output"]);
        assert_eq!(plan.apps[1].command, ["two", "-n", "3"]);
        let has = |app: usize, name: &str| plan.apps[app].env.iter().any(|(key, _)| key == name);
        assert!(has(0, "A") && !has(0, "B") && has(1, "A") && has(1, "B") && has(1, "HIKYAKU_BACKEND"));
    }

    #[test]
    fn hosts_without_a_number_of_processes() {
        let with = plan("--host a:2,b:3 prog").unwrap();
        assert_eq!((with.size, with.hosts.len(), with.missing_slots), (5, 2, 0));
        let fewer = plan("-n 2 --host a:2,b:3 prog").unwrap();
        assert_eq!(
            (fewer.size, fewer.hosts.len()),
            (2, 1),
            "a host without ranks is not asked"
        );
        assert_eq!(plan("-n 7 --host a:2,b:3 prog").unwrap().missing_slots, 2);
    }

    #[test]
    fn devices() {
        let device = |line: &str| {
            let plan = plan(line).unwrap();
            let found = plan.apps[0].env.iter().find(|(name, _)| name == DEVICE);
            found.map(|(_, value)| value.clone())
        };
        let own = device("-n 2 --backend dpdk --device memif prog").unwrap();
        // In the file system: a name without a path is open to all users of the host.
        assert!(own.starts_with("memif:socket=/") && own.ends_with("/memif0"), "{own}");
        let several = device("-n 2 --backend dpdk --device memif,memif prog").unwrap();
        assert!(
            several.contains("/memif0,memif:socket=/") && several.ends_with("/memif1"),
            "{several}"
        );
        let two = "af_packet:iface=a+af_packet:iface=b";
        assert_eq!(
            device(&format!("--backend dpdk --device {two} prog")).as_deref(),
            Some(two)
        );
    }

    #[test]
    fn mistakes_are_said() {
        for (line, said) in [
            ("--device memif prog", "--device is for --backend dpdk"),
            ("-n 0 prog", "0 is not in 1..=65536"),
            ("-n 2", "PROGRAM"),
            ("-n 1 a : b", "after ':'"),
            ("a : -n 1 b", "each needs its -n"),
            ("-n 1 : -n 2 b", "no program before ':'"),
            ("--timeout 0 a", "above 0"),
            ("--env =1 a", "needs a name"),
            ("--env SURELY_NOT_SET a", "is not set here"),
            ("--host a:x b", "'x' is no number of slots"),
            ("--hostfile /nowhere/hosts b", "/nowhere/hosts: No such file"),
        ] {
            let Err(error) = plan(line) else {
                panic!("{line} is accepted")
            };
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}

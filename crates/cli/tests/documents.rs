//! The commands of the readme and the guides, run as a new user would: in a directory of their own, by a shell, with
//! the command on the path and a program `./prog`. What this machine cannot run is checked for form: the unit test
//! `documents` parses each command line of ours, and here each `cargo` line must name what exists.

#[path = "../src/documents/fences.rs"]
mod fences;

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use fences::{Fence, commands, fences, ours, pages, root};
use mpi::{collective::SystemOperation, traits::*};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hikyaku");
/// No command may take longer.
const LIMIT: Duration = Duration::from_secs(90);

/// Parts of commands that not every machine can run, and why.
const NEEDS: [(&str, &str); 14] = [
    ("--host ", "needs ssh and other hosts"),
    ("--listen", "needs two hosts"),
    ("--connect", "needs two hosts"),
    ("first-host", "needs two hosts"),
    ("dpdk", "needs DPDK"),
    ("HIKYAKU_POLLER", "needs DPDK"),
    ("hikyaku poller", "needs DPDK"),
    ("quinn", "needs the feature peers"),
    ("kcp", "needs the feature peers"),
    ("mpirun ", "needs another launcher"),
    ("mpiexec ", "needs another launcher"),
    ("srun ", "needs another launcher"),
    ("hikyaku tune", "measures the whole machine for a while"),
    ("…", "leaves something open"),
];

/// First words of commands besides ours and `cargo`; they are not run.
const OTHERS: [&str; 11] = [
    "torchrun",
    "mpirun",
    "mpiexec",
    "srun",
    "eval",
    "export",
    "my-program",
    "apt-get",
    "dnf",
    "mount",
    "sysctl",
];

/// Options that make commands short: for those that begin so.
const SHORT: [(&str, &str); 7] = [
    ("hikyaku bench latency", "--iterations 20 --rounds 2"),
    ("hikyaku bench bandwidth", "--iterations 20 --rounds 2"),
    ("hikyaku bench rate", "--iterations 20 --rounds 2"),
    ("hikyaku bench core", "--iterations 20"),
    ("hikyaku sim scale", "--ranks 4,8"),
    ("hikyaku sim incast", "--senders 2,4"),
    ("hikyaku sim optical", "--ranks 4 --ports 2 --ft-scale 4096"),
];

/// A rank of an MPI job that calls something of each kind: `./prog`.
#[test]
#[ignore = "a program that the pages start"]
fn prog() {
    let universe = mpi::initialize().unwrap_or_else(|error| panic!("{error}"));
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let mut sum = 0;
    world.all_reduce_into(&rank, &mut sum, SystemOperation::sum()).unwrap();
    assert_eq!(sum, size * (size - 1) / 2);
    let mut all = vec![0; size as usize];
    world.all_to_all_into(&vec![rank; size as usize], &mut all).unwrap();
    if rank > 0 {
        world.process_at_rank(0).send(&rank).unwrap();
    } else {
        for _ in 1..size {
            world.any_process().receive::<i32>().unwrap();
        }
    }
}

fn now() -> Instant {
    Instant::now()
}

/// A directory of a page's own, with a home, a list of hosts, traces and programs.
struct Place {
    directory: PathBuf,
    path: String,
}

impl Place {
    fn new(page: &str) -> Self {
        let name = format!("documents-{}", page.replace(['/', '.'], "-"));
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("home")).unwrap();
        fs::write(directory.join("hosts"), "localhost slots=16\n").unwrap();
        let program = env::current_exe().unwrap();
        let script = format!(
            "#!/bin/sh\nexec {} --exact prog --ignored --quiet >/dev/null\n",
            program.display()
        );
        for name in ["prog", "server", "worker"] {
            let path = directory.join(name);
            fs::write(&path, &script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let tools = Path::new(PROGRAM).parent().unwrap();
        let path = format!("{}:{}", tools.display(), env::var("PATH").unwrap_or_default());
        let place = Self { directory, path };
        place.run("HIKYAKU_TRACE=traces hikyaku run -n 2 ./prog").unwrap();
        place
    }

    fn run(&self, command: &str) -> Result<(), String> {
        let mut shell = Command::new("sh");
        shell
            .args(["-e", "-c", command])
            .current_dir(&self.directory)
            .stdin(Stdio::null());
        for (name, _) in env::vars().filter(|(name, _)| name.starts_with("HIKYAKU_")) {
            shell.env_remove(name);
        }
        let out = fs::File::create(self.directory.join("out")).unwrap();
        shell.stdout(out.try_clone().unwrap()).stderr(out).process_group(0);
        shell
            .env("PATH", &self.path)
            .env("HOME", self.directory.join("home"))
            .env("NO_COLOR", "1");
        let mut child = shell.spawn().map_err(|error| error.to_string())?;
        let ended = wait(&mut child);
        let said = fs::read_to_string(self.directory.join("out")).unwrap_or_default();
        let end = said.char_indices().rev().nth(2_000).map_or(0, |(at, _)| at);
        match ended {
            Some(true) => Ok(()),
            Some(false) => Err(format!("fails:\n{}", &said[end..])),
            None => Err(format!("has not ended in {LIMIT:?}:\n{}", &said[end..])),
        }
    }
}

/// Whether it succeeds; `None`: it has not ended in time.
fn wait(child: &mut Child) -> Option<bool> {
    let end = now() + LIMIT;
    while now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.success());
        }
        thread::sleep(Duration::from_millis(5));
    }
    let group = i32::try_from(child.id()).unwrap();
    let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), nix::sys::signal::Signal::SIGKILL);
    let _ = child.wait();
    None
}

/// The command as it is run here: ours by name, and short. `Err`: why it is not run.
fn here(command: &str) -> Result<String, &'static str> {
    if let Some((_, why)) = NEEDS.iter().find(|(part, _)| command.contains(part)) {
        return Err(why);
    }
    let words: Vec<&str> = command.split_whitespace().collect();
    let first = words
        .iter()
        .find(|word| !word.contains('='))
        .copied()
        .unwrap_or_default();
    let mut command = command.to_owned();
    if first == "cargo" {
        let arguments = ours(&command).into_iter().next().ok_or("builds")?;
        command = format!("hikyaku {}", arguments.join(" "));
    } else if words
        .iter()
        .any(|word| word.contains("target/release/") || word.contains("target/debug/"))
    {
        return Err("needs a build");
    } else if OTHERS.contains(&first) {
        return Err("is not ours");
    }
    for (beginning, options) in SHORT {
        if command.starts_with(beginning) {
            command = format!("{command} {options}");
        }
    }
    Ok(command)
}

/// The mistake in a command that is parsed but not run.
fn complaint(command: &str) -> Option<String> {
    let mut words = command.split_whitespace().skip_while(|word| word.contains('='));
    let first = words.next()?;
    if first != "cargo" {
        let known = OTHERS.contains(&first) || first.ends_with("hikyaku") || first.starts_with("./");
        return (!known).then(|| format!("what is {first:?}? See OTHERS in crates/cli/tests/documents.rs"));
    }
    let words: Vec<&str> = words.take_while(|&word| word != "--").collect();
    if let ["xtask", chore, ..] = words[..] {
        let chores = fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
        return (!chores.contains(&format!("(\"{chore}\""))).then(|| format!("there is no chore {chore}"));
    }
    let options = words.windows(2);
    let of = |name: &'static str| options.clone().filter(move |pair| pair[0] == name).map(|pair| pair[1]);
    let folder = |package: &str| match package.strip_prefix("hikyaku-") {
        // The libraries of an ABI are folders of the package that both are made from.
        Some(rest) => root().join("crates").join(rest.replace("capi-", "capi/")),
        None => root(),
    };
    let packages: Vec<PathBuf> = of("-p").map(folder).collect();
    let manifests = packages
        .iter()
        .map(|folder| fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default());
    let manifests: Vec<String> = manifests.collect();
    if manifests.iter().any(String::is_empty) {
        return Some("there is no such package".to_owned());
    }
    let features = of("--features").flat_map(|list| list.split(','));
    for feature in features.map(|feature| feature.rsplit('/').next().unwrap_or_default()) {
        if !manifests.iter().any(|text| text.contains(&format!("\n{feature} = ["))) {
            return Some(format!("there is no feature {feature}"));
        }
    }
    for example in of("--example") {
        let is_there = |folder: &PathBuf| {
            let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
            folder.join(format!("examples/{example}.rs")).exists() || text.contains(&format!("name = \"{example}\""))
        };
        if !packages.iter().chain([&root()]).any(is_there) {
            return Some(format!("there is no example {example}"));
        }
    }
    None
}

#[test]
fn commands_of_the_pages_run() {
    let mut complaints = Vec::new();
    let mut done = BTreeSet::new();
    let (mut run, mut looked) = (0, 0);
    let pages = pages();
    for (page, text) in &pages {
        let fences: Vec<Fence> = fences(page, text);
        let shells: Vec<&Fence> = fences
            .iter()
            .filter(|fence| ["sh", "console"].contains(&&*fence.language))
            .collect();
        let mut place = None;
        for fence in shells {
            for command in commands(fence) {
                match here(command) {
                    Err(why) => {
                        println!("{}: {command}\n    not run: {why}", fence.place);
                        looked += 1;
                        complaints
                            .extend(complaint(command).map(|error| format!("{}: {command}\n{error}", fence.place)));
                    }
                    // (Those that measure take time and leave nothing behind.)
                    Ok(here) if here.contains(" bench ") && !done.insert(here.clone()) => {}
                    Ok(here) => {
                        let start = now();
                        run += 1;
                        let place = place.get_or_insert_with(|| Place::new(page));
                        complaints.extend(
                            place
                                .run(&here)
                                .err()
                                .map(|error| format!("{}: {here}\n{error}", fence.place)),
                        );
                        println!("{}: {here}\n    {:.1?}", fence.place, start.elapsed());
                    }
                }
            }
        }
    }
    println!("{run} commands run, {looked} looked at");
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n\n"));
    assert!(pages.is_empty() || run > 25, "{run}");
}

//! Every variable, its value and where that comes from.

use hikyaku::{
    Config, backends,
    environment::{Environment, Part, VARIABLES, Variable},
    mpi::engine,
    transport::environment::{apply, fields},
};
use nix::unistd::{SysconfVar, sysconf};
use serde::Serialize;

/// A setting.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) part: &'static str,
    /// Its variable.
    pub(super) name: &'static str,
    pub(super) value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<&'static str>,
    /// The origin of the value: `default`, `environment` or `job`.
    pub(super) from: &'static str,
    pub(super) meaning: &'static str,
    /// The values that it takes.
    pub(super) takes: &'static str,
}

/// Variables whose values are secret.
const SECRETS: [&str; 2] = ["HIKYAKU_JOB_KEY", "HIKYAKU_RUN_TICKET"];

type Fields = Vec<(&'static str, String)>;

/// All settings, for a job of `ranks` on this host; and what is wrong with the variables.
pub(super) fn all(environment: &Environment, ranks: u32) -> (Vec<Row>, Vec<String>) {
    let mut errors: Vec<String> = environment.unknown().map(|error| error.to_string()).collect();
    let cores = sysconf(SysconfVar::_NPROCESSORS_ONLN)
        .ok()
        .flatten()
        .unwrap_or(1)
        .max(1);
    let (mut config, mut options) = engine::for_job(ranks, f64::from(ranks) / cores as f64, true);
    let mut defaults = fields(&Config::default());
    defaults.extend(engine::Options::default().fields());
    let mut job = fields(&config);
    job.extend(options.fields());

    // One variable after the other, so that each that is wrong is named.
    for variable in VARIABLES {
        let Some(value) = environment.text(variable.name) else {
            continue;
        };
        let alone: Environment = [(variable.name.to_owned(), value.clone().into_owned())]
            .into_iter()
            .collect();
        let wrong = match variable.part {
            Part::Protocol => apply(&alone, &mut config).err().map(|error| error.to_string()),
            Part::Transport | Part::Mpi | Part::Algorithms => {
                options.environment(&alone).err().map(|error| error.to_string())
            }
            Part::Dpdk => dpdk(&alone),
            _ => None,
        };
        let wrong = wrong.or_else(|| match variable.name {
            "HIKYAKU_BACKEND" => no_backend(&value),
            _ => None,
        });
        errors.extend(wrong);
    }
    errors.extend(config.validate().err().map(|error| error.to_string()));
    let mut values = fields(&config);
    values.extend(options.fields());

    let shown = |variable: &&Variable| variable.part.is_for_users() || environment.text(variable.name).is_some();
    let rows = VARIABLES.iter().filter(shown).map(|variable| {
        let find = |fields: &Fields| {
            let found = fields.iter().find(|(name, _)| *name == variable.name);
            found.map(|(_, value)| value.clone())
        };
        let set = environment.text(variable.name).filter(|value| !value.is_empty());
        let from = match &set {
            Some(_) => "environment",
            None if find(&job) != find(&defaults) => "job",
            None => "default",
        };
        let value = match find(&values).or_else(|| set.map(|value| value.into_owned())) {
            Some(_) if SECRETS.contains(&variable.name) => "(secret)".to_owned(),
            Some(value) => value,
            None => variable.default.to_owned(),
        };
        Row {
            part: variable.part.name(),
            name: variable.name,
            // A word is in no unit.
            unit: variable
                .unit()
                .filter(|_| value.starts_with(|c: char| c.is_ascii_digit())),
            value,
            from,
            meaning: variable.meaning,
            takes: variable.takes,
        }
    });
    (rows.collect(), errors)
}

fn no_backend(name: &str) -> Option<String> {
    if backends::available().any(|known| known == name) {
        return None;
    }
    let available: Vec<&str> = backends::available().collect();
    let available = available.join(", ");
    Some(format!(
        "HIKYAKU_BACKEND={name}: there is no such backend; this build has: {available}"
    ))
}

#[cfg(feature = "dpdk")]
fn dpdk(alone: &Environment) -> Option<String> {
    use hikyaku::backends::{Place, dpdk::DpdkOptions};

    // In a list, each process takes its own.
    let devices = alone.get("HIKYAKU_DPDK_DEVICE").unwrap_or("ring");
    devices
        .split('+')
        .find_map(|devices| DpdkOptions::of_process(alone, Some(devices), Place::default()).err())
        .map(|error| error.to_string())
}

#[cfg(not(feature = "dpdk"))]
fn dpdk(_: &Environment) -> Option<String> {
    None
}

//! Settings from the environment.

use std::{borrow::Cow, env, time::Duration};

use super::error::EnvironmentError;
use crate::{
    config::{Config, Congestion, Recovery, WindowMode},
    progress::WaitPolicy,
};

/// Prefix of the names of all variables.
const PREFIX: &str = "HIKYAKU_";

/// Prefix of the names of the DPDK backend's variables.
const DPDK_PREFIX: &str = "HIKYAKU_DPDK_";

/// Variables of launchers and of this project's tests, which are not settings of a transport.
const FOREIGN: [&str; 23] = [
    "HIKYAKU_APP",
    "HIKYAKU_BOOTSTRAP",
    "HIKYAKU_BOOTSTRAP_TIMEOUT",
    "HIKYAKU_HOST_ADDRESS",
    "HIKYAKU_IFACE",
    "HIKYAKU_JOB_KEY",
    "HIKYAKU_LOCAL_RANK",
    "HIKYAKU_LOCAL_SIZE",
    "HIKYAKU_POLLER",
    "HIKYAKU_POLLER_BULK",
    "HIKYAKU_ON_FAILURE",
    "HIKYAKU_PORT_BASE",
    "HIKYAKU_RANK",
    "HIKYAKU_RENDEZVOUS",
    "HIKYAKU_RUN_ADDRESS",
    "HIKYAKU_RUN_TICKET",
    "HIKYAKU_SIZE",
    "HIKYAKU_FUZZ_CORPUS",
    "HIKYAKU_SEED",
    "HIKYAKU_SIM_RUNS",
    "HIKYAKU_SIM_FROM",
    "HIKYAKU_SIM_DIR",
    "HIKYAKU_SIM_TRACE",
];

/// Variables of the DPDK backend, which reads them itself.
#[cfg(all(feature = "dpdk", target_os = "linux"))]
const DPDK_VARIABLES: &[&str] = &crate::backends::dpdk::VARIABLES;
#[cfg(not(all(feature = "dpdk", target_os = "linux")))]
const DPDK_VARIABLES: &[&str] = &[];

/// Environment variables of MPI. `mpi::engine::Options::environment` reads them; transports ignore them.
///
/// | variable | sets |
/// |---|---|
/// | `HIKYAKU_CHECK` | compares the calls of ranks, to find mistakes: `on` or `off` |
/// | `HIKYAKU_CONNECT_AHEAD` | collectives open sessions with all their peers before they need them: `on` or `off` |
/// | `HIKYAKU_TRACE` | the directory in which each rank writes a trace of its calls |
/// | `HIKYAKU_EAGER_LIMIT` | bytes up to which messages are sent eagerly: 0 to `1M` |
/// | `HIKYAKU_MODEL_ALPHA` | time per message in the model by which algorithms are chosen: `8us` |
/// | `HIKYAKU_MODEL_BETA` | time per byte that is sent: `0.5ns` |
/// | `HIKYAKU_MODEL_GAMMA` | time per byte that is reduced: `0.2ns` |
/// | `HIKYAKU_BARRIER`, `HIKYAKU_ALLREDUCE`, … | the algorithm for this collective: `ring`; `auto`: the cheapest |
pub const MPI_VARIABLES: &[&str] = &[
    "HIKYAKU_CHECK",
    "HIKYAKU_CONNECT_AHEAD",
    "HIKYAKU_TRACE",
    "HIKYAKU_EAGER_LIMIT",
    "HIKYAKU_MODEL_ALPHA",
    "HIKYAKU_MODEL_BETA",
    "HIKYAKU_MODEL_GAMMA",
    "HIKYAKU_BARRIER",
    "HIKYAKU_BCAST",
    "HIKYAKU_GATHER",
    "HIKYAKU_GATHERV",
    "HIKYAKU_SCATTER",
    "HIKYAKU_SCATTERV",
    "HIKYAKU_ALLGATHER",
    "HIKYAKU_ALLGATHERV",
    "HIKYAKU_ALLTOALL",
    "HIKYAKU_ALLTOALLV",
    "HIKYAKU_REDUCE",
    "HIKYAKU_ALLREDUCE",
    "HIKYAKU_REDUCE_SCATTER",
    "HIKYAKU_REDUCE_SCATTER_BLOCK",
    "HIKYAKU_SCAN",
    "HIKYAKU_EXSCAN",
    "HIKYAKU_NEIGHBOR_ALLGATHER",
    "HIKYAKU_NEIGHBOR_ALLTOALL",
];

/// The variable that asks for events to be printed.
const LOG: &str = "HIKYAKU_LOG";

/// Values read besides the settings of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Environment {
    log: Option<String>,
    pub(super) backend: Option<String>,
    pub(super) wait: Option<WaitPolicy>,
}

/// A type that can be read from a variable.
pub(crate) trait Setting: Sized {
    const EXPECTED: &'static str;
    fn parse(text: &str) -> Option<Self>;
}

/// Splits a number with a unit into the digits (with a point) and the rest.
fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..end], &text[end..])
}

impl Setting for u64 {
    const EXPECTED: &'static str = "a number, perhaps with K, M or G (times 1,024): 1472, 64K, 8M";

    fn parse(text: &str) -> Option<Self> {
        let (digits, unit) = split(text);
        let shift = match unit.trim_end_matches("iB").trim_end_matches('B') {
            "" => 0,
            "k" | "K" => 10,
            "M" => 20,
            "G" => 30,
            _ => return None,
        };
        let number: Self = digits.parse().ok()?;
        number.checked_mul(1 << shift)
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            const EXPECTED: &'static str = <u64 as Setting>::EXPECTED;

            fn parse(text: &str) -> Option<Self> {
                Self::try_from(<u64 as Setting>::parse(text)?).ok()
            }
        }
    )*};
}
numbers!(u16, u32);

impl Setting for Duration {
    const EXPECTED: &'static str = "a time with its unit (ns, us, ms, s): 200us, 1.5ms, 4s";

    fn parse(text: &str) -> Option<Self> {
        Some(Self::from_nanos(Nanoseconds::parse(text)?.0.round() as u64))
    }
}

/// A time that may be shorter than a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Nanoseconds(pub(crate) f64);

impl Setting for Nanoseconds {
    const EXPECTED: &'static str = Duration::EXPECTED;

    fn parse(text: &str) -> Option<Self> {
        let (digits, unit) = split(text);
        let nanos = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => return None,
        };
        let number: f64 = digits.parse().ok()?;
        Some(Self(number * nanos))
    }
}

macro_rules! words {
    ($($type:ty: $expected:literal { $($word:literal $(| $other:literal)* => $value:expr,)* })*) => {$(
        impl Setting for $type {
            const EXPECTED: &'static str = $expected;

            fn parse(text: &str) -> Option<Self> {
                match text.to_ascii_lowercase().as_str() {
                    $($word $(| $other)* => Some($value),)*
                    _ => None,
                }
            }
        }
    )*};
}

words! {
    bool: "on or off" {
        "on" | "1" | "true" | "yes" => true,
        "off" | "0" | "false" | "no" => false,
    }
    Recovery: "selective-repeat or go-back-n" {
        "selective-repeat" => Self::SelectiveRepeat,
        "go-back-n" => Self::GoBackN,
    }
    WindowMode: "sliding or burst-then-wait" {
        "sliding" => Self::Sliding,
        "burst-then-wait" => Self::BurstThenWait,
    }
    Congestion: "fixed, aimd or delay" {
        "fixed" => Self::Fixed,
        "aimd" => Self::Aimd,
        "delay" => Self::Delay,
    }
}

impl Setting for WaitPolicy {
    const EXPECTED: &'static str = "spin, block, adaptive, yield, or how long to spin before blocking: 20us";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "spin" => Some(Self::Spin),
            "block" => Some(Self::Block),
            "adaptive" => Some(Self::default()),
            "yield" => Some(Self::Yield { spin: Self::TURNS }),
            _ => Duration::parse(text).map(|spin| Self::Adaptive { spin }),
        }
    }
}

macro_rules! settings {
    ($($name:literal $field:ident: $type:ty,)*) => {
        /// The environment variables that [`Builder::environment`](super::Builder::environment) reads.
        ///
        /// | variable | sets | takes |
        /// |---|---|---|
        /// | `HIKYAKU_BACKEND` | the backend that [`Builder::bind`](super::Builder::bind) opens | its name |
        /// | `HIKYAKU_LOG` | which events are printed to standard error: [`print_events`] | `off`, `error`, `warn`, `info`, `debug` or `trace` |
        /// | `HIKYAKU_WAIT` | [`WaitPolicy`] | `spin`, `block`, `adaptive`, `yield`, or how long to spin before blocking |
        $(#[doc = concat!("| `", $name, "` | [`Config::", stringify!($field), "`] | `", stringify!($type), "` |")])*
        ///
        /// Sizes and numbers may have `K`, `M` or `G` (times 1,024); times have a unit (`ns`, `us`, `ms`, `s`); switches
        /// are `on` or `off`; choices are written in small letters with hyphens (`go-back-n`).
        pub const VARIABLES: &[&str] = &["HIKYAKU_BACKEND", LOG, "HIKYAKU_WAIT", $($name,)*];

        fn set(config: &mut Config, name: &str, value: &str) -> Option<Result<(), EnvironmentError>> {
            match name {
                $($name => Some(parse($name, value).map(|value: $type| config.$field = value)),)*
                _ => None,
            }
        }

        #[cfg(test)]
        const FIELDS: &[(&str, &str)] = &[$(($name, stringify!($field)),)*];
    };
}

settings! {
    "HIKYAKU_MAX_DATAGRAM" max_datagram: u16,
    "HIKYAKU_SAFE_DATAGRAM" safe_datagram: u16,
    "HIKYAKU_PATH_MTU_DISCOVERY" path_mtu_discovery: bool,
    "HIKYAKU_MAX_PAYLOAD" max_payload: u16,
    "HIKYAKU_BUNDLE" bundle: bool,
    "HIKYAKU_TIMESTAMPS" timestamps: bool,
    "HIKYAKU_CHECKSUM" checksum: bool,
    "HIKYAKU_RECOVERY" recovery: Recovery,
    "HIKYAKU_NACK" nack: bool,
    "HIKYAKU_REORDERING_WINDOW" reordering_window: Duration,
    "HIKYAKU_WINDOW_PACKETS" window_packets: u16,
    "HIKYAKU_WINDOW_MODE" window_mode: WindowMode,
    "HIKYAKU_WINDOW_BYTES" window_bytes: u32,
    "HIKYAKU_CONGESTION" congestion: Congestion,
    "HIKYAKU_TARGET_DELAY" target_delay: Duration,
    "HIKYAKU_ACK_DELAY" ack_delay: Duration,
    "HIKYAKU_ACK_BYTES" ack_bytes: u32,
    "HIKYAKU_INITIAL_RTO" initial_rto: Duration,
    "HIKYAKU_MIN_RTO" min_rto: Duration,
    "HIKYAKU_MAX_RTO" max_rto: Duration,
    "HIKYAKU_RETRY_LIMIT" retry_limit: u16,
    "HIKYAKU_DEATH_TIMEOUT" death_timeout: Duration,
    "HIKYAKU_OPEN_TIMEOUT" open_timeout: Duration,
    "HIKYAKU_LATE_PEERS" late_peers: bool,
    "HIKYAKU_RECONNECT" reconnect: bool,
    "HIKYAKU_KEEPALIVE" keepalive: Duration,
    "HIKYAKU_UNEXPECTED_BYTES" unexpected_bytes: u32,
    "HIKYAKU_MAX_MESSAGE" max_message: u32,
    "HIKYAKU_SEND_QUEUE_BYTES" send_queue_bytes: u32,
    "HIKYAKU_SEND_QUEUE_MESSAGES" send_queue_messages: u32,
    "HIKYAKU_MAX_PEERS" max_peers: u32,
    "HIKYAKU_ACCEPT_STRANGERS" accept_strangers: bool,
    "HIKYAKU_RESETS_PER_SECOND" resets_per_second: u32,
    "HIKYAKU_CHALLENGES_PER_SECOND" challenges_per_second: u32,
}

pub(crate) fn parse<T: Setting>(name: &'static str, value: &str) -> Result<T, EnvironmentError> {
    T::parse(value.trim()).ok_or_else(|| refuse(name, value, T::EXPECTED))
}

pub(crate) fn refuse(name: &'static str, value: &str, expected: impl Into<Cow<'static, str>>) -> EnvironmentError {
    EnvironmentError::Value {
        name,
        value: value.to_owned(),
        expected: expected.into(),
    }
}

/// Returns the wait policy of `HIKYAKU_WAIT`, if the variable is set: for programs that wait themselves.
///
/// # Errors
/// The value of the variable is not valid.
pub fn wait_policy() -> Result<Option<WaitPolicy>, EnvironmentError> {
    const NAME: &str = "HIKYAKU_WAIT";
    let value = env::var_os(NAME).map(|value| parse(NAME, &value.to_string_lossy()));
    value.transpose()
}

/// Prints events to standard error from now on, if `HIKYAKU_LOG` asks for that: those of the level that it names, and
/// more important ones. A program that has a subscriber of the crate `tracing` keeps it, and nothing is printed; one that
/// installs its own later can not. `Builder::environment` and the start of MPI do this, too.
///
/// # Errors
/// The value of the variable is not valid, or it asks for events and this program was built without the feature `events`.
pub fn print_events() -> Result<(), EnvironmentError> {
    match env::var_os(LOG) {
        Some(level) => print_level(&level.to_string_lossy()),
        None => Ok(()),
    }
}

#[cfg(feature = "events")]
words! {
    tracing::level_filters::LevelFilter: "off, error, warn, info, debug or trace" {
        "off" => Self::OFF,
        "error" => Self::ERROR,
        "warn" => Self::WARN,
        "info" => Self::INFO,
        "debug" => Self::DEBUG,
        "trace" => Self::TRACE,
    }
}

#[cfg(feature = "events")]
fn print_level(level: &str) -> Result<(), EnvironmentError> {
    use tracing::level_filters::LevelFilter;
    use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

    let level = parse::<LevelFilter>(LOG, level)?;
    if level != LevelFilter::OFF {
        // Also `hikyaku_mpi` and the like, and nothing of other crates.
        let ours = Targets::new().with_target("hikyaku", level);
        let lines = fmt::layer().with_ansi(false).with_writer(std::io::stderr);
        // It fails if there is a subscriber: the program's, or this one.
        let _ = tracing_subscriber::registry().with(lines).with(ours).try_init();
    }
    Ok(())
}

#[cfg(not(feature = "events"))]
fn print_level(level: &str) -> Result<(), EnvironmentError> {
    if level.trim().eq_ignore_ascii_case("off") {
        return Ok(());
    }
    Err(EnvironmentError::Feature {
        name: LOG,
        feature: "events",
    })
}

impl Environment {
    /// Reads the environment of the process, puts its settings into `config`, and prints events if it asks for that.
    pub(super) fn read(config: &mut Config) -> Result<Self, EnvironmentError> {
        let variables = env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        let environment = Self::from_variables(variables, config)?;
        if let Some(level) = &environment.log {
            print_level(level)?;
        }
        Ok(environment)
    }

    fn from_variables(
        variables: impl Iterator<Item = (String, String)>,
        config: &mut Config,
    ) -> Result<Self, EnvironmentError> {
        let mut environment = Self::default();
        for (name, value) in variables {
            let is_foreign = |name: &str| {
                let listed = [&FOREIGN, DPDK_VARIABLES, MPI_VARIABLES]
                    .iter()
                    .any(|list| list.contains(&name));
                // A build without the backend says so when it is asked for.
                listed || (DPDK_VARIABLES.is_empty() && name.starts_with(DPDK_PREFIX))
            };
            if !name.starts_with(PREFIX) || is_foreign(name.as_str()) {
                continue;
            }
            match name.as_str() {
                "HIKYAKU_BACKEND" => environment.backend = Some(value),
                LOG => environment.log = Some(value),
                "HIKYAKU_WAIT" => environment.wait = Some(parse("HIKYAKU_WAIT", &value)?),
                _ => match set(config, &name, &value) {
                    Some(result) => result?,
                    None => {
                        let nearest = nearest(&name);
                        return Err(EnvironmentError::Unknown { name, nearest });
                    }
                },
            }
        }
        Ok(environment)
    }
}

fn nearest(name: &str) -> &'static str {
    let all = VARIABLES.iter().chain(MPI_VARIABLES).chain(DPDK_VARIABLES).copied();
    all.min_by_key(|variable| distance(name, variable)).unwrap_or("none")
}

/// Number of letters to change, add or remove to turn `a` into `b` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<(Environment, Config), EnvironmentError> {
        let mut config = Config::default();
        let variables = variables
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let environment = Environment::from_variables(variables, &mut config)?;
        Ok((environment, config))
    }

    #[test]
    #[cfg(feature = "mpi")]
    fn variables_of_launchers_are_no_settings() {
        for name in crate::bootstrap::environment::names::ALL {
            assert!(FOREIGN.contains(&name), "{name}");
        }
    }

    #[test]
    #[cfg(feature = "mpi")]
    fn every_collective_has_its_variable() {
        for collective in crate::mpi::collectives::Collective::ALL {
            let name = format!("{PREFIX}{}", collective.name().to_uppercase());
            assert_eq!(collective.variable(), name);
            assert!(MPI_VARIABLES.contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn every_field_has_its_variable() {
        let debug = format!("{:#?}", Config::default());
        let fields: Vec<&str> = debug
            .lines()
            .filter_map(|line| line.strip_prefix("    ")?.split_once(": "))
            .map(|(field, _)| field)
            // That comes from the job's key, which has one of its own.
            .filter(|field| *field != "contact")
            .collect();
        assert_eq!(FIELDS.iter().map(|(_, field)| *field).collect::<Vec<_>>(), fields);
        for (name, field) in FIELDS {
            assert_eq!(*name, format!("{PREFIX}{}", field.to_uppercase()));
        }
    }

    #[test]
    fn values_are_understood() {
        let (environment, config) = read(&[
            ("PATH", "/bin"),
            ("HIKYAKU_SEED", "7"),
            ("HIKYAKU_EAGER_LIMIT", "16K"),
            ("HIKYAKU_ACK_DELAY", "1.5ms"),
            ("HIKYAKU_DEATH_TIMEOUT", "4s"),
            ("HIKYAKU_MIN_RTO", "200us"),
            ("HIKYAKU_WINDOW_BYTES", "64K"),
            ("HIKYAKU_UNEXPECTED_BYTES", "2MiB"),
            ("HIKYAKU_MAX_PAYLOAD", "1024"),
            ("HIKYAKU_BUNDLE", "off"),
            ("HIKYAKU_RECOVERY", "Go-Back-N"),
            ("HIKYAKU_WAIT", "20us"),
            ("HIKYAKU_BACKEND", "loopback"),
        ])
        .unwrap();
        assert_eq!(config.ack_delay, Duration::from_micros(1_500));
        assert_eq!(config.death_timeout, Duration::from_secs(4));
        assert_eq!(config.min_rto, Duration::from_micros(200));
        assert_eq!((config.window_bytes, config.unexpected_bytes), (64 << 10, 2 << 20));
        assert_eq!((config.max_payload, config.bundle), (1_024, false));
        assert_eq!(config.recovery, Recovery::GoBackN);
        let spin = Duration::from_micros(20);
        assert_eq!(environment.wait, Some(WaitPolicy::Adaptive { spin }));
        assert_eq!(environment.backend.as_deref(), Some("loopback"));
    }

    #[test]
    fn unknown_names_and_bad_values_are_reported() {
        let error = read(&[("HIKYAKU_ACK_DELEY", "1ms")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the environment has HIKYAKU_ACK_DELEY, which is no setting; did you mean HIKYAKU_ACK_DELAY?"
        );
        for (name, value) in [
            ("HIKYAKU_ACK_DELAY", "5"),
            ("HIKYAKU_ACK_DELAY", "fast"),
            ("HIKYAKU_MAX_PAYLOAD", "64K"),
            ("HIKYAKU_WINDOW_BYTES", "99999999999999999999"),
            ("HIKYAKU_WINDOW_BYTES", "-1"),
            ("HIKYAKU_BUNDLE", "maybe"),
            ("HIKYAKU_WAIT", "forever"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(
                matches!(&error, EnvironmentError::Value { name: n, .. } if *n == name),
                "{error}"
            );
            assert!(error.to_string().contains(value));
        }
    }
}

//! Settings from the environment.

use std::{
    borrow::Cow,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    config::{Config, Congestion, Recovery, WindowMode},
    environment::{Environment, EnvironmentError, Setting, parse, refuse},
    progress::WaitPolicy,
};

const STATS: &str = "HIKYAKU_STATS";

/// The variable that asks for events to be printed.
const LOG: &str = "HIKYAKU_LOG";

/// Values read besides the settings of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) backend: Option<String>,
    pub(super) wait: Option<WaitPolicy>,
    /// Where counters are written at the end.
    pub(super) stats: Option<PathBuf>,
}

macro_rules! words {
    ($($type:ty: $expected:literal { $($word:literal => $value:expr,)* })*) => {$(
        impl Setting for $type {
            const EXPECTED: &'static str = $expected;

            fn parse(text: &str) -> Option<Self> {
                match text.to_ascii_lowercase().as_str() {
                    $($word => Some($value),)*
                    _ => None,
                }
            }

            fn show(&self) -> String {
                let words = [$(($word, $value),)*];
                let found = words.into_iter().find(|(_, value)| value == self);
                found.map_or("unknown", |(word, _)| word).to_owned()
            }
        }
    )*};
}

words! {
    Recovery: "selective-repeat or go-back-n" {
        "selective-repeat" => Self::SelectiveRepeat,
        "go-back-n" => Self::GoBackN,
    }
    WindowMode: "sliding or burst-then-wait" {
        "sliding" => Self::Sliding,
        "burst-then-wait" => Self::BurstThenWait,
    }
    Preset: "default or dse" {
        "default" => Self::Default,
        "dse" => Self::Dse,
    }
    Routes: "network, memory or auto" {
        "network" => Self::Network,
        "memory" => Self::Memory,
        "auto" => Self::Auto,
    }
    Congestion: "fixed, aimd or delay" {
        "fixed" => Self::Fixed,
        "aimd" => Self::Aimd,
        "delay" => Self::Delay,
    }
}

/// How the processes of one host reach each other. Those of different hosts use the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routes {
    /// Over the network, too.
    Network,
    /// Through memory; where that cannot be, over the network.
    #[default]
    Auto,
    /// Through memory; where that fails, the job does not begin.
    Memory,
}

impl Setting for WaitPolicy {
    const EXPECTED: &'static str = "spin, block, adaptive, yield, or how long to spin, and perhaps then to yield, \
                                    before blocking: 20us or 50us+2ms";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "spin" => Some(Self::Spin),
            "block" => Some(Self::Block),
            "adaptive" => Some(Self::default()),
            "yield" => Some(Self::Yield { spin: Self::TURNS }),
            _ => {
                let (spin, turns) = text.split_once('+').unwrap_or((text, "0us"));
                Some(Self::Adaptive {
                    spin: Duration::parse(spin)?,
                    turns: Duration::parse(turns)?,
                })
            }
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Spin => "spin".to_owned(),
            Self::Block => "block".to_owned(),
            Self::Yield { .. } => "yield".to_owned(),
            Self::Adaptive { spin, turns } if turns.is_zero() => spin.show(),
            Self::Adaptive { spin, turns } => format!("{}+{}", spin.show(), turns.show()),
        }
    }
}

/// The variable that names a preset.
const PRESET: &str = "HIKYAKU_PRESET";

/// Settings that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preset {
    /// Those of the program.
    Default,
    /// [`Config::dse`].
    Dse,
}

impl Preset {
    /// Puts the settings of the published protocol into `config`; those that it says nothing about stay.
    fn apply(self, config: &mut Config) {
        let dse = Config::dse();
        match self {
            Self::Default => {}
            Self::Dse => {
                *config = Config {
                    max_payload: dse.max_payload,
                    path_mtu_discovery: dse.path_mtu_discovery,
                    bundle: dse.bundle,
                    timestamps: dse.timestamps,
                    recovery: dse.recovery,
                    reordering_window: dse.reordering_window,
                    window_packets: dse.window_packets,
                    congestion: dse.congestion,
                    ack_delay: dse.ack_delay,
                    initial_rto: dse.initial_rto,
                    min_rto: dse.min_rto,
                    ..config.clone()
                }
            }
        }
    }
}

macro_rules! settings {
    ($($name:literal $field:ident: $type:ty,)*) => {
        /// The variables of [`Config`]'s fields.
        const CONFIG: &[&str] = &[$($name,)*];

        fn set(config: &mut Config, name: &str, value: &str) -> Result<(), EnvironmentError> {
            match name {
                $($name => config.$field = parse($name, value)?,)*
                _ => {}
            }
            Ok(())
        }

        /// The fields of `config` as the environment would set them: variables with values.
        pub fn fields(config: &Config) -> Vec<(&'static str, String)> {
            vec![$(($name, config.$field.show()),)*]
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

/// Returns the wait policy of `HIKYAKU_WAIT`, if the variable is set: for programs that wait themselves.
///
/// # Errors
/// The value of the variable is not valid.
pub fn wait_policy(environment: &Environment) -> Result<Option<WaitPolicy>, EnvironmentError> {
    environment.setting("HIKYAKU_WAIT")
}

/// Prints events to standard error from now on, if `HIKYAKU_LOG` asks for that: those of the level that it names, and
/// more important ones. A program that has a subscriber of the crate `tracing` keeps it, and nothing is printed; one that
/// installs its own later cannot. `Builder::environment` and the start of MPI do this, too.
///
/// # Errors
/// The value of the variable is not valid, or it asks for events and this program was built without the feature `events`.
pub fn print_events(environment: &Environment) -> Result<(), EnvironmentError> {
    match environment.text(LOG) {
        Some(level) => print_level(&level),
        None => Ok(()),
    }
}

#[cfg(feature = "events")]
fn print_level(level: &str) -> Result<(), EnvironmentError> {
    use tracing::level_filters::LevelFilter;
    use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

    let filter = level.trim().parse::<LevelFilter>();
    let level = filter.map_err(|_| refuse(LOG, level, "off, error, warn, info, debug or trace"))?;
    if level != LevelFilter::OFF {
        // Also `hikyaku_mpi` and the like, and nothing of other crates.
        let ours = Targets::new().with_target("hikyaku", level);
        let lines = fmt::layer().with_ansi(false).with_writer(io::stderr);
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

/// Lets the environment override fields of `config`.
///
/// # Errors
/// The first value that is not valid. Ranges are checked by [`Config::validate`].
pub fn apply(environment: &Environment, config: &mut Config) -> Result<(), EnvironmentError> {
    if let Some(preset) = environment.setting::<Preset>(PRESET)? {
        preset.apply(config);
    }
    for name in CONFIG {
        if let Some(value) = environment.text(name) {
            set(config, name, &value)?;
        }
    }
    Ok(())
}

/// The counters cannot be written to this file.
pub(super) fn refuse_stats(path: &Path, error: &io::Error) -> EnvironmentError {
    let expected = format!("a file that can be written, or - for standard error ({error})");
    refuse(STATS, &path.to_string_lossy(), expected)
}

impl Settings {
    /// Checks the names of all variables, puts the settings of the protocol into `config`, and prints events if that
    /// is asked for.
    pub(super) fn read(environment: &Environment, config: &mut Config) -> Result<Self, EnvironmentError> {
        environment.check()?;
        apply(environment, config)?;
        print_events(environment)?;
        Ok(Self {
            backend: environment.text("HIKYAKU_BACKEND").map(Cow::into_owned),
            wait: wait_policy(environment)?,
            stats: environment.path(STATS).map(Path::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{PREFIX, Part, VARIABLES};

    fn read(variables: &[(&str, &str)]) -> Result<(Settings, Config), EnvironmentError> {
        let mut config = Config::default();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment: Environment = variables.iter().map(owned).collect();
        let settings = Settings::read(&environment, &mut config)?;
        Ok((settings, config))
    }

    fn names(part: Part) -> Vec<&'static str> {
        let of_part = VARIABLES.iter().filter(|variable| variable.part == part);
        of_part.map(|variable| variable.name).collect()
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
        assert_eq!(names(Part::Protocol), CONFIG);
    }

    #[test]
    fn values_are_understood() {
        let (settings, config) = read(&[
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
        let turns = Duration::ZERO;
        assert_eq!(settings.wait, Some(WaitPolicy::Adaptive { spin, turns }));
        assert_eq!(settings.backend.as_deref(), Some("loopback"));
    }

    #[test]
    fn a_preset_comes_first_and_single_settings_change_it() {
        let (_, config) = read(&[("HIKYAKU_PRESET", "dse")]).unwrap();
        assert_eq!(config, Config::dse());
        let (_, config) = read(&[("HIKYAKU_PRESET", "DSE"), ("HIKYAKU_WINDOW_PACKETS", "4")]).unwrap();
        let expected = Config {
            window_packets: 4,
            ..Config::dse()
        };
        assert_eq!(config, expected);
        let (_, config) = read(&[("HIKYAKU_PRESET", "default")]).unwrap();
        assert_eq!(config, Config::default());
    }

    #[test]
    fn fields_are_written_as_they_are_read() {
        let shown = fields(&Config::dse());
        let variables: Vec<_> = shown.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (_, config) = read(&variables).unwrap();
        assert_eq!(config, Config::dse());
        let spin = WaitPolicy::Adaptive {
            spin: Duration::from_micros(7),
            turns: Duration::ZERO,
        };
        let turns = WaitPolicy::Yield {
            spin: WaitPolicy::TURNS,
        };
        for policy in [WaitPolicy::Spin, WaitPolicy::Block, WaitPolicy::RANK, turns, spin] {
            assert_eq!(WaitPolicy::parse(&policy.show()), Some(policy));
        }
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
            ("HIKYAKU_PRESET", "tcp"),
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

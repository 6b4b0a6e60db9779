//! Default settings for a job, and settings from the environment.

use std::{
    format,
    string::{String, ToString},
    time::Duration,
    vec::Vec,
};

use super::Options;
use crate::{
    config::Config,
    environment::{Environment, EnvironmentError, Nanoseconds, Setting, refuse},
    mpi::collectives::{Collective, Levels},
    progress::WaitPolicy,
    transport::environment::wait_policy,
};

/// Bytes of messages that arrive before their receive is posted, of all peers together.
const UNEXPECTED: u64 = 64 << 20;
/// The same for one peer: least and most.
const UNEXPECTED_PER_PEER: (u64, u64) = (64 << 10, 8 << 20);
/// How long acknowledgements wait to be piggybacked where several processes share a core.
const LONG_ACK_DELAY: Duration = Duration::from_millis(5);

/// Default configuration and options for a job of `size` processes. `sharing` is the number of processes per core of
/// this host; `one_host` says that all processes are on this host.
#[must_use]
pub fn for_job(size: u32, sharing: f64, one_host: bool) -> (Config, Options) {
    let (least, most) = UNEXPECTED_PER_PEER;
    let share = UNEXPECTED / u64::from(size.max(1));
    let mut config = Config {
        unexpected_bytes: share.clamp(least, most) as u32,
        ..Config::default()
    };
    let mut options = Options::default();
    let model = &mut options.policy.model;
    model.sharing = sharing;
    if one_host {
        // Datagrams are as large as the loopback's.
        (model.alpha, model.beta, model.gamma) = (4e-6, 0.25e-9, 0.05e-9);
    }
    if sharing > 1.0 {
        // A process that waits for its core cannot acknowledge in time anyway, and each wake-up just to do so costs
        // the others.
        config.ack_delay = LONG_ACK_DELAY;
        options.wait = WaitPolicy::Yield {
            spin: WaitPolicy::TURNS,
        };
    }
    (config, options)
}

/// The eager limit, bytes.
struct EagerLimit(u32);

impl Setting for EagerLimit {
    const EXPECTED: &'static str = "bytes from 0 to 1M, perhaps with K or M (times 1,024): 16K";

    fn parse(text: &str) -> Option<Self> {
        let bytes = <u32 as Setting>::parse(text)?;
        (bytes <= Options::MAX_EAGER_LIMIT).then_some(Self(bytes))
    }

    fn show(&self) -> String {
        self.0.show()
    }
}

/// The longest message that the kernel does not copy.
struct CmaLimit(Option<u32>);

impl Setting for CmaLimit {
    const EXPECTED: &'static str = "auto, off, or bytes, perhaps with K or M (times 1,024): 64K";

    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Some(Self(None)),
            "off" => Some(Self(Some(u32::MAX))),
            _ => <u32 as Setting>::parse(text).map(|bytes| Self(Some(bytes))),
        }
    }

    fn show(&self) -> String {
        match self.0 {
            None => "auto".into(),
            Some(u32::MAX) => "off".into(),
            Some(bytes) => bytes.show(),
        }
    }
}

impl Setting for Levels {
    const EXPECTED: &'static str = "auto, off, leaders or shares";

    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Some(Self::Auto),
            "off" => Some(Self::Off),
            "leaders" => Some(Self::Leaders),
            "shares" => Some(Self::Shares),
            _ => None,
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::Leaders => "leaders",
            Self::Shares => "shares",
        }
        .into()
    }
}

impl Options {
    /// The largest [`eager_limit`](Self::eager_limit), bytes.
    pub const MAX_EAGER_LIMIT: u32 = 1 << 20;

    /// Lets the environment override the options: `HIKYAKU_WAIT`, and the parts `Mpi` and `Algorithms` of
    /// [`VARIABLES`](crate::environment::VARIABLES), but for `HIKYAKU_TRACE`
    /// ([`Tracer::of_environment`](crate::mpi::trace::Tracer::of_environment)).
    ///
    /// # Errors
    /// A variable has a value that cannot be parsed; the error lists the possible values.
    pub fn environment(&mut self, environment: &Environment) -> Result<(), EnvironmentError> {
        if let Some(wait) = wait_policy(environment)? {
            self.wait = wait;
        }
        if let Some(EagerLimit(limit)) = environment.setting("HIKYAKU_EAGER_LIMIT")? {
            self.eager_limit = limit;
        }
        if let Some(CmaLimit(limit)) = environment.setting("HIKYAKU_CMA_LIMIT")? {
            self.cma_limit = limit;
        }
        if let Some(check) = environment.setting("HIKYAKU_CHECK")? {
            self.check = check;
        }
        if let Some(ahead) = environment.setting("HIKYAKU_CONNECT_AHEAD")? {
            self.connect_ahead = ahead;
        }
        if let Some(routes) = environment.setting("HIKYAKU_ROUTES")? {
            self.routes = routes;
        }
        if let Some(levels) = environment.setting("HIKYAKU_LEVELS")? {
            self.policy.levels = levels;
        }
        let (model, within) = (&mut self.policy.model, &mut self.policy.within);
        for (name, seconds) in [
            ("HIKYAKU_MODEL_ALPHA", &mut model.alpha),
            ("HIKYAKU_MODEL_BETA", &mut model.beta),
            ("HIKYAKU_MODEL_GAMMA", &mut model.gamma),
            ("HIKYAKU_MODEL_WITHIN_ALPHA", &mut within.alpha),
            ("HIKYAKU_MODEL_WITHIN_BETA", &mut within.beta),
        ] {
            if let Some(Nanoseconds(nanos)) = environment.setting(name)? {
                *seconds = nanos / 1e9;
            }
        }
        for collective in Collective::ALL {
            let name = collective.variable();
            let Some(value) = environment.text(name) else {
                continue;
            };
            match (value.trim(), collective.algorithm(value.trim())) {
                ("auto", _) => {}
                (_, Some(algorithm)) => self.policy.force(collective, algorithm),
                (_, None) => return Err(refuse(name, &value, format!("auto, {}", collective.choices()))),
            }
        }
        Ok(())
    }

    /// The options as the environment would set them: variables with values.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let (model, within) = (&self.policy.model, &self.policy.within);
        let cost = |seconds: f64| Nanoseconds(seconds * 1e9).show();
        let mut fields = Vec::from([
            ("HIKYAKU_WAIT", self.wait.show()),
            ("HIKYAKU_EAGER_LIMIT", self.eager_limit.show()),
            ("HIKYAKU_CMA_LIMIT", CmaLimit(self.cma_limit).show()),
            ("HIKYAKU_CHECK", self.check.show()),
            ("HIKYAKU_CONNECT_AHEAD", self.connect_ahead.show()),
            ("HIKYAKU_ROUTES", self.routes.show()),
            ("HIKYAKU_LEVELS", self.policy.levels.show()),
            ("HIKYAKU_MODEL_ALPHA", cost(model.alpha)),
            ("HIKYAKU_MODEL_BETA", cost(model.beta)),
            ("HIKYAKU_MODEL_GAMMA", cost(model.gamma)),
            ("HIKYAKU_MODEL_WITHIN_ALPHA", cost(within.alpha)),
            ("HIKYAKU_MODEL_WITHIN_BETA", cost(within.beta)),
        ]);
        fields.extend(Collective::ALL.map(|collective| {
            let forced = self.policy.forced(collective);
            let value = forced.map_or_else(|| "auto".into(), |algorithm| algorithm.to_string());
            (collective.variable(), value)
        }));
        fields
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::mpi::collectives::Algorithm;

    fn read(variables: &[(&str, &str)]) -> Result<Options, EnvironmentError> {
        let mut options = Options::default();
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        options.environment(&variables.iter().map(owned).collect())?;
        Ok(options)
    }

    #[test]
    fn the_environment_forces_algorithms_and_sets_the_model() {
        let options = read(&[
            ("HIKYAKU_EAGER_LIMIT", "16K"),
            ("HIKYAKU_CHECK", "on"),
            ("HIKYAKU_CONNECT_AHEAD", "on"),
            ("HIKYAKU_MODEL_ALPHA", "3us"),
            ("HIKYAKU_MODEL_BETA", "0.25ns"),
            ("HIKYAKU_ALLREDUCE", "ring"),
            ("HIKYAKU_BCAST", "auto"),
            ("HIKYAKU_BARRIER", "dissemination:4"),
        ])
        .unwrap();
        assert_eq!((options.eager_limit, options.check), (16 << 10, true));
        assert!(options.connect_ahead);
        let model = options.policy.model;
        assert!((model.alpha * 1e6 - 3.0).abs() < 1e-9 && (model.beta * 1e9 - 0.25).abs() < 1e-9);
        let chosen = |collective| options.policy.choose(collective, 8, 8, true);
        assert_eq!(chosen(Collective::Allreduce), Algorithm::Ring);
        assert_eq!(chosen(Collective::Barrier), Algorithm::Dissemination { radix: 4 });
        assert_eq!(chosen(Collective::Bcast), Algorithm::BINOMIAL);
    }

    #[test]
    fn each_option_has_its_variable() {
        use crate::environment::{Part, VARIABLES};
        let ours = VARIABLES
            .iter()
            .filter(|variable| matches!(variable.part, Part::Mpi | Part::Algorithms));
        let mut ours: Vec<&str> = ours.map(|variable| variable.name).collect();
        ours.sort_unstable();
        // The wait is a transport's, too, and the trace is no option.
        let mut read: Vec<&str> = Options::default().fields().iter().map(|field| field.0).collect();
        read[0] = "HIKYAKU_TRACE";
        read.sort_unstable();
        assert_eq!(ours, read);
        for collective in Collective::ALL {
            let name = format!("HIKYAKU_{}", collective.name().to_uppercase());
            assert_eq!(collective.variable(), name);
        }
    }

    #[test]
    fn options_are_written_as_they_are_read() {
        let changed = [
            ("HIKYAKU_WAIT", "yield"),
            ("HIKYAKU_EAGER_LIMIT", "16K"),
            ("HIKYAKU_MODEL_BETA", "0.2ns"),
            ("HIKYAKU_BARRIER", "dissemination:4"),
            ("HIKYAKU_ROUTES", "memory"),
            ("HIKYAKU_LEVELS", "shares"),
            ("HIKYAKU_MODEL_WITHIN_ALPHA", "250ns"),
        ];
        let fields = read(&changed).unwrap().fields();
        for (name, value) in changed {
            assert!(fields.contains(&(name, value.into())), "{name} {fields:?}");
        }
        let shown: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(read(&shown).unwrap().fields(), fields);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        for (name, value, right) in [
            ("HIKYAKU_ALLREDUCE", "rings", "rabenseifner, ring, "),
            ("HIKYAKU_ALLREDUCE", "bruck", "recursive-doubling"),
            ("HIKYAKU_BARRIER", "dissemination:1", "dissemination[:RADIX]"),
            ("HIKYAKU_EAGER_LIMIT", "2M", "0 to 1M"),
            ("HIKYAKU_CHECK", "maybe", "on or off"),
            ("HIKYAKU_LEVELS", "two", "leaders"),
            ("HIKYAKU_MODEL_ALPHA", "7", "us"),
        ] {
            let error = read(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(right), "{error}");
        }
    }

    #[test]
    fn jobs_that_share_processors_let_others_run() {
        let (alone, crowded) = (for_job(2, 1.0, true), for_job(1_000, 500.0, true));
        assert_eq!(alone.1.wait, WaitPolicy::RANK);
        assert!(crowded.1.wait.yields());
        assert!(crowded.0.ack_delay > alone.0.ack_delay);
        assert!(crowded.0.unexpected_bytes < alone.0.unexpected_bytes);
    }
}

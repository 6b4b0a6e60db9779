//! Default settings for a job, and settings from the environment.

use std::{env, format, string::String, time::Duration};

use super::Options;
use crate::{
    config::Config,
    mpi::collectives::Collective,
    progress::WaitPolicy,
    transport::{
        EnvironmentError,
        environment::{Nanoseconds, Setting, parse, refuse, wait_policy},
    },
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
        // A process that waits for its core can not acknowledge in time anyway, and each wake-up just to do so costs
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
    const EXPECTED: &'static str = "octets from 0 to 1M, perhaps with K or M (times 1,024): 16K";

    fn parse(text: &str) -> Option<Self> {
        let octets = <u32 as Setting>::parse(text)?;
        (octets <= Options::MAX_EAGER_LIMIT).then_some(Self(octets))
    }
}

impl Options {
    /// The largest [`eager_limit`](Self::eager_limit), bytes.
    pub const MAX_EAGER_LIMIT: u32 = 1 << 20;

    /// Lets the environment override the options: `HIKYAKU_WAIT` and
    /// [`MPI_VARIABLES`](crate::transport::environment::MPI_VARIABLES), but for `HIKYAKU_TRACE`
    /// ([`Tracer::of_environment`](crate::mpi::trace::Tracer::of_environment)).
    ///
    /// # Errors
    /// A variable has a value that can not be parsed; the error lists the possible values.
    pub fn environment(&mut self) -> Result<(), EnvironmentError> {
        if let Some(wait) = wait_policy()? {
            self.wait = wait;
        }
        self.set(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn set(&mut self, variable: impl Fn(&str) -> Option<String>) -> Result<(), EnvironmentError> {
        const LIMIT: &str = "HIKYAKU_EAGER_LIMIT";
        if let Some(value) = variable(LIMIT) {
            self.eager_limit = parse::<EagerLimit>(LIMIT, &value)?.0;
        }
        const CHECK: &str = "HIKYAKU_CHECK";
        if let Some(value) = variable(CHECK) {
            self.check = parse(CHECK, &value)?;
        }
        const AHEAD: &str = "HIKYAKU_CONNECT_AHEAD";
        if let Some(value) = variable(AHEAD) {
            self.connect_ahead = parse(AHEAD, &value)?;
        }
        let model = &mut self.policy.model;
        for (name, seconds) in [
            ("HIKYAKU_MODEL_ALPHA", &mut model.alpha),
            ("HIKYAKU_MODEL_BETA", &mut model.beta),
            ("HIKYAKU_MODEL_GAMMA", &mut model.gamma),
        ] {
            if let Some(value) = variable(name) {
                *seconds = parse::<Nanoseconds>(name, &value)?.0 / 1e9;
            }
        }
        for collective in Collective::ALL {
            let name = collective.variable();
            let Some(value) = variable(name) else { continue };
            match (value.trim(), collective.algorithm(value.trim())) {
                ("auto", _) => {}
                (_, Some(algorithm)) => self.policy.force(collective, algorithm),
                (_, None) => return Err(refuse(name, &value, format!("auto, {}", collective.choices()))),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::mpi::collectives::Algorithm;

    fn read(variables: &[(&str, &str)]) -> Result<Options, EnvironmentError> {
        let mut options = Options::default();
        let find = |name: &str| variables.iter().find(|(other, _)| *other == name);
        options.set(|name| find(name).map(|(_, value)| value.to_string()))?;
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
    fn what_is_wrong_is_said_with_what_would_be_right() {
        for (name, value, right) in [
            ("HIKYAKU_ALLREDUCE", "rings", "rabenseifner, ring, "),
            ("HIKYAKU_ALLREDUCE", "bruck", "recursive-doubling"),
            ("HIKYAKU_BARRIER", "dissemination:1", "dissemination[:RADIX]"),
            ("HIKYAKU_EAGER_LIMIT", "2M", "0 to 1M"),
            ("HIKYAKU_CHECK", "maybe", "on or off"),
            ("HIKYAKU_MODEL_ALPHA", "7", "us"),
        ] {
            let error = read(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(right), "{error}");
        }
    }

    #[test]
    fn jobs_that_share_processors_let_others_run() {
        let (alone, crowded) = (for_job(2, 1.0, true), for_job(1_000, 500.0, true));
        assert_eq!(alone.1.wait, WaitPolicy::default());
        assert!(crowded.1.wait.yields());
        assert!(crowded.0.ack_delay > alone.0.ack_delay);
        assert!(crowded.0.unexpected_bytes < alone.0.unexpected_bytes);
    }
}

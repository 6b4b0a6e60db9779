//! The environment variables of this room.

pub(crate) mod names;

use std::{str::FromStr, time::Duration};

use super::{error::Cause, launcher::Launcher};
pub use crate::environment::Environment;

/// How long to wait for other processes unless [`names::TIMEOUT`] says otherwise.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

impl Environment {
    /// The parsed value of a variable; an error if it cannot be parsed.
    pub(super) fn parse<T: FromStr>(&self, name: &str, expected: &'static str) -> Result<Option<T>, Cause> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.trim().parse().map(Some).map_err(|_| Cause::Variable {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            expected,
        })
    }

    /// The same, with an error if the variable is not set.
    pub(super) fn require<T: FromStr>(&self, name: &str, expected: &'static str) -> Result<T, Cause> {
        self.parse(name, expected)?.ok_or_else(|| Cause::Variable {
            name: name.to_owned(),
            value: None,
            expected,
        })
    }

    /// The requested way to start up.
    pub(super) fn wanted(&self) -> Result<Option<Launcher>, Cause> {
        self.parse(
            names::BOOTSTRAP,
            "hikyaku, pmi1, pmi2, pmix, slurm, torch, rendezvous or alone",
        )
    }

    /// How long to wait for other processes.
    pub(super) fn timeout(&self) -> Result<Duration, Cause> {
        let expected = "a number of seconds above 0";
        let seconds: Option<f64> = self.parse(names::TIMEOUT, expected)?;
        let Some(seconds) = seconds else {
            return Ok(DEFAULT_TIMEOUT);
        };
        match Duration::try_from_secs_f64(seconds) {
            Ok(limit) if !limit.is_zero() && seconds <= 1e6 => Ok(limit),
            _ => Err(Cause::Variable {
                name: names::TIMEOUT.to_owned(),
                value: self.get(names::TIMEOUT).map(str::to_owned),
                expected,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::names;
    use crate::environment::{Part, VARIABLES};

    #[test]
    fn each_is_among_all_variables() {
        let ours = VARIABLES
            .iter()
            .filter(|variable| matches!(variable.part, Part::Job | Part::Rank));
        let mut ours: Vec<&str> = ours.map(|variable| variable.name).collect();
        let mut names = names::ALL.to_vec();
        ours.sort_unstable();
        names.sort_unstable();
        assert_eq!(names, ours);
    }
}

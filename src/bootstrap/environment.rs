//! The environment variables of this room.

use std::{str::FromStr, time::Duration};

use super::{Launcher, error::Cause};
pub use crate::environment::Environment;

/// Variables that `hikyaku run` sets for each rank. The first one shows that it has started the rank.
pub mod names {
    /// Where the wire-up server of this host listens: `127.0.0.1:port`.
    pub const RUN_ADDRESS: &str = "HIKYAKU_RUN_ADDRESS";
    /// The ticket with which the wire-up server admits a rank.
    pub const RUN_TICKET: &str = "HIKYAKU_RUN_TICKET";
    /// The number of this process in the job, from 0.
    pub const RANK: &str = "HIKYAKU_RANK";
    /// The number of processes in the job.
    pub const SIZE: &str = "HIKYAKU_SIZE";
    /// The number of this process among those of the job on this host, from 0.
    pub const LOCAL_RANK: &str = "HIKYAKU_LOCAL_RANK";
    /// The number of processes of the job on this host.
    pub const LOCAL_SIZE: &str = "HIKYAKU_LOCAL_SIZE";
    /// The number of this process's program in the job, from 0.
    pub const APP: &str = "HIKYAKU_APP";
    /// `continue`: the job goes on without failed ranks, and the launcher reports them.
    pub const ON_FAILURE: &str = "HIKYAKU_ON_FAILURE";
    /// 32 hexadecimal digits.
    pub const JOB_KEY: &str = "HIKYAKU_JOB_KEY";
    /// The address of this host as the launcher's hosts reach it.
    pub const HOST_ADDRESS: &str = "HIKYAKU_HOST_ADDRESS";
    /// Where rank 0 waits for the others if there is no launcher: `host:port`.
    pub const RENDEZVOUS: &str = "HIKYAKU_RENDEZVOUS";
    /// Set by users: the way to start up, for instance `pmi1`.
    pub const BOOTSTRAP: &str = "HIKYAKU_BOOTSTRAP";
    /// Set by users: how long to wait for other processes, seconds.
    pub const TIMEOUT: &str = "HIKYAKU_BOOTSTRAP_TIMEOUT";
    /// Set by users: the network interface to use (name, CIDR or address).
    pub const IFACE: &str = "HIKYAKU_IFACE";
    /// Set by users: the first of the ports to use.
    pub const PORT_BASE: &str = "HIKYAKU_PORT_BASE";

    /// All of them.
    #[cfg(test)]
    pub(super) const ALL: [&str; 15] = [
        RUN_ADDRESS,
        RUN_TICKET,
        RANK,
        SIZE,
        LOCAL_RANK,
        LOCAL_SIZE,
        APP,
        ON_FAILURE,
        JOB_KEY,
        HOST_ADDRESS,
        RENDEZVOUS,
        BOOTSTRAP,
        TIMEOUT,
        IFACE,
        PORT_BASE,
    ];
}

/// How long to wait for other processes unless [`names::TIMEOUT`] says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

impl Environment {
    /// The parsed value of a variable; an error if it can not be parsed.
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
            "hikyaku, pmi1, pmi2, pmix, slurm, rendezvous or alone",
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

//! The environment variables that this room reads, as a value, so that a test can make one.

use std::{collections::BTreeMap, env, str::FromStr, time::Duration};

use super::{Launcher, error::Cause};

/// Variables that `hikyaku run` sets for each rank. The first says that a rank was started by it.
pub mod names {
    /// Where the wire-up server of this host listens: `127.0.0.1:port`.
    pub const RUN_ADDRESS: &str = "HIKYAKU_RUN_ADDRESS";
    /// What a rank says to the wire-up server to be let in.
    pub const RUN_TICKET: &str = "HIKYAKU_RUN_TICKET";
    /// The number of this process in the job, from 0.
    pub const RANK: &str = "HIKYAKU_RANK";
    /// The number of processes in the job.
    pub const SIZE: &str = "HIKYAKU_SIZE";
    /// The number of this process among those of the job on this host, from 0.
    pub const LOCAL_RANK: &str = "HIKYAKU_LOCAL_RANK";
    /// The number of processes of the job on this host.
    pub const LOCAL_SIZE: &str = "HIKYAKU_LOCAL_SIZE";
    /// Which of the programs of the job this is, from 0.
    pub const APP: &str = "HIKYAKU_APP";
    /// `continue`: the job goes on without ranks that have failed, and the launcher says which.
    pub const ON_FAILURE: &str = "HIKYAKU_ON_FAILURE";
    /// 32 hexadecimal digits.
    pub const JOB_KEY: &str = "HIKYAKU_JOB_KEY";
    /// The address of this host as the launcher's hosts reach it.
    pub const HOST_ADDRESS: &str = "HIKYAKU_HOST_ADDRESS";
    /// Where rank 0 waits for the others when no launcher does: `host:port`.
    pub const RENDEZVOUS: &str = "HIKYAKU_RENDEZVOUS";
    /// Set by people: which way to start up, for instance `pmi1`.
    pub const BOOTSTRAP: &str = "HIKYAKU_BOOTSTRAP";
    /// Set by people: how long to wait for others, in seconds.
    pub const TIMEOUT: &str = "HIKYAKU_BOOTSTRAP_TIMEOUT";
    /// Set by people: the network interface to use (name, CIDR or address).
    pub const IFACE: &str = "HIKYAKU_IFACE";
    /// Set by people: the first of the ports to use.
    pub const PORT_BASE: &str = "HIKYAKU_PORT_BASE";

    /// All of them: settings of a process, not of a transport.
    pub const ALL: [&str; 15] = [
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

/// A set of environment variables.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// Those of this process. What is not UTF-8 is left out.
    #[must_use]
    pub fn of_process() -> Self {
        env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// The value of a variable; an empty one counts as not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// The value, or what is wrong with it.
    pub(super) fn parse<T: FromStr>(&self, name: &str, expected: &'static str) -> Result<Option<T>, Cause> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.trim().parse().map(Some).map_err(|_| Cause::Variable {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            expected,
        })
    }

    /// The value; that there is none is an error too.
    pub(super) fn require<T: FromStr>(&self, name: &str, expected: &'static str) -> Result<T, Cause> {
        self.parse(name, expected)?.ok_or_else(|| Cause::Variable {
            name: name.to_owned(),
            value: None,
            expected,
        })
    }

    /// The way to start up that was asked for.
    pub(super) fn wanted(&self) -> Result<Option<Launcher>, Cause> {
        self.parse(
            names::BOOTSTRAP,
            "hikyaku, pmi1, pmi2, pmix, slurm, rendezvous or alone",
        )
    }

    /// How long to wait for others.
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

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self {
            variables: variables.into_iter().collect(),
        }
    }
}

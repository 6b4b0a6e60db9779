//! The control channel between the process that drives a benchmark and its workers: JSON, one message a line, over TCP.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::TcpStream,
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    failure::Failure,
    ranks::work::{Place, Work},
    transports::settings::{Job, Kind, Offer, Report, Settings},
};

/// Changes whenever the messages below change their meaning.
pub(crate) const PROTOCOL: u32 = 4;
/// Longest line that is accepted: a report of 100,000 samples fits many times.
const MAX_LINE: u64 = 64 << 20;

/// Identifies the other end; the first line in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Version of the command line.
    pub hikyaku: String,
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Process number.
    #[serde(default)]
    pub process: u32,
    /// CPU model.
    #[serde(default)]
    pub cpu: String,
    /// Kernel release.
    #[serde(default)]
    pub kernel: String,
    /// The secret that a worker started by this driver must repeat.
    #[serde(default)]
    pub key: String,
}

impl Hello {
    /// Says who we are.
    pub(crate) fn ours(key: &str) -> Self {
        Self {
            hikyaku: env!("CARGO_PKG_VERSION").into(),
            protocol: PROTOCOL,
            process: std::process::id(),
            cpu: crate::machine::environment::cpu_model(),
            kernel: crate::machine::environment::kernel(),
            key: key.into(),
        }
    }

    /// Refuses a partner of another version.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let ours = env!("CARGO_PKG_VERSION");
        if self.protocol == PROTOCOL && self.hikyaku == ours {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "versions differ: here hikyaku {ours} (control protocol {PROTOCOL}), there hikyaku {} (control protocol {}); \
             install the same version on both hosts",
            self.hikyaku, self.protocol
        )))
    }
}

/// A command of the driver to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Command {
    /// Stay on one CPU.
    Pin {
        /// Number of the CPU; nothing: the worker's own choice.
        cpu: Option<usize>,
    },
    /// Open a spoke of one more transport.
    Open {
        /// Which transport.
        kind: Kind,
        /// Settings, the same as the hub's.
        settings: Settings,
        /// Where the hub is.
        hub: Offer,
    },
    /// The hub has taken the spoke in.
    Ready {
        /// Which transport, in the order of opening.
        link: usize,
    },
    /// Do one round.
    Run {
        /// Which transport, in the order of opening.
        link: usize,
        /// The command to run.
        job: Job,
    },
    /// Throw away what a failed round left behind.
    Drain {
        /// Which transport, in the order of opening.
        link: usize,
    },
    /// Be a rank of an MPI job; the answer is where it is.
    Rank {
        /// Which one.
        rank: u32,
        /// Settings of all.
        place: Place,
    },
    /// These are the ranks.
    Connect {
        /// Where they are, in order.
        offers: Vec<Offer>,
    },
    /// Do one round with the other ranks.
    Perform {
        /// The command to run.
        work: Work,
    },
    /// Run with another priority.
    Nice {
        /// So much is added to the nice value.
        by: i32,
    },
    /// Compute until the next command; this is answered before it begins.
    Compute,
    /// Stop that.
    Rest,
    /// The end.
    Bye,
}

/// The answer of a worker, one line for each command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Pinned to this CPU, or not.
    Pinned {
        /// Number of the CPU.
        cpu: Option<usize>,
    },
    /// The nice value is this now.
    Nice {
        /// The value.
        nice: i32,
    },
    /// The spoke's addresses.
    Opened {
        /// Where the spoke is.
        offer: Offer,
    },
    /// The round is over.
    Done {
        /// The measurement.
        report: Report,
    },
    /// Nothing to say.
    Ok,
    /// It did not work.
    Failed {
        /// Why.
        message: String,
    },
}

/// One end of the channel.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Channel {
    /// Wraps a connection.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let reader = BufReader::new(stream.try_clone()?);
        Ok(Self { stream, reader })
    }

    /// The connection itself.
    pub(crate) const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Limits how long [`receive`](Self::receive) waits.
    pub(crate) fn limit(&self, limit: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(limit)
    }

    /// Sends one message.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stream.write_all(&line)
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// `UnexpectedEof` when the other end has gone, `InvalidData` for what is not a message.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = Vec::new();
        io::Read::take(&mut self.reader, MAX_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the other end has closed the control connection",
            ));
        }
        serde_json::from_slice(&line).map_err(|error| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("not a message of hikyaku's control channel: {error}"),
            )
        })
    }

    /// Says hello and checks the answer. `key`: what we say; gives what the other end is.
    pub(crate) fn greet(&mut self, key: &str) -> Result<Hello, Failure> {
        self.limit(Some(Duration::from_secs(5)))
            .map_err(|error| Failure::run(error.to_string()))?;
        let hello = self
            .send(&Hello::ours(key))
            .and_then(|()| self.receive::<Hello>())
            .map_err(|error| {
                Failure::run(format!(
                    "no hikyaku at the other end of the control connection: {error}"
                ))
            })?;
        self.limit(None).map_err(|error| Failure::run(error.to_string()))?;
        hello.check()?;
        Ok(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused() {
        assert!(Hello::ours("").check().is_ok());
        let other = Hello {
            hikyaku: "99.0.0".into(),
            ..Hello::ours("")
        };
        let failure = other.check().unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.to_string().contains("versions differ"));
    }
}

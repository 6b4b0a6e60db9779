//! Groups of processes that meet at a port (MPI 11.9): a process opens it, and others connect there.
//!
//! A port is a process and a number, by which messages in a context of their own are told apart. The root of those that
//! connect sends its group to that process, which takes the first one that has come and answers with its own group. From
//! there on it is as in `MPI_Intercomm_create`.

use alloc::vec::Vec;
use core::{fmt, str::FromStr, sync::atomic::Ordering};

use super::{
    Engine, Entry,
    class::Class,
    communicator::{Communicator, PORTS},
    status::{ANY_SOURCE, TAG_UB},
    uninterrupted,
};
use crate::mpi::{
    Rank,
    error::{Detail, Error, ErrorClass},
    group::Group,
};

const ACCEPT: &str = "MPI_Comm_accept";
const CONNECT: &str = "MPI_Comm_connect";
/// How the name of a port begins.
const SCHEME: &str = "hikyaku:";

/// A place at which a process takes connections, known to other processes by its name (`Display`, `FromStr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    process: u32,
    number: i32,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}:{}", self.process, self.number)
    }
}

/// The text is the name of no port.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NoPort;

impl fmt::Display for NoPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is the name of no port")
    }
}

crate::debug_as_display!(NoPort);

impl core::error::Error for NoPort {}

impl FromStr for Port {
    type Err = NoPort;

    fn from_str(name: &str) -> Result<Self, NoPort> {
        let (process, number) = name
            .strip_prefix(SCHEME)
            .and_then(|rest| rest.split_once(':'))
            .ok_or(NoPort)?;
        let number: i32 = number.parse().map_err(|_| NoPort)?;
        let process = process.parse().map_err(|_| NoPort)?;
        if number < 0 {
            return Err(NoPort);
        }
        Ok(Self { process, number })
    }
}

impl Engine {
    /// A port at which this process can [`accept`](Communicator::accept) (`MPI_Open_port`).
    #[must_use]
    pub fn open_port(&self) -> Port {
        let number = self.ports.fetch_add(1, Ordering::Relaxed);
        Port {
            process: self.process,
            number: (number & TAG_UB as u32) as i32,
        }
    }

    /// The processes that this one can reach, itself among them.
    fn reachable(&self) -> Vec<u32> {
        self.read(|core| {
            let alive = |process: &u32| core.peers.knows(*process) && core.lost(*process).is_none();
            (0..core.peers.size())
                .filter(|process| *process == self.process || alive(process))
                .collect()
        })
    }
}

impl Communicator {
    /// Waits until a group connects at `port`, and gives the communicator between this one's processes and them
    /// (`MPI_Comm_accept`). Collective; only the port of the rank `root` counts, which has opened it.
    ///
    /// # Errors
    /// `MPI_ERR_PORT`: the root has not opened this port. A process is lost, the communicator is revoked, or `root` is
    /// no rank. The groups have a process in common, or do not know each other: a process knows those of its world,
    /// those that it has spawned, and those by which it was spawned.
    pub fn accept(&self, port: Option<Port>, root: Rank) -> Result<Self, Error> {
        let span = self.enter(|| Entry::named(ACCEPT).with_peer(root));
        span.make(self.meet_others(ACCEPT, root, || {
            let own = self.engine().process();
            match port.filter(|port| port.process == own) {
                Some(port) => uninterrupted(|| self.answer_at(port)),
                None => Err(self.wrong_port(ACCEPT, "the root has not opened this port")),
            }
        }))
    }

    /// Connects at a port, waits until its process accepts, and gives the communicator between this one's processes and
    /// the group there (`MPI_Comm_connect`). Collective; only the port of the rank `root` counts.
    ///
    /// # Errors
    /// `MPI_ERR_PORT`: there is no such port, or it is one of a process that the root does not know. Else as
    /// [`accept`](Self::accept).
    pub fn connect(&self, port: Option<Port>, root: Rank) -> Result<Self, Error> {
        let span = self.enter(|| Entry::named(CONNECT).with_peer(root));
        span.make(self.meet_others(CONNECT, root, || {
            let own = self.engine().process();
            let known = |port: &Port| port.process != own && self.engine().knows(&[port.process]);
            let Some(port) = port.filter(known) else {
                return Err(self.wrong_port(CONNECT, "it is no port of another process that this one knows"));
            };
            let bridge = self.bridge(CONNECT, &[own, port.process])?;
            uninterrupted(|| self.introduce(CONNECT, &bridge, 1, port.number))
        }))
    }

    fn wrong_port(&self, call: &'static str, text: &'static str) -> Error {
        self.locate(Error::new(ErrorClass::Port, call).with_detail(Detail::Text(text)))
    }

    /// A communicator of these processes, for messages about ports. The ranks need not be the same at all of them.
    fn bridge(&self, call: &'static str, processes: &[u32]) -> Result<Self, Error> {
        let group = Group::of_processes(processes).map_err(|error| self.locate(Error::group(call, error)))?;
        let bridge = Self::with(self.engine(), PORTS, group, None, (Class::Collective, 0));
        bridge.ok_or_else(|| self.broken(call))
    }

    /// Takes the first group that has come to the port. Must not be left by a panic.
    fn answer_at(&self, port: Port) -> Result<Vec<i64>, Error> {
        loop {
            let reachable = self.engine().reachable();
            let bridge = self.bridge(ACCEPT, &reachable)?;
            match bridge.mprobe_quietly(ACCEPT, ANY_SOURCE, port.number) {
                Ok(message) => return self.answer(ACCEPT, &bridge, message, port.number),
                // Another process has ended: this one may still be connected to.
                Err(_) if self.engine().reachable().len() < reachable.len() => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn ports_have_names() {
        let port = Port { process: 7, number: 3 };
        assert_eq!(port.to_string().parse(), Ok(port));
        for wrong in ["", "hikyaku:", "hikyaku:1", "hikyaku:1:-1", "hikyaku:x:1", "tcp:1:1"] {
            assert_eq!(wrong.parse::<Port>(), Err(NoPort), "{wrong}");
        }
    }
}

//! Circuit-switched optics: a light path must be set up before packets can take it, and there are not many (S3.1, S3.6).

use std::time::Duration;

use super::network::RangeError;
use crate::mpi::collectives::Planning;

/// Optical circuit switches between all hosts. Best with [`Topology::Direct`](super::Topology::Direct): nothing lies
/// between the ends of a light path.
///
/// Collectives say in advance whom they will talk to ([`handling`](Self::handling)); a path of theirs is set up when both
/// ends want it, and torn down after its last use. For all other messages it is set up when one is there to be sent, and
/// stays until its port or wavelength is needed. So that nobody starves, a message that has waited for twice the set-up
/// time (100 times, if a collective has planned its path) may take the port of a path that nothing was sent on for twice
/// that time, whoever wants to keep it, and also if its ends wait for room or for an acknowledgement.
///
/// Where no path can ever be again (no ports at an end, or no wavelengths, and no change to come) and all programs that
/// are not over wait for that, it is a [deadlock](super::SimulationError::Deadlock), before the protocol gives peers up;
/// but not with [`Faults::watch`](super::Faults::watch), where programs are told of silent peers.
#[derive(Clone, Debug, PartialEq)]
pub struct Optics {
    /// Paths that a host can have at a time: k. 0 to 65,536; default 4.
    pub ports: u32,
    /// What a set-up takes, the tear-down included: γ. Up to 10 s; default 10 ms.
    pub setup: Duration,
    /// A collective takes so much longer, to release its paths, and its host sets up nothing meanwhile. Up to 10 s; default
    /// 0. (The published run of NPB FT shows one γ: S3.5.)
    pub release: Duration,
    /// How collectives open their paths. Default: planned.
    pub handling: Handling,
    /// Paths that the whole network can have at a time; the next ones wait. Default: as many as wanted.
    pub wavelengths: Option<u32>,
    /// The part of set-ups that fail when their time is over, as drawn by the seed; they are tried again. 0 to 0.99;
    /// default 0.
    pub failure: f64,
    /// What becomes of a packet that has no path yet. Default: up to 16 MiB of each pair wait.
    pub unconnected: Unconnected,
    /// Paths of collectives stay after their last use, too, until their ports or wavelengths are needed. Default: no.
    pub keep: bool,
    /// What changes while programs run, in any order. Default: nothing.
    pub changes: Vec<Change>,
}

/// How the paths of collectives are opened (S3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// One for each exchange with a peer, when it is due, one after the other.
    Naive,
    /// Ahead, as many as a host has ports, each until its last use.
    Planned,
    /// When a message is there to be sent: nothing is known in advance.
    Unplanned,
}

/// What becomes of a packet that has no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unconnected {
    /// It waits for one, with others of its pair up to so many octets; more is lost.
    Hold(u32),
    /// It is lost, and asks for a path by that.
    Drop,
}

/// Something that is different from a time on. Paths beyond a lower number are cut, with what is on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Since the beginning.
    pub at: Duration,
    /// What.
    pub to: Available,
}

/// What there is of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Available {
    /// So many ports at one host (its number), or at all.
    Ports(Option<u32>, u32),
    /// So many wavelengths.
    Wavelengths(u32),
}

impl Default for Optics {
    fn default() -> Self {
        Self {
            ports: 4,
            setup: Duration::from_millis(10),
            release: Duration::ZERO,
            handling: Handling::Planned,
            wavelengths: None,
            failure: 0.0,
            unconnected: Unconnected::Hold(16 << 20),
            keep: false,
            changes: Vec::new(),
        }
    }
}

impl Optics {
    const MOST_PORTS: u32 = 1 << 16;
    const LONGEST: Duration = Duration::from_secs(10);

    /// Checks every range, for a job of so many processes.
    ///
    /// # Errors
    /// The first that is out of its range.
    pub fn validate(&self, processes: u32) -> Result<(), RangeError> {
        let possible = |change: &Change| match change.to {
            Available::Ports(process, ports) => {
                ports <= Self::MOST_PORTS && process.is_none_or(|process| process < processes)
            }
            Available::Wavelengths(_) => true,
        };
        let checks = [
            (self.ports <= Self::MOST_PORTS, "ports", "at most 65536"),
            (self.setup <= Self::LONGEST, "setup", "at most 10 s"),
            (self.release <= Self::LONGEST, "release", "at most 10 s"),
            ((0.0..=0.99).contains(&self.failure), "failure", "from 0 to 0.99"),
            (
                self.changes.iter().all(possible),
                "changes",
                "of at most 65536 ports, of hosts that there are",
            ),
        ];
        match checks.iter().find(|(valid, ..)| !valid) {
            Some(&(_, name, range)) => Err(RangeError { name, range }),
            None => Ok(()),
        }
    }

    /// How collectives plan on a host with so many ports.
    pub(super) fn planning(&self, ports: u32) -> Option<Planning> {
        match self.handling {
            Handling::Naive => Some(Planning::Naive),
            Handling::Planned => Some(Planning::Ahead(ports.max(1) as usize)),
            Handling::Unplanned => None,
        }
    }

    /// After so long, ns, something held takes a port from what is idle.
    pub(super) fn patience(&self) -> u64 {
        (2 * self.setup).max(Duration::from_millis(1)).as_nanos() as u64
    }
}

/// What has become of light paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpticsStats {
    /// Set-ups that were begun.
    pub set_up: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Paths that were torn down after their last use, or gave way to others then.
    pub torn_down: u64,
    /// Idle paths that had to give way to others, though collectives still wanted them.
    pub displaced: u64,
    /// Paths cut, or set-ups ended, since a port or wavelength was gone.
    pub cut: u64,
    /// Packets that had to wait for a path.
    pub held: u64,
    /// Packets lost for want of one.
    pub dropped: u64,
    /// Most paths at a time.
    pub most: u32,
}

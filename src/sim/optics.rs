//! Circuit-switched optics: a circuit must be set up before packets can take it, and there are only a few (the
//! optics paper, sections 2 and 6; `docs/papers.md`).

use std::time::Duration;

use super::network::RangeError;
use crate::mpi::collectives::Planning;

/// Optical circuit switches between all hosts. Best with [`Topology::Direct`](super::Topology::Direct): nothing lies
/// between the ends of a circuit.
///
/// A collective announces its peers in advance ([`handling`](Self::handling)). Its circuits are set up when both ends want
/// them, and torn down after their last use. The circuit of any other message is set up when the message is there to be
/// sent, and stays until its port or wavelength is needed.
///
/// No message starves. A message that has waited for twice the set-up time (100 times, if a collective has planned its
/// circuit) may take the port of a circuit that has been idle for twice that time. It may do so even if one end wants to keep
/// that circuit, or waits on it for room or for an acknowledgement.
///
/// A simulation ends as a [deadlock](super::SimulationError::Deadlock), before the protocol gives peers up, when all
/// programs that still run wait for circuits that can never be set up: an end has no ports, or there are no wavelengths,
/// and no change is to come. With [`Faults::watch`](super::Faults::watch) it does not: programs are told of silent
/// peers instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Optics {
    /// Circuits that a host can have at a time: `k`. 0 to 65,536; default 4.
    pub ports: u32,
    /// Time to set up a circuit, the tear-down included: γ. Up to 10 s; default 10 ms.
    pub setup: Duration,
    /// Each set-up takes a time of its own, drawn from the seed: evenly from this much less than [`setup`](Self::setup)
    /// to as much more. At most `setup`; default 0. (The switches of the optics paper take 10 ms on average and 20 at
    /// most.)
    pub spread: Duration,
    /// Time by which each collective is longer, to release its circuits; its host sets up no circuit meanwhile. Up to 10 s;
    /// default 0. (Table 4 of the optics paper agrees with one γ: `docs/papers.md`.)
    pub release: Duration,
    /// How collectives open their circuits. Default: planned.
    pub handling: Handling,
    /// Circuits that the whole network can have at a time; the next ones wait. Default: as many as wanted.
    pub wavelengths: Option<u32>,
    /// Share of set-ups that fail when their time is over, drawn from the seed; they are tried again. 0 to 0.99;
    /// default 0.
    pub failure: f64,
    /// Fate of a packet that has no circuit yet. Default: up to 16 MiB of each pair wait.
    pub unconnected: Unconnected,
    /// Circuits of collectives stay after their last use as well, until their ports or wavelengths are needed. Default:
    /// no.
    pub keep: bool,
    /// Changes of ports and wavelengths while programs run, in any order. Default: none.
    pub changes: Vec<Change>,
}

/// How the circuits of collectives are opened (the optics paper, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// One circuit for each exchange with a peer, when it is due, one after the other.
    Naive,
    /// Circuits are opened ahead, as many as the host has ports, and each is kept until its last use.
    Planned,
    /// A circuit is opened when a message is there to be sent: nothing is known in advance.
    Unplanned,
}

/// Fate of a packet that has no circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unconnected {
    /// The packet waits for a circuit, with others of its pair, up to this many bytes; further packets are lost.
    Hold(u32),
    /// The packet is lost, and its loss requests a circuit.
    Drop,
}

/// A change of the number of ports or wavelengths at some time. If the number falls, surplus circuits are cut, and the
/// packets on them are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Time since the beginning.
    pub at: Duration,
    /// The ports or wavelengths from then on.
    pub to: Available,
}

/// The number of ports or wavelengths that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Available {
    /// Ports of one host (its number), or of every host if `None`.
    Ports(Option<u32>, u32),
    /// Wavelengths of the network.
    Wavelengths(u32),
}

impl Default for Optics {
    fn default() -> Self {
        Self {
            ports: 4,
            setup: Duration::from_millis(10),
            spread: Duration::ZERO,
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

    /// Checks every range, for a job of `processes` processes.
    ///
    /// # Errors
    /// Names the first value that is out of its range.
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
            (self.spread <= self.setup, "spread", "at most `setup`"),
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

    /// Planning of collectives on a host with this many ports.
    pub(super) fn planning(&self, ports: u32) -> Option<Planning> {
        match self.handling {
            Handling::Naive => Some(Planning::Naive),
            Handling::Planned => Some(Planning::Ahead(ports.max(1) as usize)),
            Handling::Unplanned => None,
        }
    }

    /// Time, ns, after which a held message takes a port from an idle circuit.
    pub(super) fn timeout(&self) -> u64 {
        (2 * self.setup).max(Duration::from_millis(1)).as_nanos() as u64
    }
}

/// Counts circuits by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OpticsStats {
    /// Set-ups that began.
    pub set_up: u64,
    /// Set-ups that failed.
    pub failed: u64,
    /// Circuits that were torn down after their last use, or that gave way to others after it.
    pub torn_down: u64,
    /// Idle circuits that gave way to others although collectives still wanted them.
    pub displaced: u64,
    /// Circuits that were cut, and set-ups that were ended, because a port or wavelength was gone.
    pub cut: u64,
    /// Packets that had to wait for a circuit.
    pub held: u64,
    /// Packets lost because they had no circuit.
    pub dropped: u64,
    /// Largest number of circuits at a time.
    pub most: u32,
}

crate::table::display_as_table!(OpticsStats {
    set_up,
    failed,
    torn_down,
    displaced,
    cut,
    held,
    dropped,
    most,
});

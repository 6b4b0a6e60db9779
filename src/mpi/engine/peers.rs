//! The other processes of a job: the peer of each, and why some are lost.

use alloc::{collections::BTreeMap, vec::Vec};

use super::met::Met;
use crate::{error::PeerError, messaging::Messenger, reliability::PeerId};

/// See the module's documentation.
pub(crate) struct Peers {
    known: Known,
    lost: BTreeMap<u32, PeerError>,
}

enum Known {
    /// All of them; `None` for this process.
    All(Vec<Option<PeerId>>),
    /// Those with which this process has exchanged something.
    Met(Met),
}

impl From<Met> for Peers {
    fn from(met: Met) -> Self {
        Self {
            known: Known::Met(met),
            lost: BTreeMap::new(),
        }
    }
}

impl Peers {
    /// All processes are known from the start; `None` is this process.
    pub(crate) fn all(peers: Vec<Option<PeerId>>) -> Self {
        Self {
            known: Known::All(peers),
            lost: BTreeMap::new(),
        }
    }

    /// Processes from `first` on are known from now on, too; false: one of them was, or they become peers as they are
    /// needed.
    pub(super) fn admit(&mut self, first: u32, peers: Vec<PeerId>) -> bool {
        let Known::All(known) = &mut self.known else {
            return false;
        };
        let first = first as usize;
        if known[first.min(known.len())..].iter().any(Option::is_some) {
            return false;
        }
        known.resize(known.len().max(first + peers.len()), None);
        for (entry, peer) in known[first..].iter_mut().zip(peers) {
            *entry = Some(peer);
        }
        true
    }

    /// Returns whether this process can reach another one.
    pub(super) fn knows(&self, process: u32) -> bool {
        match &self.known {
            Known::All(peers) => peers.get(process as usize).is_some_and(Option::is_some),
            Known::Met(met) => process < met.size(),
        }
    }

    /// Number of processes of the job.
    pub(super) fn size(&self) -> u32 {
        match &self.known {
            Known::All(peers) => peers.len() as u32,
            Known::Met(met) => met.size(),
        }
    }

    /// The peer of a process; `None` for this process, and for one that is not a peer (yet).
    #[inline]
    pub(crate) fn get(&self, process: u32) -> Option<PeerId> {
        match &self.known {
            Known::All(peers) => *peers.get(process as usize)?,
            Known::Met(met) => met.get(process),
        }
    }

    /// The same; adds the process as a peer if it is none yet.
    #[inline]
    pub(crate) fn meet(&mut self, messenger: &mut Messenger, process: u32) -> Option<PeerId> {
        match &mut self.known {
            Known::All(peers) => *peers.get(process as usize)?,
            Known::Met(met) => met.meet(messenger, process),
        }
    }

    /// Why a process is lost.
    #[inline]
    pub(super) fn lost(&self, process: u32) -> Option<PeerError> {
        self.lost.get(&process).copied()
    }

    /// Returns whether any process is lost.
    #[inline]
    pub(super) fn any_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// The processes that are lost.
    pub(super) fn all_lost(&self) -> impl Iterator<Item = u32> + '_ {
        self.lost.keys().copied()
    }

    /// Notes that a process is lost; false: it was lost before, or there is no such process.
    pub(super) fn lose(&mut self, process: u32, error: PeerError) -> bool {
        let new = process < self.size() && !self.lost.contains_key(&process);
        if new {
            self.lost.insert(process, error);
        }
        new
    }
}

//! The other processes of a job: the peer of each, and why some are lost.

#[cfg(feature = "sim")]
use core::net::SocketAddr;

use alloc::{collections::BTreeMap, vec::Vec};

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
    #[cfg(feature = "sim")]
    Met(Met),
}

/// With thousands of processes in one memory, each knows only the ones that it talks to.
#[cfg(feature = "sim")]
struct Met {
    size: u32,
    own: u32,
    address: fn(u32) -> SocketAddr,
    /// Open addressing, at most half full; an entry is process and peer, so a look-up touches one cache line. Its
    /// length is a power of two.
    table: Vec<(u32, PeerId)>,
    met: usize,
}

/// Marks an empty entry.
#[cfg(feature = "sim")]
const NOBODY: u32 = u32::MAX;

#[cfg(feature = "sim")]
impl Met {
    /// Index of the entry of a process, present or not. Numbers of processes are neither secret nor chosen by an
    /// attacker: a multiplicative hash (golden ratio) spreads them.
    #[inline]
    fn place(&self, process: u32) -> usize {
        let mask = self.table.len() - 1;
        let mut place = (process.wrapping_mul(0x9e37_79b9) >> 12) as usize & mask;
        while self.table[place].0 != process && self.table[place].0 != NOBODY {
            place = (place + 1) & mask;
        }
        place
    }

    #[inline]
    fn get(&self, process: u32) -> Option<PeerId> {
        if self.table.is_empty() {
            return None;
        }
        let (found, peer) = self.table[self.place(process)];
        (found == process).then_some(peer)
    }

    fn insert(&mut self, process: u32, peer: PeerId) {
        if 2 * (self.met + 1) > self.table.len() {
            let larger = alloc::vec![(NOBODY, PeerId(0)); (2 * self.table.len()).max(8)];
            let old = core::mem::replace(&mut self.table, larger);
            for (process, peer) in old.into_iter().filter(|(process, _)| *process != NOBODY) {
                let place = self.place(process);
                self.table[place] = (process, peer);
            }
        }
        let place = self.place(process);
        self.table[place] = (process, peer);
        self.met += 1;
    }

    #[inline]
    fn meet(&mut self, messenger: &mut Messenger, process: u32) -> Option<PeerId> {
        self.get(process).or_else(|| self.add(messenger, process))
    }

    #[cold]
    fn add(&mut self, messenger: &mut Messenger, process: u32) -> Option<PeerId> {
        if process == self.own || process >= self.size {
            return None;
        }
        let peer = messenger.add_peer((self.address)(process), process).ok()?;
        self.insert(process, peer);
        Some(peer)
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

    /// Process `own` of `size`. Another process becomes a peer, at `address`, when this one first needs it.
    #[cfg(feature = "sim")]
    pub(crate) fn met(own: u32, size: u32, address: fn(u32) -> SocketAddr) -> Self {
        Self {
            known: Known::Met(Met {
                size,
                own,
                address,
                table: Vec::new(),
                met: 0,
            }),
            lost: BTreeMap::new(),
        }
    }

    /// Number of processes of the job.
    pub(super) fn size(&self) -> u32 {
        match &self.known {
            Known::All(peers) => peers.len() as u32,
            #[cfg(feature = "sim")]
            Known::Met(met) => met.size,
        }
    }

    /// The peer of a process; `None` for this process, and for one that is not a peer (yet).
    #[inline]
    pub(crate) fn get(&self, process: u32) -> Option<PeerId> {
        match &self.known {
            Known::All(peers) => *peers.get(process as usize)?,
            #[cfg(feature = "sim")]
            Known::Met(met) => met.get(process),
        }
    }

    /// The same; adds the process as a peer if it is none yet.
    #[inline]
    #[cfg_attr(not(feature = "sim"), expect(unused_variables, reason = "all are peers"))]
    pub(crate) fn meet(&mut self, messenger: &mut Messenger, process: u32) -> Option<PeerId> {
        match &mut self.known {
            Known::All(peers) => *peers.get(process as usize)?,
            #[cfg(feature = "sim")]
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

//! Processes that become peers when they are first needed.

use alloc::vec::Vec;
use core::net::SocketAddr;

use crate::{
    messaging::Messenger,
    reliability::{Path, PeerId},
    time::Instant,
};

/// With thousands of processes in one memory, each knows only the ones that it talks to.
pub(crate) struct Met {
    size: u32,
    own: u32,
    /// Of a process, on a rail.
    address: fn(u32, u8) -> SocketAddr,
    rails: u8,
    /// Open addressing, at most half full; an entry is process and peer, so a look-up touches one cache line. Its
    /// length is a power of two.
    table: Vec<(u32, PeerId)>,
    met: usize,
}

/// Marks an empty entry.
const NOBODY: u32 = u32::MAX;

impl Met {
    /// Process `own` of `size`. Another process becomes a peer, at `address`, when this one first needs it.
    pub(crate) fn new(own: u32, size: u32, address: fn(u32, u8) -> SocketAddr) -> Self {
        Self {
            size,
            own,
            address,
            rails: 1,
            table: Vec::new(),
            met: 0,
        }
    }

    /// Each process is reached by so many rails, by the port of the same number.
    pub(crate) fn by_rails(self, rails: u8) -> Self {
        Self { rails, ..self }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

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
    pub(super) fn get(&self, process: u32) -> Option<PeerId> {
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
    pub(super) fn meet(&mut self, messenger: &mut Messenger, process: u32) -> Option<PeerId> {
        self.get(process).or_else(|| self.add(messenger, process))
    }

    #[cold]
    fn add(&mut self, messenger: &mut Messenger, process: u32) -> Option<PeerId> {
        if process == self.own || process >= self.size {
            return None;
        }
        let peer = messenger.add_peer((self.address)(process, 0), process).ok()?;
        for rail in 1..self.rails {
            let path = Path::new((self.address)(process, rail), rail);
            // (A layer that knows no rails has one path.)
            let _ = messenger.add_rail(Instant::ZERO, peer, path);
        }
        self.insert(process, peer);
        Some(peer)
    }
}

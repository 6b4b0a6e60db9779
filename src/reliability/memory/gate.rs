//! Whether the medium has room for another packet to a peer.

use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering};

use super::MemoryLayer;
use crate::time::Instant;

/// Time after which the medium is asked again for room.
const ROOM_CHECK: core::time::Duration = core::time::Duration::from_micros(100);

/// Says whether the medium has room for another packet to a peer. The medium opens and closes it; while it is closed, the
/// layer makes no packets for that peer, and goes on with those for others. All clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    /// Opens or closes it. It is open at first.
    #[inline]
    pub fn set_open(&self, open: bool) {
        self.0.store(!open, Ordering::Relaxed);
    }

    /// Returns whether there is room.
    #[must_use]
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// Peers that have something to send and no room in the medium.
#[derive(Debug, Default)]
pub(super) struct Blocked(Vec<u32>);

impl Blocked {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn forget(&mut self, peer: u32) {
        self.0.retain(|other| *other != peer);
    }
}

impl MemoryLayer {
    /// The peer is the next that would send. Returns whether it may; if not, it waits for its gate.
    #[inline]
    pub(super) fn may_pass(&mut self, peer: u32) -> bool {
        let gate = self.peers[peer as usize].gate.as_ref();
        let is_open = gate.is_none_or(Gate::is_open);
        if !is_open {
            self.blocked.0.push(peer);
        }
        is_open
    }

    /// When [`unblock`](Self::unblock) is to be asked next.
    #[cold]
    pub(super) fn next_unblock(&self) -> Instant {
        let is_open = |peer: &u32| self.peers[*peer as usize].gate.as_ref().is_none_or(Gate::is_open);
        match self.blocked.0.iter().any(is_open) {
            true => self.now,
            false => self.now + ROOM_CHECK,
        }
    }

    /// Peers whose gate has opened are ready again.
    #[cold]
    pub(super) fn unblock(&mut self) {
        let Self {
            blocked, peers, ready, ..
        } = self;
        blocked.0.retain(|peer| {
            let is_open = peers[*peer as usize].gate.as_ref().is_none_or(Gate::is_open);
            if is_open {
                ready.push_back(*peer);
            }
            !is_open
        });
    }
}

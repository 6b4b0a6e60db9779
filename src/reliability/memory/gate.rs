//! Whether the medium has room for another packet to a peer.

use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering};

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

    pub(super) fn push(&mut self, peer: u32) {
        self.0.push(peer);
    }

    pub(super) fn forget(&mut self, peer: u32) {
        self.0.retain(|other| *other != peer);
    }

    /// Passes the peers of which `is_open` says so to `each`, and forgets them.
    pub(super) fn release(&mut self, is_open: impl Fn(u32) -> bool, mut each: impl FnMut(u32)) {
        self.0.retain(|peer| {
            let is_open = is_open(*peer);
            if is_open {
                each(*peer);
            }
            !is_open
        });
    }

    /// When [`release`](Self::release) is to be asked next.
    pub(super) fn next_release(&self, now: Instant, is_open: impl Fn(u32) -> bool) -> Instant {
        match self.0.iter().any(|peer| is_open(*peer)) {
            true => now,
            false => now + ROOM_CHECK,
        }
    }
}

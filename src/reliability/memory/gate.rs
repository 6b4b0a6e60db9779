//! What a medium says of a peer: whether it has room for another packet to it, and whether the peer is there.

use alloc::{sync::Arc, vec::Vec};
use core::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use crate::time::{Instant, nanos};

/// Time after which the medium is asked again for room.
const ROOM_CHECK: Duration = Duration::from_micros(100);

/// Says whether the medium has room for another packet to a peer. The medium opens and closes it; while it is closed, the
/// layer makes no packets for that peer, and goes on with those for others. All clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_closed: AtomicBool,
    silence: AtomicU64,
    is_asked: AtomicBool,
    is_wanted: AtomicBool,
}

impl Gate {
    /// Opens or closes it. It is open at first.
    #[inline]
    pub fn set_open(&self, open: bool) {
        self.0.is_closed.store(!open, Ordering::Relaxed);
    }

    /// Returns whether there is room.
    #[must_use]
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.0.is_closed.load(Ordering::Relaxed)
    }

    /// The medium says how long the peer has read nothing of what there is for it. A session with a watched peer that
    /// is silent for too long ends.
    pub fn set_silence(&self, silence: Duration) {
        self.0.silence.store(nanos(silence), Ordering::Relaxed);
    }

    /// How long the peer has read nothing of what there is for it.
    #[must_use]
    pub fn silence(&self) -> Duration {
        Duration::from_nanos(self.0.silence.load(Ordering::Relaxed))
    }

    /// The layer waits for a peer to which it has never sent anything: the medium is to look whether the peer is there.
    pub fn ask(&self) {
        self.0.is_asked.store(true, Ordering::Relaxed);
    }

    /// Returns whether the layer has asked since the last call.
    #[must_use]
    pub fn take_question(&self) -> bool {
        self.0.is_asked.load(Ordering::Relaxed) && self.0.is_asked.swap(false, Ordering::Relaxed)
    }

    /// The medium says that the peer has something to say to those that wait for it: a session has to be opened.
    pub fn set_wanted(&self) {
        self.0.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Returns whether a session has to be opened.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.0.is_wanted.load(Ordering::Relaxed)
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

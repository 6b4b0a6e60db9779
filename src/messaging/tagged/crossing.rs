//! Large messages whose bytes the system copies from one process straight to another.
//!
//! A receiver whose memory the system can copy to *exposes* it with its grant. The sender has the receiver read the first
//! half of what is granted, and writes the second half itself once that is on its way: both copy at once, and each byte is
//! copied once. Both do it in steps, between which they look at other messages. Bytes that the system does not copy after
//! all are placed, as over a network.

use alloc::collections::VecDeque;

use bytes::Bytes;

use super::control::{Exposure, Range};
use crate::reliability::PeerId;

/// Longer messages are copied by the system: two copies by way of a ring take less time than to ask and to call it.
pub const CMA_LIMIT: u32 = 64 << 10;

/// A send whose bytes the system copies.
pub(super) struct Crossing {
    pub(super) exposure: Exposure,
    /// Ranges that this side copies, and what is left of them.
    pub(super) own: VecDeque<(Range, Bytes)>,
    /// Ranges that the receiver reads, oldest first.
    pub(super) theirs: VecDeque<(Range, Bytes)>,
    /// The system does not, or the receiver does not want it any more: what is left is placed.
    pub(super) is_over: bool,
}

impl Crossing {
    pub(super) fn new(exposure: Exposure) -> Self {
        Self {
            exposure,
            own: VecDeque::new(),
            theirs: VecDeque::new(),
            is_over: false,
        }
    }

    /// The receiver has granted more.
    pub(super) fn set_exposure(&mut self, exposure: Exposure) {
        self.exposure = exposure;
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

/// A range that this side is to read.
pub(super) struct Reading {
    pub(super) peer: PeerId,
    /// Of the send.
    pub(super) id: u32,
    /// What is left of it, and where that lies.
    pub(super) range: Range,
    pub(super) from: Exposure,
    /// So many bytes were read.
    pub(super) done: u64,
}

/// What this side copies in its next turns, oldest first.
#[derive(Default)]
pub(super) struct Copies {
    pub(super) reads: VecDeque<Reading>,
    /// Sends, with the turn in which they began.
    pub(super) sends: VecDeque<(u32, u64)>,
    pub(super) turn: u64,
    /// Ranges that were copied.
    pub(super) done: u64,
}

impl Copies {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.sends.is_empty()
    }

    /// The peer is gone.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.reads.retain(|reading| reading.peer != peer);
    }

    pub(super) fn add_send(&mut self, id: u32) {
        self.sends.push_back((id, self.turn));
    }
}

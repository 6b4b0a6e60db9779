//! Large messages whose bytes the system copies from one process straight to another.
//!
//! A sender *offers* what is short, and its receiver reads it at once. A receiver whose memory the system can copy to
//! *exposes* it with its grant of everything else. Of up to 64 KB that are granted the sender writes all. Of more it has
//! the receiver read the first part, and writes the rest itself once that is on its way: both copy at once, and each byte
//! is copied once. Both do it in steps, between which they look at other messages. Bytes that the system does not copy
//! after all are placed, as over a network.

use alloc::collections::VecDeque;

use bytes::Bytes;

use super::control::{Exposure, Range};
use crate::reliability::PeerId;

/// Longer messages are copied by the system: two copies by way of a ring take less time than to ask and to call it.
pub const CMA_LIMIT: u32 = 64 << 10;
/// The same between cores that are far from each other, where copies by way of a ring take longer.
pub const FAR_CMA_LIMIT: u32 = 8 << 10;

/// The longest messages that the system does not copy, bytes. `u32::MAX`: it copies none.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    near: u32,
    far: u32,
}

impl Limits {
    /// `None`: those above.
    pub(super) fn new(set: Option<u32>) -> Self {
        let (near, far) = set.map_or((CMA_LIMIT, FAR_CMA_LIMIT), |bytes| (bytes, bytes));
        Self { near, far }
    }

    /// Returns whether the system copies messages of so many bytes, at least between far cores.
    #[inline(always)]
    pub(super) fn may_cross(self, len: u64) -> bool {
        len > u64::from(self.far) && self.far != u32::MAX
    }

    /// Returns whether it copies them between near cores, too.
    #[inline(always)]
    pub(super) fn crosses_anyway(self, len: u64) -> bool {
        len > u64::from(self.near) && self.may_cross(len)
    }
}

/// A send whose bytes the system copies.
pub(super) struct Crossing {
    pub(super) exposure: Exposure,
    /// Ranges that this side copies, and what is left of them.
    pub(super) own: VecDeque<(Range, Bytes)>,
    /// Ranges that the receiver reads, oldest first.
    pub(super) theirs: VecDeque<(Range, Bytes)>,
    /// Which side has copied its part first.
    pub(super) race: Race,
    /// The system does not, or the receiver does not want it any more: what is left is placed.
    pub(super) is_over: bool,
}

/// Of the two parts of what was granted last, so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Race {
    Runs(u64),
    /// This side has just written its part; whether the other one was faster is known in the next turn.
    Written(u64),
    /// That is known.
    Decided,
}

impl Crossing {
    pub(super) fn new(exposure: Exposure) -> Self {
        Self {
            exposure,
            own: VecDeque::new(),
            theirs: VecDeque::new(),
            race: Race::Decided,
            is_over: false,
        }
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

/// How much of a message its receiver reads, in parts of [`WHOLE`](Self::WHOLE), for lengths that differ by factors of 2. It
/// depends on the machine which of reading and writing takes longer, and on the caches: so that both sides end at the same
/// time, the one that has ended first gets a little more the next time.
#[derive(Debug)]
pub(super) struct Balance([u8; 8]);

impl Default for Balance {
    fn default() -> Self {
        Self([Self::WHOLE / 2; 8])
    }
}

impl Balance {
    const WHOLE: u8 = 64;

    /// That of messages of about so many bytes.
    fn of(&mut self, len: u64) -> &mut u8 {
        let class = len.max(1).ilog2().saturating_sub(16) as usize;
        &mut self.0[class.min(7)]
    }

    /// How many of these bytes the receiver reads.
    pub(super) fn part(&mut self, len: usize) -> usize {
        len / usize::from(Self::WHOLE) * usize::from(*self.of(len as u64))
    }

    /// Of so many bytes, the receiver has read its part before the sender had written the other one, or not.
    pub(super) fn note(&mut self, len: u64, is_read_first: bool) {
        let part = self.of(len);
        let next = if is_read_first { *part + 1 } else { *part - 1 };
        *part = next.clamp(Self::WHOLE / 4, Self::WHOLE / 4 * 3);
    }
}

/// What this side copies in its next turns, oldest first.
#[derive(Default)]
pub(super) struct Copies {
    pub(super) balance: Balance,
    pub(super) reads: VecDeque<Reading>,
    /// Sends, with the turn in which they began.
    pub(super) sends: VecDeque<(u32, u64)>,
    pub(super) turn: u64,
    /// The last message that was offered is left to its sender.
    pub(super) leaves: bool,
    /// Where it goes.
    pub(super) place: usize,
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

    /// A send has its turns from the next one on, unless it has them already.
    pub(super) fn add_send(&mut self, id: u32) {
        if !self.sends.iter().any(|(other, _)| *other == id) {
            self.sends.push_back((id, self.turn));
        }
    }
}

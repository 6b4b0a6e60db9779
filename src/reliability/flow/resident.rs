//! The resident part of a flow.

use super::{rtt::Rtt, source::NONE};
use crate::wire::{Base, Seq};

/// The resident part.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Flow {
    pub(crate) peer: u32,
    /// The peer's next flow.
    pub(crate) next: u32,
    /// Index of the active part, or [`NONE`].
    pub(crate) active: u32,
    /// Next sequence number to send.
    pub(super) send_next: Seq,
    /// Next sequence number expected.
    pub(super) expected: Seq,
    pub(super) rtt: Rtt,
    key: FlowKey,
}

/// What tells a flow from the others of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowKey(u16);

impl FlowKey {
    /// Control and small messages of a session with one rail.
    pub(crate) const FIRST: Self = Self(0);

    #[inline(always)]
    pub(crate) fn new(rail: u8, channel: u8) -> Self {
        Self(u16::from_le_bytes([channel, rail]))
    }

    /// The rail in the upper half, the channel in the lower one.
    #[inline(always)]
    pub(crate) fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(crate) fn of(base: &Base) -> Self {
        Self::new(base.rail, base.channel)
    }

    #[inline(always)]
    pub(crate) fn channel(self) -> u8 {
        self.0.to_le_bytes()[0]
    }

    #[inline(always)]
    pub(crate) fn rail(self) -> u8 {
        self.0.to_le_bytes()[1]
    }
}

impl Flow {
    /// `send_next`, `expected`: see [`first_sequence`].
    pub(crate) fn new(peer: u32, key: FlowKey, send_next: Seq, expected: Seq) -> Self {
        Self {
            peer,
            next: NONE,
            active: NONE,
            send_next,
            expected,
            rtt: Rtt::default(),
            key,
        }
    }

    #[inline(always)]
    pub(crate) fn key(&self) -> FlowKey {
        self.key
    }

    #[inline(always)]
    pub(crate) fn channel(&self) -> u8 {
        self.key.channel()
    }

    #[inline(always)]
    pub(crate) fn rail(&self) -> u8 {
        self.key.rail()
    }

    /// The number of the next packet to send.
    #[inline(always)]
    pub(crate) fn send_next(&self) -> Seq {
        self.send_next
    }

    /// The number of the next packet that is to come.
    #[inline(always)]
    pub(crate) fn expected(&self) -> Seq {
        self.expected
    }

    /// What is known of the round trip.
    #[inline]
    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The peer begins with this number.
    pub(crate) fn expect_from(&mut self, first: Seq) {
        self.expected = first;
    }
}

/// The sequence number that a sender begins a flow with, from its epoch and the secret that it issued for the session:
/// both sides know them. Packets of another session are then far outside of the window even if their token should
/// happen to be the same.
pub(crate) fn first_sequence(epoch: u64, secret: u64, key: FlowKey) -> Seq {
    let word = epoch ^ secret.rotate_left(20) ^ u64::from(key.0);
    Seq((word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32)
}

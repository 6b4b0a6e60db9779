//! Packets that belong to no flow: resets, challenges, answers to probes, the last acknowledgement.

use core::net::SocketAddr;

use crate::wire::{Features, Seq, Token};

/// Packets of control that wait to be sent; more are forgotten (their cause will come again).
pub(super) const MAX_CONTROL: usize = 256;

/// Why an opening is refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Refusal {
    /// These are in the way; none: that session is over.
    Features(Features),
    NoRoom,
}

/// A packet that belongs to no flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Control {
    /// "I do not know this session", or "I refuse it".
    Reset {
        to: SocketAddr,
        session: Token,
        /// Of an opening: why.
        refused: Option<Refusal>,
    },
    /// "Say your opening again with this token, then I believe that you live there."
    Challenge {
        to: SocketAddr,
        session: Token,
        cookie: Token,
    },
    /// A path MTU probe has arrived.
    ProbeAck { peer: u32, number: u32 },
    /// The goodbye has arrived; the session is gone already.
    LastAck {
        to: SocketAddr,
        session: Token,
        channel: u8,
        sequence: Seq,
        acknowledgement: Seq,
        checksum: bool,
    },
}

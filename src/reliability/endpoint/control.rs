//! Packets that belong to no flow: resets, challenges, answers to probes, probes of rails, the last acknowledgement.

use crate::{
    reliability::{Path, flow::FlowKey},
    wire::{Features, Seq, Token},
};

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
        to: Path,
        session: Token,
        /// Of an opening: why.
        refused: Option<Refusal>,
    },
    /// "Say your opening again with this token, then I believe that you live there."
    Challenge { to: Path, session: Token, cookie: Token },
    /// A probe has arrived, of the path MTU or of a rail.
    ProbeAck { peer: u32, to: Path, rail: u8, number: u32 },
    /// "Do you hear me on this rail?"
    RailProbe { peer: u32, rail: u8, number: u32 },
    /// The goodbye has arrived; the session is gone already.
    LastAck {
        to: Path,
        session: Token,
        key: FlowKey,
        sequence: Seq,
        acknowledgement: Seq,
        checksum: bool,
    },
}

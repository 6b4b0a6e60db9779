//! How sends and receives end.

use crate::error::PeerError;

/// How something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Complete,
    /// The message was longer than the buffer, which is full.
    Truncated,
    /// It was cancelled before it began.
    Cancelled,
    /// Its bits were revoked.
    Revoked,
    /// The peer is lost.
    Failed(PeerError),
}

impl Outcome {
    /// Of a message of `len` bytes, for which there is so much room.
    #[inline(always)]
    pub(super) fn of(len: u64, room: u64) -> Self {
        match len > room {
            true => Self::Truncated,
            false => Self::Complete,
        }
    }
}

/// The source, match bits and length of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// Processor that sent it.
    pub source: u32,
    /// Its match bits.
    pub bits: u64,
    /// Its length, bytes.
    pub len: u64,
}

/// A send or receive has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// As its caller named it.
    pub request: u64,
    /// Of a receive: of the message. (Of a send that failed, and a receive that was cancelled: zeros.)
    pub envelope: Envelope,
    /// How it ended.
    pub outcome: Outcome,
}

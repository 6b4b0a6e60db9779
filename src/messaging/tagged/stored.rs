//! The stored form of a message that has no receive yet.

use alloc::boxed::Box;

use bytes::Bytes;

use super::{content::Content, control::Exposure};
use crate::messaging::message::Kept;

/// An unexpected message.
pub(super) enum Stored {
    /// Its payload.
    Eager(Kept),
    /// A request to send, with the sender's id, and its credit.
    Request {
        kept: Kept,
        id: u32,
        len: u64,
        offer: Option<Exposure>,
    },
    /// A message to ourselves: its payload.
    Own(Bytes),
    /// Our own send, which ends when it is received.
    OwnContent { content: Box<dyn Content>, request: u64 },
    /// The same when it is claimed: its content stays with us ([`Tagged::own_claimed`]).
    OwnClaimed { len: u64, request: u64 },
}

impl Stored {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Eager(kept) => kept.data.len() as u64,
            Self::Request { len, .. } => *len,
            Self::Own(data) => data.len() as u64,
            Self::OwnContent { content, .. } => content.len(),
            Self::OwnClaimed { len, .. } => *len,
        }
    }

    /// Bytes that are kept.
    pub(super) fn kept(&self) -> u64 {
        match self {
            Self::Eager(kept) => kept.data.len() as u64,
            Self::Own(data) => data.len() as u64,
            Self::Request { .. } | Self::OwnContent { .. } | Self::OwnClaimed { .. } => 0,
        }
    }
}

//! The last message that was received out of a ring, past the inbox: it is lent from here.

use alloc::vec::Vec;

use super::message::{Body, Message};
use crate::reliability::{Arriving, PeerId};

/// Its bytes.
#[derive(Default)]
pub(super) struct Staged {
    bytes: Vec<u8>,
    kept: u32,
}

/// What else is known of it.
pub(super) struct Taken {
    peer: PeerId,
    source: u32,
    destination: u32,
    session: u32,
    bits: u64,
    len: usize,
}

impl Taken {
    /// Number of its bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Staged {
    /// Copies a message that lies in its ring.
    #[inline]
    pub(super) fn copy(&mut self, arriving: &Arriving<'_>, destination: u32) -> Taken {
        let len = arriving.front.len();
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        arriving.front.copy_to(&mut self.bytes[..len]);
        Taken {
            peer: arriving.peer,
            source: arriving.source,
            destination,
            session: arriving.session,
            bits: arriving.front.bits,
            len,
        }
    }

    /// Lends the message.
    #[inline]
    pub(super) fn lend(&mut self, taken: Taken) -> Message<'_> {
        Message {
            destination: taken.destination,
            peer: taken.peer,
            source: taken.source,
            session: taken.session,
            // (Its credit is free already.)
            cost: 0,
            kept: &mut self.kept,
            tag: (taken.bits != Arriving::UNTAGGED).then_some(taken.bits),
            immediate: None,
            body: Body::Lent(&self.bytes[..taken.len]),
        }
    }
}

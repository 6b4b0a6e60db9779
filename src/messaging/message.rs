//! A received message.

use alloc::vec::Vec;
use core::{fmt, mem, ops::Deref};

use crate::reliability::{MESSAGE_COST, PeerId};

/// A received message, lent until the next call.
///
/// It dereferences to its bytes.
pub struct Message<'a> {
    // (In another order than in the queue, so that they are read one by one: of several that have just been written one by
    // one, read at once, the processor would wait for all.)
    pub(super) destination: u32,
    pub(super) peer: PeerId,
    pub(super) source: u32,
    pub(super) session: u32,
    /// Credit that it holds, with those that it was bundled with.
    pub(super) cost: u32,
    /// Credit of the kept messages of its packet.
    pub(super) kept: &'a mut u32,
    pub(super) tag: Option<u64>,
    pub(super) immediate: Option<u64>,
    pub(super) body: Body<'a>,
}

pub(super) enum Body<'a> {
    Lent(&'a [u8]),
    /// The message is the first bytes of the buffer, this many.
    Buffer(&'a mut Vec<u8>, usize),
}

impl Message<'_> {
    /// The peer that sent it.
    #[must_use]
    #[inline]
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// Number of the processor that sent it.
    #[must_use]
    #[inline]
    pub fn source(&self) -> u32 {
        self.source
    }

    /// Number of the processor that it was sent to: one of ours, or [`crate::wire::ANY_PROCESSOR`] if the sender did
    /// not know our number.
    #[must_use]
    #[inline]
    pub fn destination(&self) -> u32 {
        self.destination
    }

    /// Its tag (match bits); 0 if it has none.
    #[must_use]
    #[inline]
    pub fn tag(&self) -> u64 {
        self.tag.unwrap_or(0)
    }

    /// Its tag, if it has one.
    #[must_use]
    #[inline]
    pub fn tag_if_any(&self) -> Option<u64> {
        self.tag
    }

    /// Its immediate data.
    #[must_use]
    #[inline]
    pub fn immediate(&self) -> Option<u64> {
        self.immediate
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn data(&self) -> &[u8] {
        match &self.body {
            Body::Lent(data) => data,
            Body::Buffer(buffer, len) => &buffer[..*len],
        }
    }

    /// Takes the bytes: a small message is copied, a large one hands over its buffer.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.body {
            Body::Lent(data) => data.to_vec(),
            Body::Buffer(buffer, len) => {
                let mut buffer = mem::take(buffer);
                buffer.truncate(len);
                buffer
            }
        }
    }
}

impl Message<'_> {
    /// Takes the bytes together with their credit, which the sender gets back only by
    /// [`Messenger::release`](super::Messenger::release). `None`: the message was so large that its credit had to be
    /// returned for it to arrive at all, so nothing would bound how many such messages are kept.
    #[must_use]
    pub(super) fn keep(mut self) -> Option<Kept> {
        let (peer, session) = (self.peer, self.session);
        let cost = self.hold()?;
        let data = self.into_vec();
        Some(Kept {
            peer,
            session,
            cost,
            data,
        })
    }

    /// Like [`keep`](Self::keep), for information derived from the bytes: these are dropped.
    #[must_use]
    pub(super) fn keep_credit(mut self) -> Option<Kept> {
        Some(Kept {
            peer: self.peer,
            session: self.session,
            cost: self.hold()?,
            data: Vec::new(),
        })
    }

    fn hold(&mut self) -> Option<u32> {
        let cost = self.data().len() as u32 + MESSAGE_COST;
        let kept = self.kept.saturating_add(cost);
        if kept > self.cost {
            return None;
        }
        *self.kept = kept;
        Some(cost)
    }
}

/// A message that is kept beyond its turn.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) peer: PeerId,
    pub(super) session: u32,
    pub(super) cost: u32,
    pub(super) data: Vec<u8>,
}

impl Deref for Message<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.data()
    }
}

impl AsRef<[u8]> for Message<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.data()
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("peer", &self.peer)
            .field("source", &self.source)
            .field("destination", &self.destination)
            .field("tag", &self.tag)
            .field("immediate", &self.immediate)
            .field("len", &self.data().len())
            .finish()
    }
}

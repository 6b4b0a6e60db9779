//! Messages that a program has passed over, because it wants those of another peer first.

use alloc::{collections::VecDeque, vec::Vec};

use super::{
    Messenger,
    message::{Body, Kept, Message},
};
use crate::reliability::PeerId;

/// A message that was passed over. It keeps its credit, so a peer cannot fill more memory with such messages than with
/// those that were not received.
#[derive(Debug)]
struct Passed {
    kept: Kept,
    source: u32,
    destination: u32,
    tag: Option<u64>,
    immediate: Option<u64>,
}

/// Messages that were passed over, in the order of their admission.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    passed: VecDeque<Passed>,
    /// The bytes of the message that was taken last.
    lent: Vec<u8>,
    /// A message that is lent has a place to count credit; none is left here.
    credit: u32,
}

impl Aside {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.passed.is_empty()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.passed.len()
    }

    /// Index of the first message of `peer`.
    pub(crate) fn find(&self, peer: PeerId) -> Option<usize> {
        self.passed.iter().position(|passed| passed.kept.peer == peer)
    }

    /// Returns whether messages of an earlier session of `peer` are here, whose credit the new session does not know.
    fn holds_earlier(&self, peer: PeerId, session: u32) -> bool {
        let last = self.passed.iter().rev().find(|passed| passed.kept.peer == peer);
        last.is_some_and(|passed| passed.kept.session != session)
    }
}

impl Messenger {
    /// Passes over messages until the next one is of `peer`; returns whether there is one.
    ///
    /// # Errors
    /// The next message, of this peer, cannot be set aside: it is so large that its credit had to be returned for it to
    /// arrive at all, or messages of an earlier session are aside, so nothing would bound the memory.
    pub(crate) fn set_aside(&mut self, aside: &mut Aside, peer: PeerId) -> Result<bool, PeerId> {
        loop {
            self.finish();
            if self.inbox.messages() == 0 {
                self.deliver_all_short();
            }
            let Some(next) = self.inbox.next() else {
                return Ok(false);
            };
            if next.peer == peer {
                return Ok(true);
            }
            if next.promoted || aside.holds_earlier(next.peer, next.session) {
                return Err(next.peer);
            }
            let Some(message) = self.receive() else {
                return Ok(false);
            };
            let (source, destination) = (message.source(), message.destination());
            let (tag, immediate) = (message.tag_if_any(), message.immediate());
            let Some(kept) = message.keep() else {
                unreachable!("the credit of all but promoted messages is with them");
            };
            aside.passed.push_back(Passed {
                kept,
                source,
                destination,
                tag,
                immediate,
            });
        }
    }

    /// Takes message `index` of those that were passed over. Its credit returns to the sender.
    pub(crate) fn take_aside<'a>(&mut self, aside: &'a mut Aside, index: usize) -> Option<Message<'a>> {
        let passed = aside.passed.remove(index)?;
        self.release(&passed.kept);
        let Kept {
            peer, session, data, ..
        } = passed.kept;
        aside.lent = data;
        let len = aside.lent.len();
        Some(Message {
            destination: passed.destination,
            peer,
            source: passed.source,
            session,
            cost: 0,
            kept: &mut aside.credit,
            tag: passed.tag,
            immediate: passed.immediate,
            body: Body::Buffer(&mut aside.lent, len),
        })
    }
}

//! Receives that their caller waits for, one after the other.

use super::{Core, RequestId, Slot, State, parked::Parked};
use crate::messaging::{Messenger, tagged::Envelope};

/// See the module's documentation.
pub(crate) trait InTurn {
    /// The next one.
    fn next(&mut self, known: Known<'_>) -> Option<RequestId>;

    /// It has ended well, and this was received.
    fn end(&mut self, envelope: &Envelope);

    /// How many of those that have ended were lent their home.
    fn given_back(&self) -> u32 {
        0
    }
}

/// The requests of a process, to be looked up.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(super) slots: &'a [Slot],
    pub(super) parked: Option<&'a Parked>,
}

impl Core {
    #[inline(always)]
    pub(crate) fn known(&self) -> Known<'_> {
        Known {
            slots: &self.slots,
            parked: self.parked.as_ref(),
        }
    }

    /// Takes short messages that lie in their lines, as long as they end these receives well: `awaited`, and those after it.
    /// Gives the first one that has not ended.
    #[inline(always)]
    pub(crate) fn take_run(
        &mut self,
        messenger: &mut Messenger,
        awaited: RequestId,
        receives: &mut impl InTurn,
    ) -> Option<RequestId> {
        if self.parked.is_some() {
            return Some(awaited);
        }
        let Self {
            tagged, slots, free, ..
        } = self;
        let mut at = awaited.0 as u32;
        let left = tagged.take_run(messenger, awaited.0, |envelope| {
            let slot = &mut slots[at as usize];
            slot.state = State::Free;
            slot.handle = None;
            free.push(at);
            receives.end(envelope);
            let known = Known { slots, parked: None };
            let next = receives.next(known)?;
            at = next.0 as u32;
            Some(next.0)
        });
        left.map(RequestId)
    }
}

//! Numbers of packets that have not arrived become void when the peer asks for that, because it cuts these packets anew
//! (`docs/design/wire.md`).

use alloc::boxed::Box;

use super::{super::resident::Flow, Receiver, Settlement};
use crate::{
    config::MAX_WINDOW_PACKETS,
    wire::{MAX_SACK_WORDS, Seq},
};

impl Receiver {
    /// Declares void what has not arrived before `until`, unless the same request has done that. `false`: no correct
    /// peer asks for that now.
    pub(crate) fn settle(&mut self, flow: &mut Flow, number: Seq, until: Seq) -> bool {
        if self.settlement.as_ref().is_some_and(|done| done.number == number) {
            return true;
        }
        if until.distance(flow.expected) > MAX_WINDOW_PACKETS.into() || self.end.after(until) {
            return false;
        }
        let bitmap = if self.has_gap(flow) {
            self.bitmap(flow)
        } else {
            ([0; MAX_SACK_WORDS], 0)
        };
        self.settlement = Some(Box::new(Settlement {
            number,
            until,
            expected: flow.expected,
            bitmap,
        }));
        let mut seq = flow.expected;
        while seq.before(until) {
            self.arrived.clear(seq);
            self.doubted.clear(seq);
            seq = seq.plus(1);
        }
        (flow.expected, self.end) = (until, until);
        (self.nacked, self.tell_gap) = (None, None);
        true
    }

    /// The peer may not have the answer to its last request yet.
    pub(crate) fn is_settling(&self, flow: &Flow) -> bool {
        self.settlement.as_ref().is_some_and(|done| done.until == flow.expected)
    }

    /// The last request is to be answered.
    #[inline]
    pub(crate) fn owes_settled(&self) -> bool {
        self.tell_settled
    }

    /// Answers the last request.
    pub(crate) fn answer_settle(&mut self) {
        self.tell_settled = true;
    }

    /// The answer that is to be given now.
    pub(crate) fn take_settled(&mut self) -> Option<Settlement> {
        self.tell_settled = false;
        self.settlement.as_deref().copied()
    }
}

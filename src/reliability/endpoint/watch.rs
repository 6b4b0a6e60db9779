//! Whether small messages take longer on a rail than they used to: then all rails are asked anew how long they take.
//!
//! The first probes of a session do not tell a rail of 1 Gbit/s from one of 0.1: their answers are small and far between,
//! and take the time of the kernels at both ends. Small messages to and fro may fill the slower one all the same. Then its
//! own answer waits for its wire, too, and those of other rails do not.

/// So many messages are a stretch. The shortest round trip of one is not that of a process that was interrupted.
const STRETCH: u8 = 64;

/// Round trips of small messages that went alone, on one rail.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Watch {
    messages: u8,
    /// The shortest of this stretch, ns.
    shortest: u32,
    /// The rail is asked; when it has answered, the others are.
    pub(super) asks_others: bool,
}

impl Watch {
    /// A message is sent, after round trips of `trip` ns on average. Gives the shortest of a stretch that is over.
    #[inline]
    pub(super) fn note(&mut self, trip: u32) -> Option<u32> {
        self.shortest = if self.messages == 0 {
            trip
        } else {
            self.shortest.min(trip)
        };
        self.messages += 1;
        if self.messages < STRETCH {
            return None;
        }
        self.messages = 0;
        Some(self.shortest)
    }
}

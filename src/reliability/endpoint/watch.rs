//! Whether small messages take longer on a rail than they used to: then all rails are asked anew how long they take.
//!
//! The first probes of a session do not tell a rail of 1 Gbit/s from one of 0.1: their answers are small and far between,
//! and take the time of the kernels at both ends. Small messages to and fro may fill the slower one all the same. Then its
//! own answer waits for its wire, too, and those of other rails do not.

use super::Endpoint;

/// So many messages are a stretch. The shortest round trip of one is not that of a process that was interrupted.
const STRETCH: u8 = 64;
/// With each question, what counts as usual grows by the 128th part: if no rail is as quick as one was, the questions end.
const GROWS: u32 = 128;

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

impl Endpoint {
    /// Small messages have had a round trip of `trip` ns on a rail. If it used to be shorter, by this rail or another, this
    /// one is asked anew, and then the others: the last answer is to be compared with one that is as new.
    #[cold]
    #[inline(never)]
    pub(super) fn weigh(&mut self, peer: u32, number: u8, trip: u32) {
        let (now, patience) = (self.now, self.times.initial_rto);
        let several = self.rails.enter(peer);
        if several.usual_trip == 0 || trip < several.usual_trip {
            several.usual_trip = trip;
        }
        let usual = several.usual_trip;
        let Some(rail) = several.rails.get_mut(usize::from(number)) else {
            return;
        };
        if trip <= usual.saturating_add(usual / 3) || !rail.carries() || !rail.is_unasked_for(now, patience) {
            return;
        }
        rail.watch.asks_others = true;
        several.usual_trip = usual.saturating_add(usual.div_ceil(GROWS));
        self.prove(peer, number);
    }

    /// A rail has answered. Gives whether the others are asked now, whose answers choose.
    #[inline]
    pub(super) fn ask_others(&mut self, peer: u32, number: u8) -> bool {
        let Some(rail) = self.rails.get_mut(peer, number).filter(|rail| rail.watch.asks_others) else {
            return false;
        };
        rail.watch.asks_others = false;
        for other in 0..self.rails.all(peer).len() as u8 {
            if other != number && self.carries(peer, other) {
                self.prove(peer, other);
            }
        }
        true
    }
}

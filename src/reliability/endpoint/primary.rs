//! The primary rail of a peer, by which small messages go and on which large ones begin.

use super::{Endpoint, rail::Rail};

/// A rail that takes so many times as long for a byte as another is not the one on which large messages begin.
const SLOW: u64 = 4;
/// So many small messages by another rail than ours show that the ends do not take the same one.
const APART: u8 = 16;
/// With each question, what counts as usual grows by the 128th part: if no rail is as quick as one was, the questions end.
const GROWS: u32 = 128;

impl Endpoint {
    /// Small messages go by the rail with the shortest round trip; those of different peers by different ones where
    /// several are about as short. One that is not much shorter is not worth a change, unless a rail is new. Of those,
    /// none that is known to be slow with large messages: these begin there. A rail that owes an answer may be dead, and
    /// comes last.
    pub(super) fn choose_primary(&mut self, peer: u32, is_news: bool) {
        let Some(best) = self.quickest(peer) else { return };
        let primary = self.peers[peer as usize].primary_rail();
        if !is_news && self.carries(peer, primary) && self.is_as_good(peer, primary, best) {
            return;
        }
        let as_good = |&rail: &u8| self.owes(peer, rail) == self.owes(peer, best) && self.is_as_good(peer, rail, best);
        let count = self.rails.up(peer).filter(as_good).count();
        let own = self.rails.up(peer).filter(as_good).nth(peer as usize % count.max(1));
        self.peers[peer as usize].set_primary_rail(own.unwrap_or(best));
    }

    fn quickest(&self, peer: u32) -> Option<u8> {
        { self.rails.up(peer) }.min_by_key(|&rail| (self.owes(peer, rail), self.trip(peer, rail)))
    }

    /// Round trip of a rail, ns.
    fn trip(&self, peer: u32, rail: u8) -> u64 {
        { self.rails.get(peer, rail) }.map_or(u64::MAX, |rail| rail.round_trip.max(1))
    }

    fn owes(&self, peer: u32, rail: u8) -> bool {
        self.rails.get(peer, rail).is_none_or(Rail::owes)
    }

    /// The round trip of a rail is about as short as that of the `best`, and it is not known to be slow with large
    /// messages.
    fn is_as_good(&self, peer: u32, rail: u8, best: u8) -> bool {
        let is_as_short = |rail: u8| self.trip(peer, best) > self.trip(peer, rail) / 4 * 3;
        let cost = |rail: u8| self.rails.get(peer, rail).map_or(0, |rail| rail.pace.measured());
        let short = self.rails.up(peer).filter(|&rail| is_as_short(rail));
        let least = short.map(cost).filter(|&cost| cost > 0).min().unwrap_or(u64::MAX);
        is_as_short(rail) && cost(rail) / SLOW <= least
    }

    /// A small message has come on the peer's rail of that number. If our small messages go by the rail of another
    /// number, no acknowledgement rides on a message, since each is for packets of its own number: so the end with the
    /// higher processor number follows the other one. A pair in which this end sends large messages stays as it is: the
    /// more rails both ends take the better.
    #[inline]
    pub(super) fn follow(&mut self, peer: u32, rail: u8) {
        let p = &self.peers[peer as usize];
        if p.primary_rail() != rail && p.processor < self.processor {
            self.follow_to(peer, rail);
        }
    }

    #[cold]
    #[inline(never)]
    fn follow_to(&mut self, peer: u32, number: u8) {
        let is_carrying = |rail: &Rail| rail.pace.cost(self.now).is_some();
        let sends_large = self.rails.all(peer).iter().any(is_carrying);
        let several = self.rails.enter(peer);
        several.apart = if sends_large { 0 } else { several.apart + 1 };
        if several.apart < APART {
            return;
        }
        several.apart = 0;
        // (A rail of that number that only the peer has is never up.)
        let Some(best) = self.quickest(peer).filter(|_| self.carries(peer, number)) else {
            return;
        };
        if !self.owes(peer, number) && self.is_as_good(peer, number, best) {
            self.peers[peer as usize].set_primary_rail(number);
            return;
        }
        // It may have been measured in a bad moment.
        if { self.rails.get(peer, number) }.is_some_and(|rail| rail.is_unasked_for(self.now, self.times.initial_rto)) {
            self.prove(peer, number);
        }
    }

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

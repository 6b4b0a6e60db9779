//! The primary rail of a peer, by which small messages go and on which large ones begin.

use core::net::SocketAddr;

use super::{Endpoint, rail::Rail};
use crate::reliability::{Path, peer::is_same};

/// A rail that takes so many times as long for a byte as another is not the one on which large messages begin.
const SLOW: u64 = 4;
/// So many small messages by different rails show that the ends do not take the same one.
const APART: u8 = 16;

impl Endpoint {
    /// Small messages go by the rail with the shortest round trip; those of different peers by different ones where several
    /// are about as short. One that is not much shorter is not worth a change, unless a rail is new. Of those, none that is
    /// known to be slow with large messages: these begin there. A rail that owes an answer may be dead, and comes last.
    pub(super) fn choose_primary(&mut self, peer: u32, is_news: bool) {
        let trip = |rail: u8| {
            self.rails
                .get(peer, rail)
                .map_or(u64::MAX, |rail| rail.round_trip.max(1))
        };
        let owes = |rail: u8| self.rails.get(peer, rail).is_none_or(Rail::owes);
        let best = self.rails.up(peer).min_by_key(|&rail| (owes(rail), trip(rail)));
        let Some(best) = best else { return };
        let primary = self.peers[peer as usize].primary_rail();
        let is_as_short = |rail: u8| trip(best) > trip(rail) / 4 * 3;
        let cost = |rail: u8| self.rails.get(peer, rail).map_or(0, |rail| rail.pace.measured());
        let short = self.rails.up(peer).filter(|&rail| is_as_short(rail));
        let least = short.map(cost).filter(|&cost| cost > 0).min().unwrap_or(u64::MAX);
        let is_as_good = |rail: u8| is_as_short(rail) && cost(rail) / SLOW <= least;
        if !is_news && self.is_up_rail(peer, primary) && is_as_good(primary) {
            return;
        }
        let as_good = |&rail: &u8| owes(rail) == owes(best) && is_as_good(rail);
        let count = self.rails.up(peer).filter(as_good).count();
        let own = self.rails.up(peer).filter(as_good).nth(peer as usize % count.max(1));
        self.peers[peer as usize].set_primary_rail(own.unwrap_or(best));
    }

    /// A small message has come by a rail that goes to `back`. If our small messages go by another rail, no
    /// acknowledgement rides on a message, since each rail acknowledges its own: so the end with the higher processor
    /// number follows the other one. Pairs that swap large messages stay as they are: the more rails both take the better.
    #[inline]
    pub(super) fn follow(&mut self, peer: u32, back: &SocketAddr) {
        let p = &self.peers[peer as usize];
        if p.processor < self.processor && !self.is_path_of(peer, p.primary_rail(), back) {
            self.follow_to(peer, self.back_to(peer, *back));
        }
    }

    #[cold]
    #[inline(never)]
    fn follow_to(&mut self, peer: u32, back: Path) {
        let is_carrying = |rail: &Rail| rail.pace.cost(self.now).is_some();
        let swaps_large = self.rails.all(peer).iter().any(is_carrying);
        let several = self.rails.enter(peer);
        several.apart = if swaps_large { 0 } else { several.apart + 1 };
        if several.apart < APART {
            return;
        }
        several.apart = 0;
        let number = self.rails.find(peer, back, self.first_path(peer));
        let is_fit = |&rail: &u8| self.is_up_rail(peer, rail) && !self.rails.get(peer, rail).is_none_or(Rail::owes);
        let Some(number) = number.filter(is_fit) else { return };
        // (What we have measured is no reason to go back.)
        let primary = self.peers[peer as usize].primary_rail();
        let known = self.rails.get(peer, primary).map_or(0, |rail| rail.round_trip);
        if let Some(rail) = self.rails.get_mut(peer, number) {
            rail.round_trip = rail.round_trip.min(known.max(1));
        }
        self.peers[peer as usize].set_primary_rail(number);
    }

    /// A rail of ours goes to that address, by the port at which it is heard now.
    #[inline]
    fn is_path_of(&self, peer: u32, rail: u8, address: &SocketAddr) -> bool {
        let p = &self.peers[peer as usize];
        match self.rails.get(peer, rail).and_then(|rail| rail.path.as_ref()) {
            Some(path) => path.port == self.port && is_same(&path.address, address),
            None => self.rails.port(peer) == self.port && p.is_at(address),
        }
    }
}

//! Places of strangers. When there is no room for another one, one that is gone, or has not shown that it hears us, gives
//! way; what has named it names no other for a while. Peers that were added stay.

use super::Endpoint;
use crate::{
    error::PeerError,
    reliability::{
        PeerId,
        flow::FlowKey,
        peer::{Peer, Phase, Place},
    },
};

/// Strangers that are looked at for one newcomer.
const LOOKS: u32 = 256;

impl Endpoint {
    /// There is room for another peer; a stranger has left for it, if need be.
    pub(super) fn has_room_for_peer(&mut self) -> bool {
        self.peers.len() - self.vacancies.vacant() < self.config.max_peers as usize || self.make_room()
    }

    #[cold]
    fn make_room(&mut self) -> bool {
        // (A process whose endpoint is elsewhere counts peers as they come, and never forgets one.)
        if self.credit_news.is_some() {
            return false;
        }
        self.vacancies.changed_with_time(self.now, self.times.death);
        for _ in 0..LOOKS {
            let Some(index) = self.vacancies.next() else {
                return false;
            };
            let p = &self.peers[index as usize];
            if p.place != Place::Stranger {
                continue;
            }
            if p.phase == Phase::Down || !p.is_confirmed() {
                self.leave(index);
                return true;
            }
            self.vacancies.stays(index);
            // It may be gone without a word.
            let silent = self.active_now().saturating_sub(p.last_heard) >= self.times.death;
            if silent && !self.is_asking(PeerId(index)) {
                let flow = self.flow_for(index, FlowKey::FIRST);
                let active = self.activate(flow);
                self.ask_until_heard(active);
            }
        }
        false
    }

    fn leave(&mut self, index: u32) {
        self.end_session(index, PeerError::NoRoom);
        self.attempts.end(index);
        self.lost.take(index);
        // Its address stays known until another peer takes its place or lives there: its opening may come again.
        self.peers[index as usize].place = Place::Left;
        self.vacancies.left(index, self.now);
    }

    /// A peer takes the place of one that has left. Its sessions are counted on, so that none has the number, or the
    /// secret, of another.
    pub(super) fn replace(&mut self, index: u32, mut peer: Peer) {
        let left = &mut self.peers[index as usize];
        peer.session = peer.session.max(left.session);
        peer.local_secret = left.local_secret;
        *left = peer;
        self.rails.forget(index);
        self.down.remove(&index);
    }
}

//! Places of strangers. When there is no room for another one, one that is gone, or has not shown that it hears us, gives
//! way; what has named it names no other for a while. Peers that were added stay.

use alloc::collections::VecDeque;

use super::{
    PeerId,
    endpoint::Endpoint,
    peer::{Peer, Phase, Place},
    tokens::COOKIE_TIME,
};
use crate::error::PeerError;

/// The number of a peer that has left names no other one for so long, ns: no cookie is older, and who talks to peers has
/// heard of its end.
const REST: u64 = 2 * COOKIE_TIME;
/// Strangers that are looked at for one newcomer.
const LOOKS: u32 = 256;

/// Where newcomers find room.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(super) struct Places {
    /// Peers that have left, and when, the oldest first. Every one of them has answered a challenge, so there are at most as
    /// many as challenges are sent in [`REST`].
    left: VecDeque<(u64, u32)>,
    /// Strangers in the order in which they came, or were looked at last. (Some may have been added since.)
    strangers: VecDeque<u32>,
    /// So many have been looked at in vain since there may have been one that can leave, and since when, ns.
    in_vain: usize,
    since: u64,
}

impl Places {
    /// The place of a peer that left long ago.
    pub(super) fn take(&mut self, now: u64) -> Option<u32> {
        let &(left_at, index) = self.left.front()?;
        (now - left_at >= REST).then(|| self.left.pop_front())?;
        Some(index)
    }

    /// This peer has come by itself.
    pub(super) fn came(&mut self, peer: u32) {
        self.strangers.push_back(peer);
    }

    /// There may be one that can leave.
    pub(super) fn changed(&mut self) {
        self.in_vain = 0;
    }
}

impl Endpoint {
    /// There is room for another peer; a stranger has left for it, if need be.
    pub(super) fn has_room_for_peer(&mut self) -> bool {
        self.peers.len() - self.places.left.len() < self.config.max_peers as usize || self.make_room()
    }

    /// No peer can leave.
    pub(super) fn is_full(&self) -> bool {
        self.places.in_vain >= self.places.strangers.len()
    }

    #[cold]
    fn make_room(&mut self) -> bool {
        // (A process whose endpoint is elsewhere counts peers as they come, and never forgets one.)
        if self.credit_news.is_some() {
            return false;
        }
        // Some may have fallen silent.
        if self.now - self.places.since >= self.times.death {
            (self.places.since, self.places.in_vain) = (self.now, 0);
        }
        for _ in 0..LOOKS {
            if self.is_full() {
                return false;
            }
            let Some(index) = self.places.strangers.pop_front() else {
                return false;
            };
            let p = &self.peers[index as usize];
            if p.place != Place::Stranger {
                continue;
            }
            if p.phase == Phase::Down || !p.confirmed {
                self.leave(index);
                return true;
            }
            self.places.strangers.push_back(index);
            self.places.in_vain += 1;
            // It may be gone without a word.
            let silent = self.active_now().saturating_sub(p.last_heard) >= self.times.death;
            if silent && !self.is_asking(PeerId(index)) {
                let flow = self.flow_for(index, 0);
                let active = self.activate(flow);
                self.ask_until_heard(active);
            }
        }
        false
    }

    fn leave(&mut self, index: u32) {
        self.end_session(index, PeerError::NoRoom);
        self.calls.remove(&index);
        self.lost.remove(&index);
        // Its address stays known until another peer takes its place or lives there: its opening may come again.
        self.peers[index as usize].place = Place::Left;
        self.places.left.push_back((self.now, index));
    }

    /// A peer takes the place of one that has left. Its sessions are counted on, so that none has the number, or the
    /// secret, of another.
    pub(super) fn replace(&mut self, index: u32, mut peer: Peer) {
        let left = &mut self.peers[index as usize];
        peer.session = peer.session.max(left.session);
        peer.local_secret = left.local_secret;
        *left = peer;
        self.down.remove(&index);
    }
}

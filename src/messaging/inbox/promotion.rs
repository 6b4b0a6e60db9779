//! Memory for messages in fragments: the oldest of each pair gets its credit back as it lands, since it could never be
//! complete else.

use super::{Inbox, Wait};
use crate::{
    messaging::{
        arena::Pool,
        assembly::CLAIMS,
        pair::{Candidate, Pair},
    },
    reliability::PeerId,
    wire::Seq,
};

impl Inbox {
    /// Sets the size of its message aside for an assembly, if not too much is for the peer.
    pub(super) fn reserve(&mut self, peer: PeerId, index: u32) {
        let Some(Wait::Parts(assembly)) = self.waits.get_mut(index) else {
            return;
        };
        if assembly.reserved() > 0 {
            return;
        }
        let Some(busy) = self.busy.get_mut(self.peers[peer.index()].busy) else {
            return;
        };
        let room = self.max_region.saturating_sub(busy.region);
        if Pool::size(assembly.total as usize) as u64 <= room {
            busy.scattered -= assembly.scattered();
            let max = usize::try_from(room).unwrap_or(usize::MAX);
            assembly.reserve(&mut self.pool, max, CLAIMS - busy.claimed);
            busy.scattered += assembly.scattered();
            busy.region += assembly.reserved() as u64;
            busy.claimed += assembly.claim;
        }
    }

    /// Gives the credit of a large message back as it lands, if it is the oldest: it could never be complete else.
    pub(super) fn promote(&mut self, peer: PeerId, pair: Pair, number: Seq, index: u32) {
        let taken = self.ready.taken;
        self.reserve(peer, index);
        let session = self.peers[peer.index()].session;
        let Some(Wait::Parts(assembly)) = self.waits.get_mut(index) else {
            return;
        };
        let large = u64::from(assembly.total) > self.half || u64::from(assembly.cost) > self.half;
        let Some(after) = assembly.after else {
            return;
        };
        if assembly.promoted || assembly.listed || !large {
            return;
        }
        if after > taken {
            assembly.listed = true;
            let candidate = Candidate {
                after,
                peer,
                session,
                pair,
                number,
            };
            // Almost always the last: each has become the first of its pair after those before it.
            let at = self.candidates.partition_point(|other| other.after <= after);
            self.candidates.insert(at, candidate);
        } else if assembly.reserved() == 0 {
            assembly.listed = true;
            self.busy_of(peer).starved.push_back((pair, number));
        } else {
            assembly.promoted = true;
            let cost = core::mem::take(&mut assembly.cost);
            self.release(peer, session, cost);
        }
    }

    /// Tries again to promote a message that stood in a list. Gives whether it does not any more.
    fn promote_again(&mut self, peer: PeerId, pair: Pair, number: Seq) -> bool {
        let Some(busy) = self.busy.get(self.peers[peer.index()].busy) else {
            return true;
        };
        let Some(index) = busy.waiting.get(pair, number) else {
            return true;
        };
        if let Some(Wait::Parts(assembly)) = self.waits.get_mut(index) {
            assembly.listed = false;
        }
        self.promote(peer, pair, number, index);
        !matches!(self.waits.get(index), Some(Wait::Parts(assembly)) if assembly.listed)
    }

    #[cold]
    pub(super) fn promote_candidates(&mut self) {
        while let Some(&Candidate {
            after,
            peer,
            session,
            pair,
            number,
        }) = self.candidates.front()
            && after <= self.ready.taken
        {
            self.candidates.pop_front();
            if self.peers[peer.index()].session == session {
                self.promote_again(peer, pair, number);
            }
        }
    }

    /// There may be room for buffers that a peer was refused.
    pub(super) fn feed_starved(&mut self, peer: PeerId) {
        while let Some(busy) = self.busy.get_mut(self.peers[peer.index()].busy)
            && let Some((pair, number)) = busy.starved.pop_front()
            && self.promote_again(peer, pair, number)
        {}
    }
}

//! Reconnecting: a lost peer is called until it answers, and the messages lost with it are named.
//!
//! A call is an opening without a message, sent repeatedly with a back-off of up to a second. The peer answers the
//! opening of any session after the first with a challenge, so no other host can answer for it. A side that has
//! accepted a session by a challenge calls back, so that both learn that the session has begun even if only one of them
//! wants it.
//!
//! After a single call ([`Endpoint::reconnect`]) messages can be sent at once, and its failure is reported after
//! [`open_timeout`](crate::Config::open_timeout). With the setting [`reconnect`](crate::Config::reconnect), sends are
//! refused until the session has begun, and calls never end.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{Endpoint, lost_messages::LostMessages};
use crate::{
    error::PeerError,
    reliability::{
        PeerId,
        peer::{Phase, Place},
        timers::Timer,
    },
    wire::Seq,
};

impl Endpoint {
    /// Tries to reach a peer that is down, with a new session. It need not have restarted. [`crate::reliability::Event::Up`] tells
    /// when it has answered, [`crate::reliability::Event::Down`] that it has not within
    /// [`Config::open_timeout`](crate::Config::open_timeout).
    pub fn reconnect(&mut self, peer: PeerId) {
        if self.revive(peer) {
            self.call(peer.0);
        }
    }

    /// Resets a peer that is down to the state of a new one. `false`: it is not down, or has left.
    pub(crate) fn revive(&mut self, peer: PeerId) -> bool {
        let Some(p) = self.peers.get_mut(peer.index()) else {
            return false;
        };
        let is_down = p.phase == Phase::Down && p.place != Place::Left;
        if is_down {
            p.phase = Phase::New;
            self.down.remove(&peer.0);
        }
        is_down
    }

    /// Returns the messages known to have been lost with this peer, and forgets them.
    pub fn take_lost(&mut self, peer: PeerId) -> Vec<LostMessages> {
        self.lost.take(peer.0)
    }

    /// A session has ended: a new one begins, if that is wanted always.
    pub(super) fn call_after(&mut self, peer: u32, error: PeerError) {
        self.attempts.end(peer);
        let may_live = matches!(
            error,
            PeerError::TimedOut { .. } | PeerError::Refused | PeerError::Reset
        );
        if self.config.reconnect && may_live {
            self.call(peer);
        }
    }

    /// Calls a peer until it has answered.
    pub(super) fn call(&mut self, peer: u32) {
        let since = self.active_now();
        self.attempts.begin(peer, since);
        self.call_on(peer);
    }

    /// The time for another call has come, if the peer is called: whether the session lives.
    pub(super) fn call_again(&mut self, index: u32) -> Option<bool> {
        let peer = self.flows[self.actives[index as usize].flow as usize].peer;
        let (since, calls) = self.attempts.of(peer)?;
        let silence = self.active_now().saturating_sub(since);
        let p = &self.peers[peer as usize];
        let (has_end, is_bound) = (p.phase != Phase::Down, p.is_bound());
        if has_end && silence >= self.times.open {
            if is_bound {
                // It has answered a challenge and then has gone: noticed when there is something to say to it.
                self.attempts.end(peer);
                return None;
            }
            let error = PeerError::TimedOut {
                resends: calls,
                silence: core::time::Duration::from_nanos(silence),
            };
            self.end_session(peer, error);
            return Some(false);
        }
        self.open_elsewhere(peer);
        self.call_on(peer);
        Some(true)
    }

    fn call_on(&mut self, peer: u32) {
        let Some(wait) = self.attempts.count(peer, self.epoch) else {
            return;
        };
        let index = self.ask(peer);
        self.actives[index as usize]
            .deadlines
            .set(Timer::Persist, self.now + wait);
        self.reschedule(index);
    }

    /// Records the messages in flight to a peer whose session ends.
    pub(super) fn name_lost(&mut self, peer: u32) {
        let mut first = BTreeMap::new();
        for flow in self.flows_of(peer) {
            let flow = &self.flows[flow as usize];
            let Some(active) = self.actives.get(flow.active as usize) else {
                continue;
            };
            active.send.each_pending(flow, |pair, number| {
                let least: &mut Seq = first.entry(pair).or_insert(number);
                if number.before(*least) {
                    *least = number;
                }
            });
        }
        let session = self.peers[peer as usize].session;
        let named = first.into_iter().map(|((source, destination), first)| LostMessages {
            session,
            source,
            destination,
            first: first.0,
        });
        self.lost.add(peer, named);
    }
}

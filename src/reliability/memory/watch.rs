//! Peers that a rank waits for: whether they are there, and what becomes of those that are silent.

use core::time::Duration;

use super::{MemoryLayer, queue::Queued};
use crate::{error::PeerError, id::PeerId, time::Instant, wire::Kind};

/// Time between two packets to a peer that is watched.
const WATCH: Duration = Duration::from_millis(100);

impl MemoryLayer {
    /// A peer that is gone is [reported](Self::handle_unreachable) by the medium when something is sent to it. One to
    /// which nothing was ever sent is not sent anything: the medium is asked whether it is there.
    pub(in crate::reliability) fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        self.now = self.now.max(now);
        let now = self.now;
        let Some(p) = self.peers.get_mut(peer.index()) else {
            return;
        };
        if !on || p.watched.is_some_and(|last| now < last + WATCH) {
            return;
        }
        p.watched = Some(now);
        let (limit, is_fresh) = match p.is_up {
            true => (self.config.death_timeout, false),
            false => (self.config.open_timeout, !p.has_sent && p.queue.is_empty()),
        };
        if let Some(gate) = &p.gate {
            let silence = gate.silence();
            if silence >= limit {
                return self.end_session(peer.0, PeerError::TimedOut { resends: 0, silence });
            }
            if is_fresh && p.down.is_none() && !gate.is_wanted() {
                return gate.ask();
            }
        }
        self.connect(now, peer);
    }

    /// A peer that this side has given up is there after all: it must not wait for this side.
    #[cold]
    pub(super) fn tell_given_up(&mut self, peer: u32) {
        let p = &mut self.peers[peer as usize];
        if matches!(p.down, Some(PeerError::TimedOut { .. })) && p.queue.is_empty() {
            p.queue.push(Queued::control(Kind::Reset));
            self.mark_ready(peer);
        }
    }
}

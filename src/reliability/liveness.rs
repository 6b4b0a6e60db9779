//! What becomes of "nobody listens there" (ICMP port unreachable).
//!
//! Anybody can forge such a message, and it may be true of an address without being true of the peer, which may have moved.
//! So it ends no session by itself: it has the peer asked for a sign of life, at once, by an empty packet that wants an
//! acknowledgement. How much it counts depends on what it quotes (RFC 5927):
//!
//! - Our header with numbers that are under way and the peer's token, or our own in an opening: only the network between us
//!   and that address has seen those. The peer is *in doubt*: it is asked again and again, and little else is sent to it,
//!   until something comes from it. If a question asked [`REFUSED_FOR`] after the first refusal, or later, is refused in the
//!   same way instead, nobody is there any more ([`PeerError::Refused`]).
//! - Nothing of ours (many hosts quote no more than addresses and ports): the peer is asked, so often a second at most.
//! - Anything else is forged or old, and ignored.

use core::net::SocketAddr;

use super::{
    Endpoint,
    peer::{Phase, token_of},
    source::NONE,
    timers::Timer,
};
use crate::{
    error::PeerError,
    time::Instant,
    wire::{BASE_LEN, Packet, Quoted},
};

/// The refusal of a question asked so long after the first refusal ends the session, ns; twice the round-trip time if that is
/// longer, since what was under way at first is refused for one.
const REFUSED_FOR: u64 = 100_000_000;
/// From one question to the next, ns. Linux answers a host with six refusals at once and then with one a second: the first,
/// and those of the questions, must suffice.
const ASK_EVERY: u64 = REFUSED_FOR / 2;
/// A doubt that is not confirmed for so long is over, ns.
const DOUBTED_FOR: u64 = 2_000_000_000;
/// Questions a second for which there is no more reason than an address.
const HINTS_PER_SECOND: u32 = 100;
/// Time-outs after which a flow has one packet in flight at most.
const CAREFUL: u16 = 2;

/// A peer of which the network has said that nobody is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Doubt {
    /// When it was said first, …
    since: u64,
    /// … and last, ns.
    latest: u64,
    /// When the peer had been heard last before, ns of active time.
    heard: u64,
    /// If the next question is refused, too, the peer is lost.
    last_chance: bool,
}

/// Of whom a quoted packet is.
#[derive(Debug, PartialEq)]
enum Quote {
    /// It is ours, and under way to this peer.
    Ours,
    /// Too little of it is there to know.
    Short,
    /// Not of this session, or not under way.
    Other,
}

impl Endpoint {
    /// The network says that nobody listens at `address` (ICMP port unreachable) about a packet of ours that begins with
    /// `quoted`; as much of it as the message had. The peer is asked at once; only if that is refused too, and nothing
    /// is heard of the peer meanwhile, is it lost. A peer that we have never heard may just not have started yet
    /// ([`Config::late_peers`](crate::Config::late_peers)).
    pub fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        self.advance(now);
        let Some(peer) = self.addresses.get(&self.peers, address) else {
            self.stats.refusals_ignored += 1;
            return;
        };
        let quote = self.judge(peer, quoted);
        match (self.peers[peer as usize].phase, quote) {
            (Phase::Down, _) | (_, Quote::Other) => self.stats.refusals_ignored += 1,
            (Phase::New, _) if self.config.late_peers => {}
            // It may have gone as soon as it had our goodbye; all data was acknowledged before.
            (Phase::Goodbye, Quote::Ours) => self.end_session(peer, PeerError::Closed),
            (_, Quote::Ours) => self.doubt(peer),
            (_, Quote::Short) => self.take_hint(peer),
        }
    }

    fn judge(&self, peer: u32, quoted: &[u8]) -> Quote {
        if quoted.len() < BASE_LEN {
            return Quote::Short;
        }
        let p = &self.peers[peer as usize];
        let local_token = token_of(peer, p.local_secret);
        let ours = Packet::quoted(quoted).is_some_and(|Quoted { base, open }| {
            let opens = open.is_some_and(|open| (open.epoch, open.token) == (self.epoch, local_token));
            base.session == p.remote_token() && (p.is_bound() || opens) && {
                // Packets without a number have the next one, or none.
                let flow = self
                    .find_flow(peer, base.channel)
                    .map(|flow| &self.flows[flow as usize]);
                flow.is_some_and(|flow| {
                    let next = flow.send_next;
                    let active = self.actives.get(flow.active as usize);
                    let first = active.map_or(next, |active| active.send.una);
                    let ahead = base.sequence.distance(first);
                    let under_way = next.distance(first);
                    ahead < under_way || (!base.kind.is_sequenced() && ahead == under_way)
                })
            }
        });
        if ours { Quote::Ours } else { Quote::Other }
    }

    /// There is little reason to think that the peer has gone, but it costs little to ask.
    fn take_hint(&mut self, peer: u32) {
        if self.hints.take(self.now, HINTS_PER_SECOND) {
            self.ask(peer);
        } else {
            self.stats.refusals_ignored += 1;
        }
    }

    /// There is good reason to think that the peer has gone.
    fn doubt(&mut self, peer: u32) {
        let now = self.now;
        let Some(doubt) = self.doubted(peer) else {
            let doubt = Doubt {
                since: now,
                latest: now,
                heard: self.peers[peer as usize].last_heard,
                last_chance: false,
            };
            self.doubts.insert(peer, doubt);
            self.hold_back(peer);
            self.ask_on(peer);
            return;
        };
        doubt.latest = now;
        if doubt.last_chance {
            self.end_session(peer, PeerError::Refused);
        }
    }

    /// The doubt about a peer, unless something has come from it since, or it was not confirmed for long.
    fn doubted(&mut self, peer: u32) -> Option<&mut Doubt> {
        let doubt = self.doubts.get(&peer)?;
        let heard = self.peers[peer as usize].last_heard != doubt.heard;
        if heard || self.now - doubt.latest >= DOUBTED_FOR {
            self.doubts.remove(&peer);
            return None;
        }
        self.doubts.get_mut(&peer)
    }

    /// The time for another question has come, if the peer is in doubt.
    pub(super) fn ask_again(&mut self, index: u32) -> bool {
        let peer = self.flows[self.actives[index as usize].flow as usize].peer;
        let now = self.now;
        let round_trip = self
            .flows_of(peer)
            .map(|flow| self.flows[flow as usize].rtt.smoothed.into());
        let time = REFUSED_FOR.max(2 * round_trip.max().unwrap_or(0));
        let Some(doubt) = self.doubted(peer) else {
            return false;
        };
        doubt.last_chance = now - doubt.since >= time;
        self.ask_on(peer);
        true
    }

    /// Asks the peer, and will again.
    fn ask_on(&mut self, peer: u32) {
        let index = self.ask(peer);
        self.actives[index as usize]
            .deadlines
            .set(Timer::Persist, self.now + ASK_EVERY);
        self.reschedule(index);
    }

    /// Asks the peer for a sign of life.
    pub(super) fn ask(&mut self, peer: u32) -> u32 {
        let flow = self.flow_for(peer, 0);
        let index = self.activate(flow);
        self.actives[index as usize].send.ask_alone = true;
        self.mark_ready(index);
        index
    }

    /// Nothing but questions goes to the peer for a while: each packet that is refused may be one question less that is.
    fn hold_back(&mut self, peer: u32) {
        let mut flow = self.peers[peer as usize].first_flow;
        while flow != NONE {
            let state = &self.flows[flow as usize];
            let (index, next) = (state.active, state.next);
            if let Some(active) = self.actives.get_mut(index as usize)
                && active.send.una != state.send_next
            {
                active.send.timeouts = active.send.timeouts.max(CAREFUL);
                active.deadlines.set(Timer::Rto, self.now + 2 * REFUSED_FOR);
                self.reschedule(index);
            }
            flow = next;
        }
    }
}

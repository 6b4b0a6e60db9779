//! Reactions to ICMP port unreachable: no process listens at the peer's address.
//!
//! Anyone can forge such a message, and a true one may be about an address that the peer has left. So it ends no
//! session by itself. Instead the peer is probed for a sign of life, at once, with an empty packet that requests an
//! acknowledgement. The weight of the message depends on the part of our packet that it quotes (RFC 5927):
//!
//! - Our header with numbers that are in flight and the peer's token, or our own token in an opening: only the network
//!   between us and that address has seen those. The peer is a *suspect*: it is probed repeatedly, and sent little else,
//!   until a packet of it arrives. If a probe sent [`REFUSED_FOR`] after the first refusal, or later, is refused in the
//!   same way, the peer is gone ([`PeerError::Refused`]).
//!   A peer with several rails is asked on each: a firewall may refuse what comes by one of them.
//! - Nothing of ours (many hosts quote only addresses and ports): the peer is probed, but with a limited rate.
//! - Anything else is forged or old, and ignored.

use core::net::SocketAddr;

use super::{Endpoint, suspects::REFUSED_FOR};
use crate::{
    error::PeerError,
    reliability::{
        flow::{FlowKey, NONE},
        peer::{Phase, token_of},
        timers::Timer,
    },
    time::Instant,
    wire::{BASE_LEN, Packet, Quoted},
};

/// Interval between probes, ns. Linux answers a host with six refusals at once and then with one a second: those for
/// the first packet and for the probes must suffice.
const ASK_EVERY: u64 = REFUSED_FOR / 2;
/// Questions a second for which there is no more reason than an address.
const HINTS_PER_SECOND: u32 = 100;

/// The peer to which a quoted packet was sent.
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
    /// ICMP reports that no process listens at `address` (port unreachable). `quoted` is the part of our packet that
    /// the message contains. The peer is probed at once, and lost only if the probe is refused too and no packet of the
    /// peer arrives meanwhile. A peer from which no packet has ever arrived may just not have started yet
    /// ([`Config::late_peers`](crate::Config::late_peers)).
    pub fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        self.advance(now);
        let Some(peer) = self.peer_at(address) else {
            self.stats.refusals_ignored += 1;
            return;
        };
        let quote = self.judge(peer, quoted);
        match (self.peers[peer as usize].phase, quote) {
            (Phase::Down, _) | (_, Quote::Other) => self.stats.refusals_ignored += 1,
            (Phase::New, _) if self.config.late_peers => {}
            (Phase::New, Quote::Ours) if self.is_opened_elsewhere(peer) => _ = self.ask(peer),
            // It may have gone as soon as it had our goodbye; all data was acknowledged before.
            (Phase::Goodbye, Quote::Ours) if !self.are_several_up(peer) => self.end_session(peer, PeerError::Closed),
            (_, Quote::Ours) => self.suspect(peer),
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
                    .find_flow(peer, FlowKey::of(&base))
                    .map(|flow| &self.flows[flow as usize]);
                flow.is_some_and(|flow| {
                    let next = flow.send_next();
                    let active = self.actives.get(flow.active as usize);
                    let first = active.map_or(next, |active| active.send.first_unacknowledged());
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
    fn suspect(&mut self, peer: u32) {
        let heard = self.peers[peer as usize].last_heard;
        let Some(suspicion) = self.suspects.of(peer, self.now, heard) else {
            self.suspects.begin(peer, self.now, heard);
            self.hold_back(peer);
            self.ask_on(peer);
            return;
        };
        if suspicion.is_confirmed(self.now) {
            let closes = self.peers[peer as usize].phase == Phase::Goodbye;
            let error = if closes { PeerError::Closed } else { PeerError::Refused };
            self.end_session(peer, error);
        }
    }

    /// The time for another question has come, if the peer is a suspect.
    pub(super) fn ask_again(&mut self, index: u32) -> bool {
        let peer = self.flows[self.actives[index as usize].flow as usize].peer;
        let round_trip = self
            .flows_of(peer)
            .map(|flow| self.flows[flow as usize].rtt().smoothed.into());
        let round_trip = round_trip.max().unwrap_or(0);
        let heard = self.peers[peer as usize].last_heard;
        let Some(suspicion) = self.suspects.of(peer, self.now, heard) else {
            return false;
        };
        suspicion.ask(self.now, round_trip);
        self.ask_on(peer);
        true
    }

    /// Asks the peer, on all its rails, and will again.
    fn ask_on(&mut self, peer: u32) {
        self.ask_rails(peer);
        let index = self.ask(peer);
        self.actives[index as usize]
            .deadlines
            .set(Timer::Persist, self.now + ASK_EVERY);
        self.reschedule(index);
    }

    /// Asks the peer for a sign of life.
    pub(super) fn ask(&mut self, peer: u32) -> u32 {
        let flow = self.flow_for(peer, self.home_of(peer, 0));
        let index = self.activate(flow);
        self.actives[index as usize].send.ask();
        self.mark_ready(index);
        index
    }

    /// Sends nothing but probes to the peer for a while: hosts limit their refusals, and one for another packet may
    /// cost one for a probe.
    fn hold_back(&mut self, peer: u32) {
        let mut flow = self.peers[peer as usize].first_flow;
        while flow != NONE {
            let state = &self.flows[flow as usize];
            let (index, next) = (state.active, state.next);
            if let Some(active) = self.actives.get_mut(index as usize)
                && !active.send.is_quiet(state)
            {
                active.send.be_careful();
                active.deadlines.set(Timer::Rto, self.now + 2 * REFUSED_FOR);
                self.reschedule(index);
            }
            flow = next;
        }
    }
}

//! How sessions begin and end.
//!
//! A packet names its session by a token that its *receiver* issued. Until the sender knows it, the token is 0 and
//! the packet carries [`Open`]: who it is (epoch) and how to answer (its own token). A live session gives way to a new
//! incarnation only after that has answered a challenge sent to the peer's address; a dead incarnation stays dead if it has
//! ever answered in the session that ended. While there is no live session, an opening and its data are believed: see "The
//! first flight" in ARCHITECTURE.md.

use core::net::SocketAddr;

use super::{
    Event, PeerId,
    control::{Control, MAX_CONTROL},
    endpoint::Endpoint,
    flow::first_sequence,
    peer::{Phase, follows, index_of, successor},
    source::NONE,
};
use crate::{
    error::{DropReason, PeerError},
    wire::{Base, Features, Kind, Open, Packet},
};

impl Endpoint {
    /// Packets with this token have checksums, because we want that or the peer does.
    #[inline]
    pub(super) fn must_be_checked(&self, token: u32) -> bool {
        self.config.checksum
            || index_of(token)
                .and_then(|index| self.peers.get(index as usize))
                .is_some_and(|peer| peer.wants_checksums)
    }

    /// The peer of a packet that carries a token; counts a drop and gives `None` if there is none.
    #[inline]
    pub(super) fn peer_of(&mut self, token: u32, source: SocketAddr, packet: &Packet<&[u8]>) -> Option<u32> {
        if let Some(index) = index_of(token)
            && let Some(peer) = self.peers.get(index as usize)
        {
            if peer.local_token == token {
                return Some(index);
            }
            if peer.remote_token != 0
                && successor(peer.local_token) == token
                && let Some(open) = packet.open()
            {
                return self.admit(index, &open);
            }
        }
        self.count_drop(DropReason::UnknownSession);
        self.answer_reset(source, 0, token);
        None
    }

    /// A new incarnation has answered our challenge: the old one's session is over.
    #[cold]
    fn admit(&mut self, peer: u32, open: &Open) -> Option<u32> {
        let p = &self.peers[peer as usize];
        if open.token == 0 || open.epoch == 0 || open.epoch == p.remote_epoch {
            self.count_drop(DropReason::DeadIncarnation);
            return None;
        }
        let address = p.address;
        if !self.is_compatible(open, address) {
            return None;
        }
        self.end_session(peer, PeerError::Restarted);
        self.begin_session(peer, open);
        Some(peer)
    }

    /// Our opening was challenged: the answer, at once, is whatever comes next, or an acknowledgement alone.
    #[cold]
    pub(super) fn answer_challenge(&mut self, peer: u32) {
        let flow = self.flow_for(peer, 0);
        let index = self.activate(flow);
        self.actives[index as usize].receive.ack_now = true;
        self.mark_ready(index);
    }

    fn begin_session(&mut self, peer: u32, open: &Open) {
        self.down.remove(&peer);
        let p = &mut self.peers[peer as usize];
        if p.phase == Phase::Down {
            p.phase = Phase::New;
        }
        p.bind(open);
        if let Some(news) = &mut self.credit_news {
            news.push(peer);
        }
        self.stats.sessions_opened += 1;
        let mut flow = self.peers[peer as usize].first_flow;
        while let Some(state) = self.flows.get_mut(flow as usize) {
            state.expected = first_sequence(open.epoch, open.token, state.channel);
            if let Some(active) = self.actives.get_mut(state.active as usize) {
                active.receive.end = state.expected;
            }
            flow = state.next;
        }
        self.wake_flows(peer);
    }

    /// Credit or a token has come: flows that wait may go on.
    pub(super) fn wake_flows(&mut self, peer: u32) {
        let mut flow = self.peers[peer as usize].first_flow;
        while flow != NONE {
            let state = &self.flows[flow as usize];
            let (active, next) = (state.active, state.next);
            if active != NONE && !self.actives[active as usize].send.queue.is_empty() {
                self.mark_ready(active);
            }
            flow = next;
        }
    }

    /// The peer of a packet without a token, which must open a session.
    #[cold]
    pub(super) fn open_session(&mut self, source: SocketAddr, packet: &Packet<&[u8]>) -> Option<u32> {
        let Some(open) = packet.open().filter(|open| open.token != 0 && open.epoch != 0) else {
            self.count_drop(DropReason::UnknownSession);
            return None;
        };
        let address = if open.port == 0 {
            source
        } else {
            SocketAddr::new(source.ip(), open.port)
        };
        if !self.is_compatible(&open, address) {
            return None;
        }
        let peer = match self.addresses.get(&self.peers, address) {
            Some(peer) => peer,
            None if !self.config.accept_strangers => {
                self.count_drop(DropReason::Stranger);
                return None;
            }
            None => match self.new_peer(address, packet.base().source) {
                Some(peer) => peer,
                None => {
                    self.count_drop(DropReason::TooManyPeers);
                    return None;
                }
            },
        };
        let p = &mut self.peers[peer as usize];
        if p.phase == Phase::Down || p.remote_epoch == 0 {
            if p.has_buried(&open) {
                self.count_drop(DropReason::DeadIncarnation);
                self.answer_reset(address, open.token, 0);
                return None;
            }
            self.begin_session(peer, &open);
            return Some(peer);
        }
        if p.remote_epoch == open.epoch && p.remote_token == open.token {
            return Some(peer);
        }
        if p.remote_epoch == open.epoch {
            let earlier = if p.remote_token == 0 {
                p.unanswered
            } else {
                p.remote_token
            };
            if !p.confirmed && earlier != 0 && follows(open.token, earlier) {
                // It has given up the session that it never answered in.
                if p.remote_token != 0 {
                    self.end_session(peer, PeerError::Reset);
                }
                self.begin_session(peer, &open);
                return Some(peer);
            }
            self.count_drop(DropReason::DeadIncarnation);
            return None;
        }
        // Another incarnation, while a session lives: it must first answer from the peer's address, and say again who
        // it is. Until then nothing is kept that somebody else's opening could displace.
        self.count_drop(DropReason::Unvalidated);
        self.push_control(Control::Challenge {
            peer,
            to: address,
            session: open.token,
        });
        None
    }

    /// Whether we know all that the opener requires. If not, it is told.
    fn is_compatible(&mut self, open: &Open, address: SocketAddr) -> bool {
        let refused = open.features.refused();
        if !refused.is_empty() {
            self.count_drop(DropReason::Incompatible);
            self.push_reset(address, open.token, 0, refused);
        }
        refused.is_empty()
    }

    /// Takes in what a packet of a live session says about opening.
    #[cold]
    pub(super) fn confirm(&mut self, peer: u32, packet: &Packet<&[u8]>, with_token: bool) -> bool {
        let open = packet.open();
        let p = &mut self.peers[peer as usize];
        if p.remote_token == 0 {
            let Some(open) = open.filter(|open| open.token != 0 && open.epoch != 0) else {
                let address = p.address;
                self.count_drop(DropReason::UnknownSession);
                self.answer_reset(address, 0, packet.session());
                return false;
            };
            let address = p.address;
            if !self.is_compatible(&open, address) {
                return false;
            }
            let p = &self.peers[peer as usize];
            if p.has_buried(&open) {
                // We had buried this incarnation.
                self.count_drop(DropReason::DeadIncarnation);
                self.answer_reset(address, open.token, 0);
                return false;
            }
            self.begin_session(peer, &open);
        } else if let Some(open) = open
            && open.epoch != p.remote_epoch
        {
            // We have been taken at our word by two incarnations, and this is not the one that was here first. If it is the
            // one that lives, it begins anew.
            let address = p.address;
            self.count_drop(DropReason::DeadIncarnation);
            self.answer_reset(address, open.token, 0);
            return false;
        }
        let p = &mut self.peers[peer as usize];
        // Who challenges has kept nothing of us: it must hear our opening once more.
        if with_token && !p.confirmed && packet.kind() != Kind::Challenge {
            p.confirmed = true;
            self.events.push_back(Event::Up {
                peer: PeerId(peer),
                session: p.session,
            });
            if let Some(flow) = self.find_flow(peer, 0) {
                let active = self.activate(flow);
                self.search_mtu(active);
            }
        }
        true
    }

    /// The peer says that it does not know our session, or refuses it.
    #[cold]
    pub(super) fn handle_reset(&mut self, source: SocketAddr, base: &Base) {
        let (session, quoted) = (base.session, base.message.0);
        let by_token = index_of(session).filter(|&index| {
            self.peers
                .get(index as usize)
                .is_some_and(|p| p.local_token == session && p.address == source)
        });
        let by_quote = self.addresses.get(&self.peers, source).filter(|&index| {
            let p = &self.peers[index as usize];
            quoted != 0 && p.remote_token == quoted
        });
        let Some(peer) = by_token.or(by_quote) else {
            self.count_drop(DropReason::Unsolicited);
            return;
        };
        let error = match base.sequence.0 {
            0 if self.peers[peer as usize].phase == Phase::Goodbye => PeerError::Closed,
            0 => PeerError::Reset,
            features => PeerError::Incompatible { features },
        };
        self.end_session(peer, error);
    }

    /// The network says that nobody listens at `address` (ICMP port unreachable). One that we have never heard may just
    /// not have started yet ([`Config::late_peers`](crate::Config::late_peers)).
    pub fn handle_unreachable(&mut self, now: crate::time::Instant, address: SocketAddr) {
        self.advance(now);
        if let Some(peer) = self.addresses.get(&self.peers, address) {
            match self.peers[peer as usize].phase {
                Phase::Open | Phase::Closing => self.end_session(peer, PeerError::Refused),
                Phase::Goodbye => self.end_session(peer, PeerError::Closed),
                Phase::New if !self.config.late_peers => self.end_session(peer, PeerError::Refused),
                Phase::New | Phase::Down => {}
            }
        }
    }

    /// The peer has said goodbye, and everything before it has arrived.
    pub(super) fn peer_said_goodbye(&mut self, peer: u32, channel: u8) {
        let p = &self.peers[peer as usize];
        if let Some(flow) = self.find_flow(peer, channel) {
            let state = &self.flows[flow as usize];
            let last = Control::LastAck {
                to: p.address,
                session: p.remote_token,
                channel,
                sequence: state.send_next,
                acknowledgement: state.expected,
                checksum: p.checksums(&self.config),
            };
            self.push_control(last);
        }
        self.end_session(peer, PeerError::Closed);
    }

    /// Everything under way with the peer is given up.
    pub(super) fn end_session(&mut self, peer: u32, error: PeerError) {
        if self.peers[peer as usize].phase == Phase::Down {
            return;
        }
        // Once the goodbye is under way, everything else has been acknowledged.
        let lost = self.peers[peer as usize].phase != Phase::Goodbye && !self.is_idle(PeerId(peer));
        // First of all, so that flows that become idle by being given up do not start a goodbye.
        self.peers[peer as usize].phase = Phase::Down;
        let mut flow = core::mem::replace(&mut self.peers[peer as usize].first_flow, NONE);
        while flow != NONE {
            let next = self.flows[flow as usize].next;
            self.abandon(flow);
            flow = next;
        }
        let mtu = self.initial_mtu(self.peers[peer as usize].address.is_ipv6());
        let p = &mut self.peers[peer as usize];
        let session = p.session;
        let blocked = p.blocked;
        // (A challenge to a new incarnation has named the token that becomes ours now: it can still be answered.)
        p.reset(Phase::Down, mtu);
        if error != PeerError::Closed {
            self.stats.peers_lost += 1;
        }
        self.down.insert(peer, error);
        self.events.push_back(Event::Down {
            peer: PeerId(peer),
            session,
            error,
            lost,
        });
        if blocked {
            self.events.push_back(Event::Writable { peer: PeerId(peer) });
        }
    }

    /// Releases everything that a flow has queued or in flight, and the flow.
    fn abandon(&mut self, flow: u32) {
        let index = self.flows[flow as usize].active;
        if index != NONE {
            if self.actives[index as usize].send.shared_messages > 0 {
                self.sources.forget_tokens(flow);
            }
            let next = self.flows[flow as usize].send_next;
            let mut seq = self.actives[index as usize].send.una;
            while seq.before(next) {
                let send = &self.actives[index as usize].send;
                let source = send.record(seq).source;
                if source != NONE && !send.sacked.get(seq) {
                    self.sources.release(source);
                }
                seq = seq.plus(1);
            }
            while let Some(queued) = self.actives[index as usize].send.queue.pop_front() {
                if queued.source != NONE {
                    self.sources.release(queued.source);
                }
            }
            let send = &mut self.actives[index as usize].send;
            send.una = next;
            send.shared_messages = 0;
            self.update_busy(flow);
            self.deactivate(flow);
        }
        self.free_flow(flow);
    }

    /// Tells a stranger that its session is not known, at a limited rate.
    pub(super) fn answer_reset(&mut self, to: SocketAddr, session: u32, quoted: u32) {
        self.push_reset(to, session, quoted, Features::empty());
    }

    fn push_reset(&mut self, to: SocketAddr, session: u32, quoted: u32, refused: Features) {
        const SECOND: u64 = 1_000_000_000;
        let (since, count) = &mut self.resets_in_second;
        if self.now.saturating_sub(*since) >= SECOND {
            (*since, *count) = (self.now, 0);
        }
        if *count < self.config.resets_per_second {
            *count += 1;
            self.push_control(Control::Reset {
                to,
                session,
                quoted,
                refused,
            });
        } else {
            self.stats.answers_dropped += 1;
        }
    }

    pub(super) fn push_control(&mut self, control: Control) {
        if self.control.len() < MAX_CONTROL {
            self.control.push_back(control);
        } else {
            self.stats.answers_dropped += 1;
        }
    }
}

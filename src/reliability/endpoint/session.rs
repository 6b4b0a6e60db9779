//! How sessions begin and end.
//!
//! A packet names its session by a token that its *receiver* issued. Until the sender knows it, it says that of a first
//! contact, which the processes of a job know and others do not, and carries [`Open`]: who it is (epoch) and how to answer
//! (its own token). The first opening that ever comes from the address of a peer is believed, with its data: see "The
//! first flight" in `docs/design/sessions-and-trust.md`. Every other opening, and each from an address that is no peer's,
//! is answered by a challenge, of which nothing is kept. Only an opener that repeats its opening with the token of the
//! challenge, which comes from a keyed hash, is let in. An opening of a session that is over is refused.

use core::net::SocketAddr;

use super::{
    Endpoint,
    control::{Control, Refusal},
};
use crate::{
    error::{DropReason, PeerError},
    events::event,
    reliability::{
        Event, Path, PeerId,
        flow::{FlowKey, NONE, first_sequence},
        packet_builder::Format,
        peer::{Phase, Place, index_of, is_of_session},
    },
    wire::{Base, Features, Open, Packet, Token},
};

impl Endpoint {
    /// Packets with this token have checksums, because we want that or the peer does.
    #[inline]
    pub(super) fn must_be_checked(&self, token: Token) -> bool {
        self.config.checksum
            || index_of(token)
                .and_then(|index| self.peers.get(index as usize))
                .is_some_and(|peer| peer.format.contains(Format::CHECKSUM))
    }

    /// The peer of a packet that carries a token of a session.
    #[inline]
    pub(super) fn peer_of(&mut self, token: Token, source: SocketAddr) -> Result<Option<u32>, DropReason> {
        if let Some(index) = index_of(token)
            && let Some(peer) = self.peers.get(index as usize)
            && peer.local_secret == token.secret
        {
            return Ok(Some(index));
        }
        self.answer_unknown(source, token);
        Err(DropReason::UnknownSession)
    }

    /// The peer of a packet without a token of a session, which must open one.
    #[cold]
    pub(super) fn open_session(
        &mut self,
        source: SocketAddr,
        packet: &Packet<&[u8]>,
    ) -> Result<Option<u32>, DropReason> {
        let token = packet.session();
        if token.is_first() && token != self.contact {
            return Err(DropReason::Stranger);
        }
        let open = opening_of(packet).ok_or(DropReason::UnknownSession)?;
        let address = address_of(source, &open);
        let known = self.peer_at(address);
        if known.is_none() && !self.config.accept_strangers {
            return Err(DropReason::Stranger);
        }
        self.check_features(&open, address)?;
        if let Some(peer) = known {
            let p = &self.peers[peer as usize];
            if p.is_current(&open) {
                return Ok(known);
            }
            if p.has_buried(&open) {
                let refusal = match p.place {
                    Place::Left => Refusal::NoRoom,
                    _ => Refusal::Features(Features::empty()),
                };
                self.refuse_opening(address, open.token, refusal);
                return Err(DropReason::DeadIncarnation);
            }
            if token.is_first() && p.begun() == 0 && p.phase != Phase::Down {
                // Nobody has been displaced, if that was not the peer: it will be challenged, and take its place.
                self.open_back(peer, address);
                self.begin_session(peer, &open);
                return Ok(known);
            }
        }
        let begun = known.map_or(0, |peer| self.peers[peer as usize].begun());
        if token.is_first() {
            self.challenge(address, begun, &open);
            return Err(DropReason::Unvalidated);
        }
        if !self.key.is_cookie(token, self.now, address, begun, &open) {
            self.answer_unknown(source, token);
            return Err(DropReason::Unvalidated);
        }
        match known.filter(|&peer| self.peers[peer as usize].place != Place::Left) {
            Some(peer) => {
                self.admit(peer, &open);
                self.open_back(peer, address);
            }
            None => {
                let Some(peer) = self.new_peer(address, packet.base().source) else {
                    if self.vacancies.is_full() {
                        self.refuse_opening(address, open.token, Refusal::NoRoom);
                    }
                    return Err(DropReason::TooManyPeers);
                };
                self.peers[peer as usize].place = Place::Stranger;
                self.answer_by_port(peer);
                self.vacancies.came(peer);
                self.begin_session(peer, &open);
                return Ok(Some(peer));
            }
        }
        Ok(known)
    }

    /// The opener has answered our challenge: it lives at its address. A session with it that runs is over.
    fn admit(&mut self, peer: u32, open: &Open) {
        let p = &self.peers[peer as usize];
        if p.is_bound() {
            let restarted = p.remote_epoch != open.epoch;
            let error = if restarted {
                PeerError::Restarted
            } else {
                PeerError::Reset
            };
            self.end_session(peer, error);
        }
        self.begin_session(peer, open);
        self.call(peer);
    }

    /// Our opening has been challenged: it is said again, and everything that came with it, which nobody has kept.
    #[cold]
    pub(super) fn handle_challenge(&mut self, source: SocketAddr, packet: &Packet<&[u8]>) -> Result<(), DropReason> {
        let open = packet.open().filter(|open| open.token.index == Token::COOKIE);
        let open = open.ok_or(DropReason::Unsolicited)?;
        let peer = self.peer_of(packet.session(), source)?.ok_or(DropReason::Unsolicited)?;
        let active_now = self.active_now();
        let p = &mut self.peers[peer as usize];
        let wanted = p.phase != Phase::Down || self.attempts.contains(peer);
        if p.is_bound() || !wanted || p.remote_token() == open.token {
            return Ok(());
        }
        p.set_remote_token(open.token);
        p.last_heard = active_now;
        self.open_back(peer, source);
        let mut flow = self.peers[peer as usize].first_flow;
        while let Some(state) = self.flows.get(flow as usize) {
            let index = state.active;
            if let Some(active) = self.actives.get_mut(index as usize) {
                active.send.mark_all_lost(state.send_next());
                self.mark_ready(index);
            }
            flow = self.flows[flow as usize].next;
        }
        let flow = self.flow_for(peer, FlowKey::FIRST);
        let index = self.activate(flow);
        self.acknowledge_now(index);
        Ok(())
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
            state.expect_from(first_sequence(open.epoch, open.token.secret, state.key()));
            if let Some(active) = self.actives.get_mut(state.active as usize) {
                active.receive.begin(state);
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
            if active != NONE && self.actives[active as usize].send.has_queued() {
                self.mark_ready(active);
            }
            flow = next;
        }
    }

    /// Takes in what a packet of a live session says about opening.
    #[cold]
    pub(super) fn confirm(&mut self, peer: u32, packet: &Packet<&[u8]>, with_token: bool) -> Result<(), DropReason> {
        let p = &self.peers[peer as usize];
        let (address, is_bound) = (p.address, p.is_bound());
        match opening_of(packet) {
            None if is_bound => {}
            None => {
                self.answer_unknown(address, packet.session());
                return Err(DropReason::UnknownSession);
            }
            // We have been taken at our word by two, and this is not the one that was here first; or it has been here.
            // If it is the one that lives, it begins anew.
            Some(open) if is_bound && !p.is_current(&open) || !is_bound && p.has_buried(&open) => {
                self.refuse_opening(address, open.token, Refusal::Features(Features::empty()));
                return Err(DropReason::DeadIncarnation);
            }
            Some(_) if is_bound => {}
            Some(open) => {
                self.check_features(&open, address)?;
                self.begin_session(peer, &open);
            }
        }
        let p = &mut self.peers[peer as usize];
        if with_token && !p.is_confirmed() {
            p.format.remove(Format::OPENING);
            self.attempts.end(peer);
            #[cfg(feature = "tracing")]
            if p.session == 1 {
                event!(INFO, processor = self.processor, peer, %address, "session opened");
            } else {
                event!(INFO, processor = self.processor, peer, %address, session = p.session, "session restarted");
            }
            self.events.push_back(Event::Up {
                peer: PeerId(peer),
                session: p.session,
            });
            self.prove_rails(peer);
            if let Some(flow) = self.find_flow(peer, FlowKey::FIRST) {
                let active = self.activate(flow);
                self.search_mtu(active);
            }
        }
        Ok(())
    }

    /// The peer says that it does not know our session, or refuses our opening.
    #[cold]
    pub(super) fn handle_reset(&mut self, source: SocketAddr, base: &Base) -> Result<(), DropReason> {
        let token = base.session;
        let of_opening = matches!(base.message.0, 1 | 2);
        let peer = if of_opening {
            index_of(token).filter(|&index| {
                let peer = self.peers.get(index as usize);
                peer.is_some_and(|p| p.local_secret == token.secret) && self.peer_at(source) == Some(index)
            })
        } else {
            let known = self.peer_at(source);
            known.filter(|&index| !token.is_first() && self.peers[index as usize].remote_token() == token)
        };
        let peer = peer.ok_or(DropReason::Unsolicited)?;
        let p = &mut self.peers[peer as usize];
        if !p.is_bound() && !of_opening {
            // What the cookie was for is over; the next packet asks for another.
            p.set_remote_token(self.contact);
            return Ok(());
        }
        let error = match base.sequence.0 {
            _ if base.message.0 == 2 => PeerError::NoRoom,
            0 if p.phase == Phase::Goodbye => PeerError::Closed,
            0 => PeerError::Reset,
            features => PeerError::Incompatible { features },
        };
        self.end_session(peer, error);
        Ok(())
    }

    /// The peer has said goodbye, and everything before it has arrived.
    pub(super) fn peer_said_goodbye(&mut self, peer: u32, source: SocketAddr, base: &Base) {
        let p = &self.peers[peer as usize];
        let key = FlowKey::of(base);
        let to = if p.has_rails() {
            self.back_to(peer, source)
        } else {
            Path::from(p.address)
        };
        if let Some(flow) = self.find_flow(peer, key) {
            let state = &self.flows[flow as usize];
            let last = Control::LastAck {
                to,
                session: p.remote_token(),
                key,
                sequence: state.send_next(),
                acknowledgement: state.expected(),
                checksum: p.checksums(),
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
        if lost {
            self.name_lost(peer);
        }
        // First of all, so that flows that become idle by being given up do not start a goodbye.
        self.peers[peer as usize].phase = Phase::Down;
        let mut flow = core::mem::replace(&mut self.peers[peer as usize].first_flow, NONE);
        while flow != NONE {
            let next = self.flows[flow as usize].next;
            self.abandon(flow);
            flow = next;
        }
        let mtu = self.initial_mtu(self.peers[peer as usize].address.is_ipv6());
        let tokens = self.tokens(peer, self.peers[peer as usize].session.wrapping_add(1));
        let p = &mut self.peers[peer as usize];
        let session = p.session;
        let blocked = p.blocked;
        p.reset(Phase::Down, mtu, tokens, self.format);
        self.forget_rails(peer);
        #[cfg(feature = "tracing")]
        let p = &self.peers[peer as usize];
        if error == PeerError::Closed {
            event!(INFO, processor = self.processor, peer, address = %p.address, session, "session closed");
        } else {
            event!(WARN, processor = self.processor, peer, address = %p.address, session, %error, "session lost");
            self.stats.peers_lost += 1;
        }
        self.vacancies.changed();
        self.suspects.remove(peer);
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
        self.call_after(peer, error);
    }

    /// Releases everything that a flow has queued or in flight, and the flow.
    fn abandon(&mut self, flow: u32) {
        let index = self.flows[flow as usize].active;
        let has_rails = self.peers[self.flows[flow as usize].peer as usize].has_rails();
        if index != NONE {
            let send = &mut self.actives[index as usize].send;
            if send.has_shared() || has_rails {
                self.sources.forget_tokens(flow);
            }
            send.abandon(&self.flows[flow as usize], &mut self.sources);
            self.update_busy(flow);
            self.deactivate(flow);
        }
        self.free_flow(flow);
    }

    /// Whether we know all that the opener requires. If not, it is told.
    fn check_features(&mut self, open: &Open, address: SocketAddr) -> Result<(), DropReason> {
        let mut refused = open.features.refused();
        if self.sealing.is_some() {
            refused.remove(Features::SEALED);
        }
        if refused.is_empty() {
            return Ok(());
        }
        self.refuse_opening(address, open.token, Refusal::Features(refused));
        Err(DropReason::Incompatible)
    }

    /// Asks an opener to say its opening again, with a token that only a receiver at its address can know. Nothing is
    /// kept.
    fn challenge(&mut self, to: SocketAddr, begun: u64, open: &Open) {
        let budget = &mut self.challenges[usize::from(self.peer_at(to).is_none())];
        if budget.take(self.now, self.config.challenges_per_second) {
            self.push_control(Control::Challenge {
                to: Path::new(to, self.port),
                session: open.token,
                cookie: self.key.cookie(self.now, to, begun, open),
            });
        } else {
            self.stats.answers_dropped += 1;
        }
    }

    /// Tells the sender of a packet that its session is not known.
    pub(super) fn answer_unknown(&mut self, to: SocketAddr, session: Token) {
        self.push_reset(to, session, None);
    }

    /// Tells an opener that there will be no such session, and why.
    fn refuse_opening(&mut self, to: SocketAddr, session: Token, refused: Refusal) {
        self.push_reset(to, session, Some(refused));
    }

    /// Tells an opener which features are in the way of a session.
    pub(super) fn refuse_features(&mut self, to: SocketAddr, session: Token, features: Features) {
        self.refuse_opening(to, session, Refusal::Features(features));
    }

    fn push_reset(&mut self, to: SocketAddr, session: Token, refused: Option<Refusal>) {
        let budget = &mut self.resets[usize::from(self.peer_at(to).is_none())];
        if budget.take(self.now, self.config.resets_per_second) {
            let to = Path::new(to, self.port);
            self.push_control(Control::Reset { to, session, refused });
        } else {
            self.stats.answers_dropped += 1;
        }
    }
}

/// Where the opener receives.
pub(super) fn address_of(source: SocketAddr, open: &Open) -> SocketAddr {
    match open.port {
        0 => source,
        port => SocketAddr::new(source.ip(), port),
    }
}

/// The opening of a session that a packet carries, if it is valid.
pub(super) fn opening_of(packet: &Packet<&[u8]>) -> Option<Open> {
    packet
        .open()
        .filter(|open| is_of_session(open.token) && open.epoch != 0)
}

//! Rails: several paths to one peer, each with flows of its own.
//!
//! A rail is a path on which this side sends; each side numbers its own. It counts as *up* once the peer has answered a
//! probe that came by it: the probe carries the session's token and a number that cannot be guessed, and the answer
//! goes back to where the probe came from. A stranger has no token, so its probes are dropped and no answer of it counts.
//!
//! Messages wait in the flow of the *primary* rail (`primary.rs`), one whose round trip is about the shortest. The flows
//! of the other rails draw the next pieces of large messages from there, as far as their windows have room: so each
//! rail carries as much as its own acknowledgements let through.
//!
//! A rail on which nothing is acknowledged any more is *down* as soon as a probe of another rail has been answered and
//! its own has not. Its flows are settled by way of another rail (`settle.rs`), and what had not arrived is queued there.
//! It is probed until it answers again. If no rail answers, none of this happens, and the peer dies as one with a single
//! path does. Some rails only stand in for others (`backup.rs`). `docs/design/rails.md` says why, and what lost.

use alloc::vec::Vec;
use core::{net::SocketAddr, time::Duration};

use super::{
    Endpoint,
    backup::PATIENCE,
    control::Control,
    rail::{Answer, Rail, RailState, RailStats},
};
use crate::{
    error::AddRailError,
    events::event,
    reliability::{
        Event, MAX_RAILS, Path, PeerId,
        flow::{Flow, FlowKey},
        peer::{Phase, is_same},
        timers::Timer,
    },
    time::Instant,
    wire::Base,
};

/// Longest time between two probes of a rail that is down, ns.
const PROBE_EVERY: u64 = 500_000_000;
/// The same of a rail that has never been up: it may be so for as long as the session lasts.
const PROBE_UNPROVEN_EVERY: u64 = 8_000_000_000;
/// The same while large messages wait, of which it would carry a part, ns.
const PROBE_FOR_BULK_EVERY: u64 = 1_000_000_000;
/// So many probes without an answer are an event.
#[cfg(feature = "tracing")]
const UNANSWERED: u32 = 8;
/// So many time-outs in a row make a rail suspicious: its peer is asked on all rails.
const SUSPICIOUS: u16 = 2;
/// The time after which a silent rail is dead doubles with each time that it was in this session, so often at most.
const MOST_DOUBLINGS: u64 = 4;

impl Endpoint {
    // ---- getters

    /// The state of a rail; 0 is the path to the peer's own address. `None`: there is no such rail.
    #[must_use]
    pub fn rail_stats(&self, peer: PeerId, rail: u8) -> Option<RailStats> {
        let p = self.peers.get(peer.index())?;
        let known = self.rails.get(peer.0, rail);
        if rail != 0 && known?.path.is_none() {
            return None;
        }
        Some(RailStats {
            path: self.own_path(peer.0, rail),
            state: known.map_or(RailState::Up, |rail| rail.state),
            round_trip: Duration::from_nanos(known.map_or(0, |rail| rail.round_trip)),
            max_datagram: if rail == 0 { p.mtu } else { self.rails.mtu(peer.0, rail) },
            bytes_sent: known.map_or(0, |rail| rail.bytes_sent),
            failures: known.map_or(0, |rail| rail.failures),
        })
    }

    /// Number of rails by which data goes to a peer now, at least 1.
    #[must_use]
    pub fn rails_up(&self, peer: PeerId) -> usize {
        match self.peers.get(peer.index()) {
            Some(p) if p.has_rails() => self.rails.up(peer.0).count().max(1),
            _ => 1,
        }
    }

    /// The rail by which small messages go to a peer.
    #[must_use]
    #[inline]
    pub fn primary_rail(&self, peer: PeerId) -> u8 {
        self.peers.get(peer.index()).map_or(0, |p| p.primary_rail())
    }

    /// The flow into which messages for a channel are queued.
    #[inline(always)]
    pub(super) fn home_of(&self, peer: u32, channel: u8) -> FlowKey {
        let rail = self.primary_rail(PeerId(peer));
        FlowKey::new(rail, channel)
    }

    /// What waits on another rail may go by the flow.
    #[inline]
    pub(super) fn may_draw(&self, flow: u32) -> bool {
        self.peers[self.flows[flow as usize].peer as usize].has_rails()
    }

    /// The path on which a rail sends.
    pub(super) fn own_path(&self, peer: u32, rail: u8) -> Path {
        let own = self.rails.get(peer, rail).and_then(|rail| rail.path);
        own.unwrap_or_else(|| self.first_path(peer))
    }

    /// The path of the first rail.
    pub(super) fn first_path(&self, peer: u32) -> Path {
        Path::new(self.peers[peer as usize].address, self.rails.port(peer))
    }

    /// The first rail to a peer leaves by the port at which it is heard now.
    pub(super) fn answer_by_port(&mut self, peer: u32) {
        if self.port != 0 || self.peers[peer as usize].has_rails() {
            self.leave_by(PeerId(peer), self.port);
        }
    }

    /// The path by which a flow sends now.
    #[inline(always)]
    pub(super) fn path_of(&self, flow: u32) -> Path {
        let flow = &self.flows[flow as usize];
        let p = &self.peers[flow.peer as usize];
        if p.has_rails() {
            return self.path_of_rail(flow.peer, flow.rail());
        }
        Path::from(p.address)
    }

    #[inline(never)]
    fn path_of_rail(&self, peer: u32, number: u8) -> Path {
        let p = &self.peers[peer as usize];
        if number == 0 && !(p.is_confirmed() && p.uses_rails()) {
            return self.own_path(peer, self.rails.opens_by(peer));
        }
        let rail = self.rails.get(peer, number);
        match rail {
            Some(rail) if rail.state == RailState::Up => self.own_path(peer, number),
            // What is said about it goes by another one.
            Some(Rail {
                path: None,
                reply: Some(reply),
                ..
            }) if number != 0 => *reply,
            _ => self.own_path(peer, self.peers[peer as usize].primary_rail()),
        }
    }

    /// The size of datagram that passes on the path of a flow.
    #[inline]
    pub(super) fn mtu_of(&self, flow: &Flow) -> u16 {
        match flow.rail() {
            0 => self.peers[flow.peer as usize].mtu,
            rail => self.rails.mtu(flow.peer, rail),
        }
    }

    /// Bytes that a packet of a flow may have beside what is in each.
    #[inline(never)]
    pub(super) fn room_of(&self, index: u32) -> usize {
        let flow = &self.flows[self.actives[index as usize].flow as usize];
        usize::from(self.mtu_of(flow)) - self.peers[flow.peer as usize].format.overhead()
    }

    pub(super) fn is_mtu_found(&self, flow: &Flow) -> bool {
        let p = &self.peers[flow.peer as usize];
        // (None is searched for on a rail that is not up: its probes are those that prove it.)
        match (
            flow.rail(),
            p.has_rails().then(|| self.rails.get(flow.peer, flow.rail())).flatten(),
        ) {
            (_, Some(rail)) if rail.state != RailState::Up => true,
            (0, _) => p.is_mtu_found(),
            (_, rail) => rail.is_none_or(|rail| rail.mtu_found),
        }
    }

    pub(super) fn set_mtu(&mut self, (peer, rail): (u32, u8), mtu: u16, found: bool) {
        if rail == 0 {
            let p = &mut self.peers[peer as usize];
            p.mtu = mtu;
            p.set_mtu_found(found);
        } else if let Some(rail) = self.rails.get_mut(peer, rail) {
            (rail.mtu, rail.mtu_found) = (mtu, found);
        }
    }

    /// The peer can be reached by another rail than this one.
    pub(super) fn has_other_rail(&self, peer: u32, rail: u8) -> bool {
        self.peers[peer as usize].has_rails() && self.rails.up(peer).any(|other| other != rail)
    }

    /// The peer can be reached by several rails.
    pub(super) fn are_several_up(&self, peer: u32) -> bool {
        self.peers[peer as usize].has_rails() && self.rails.up(peer).nth(1).is_some()
    }

    pub(super) fn is_up_rail(&self, peer: u32, rail: u8) -> bool {
        self.rails
            .get(peer, rail)
            .is_some_and(|rail| rail.state == RailState::Up)
    }

    /// New data goes by a rail: it is up, and does not rest.
    pub(super) fn carries(&self, peer: u32, rail: u8) -> bool {
        self.rails.get(peer, rail).is_some_and(Rail::carries)
    }

    // ---- commands

    /// Adds a rail to a peer: a path that may be used beside the one to the peer's address, which is rail 0. Returns its
    /// number. Nothing but probes goes there until the peer has answered one ([`Event::RailUp`]), which takes a session
    /// that has begun, and a peer of a release that knows rails. Each side adds its own rails, and numbers them.
    ///
    /// A rail whose port and address both belong to rails that were added before shares their wires. It is a backup: it is
    /// asked and used only while its port or its address has no other rail that is up.
    ///
    /// # Errors
    /// There is no such peer, the peer has this path already, or has [`MAX_RAILS`].
    pub fn add_rail(&mut self, now: Instant, peer: PeerId, path: impl Into<Path>) -> Result<u8, AddRailError> {
        let path = path.into();
        self.advance(now);
        if self.peers.get(peer.index()).is_none() {
            return Err(AddRailError::UnknownPeer(peer));
        }
        let first = self.first_path(peer.0);
        let paths = (0..)
            .zip(self.rails.all(peer.0))
            .map(|(number, rail)| (number, rail.path));
        let known = core::iter::once((0, Some(first))).chain(paths.skip(1));
        let (mut number, mut vacant) = (1, None);
        for (other, its) in known {
            if its == Some(path) {
                return Err(AddRailError::Exists(other));
            }
            // (Of that number, only the peer has one.)
            if its.is_none() && vacant.is_none() {
                vacant = Some(other);
            }
            number = number.max(other + 1);
        }
        let number = vacant.unwrap_or(number);
        if usize::from(number) >= MAX_RAILS {
            return Err(AddRailError::TooMany);
        }
        let p = &mut self.peers[peer.index()];
        p.begin_rails();
        let (proves, mtu) = (
            p.uses_rails() && p.is_confirmed(),
            self.initial_mtu(path.address.is_ipv6()),
        );
        let is_backup = self.would_be_backup(peer.0, path);
        let rail = self.rails.make(peer.0, number);
        (rail.path, rail.mtu, rail.is_backup) = (Some(path), mtu, is_backup);
        self.rails.leads_to(peer.0, path.address);
        self.relieve_backups(peer.0);
        if proves && !is_backup {
            self.prove(peer.0, number);
        }
        Ok(number)
    }

    /// The first rail to a peer leaves by this port of the backend, instead of the first: before a session is opened, and
    /// before rails are added.
    pub(crate) fn leave_by(&mut self, peer: PeerId, port: u8) {
        let Some(p) = self.peers.get_mut(peer.index()) else {
            return;
        };
        p.begin_rails();
        self.rails.make(peer.0, 0);
        self.rails.enter(peer.0).port = port;
    }

    // ---- opening

    /// The peer at an address, its own or that of a rail.
    pub(super) fn peer_at(&self, address: SocketAddr) -> Option<u32> {
        let own = self.addresses.get(&self.peers, address);
        own.or_else(|| self.rails.peer_at(address))
    }

    /// An opening has come from there: ours goes back there.
    pub(super) fn open_back(&mut self, peer: u32, source: SocketAddr) {
        if !self.peers[peer as usize].has_rails() {
            return;
        }
        let path = Path::new(source, self.port);
        if let Some(rail) = self.rails.find(peer, path, self.first_path(peer)) {
            self.rails.open_by(peer, rail, self.now);
        }
    }

    /// The peer has not answered our opening: the next one goes by another rail.
    pub(super) fn open_elsewhere(&mut self, peer: u32) {
        if self.peers[peer as usize].has_rails() {
            self.rails.open_by_next(peer, self.now, self.times.initial_rto);
        }
    }

    /// The host at which a session is to be opened has said that no process listens there. `true`: it is opened elsewhere.
    pub(super) fn is_opened_elsewhere(&mut self, peer: u32) -> bool {
        if !self.peers[peer as usize].has_rails() {
            return false;
        }
        self.rails.open_by_next(peer, self.now, 0);
        self.rails.opens_by(peer) != 0
    }

    // ---- probes

    /// A session has begun: its rails are to be proven.
    pub(super) fn prove_rails(&mut self, peer: u32) {
        let p = &self.peers[peer as usize];
        if !p.has_rails() || !p.uses_rails() {
            return;
        }
        if !self.rails.are_several(peer) {
            return;
        }
        let opened_by = self.rails.opens_by(peer);
        if opened_by != 0 {
            // The first one gives no answer, so it is as good as the others that have given none.
            self.rails.make(peer, 0).state = RailState::Unproven;
            self.rails.make(peer, opened_by).state = RailState::Up;
            self.peers[peer as usize].set_primary_rail(opened_by);
            self.raise(peer, opened_by);
        }
        for number in 0..self.rails.all(peer).len() as u8 {
            let is_backup = { self.rails.get(peer, number) }.is_some_and(|rail| rail.is_backup);
            if number == opened_by || !is_backup {
                self.prove(peer, number);
            }
        }
    }

    /// Asks the peer whether it hears us on a rail, and does so again until it answers if the rail is not up.
    pub(super) fn prove(&mut self, peer: u32, number: u8) {
        self.rails.probes += 1;
        let (count, now) = (self.rails.probes, self.now);
        let Some(rail) = self.rails.get_mut(peer, number) else {
            return;
        };
        if number != 0 && rail.path.is_none() {
            return;
        }
        let is_up = rail.state == RailState::Up;
        // (Sessions are counted by 32 bits, so this is no session's secret.)
        let probe = rail.ask(now, self.key.secret(peer, count | 1 << 63) as u32);
        let most = match rail.state {
            RailState::Unproven => PROBE_UNPROVEN_EVERY,
            _ => PROBE_EVERY,
        };
        let wait = (self.times.initial_rto << rail.tries.min(16)).min(most);
        rail.tries = rail.tries.saturating_add(1);
        let tries = rail.tries;
        #[cfg(feature = "tracing")]
        if rail.state == RailState::Unproven && tries == UNANSWERED {
            let path = self.own_path(peer, number);
            event!(INFO, processor = self.processor, peer, rail = number, address = %path.address, port = path.port, "no answer on a rail");
        }
        self.push_control(Control::RailProbe {
            peer,
            rail: number,
            number: probe,
        });
        if !is_up {
            let flow = self.flow_for(peer, FlowKey::new(number, 0));
            let index = self.activate(flow);
            self.actives[index as usize].deadlines.set(Timer::Mtu, now + wait);
            self.reschedule(index);
            if tries > PATIENCE {
                self.call_backups(peer);
            }
        }
    }

    /// Large messages wait, and a rail that is not up would carry a part of them. It may have come to life since it was
    /// asked last.
    #[inline]
    pub(super) fn prove_for_bulk(&mut self, peer: u32, number: u8) {
        let rail = self.rails.get(peer, number).filter(|rail| !rail.rests);
        let asked = rail.and_then(Rail::asked_at);
        if asked.is_some_and(|asked| self.now - asked >= PROBE_FOR_BULK_EVERY) {
            self.prove(peer, number);
        }
    }

    /// The time for another probe of a rail that is not up; `false`: it is up, or the only one.
    pub(super) fn prove_again(&mut self, index: u32) -> bool {
        let flow = &self.flows[self.actives[index as usize].flow as usize];
        let (peer, number) = (flow.peer, flow.rail());
        let proves = self.peers[peer as usize].has_rails() && !self.is_up_rail(peer, number);
        match self.rails.get_mut(peer, number).filter(|rail| proves && rail.rests) {
            // Until it is called.
            Some(rail) => rail.tries = 0,
            None if proves => self.prove(peer, number),
            None => {}
        }
        proves
    }

    /// A packet of a rail that the peer has beside its first. `false`: that is not agreed.
    #[cold]
    pub(super) fn allow_rail(&mut self, peer: u32, rail: u8) -> bool {
        let p = &mut self.peers[peer as usize];
        let is_agreed = usize::from(rail) < MAX_RAILS && p.uses_rails();
        if is_agreed {
            p.begin_rails();
            self.rails.make(peer, rail);
        }
        is_agreed
    }

    /// The way back to where what is handled now came from.
    pub(super) fn back_to(&self, peer: u32, source: SocketAddr) -> Path {
        let p = &self.peers[peer as usize];
        let address = match p.split_ports {
            true => SocketAddr::new(source.ip(), p.address.port()),
            false => source,
        };
        Path::new(address, self.port)
    }

    /// A probe has come: the answer goes back where it came from. If we have a rail there that is not up, this is the time to
    /// ask on it.
    pub(super) fn answer_probe(&mut self, peer: u32, source: SocketAddr, base: &Base) {
        let back = self.back_to(peer, source);
        let p = &self.peers[peer as usize];
        if p.has_rails() && p.uses_rails() && p.is_confirmed() {
            let number = self.rails.find(peer, back, self.first_path(peer));
            let is_unasked = |rail: &Rail| rail.is_unasked_for(self.now, self.times.initial_rto);
            let is_due = |rail: &Rail| rail.state != RailState::Up && !rail.rests && is_unasked(rail);
            if let Some(number) = number.filter(|&number| self.rails.get(peer, number).is_some_and(is_due)) {
                self.prove(peer, number);
            }
        }
        let p = &self.peers[peer as usize];
        let to = if base.rail == 0 && !p.has_rails() {
            Path::from(p.address)
        } else {
            back
        };
        self.push_control(Control::ProbeAck {
            peer,
            to,
            rail: base.rail,
            number: base.message.0,
        });
    }

    /// A probe is answered. `false`: it is none of a rail.
    #[cold]
    pub(super) fn handle_rail_answer(&mut self, peer: u32, number: u8, probe: u32) -> bool {
        let now = self.now;
        let Some(rail) = self.rails.get_mut(peer, number) else {
            return false;
        };
        let is_news = rail.round_trip == 0;
        match rail.answer(now, probe) {
            Answer::Foreign => return false,
            Answer::Further => {
                self.choose_primary(peer, false);
                return true;
            }
            Answer::First => {}
        }
        let rises = rail.state != RailState::Up;
        rail.state = RailState::Up;
        if rises {
            self.raise(peer, number);
        }
        if !self.ask_others(peer, number) {
            self.choose_primary(peer, rises || is_news);
        }
        true
    }

    /// A rail works (again).
    fn raise(&mut self, peer: u32, number: u8) {
        self.stats.rails_up += 1;
        let path = self.own_path(peer, number);
        event!(INFO, processor = self.processor, peer, rail = number, address = %path.address, port = path.port, "rail up");
        self.events.push_back(Event::RailUp {
            peer: PeerId(peer),
            rail: number,
        });
        let flow = self.flow_for(peer, FlowKey::new(number, 0));
        let index = self.activate(flow);
        self.actives[index as usize].deadlines.stop(Timer::Mtu);
        self.set_mtu((peer, number), self.initial_mtu(path.address.is_ipv6()), false);
        self.search_mtu(index);
        let now = self.now;
        if let Some(rail) = self.rails.get_mut(peer, number) {
            rail.pace.rise(now);
        }
        self.relieve_backups(peer);
        // The first rail was not asked if this one was added later.
        if self.rails.get(peer, 0).is_some_and(|first| first.round_trip == 0) {
            self.prove(peer, 0);
        }
        self.wake_flows(peer);
    }

    /// A numbered packet, or a question about numbers, has come from there.
    #[cold]
    pub(super) fn note_reply(&mut self, peer: u32, rail: u8, source: SocketAddr) {
        if rail == 0 && !self.rails.are_several(peer) {
            return;
        }
        let path = self.back_to(peer, source);
        self.rails.make(peer, rail).reply = Some(path);
    }

    /// The same of one that may be a copy of an earlier packet: it does not prove that the peer is there. What a peer sends
    /// again may come by another path than before, but by one on which it has sent something new.
    #[cold]
    pub(super) fn note_reply_of_old(&mut self, peer: u32, rail: u8, source: SocketAddr) {
        let address = self.back_to(peer, source).address;
        let replies = |rail: &Rail| rail.reply.is_some_and(|reply| reply.address == address);
        let is_known = self.peer_at(address) == Some(peer) || self.rails.all(peer).iter().any(replies);
        if is_known {
            self.note_reply(peer, rail, source);
        }
    }

    /// A packet of a session with rails comes the same way as the packet before it on its rail.
    #[inline]
    pub(super) fn comes_as_before(&self, peer: u32, rail: u8, source: &SocketAddr) -> bool {
        let p = &self.peers[peer as usize];
        match self.rails.reply(peer, rail) {
            Some(reply) if p.split_ports => *reply == self.back_to(peer, *source),
            Some(reply) => reply.port == self.port && is_same(&reply.address, source),
            None => rail == 0 && !self.rails.are_several(peer) && p.is_at(source),
        }
    }

    // ---- the end of a rail

    /// Asks on each rail that is up, except where an answer may still be under way. (The primary one is asked by its flow,
    /// too, and a host that refuses does not say so often.)
    pub(super) fn ask_rails(&mut self, peer: u32) {
        let p = &self.peers[peer as usize];
        if !p.has_rails() || !p.uses_rails() || !self.rails.are_several(peer) {
            return;
        }
        let (now, primary) = (self.now, self.peers[peer as usize].primary_rail());
        let asks = |&number: &u8| {
            self.rails.get(peer, number).is_some_and(|rail| {
                let is_over = |asked: u64| number != primary && now - asked >= 2 * rail.round_trip;
                !rail.owes() || rail.asked_at().is_none_or(is_over)
            })
        };
        let asked: Vec<u8> = self.rails.up(peer).filter(asks).collect();
        for rail in asked {
            self.prove(peer, rail);
        }
    }

    /// Nothing was acknowledged for another time-out.
    #[inline]
    pub(super) fn suspect_rail(&mut self, index: u32) {
        let flow = &self.flows[self.actives[index as usize].flow as usize];
        if self.peers[flow.peer as usize].has_rails() {
            let (peer, rail) = (flow.peer, flow.rail());
            self.judge_rail(peer, rail, self.actives[index as usize].send.timeouts());
        }
    }

    #[cold]
    fn judge_rail(&mut self, peer: u32, of_flow: u8, timeouts: u16) {
        if !self.peers[peer as usize].is_confirmed() {
            self.open_elsewhere(peer);
            return;
        }
        // (A flow of a rail that is down is settled by way of the primary one.)
        let number = match self.is_up_rail(peer, of_flow) {
            true => of_flow,
            false => self.peers[peer as usize].primary_rail(),
        };
        if timeouts < SUSPICIOUS || !self.peers[peer as usize].uses_rails() || !self.has_other_rail(peer, number) {
            return;
        }
        let Some(rail) = self.rails.get(peer, number).filter(|rail| rail.state == RailState::Up) else {
            return;
        };
        let (asked, silent) = (rail.silent_since, rail.owes());
        let answers =
            |other: u8| other != number && self.rails.get(peer, other).is_some_and(|rail| rail.answered_at > asked);
        // A queue of the network may be as long as the time-out before any sample of a round trip, and longer on a rail
        // that was found dead before and was not.
        let patience = self.times.initial_rto << rail.failures_of_session.min(MOST_DOUBLINGS);
        let is_over = self.now - asked >= patience;
        if timeouts > SUSPICIOUS && silent && is_over && self.rails.up(peer).any(answers) {
            self.fell(peer, number);
            return;
        }
        // Every second time: a queue in the network that has room for one packet would lose what is sent again behind a
        // question, and would do so each time.
        if !timeouts.is_multiple_of(2) {
            return;
        }
        let mut asked: Vec<u8> = self.rails.up(peer).collect();
        if !asked.contains(&number) {
            // It rests, and something is under way there.
            asked.push(number);
        }
        for rail in asked {
            self.prove(peer, rail);
        }
    }

    /// A rail is dead, and another one is not.
    fn fell(&mut self, peer: u32, number: u8) {
        let Some(rail) = self.rails.get_mut(peer, number) else {
            return;
        };
        (rail.state, rail.tries) = (RailState::Down, 0);
        rail.failures += 1;
        rail.failures_of_session += 1;
        rail.pace.stop();
        self.stats.rails_down += 1;
        #[cfg(feature = "tracing")]
        let path = self.own_path(peer, number);
        event!(WARN, processor = self.processor, peer, rail = number, address = %path.address, port = path.port, "rail down");
        self.events.push_back(Event::RailDown {
            peer: PeerId(peer),
            rail: number,
        });
        self.relieve_backups(peer);
        self.choose_primary(peer, false);
        let mut next = self.peers[peer as usize].first_flow;
        while let Some(flow) = self.flows.get(next as usize) {
            let (index, rail) = (flow.active, flow.rail());
            next = flow.next;
            if self.is_up_rail(peer, rail) {
                continue;
            }
            let Some(active) = self.actives.get_mut(index as usize) else {
                continue;
            };
            if active.send.is_settling() {
                // By another path than before.
                active.send.repeat_settle();
                self.mark_ready(index);
                continue;
            }
            if rail != number {
                continue;
            }
            active.probe.stop();
            if active.send.is_quiet(&self.flows[active.flow as usize]) {
                self.leave_rail(index);
            } else {
                self.settle(index);
                self.reschedule(index);
            }
        }
        self.prove(peer, number);
        self.call_backups(peer);
    }

    /// What waits in a flow of a rail that is down goes to the primary one.
    #[cold]
    pub(super) fn leave_rail(&mut self, index: u32) {
        let from = self.actives[index as usize].flow;
        let state = &self.flows[from as usize];
        let (peer, key) = (state.peer, state.key());
        let p = &self.peers[peer as usize];
        let home = self.home_of(peer, key.channel());
        // (A goodbye stays where it is: it ends the session when that flow is quiet, and takes a living path.)
        if !p.has_rails() || self.is_up_rail(peer, key.rail()) || home == key || p.phase == Phase::Goodbye {
            return;
        }
        let taken = self.actives[index as usize].send.take_queue(&self.sources);
        // (Striped when it is in its new place: at no time may the peer look idle.)
        let sources: Vec<u32> = taken.sources().collect();
        let to = self.flow_for(peer, home);
        let target = self.activate(to);
        self.actives[target as usize].send.put_before(taken);
        self.update_busy(to);
        for source in sources {
            self.stripe(source);
        }
        self.update_busy(from);
        self.mark_ready(target);
    }

    /// The source goes by several flows.
    pub(super) fn stripe(&mut self, source: u32) {
        if let Some(owner) = self.sources.stripe(source) {
            let index = self.flows[owner as usize].active;
            if let Some(active) = self.actives.get_mut(index as usize) {
                active.send.forget_shared();
            }
            self.update_busy(owner);
        }
    }

    /// The session is over: in the next one, rails are to be proven anew.
    pub(super) fn forget_rails(&mut self, peer: u32) {
        let p = &mut self.peers[peer as usize];
        if !p.has_rails() {
            return;
        }
        p.set_primary_rail(0);
        let several = self.rails.enter(peer);
        for (number, rail) in several.rails.iter_mut().enumerate() {
            rail.state = if number == 0 {
                RailState::Up
            } else {
                RailState::Unproven
            };
            rail.begin();
        }
        (several.apart, several.usual_trip) = (0, 0);
        if several.port == 0 && several.rails.iter().all(|rail| rail.path.is_none()) {
            p.end_rails();
            self.rails.forget(peer);
        }
    }
}

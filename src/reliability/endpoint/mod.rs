//! The endpoint: all peers of one socket. This file has its state, getters and commands. Input is in `input.rs`, output
//! in `transmit.rs` and `inline.rs`, sessions in `session.rs`, acknowledgements and losses in `recovery.rs`, deadlines
//! in `timeout.rs`.

mod addresses;
mod answers;
mod attempts;
mod backup;
mod control;
mod demux;
mod inline;
mod liveness;
mod locate;
mod lost_messages;
mod pace;
mod port;
mod ports;
mod predicted;
mod primary;
mod rail;
mod rails;
mod reconnect;
mod recovery;
mod returns;
mod scheduler;
mod sealed;
mod send;
mod session;
mod settle;
mod slots;
mod strangers;
mod striping;
mod suspects;
mod timeout;
mod tokens;
mod vacancies;
mod watch;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::{net::SocketAddr, time::Duration};

use self::{
    addresses::Addresses,
    attempts::Attempts,
    control::Control,
    lost_messages::LostByPeer,
    port::Ports,
    rail::Rails,
    suspects::Suspects,
    tokens::{Budget, TokenKey},
    vacancies::Vacancies,
};
use crate::{
    config::{Config, ConfigError, MIN_DATAGRAM},
    error::{AddPeerError, PeerError},
    prng::mix,
    reliability::{
        Burst, Due, Event, Limits, PeerId,
        flow::{Active, Flow, Freed, NONE, Placers, Sender, SourceId, Sources, ack_bytes_of},
        packet_builder::Format,
        peer::{Peer, Phase, Place, Tokens},
        sealing::Sealing,
        timers::{Heap, Timer},
    },
    span::Span,
    stats::{PeerStats, Stats},
    time::{Instant, nanos},
    wire::Token,
};

pub(crate) use self::send::Source;
pub use self::{
    inline::Inline,
    lost_messages::LostMessages,
    rail::{RailState, RailStats},
};

/// How long a flow keeps its active part after its last use, ns.
pub(super) const IDLE: u64 = 1_000_000_000;
/// Times saturate here, after 292 years, so that adding a time-out to one cannot overflow, ns.
const LAST: u64 = u64::MAX / 2;
/// Difference between the header lengths of IPv6 and IPv4, bytes.
const IPV6_MORE: u16 = 20;

/// Settings in the form in which the data path needs them, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    ack_delay: u64,
    reordering: u64,
    initial_rto: u64,
    min_rto: u64,
    max_rto: u64,
    death: u64,
    open: u64,
    keepalive: u64,
}

impl Times {
    /// Between repetitions of an acknowledgement, ns.
    pub(super) fn repetition(&self) -> u64 {
        self.ack_delay.max(self.min_rto)
    }

    /// Retransmission time-out of a flow without back-off, ns.
    #[inline]
    pub(super) fn rto(&self, flow: &Flow, peer: &Peer) -> u64 {
        flow.rtt()
            .timeout(self.initial_rto, self.min_rto, peer.ack_delay.into())
    }
}

/// All peers of one socket: exactly-once delivery of packets, sans-IO.
///
/// Methods are of four kinds: *getters*; *commands* ([`send`](Self::send), [`add_peer`](Self::add_peer), …);
/// `handle_*`, when something came in (datagrams, time); `poll_*`, to get out what follows. After any command or
/// `handle_*`, call [`poll_transmit`](Self::poll_transmit) until it gives `false`, then
/// [`poll_timeout`](Self::poll_timeout), then [`poll_event`](Self::poll_event) until `None`. `now` must never decrease
/// (if it does, the latest one seen is used instead).
///
/// Nothing that comes from the network makes a method fail or panic: it is dropped and counted
/// ([`Stats::dropped`]).
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub struct Endpoint {
    config: Config,
    /// Of the first packets to a peer.
    format: Format,
    sealing: Option<Box<Sealing>>,
    limits: Limits,
    epoch: u64,
    addresses: Addresses,
    down: BTreeMap<u32, PeerError>,
    placers: Placers,
    /// Peers that have active flows.
    active_peers: u32,
    held: Vec<Vec<SourceId>>,
    free_held: Vec<u32>,
    /// Budgets for answers to packets that belong to no session: [0] to addresses of peers, [1] to other addresses.
    /// First those for resets, then those for challenges.
    resets: [Budget; 2],
    challenges: [Budget; 2],
    vacancies: Vacancies,
    /// Peers for whose address an ICMP message has reported that the port is unreachable.
    suspects: Suspects,
    /// Peers that are called until they answer, and the messages that were lost with ended sessions.
    attempts: Attempts,
    lost: LostByPeer,
    hints: Budget,
    /// Peers whose credit has changed, if [`note_credit`](Self::note_credit) asked for this list.
    credit_news: Option<Vec<u32>>,
    /// Time that this side did not run, ns: it does not count against peers.
    stalled: u64,
    key: TokenKey,
    /// The token of packets to peers whose own token is not known yet, and of such packets from them.
    contact: Token,
    times: Times,
    sources: Sources,
    flows: Vec<Flow>,
    actives: Vec<Active>,
    peers: Vec<Peer>,
    now: u64,
    /// Paths to peers that have several.
    rails: Rails,
    /// By which they leave.
    ports: Ports,
    ready: VecDeque<u32>,
    /// Those that have much to send, in the order of their turns.
    bulk: VecDeque<u32>,
    control: VecDeque<Control>,
    events: VecDeque<Event>,
    heap: Heap,
    free_actives: Vec<u32>,
    free_flows: Vec<u32>,
    /// An acknowledgement is due after this many bytes.
    ack_bytes: u32,
    processor: u32,
    /// Bursts that others were before those.
    passed: u32,
    /// The backend's port at which the datagrams came that are handled now, or were handled last.
    port: u8,
    next_token: u64,
    busy: usize,
    stats: Stats,
}

impl Endpoint {
    /// An endpoint without peers. `epoch` is a random number of this incarnation (0 is taken for 1). `key` is a random
    /// secret from which the secrets of sessions are derived. The caller draws both.
    ///
    /// # Errors
    /// A setting out of its range, or the backend takes only datagrams smaller than any setting allows.
    pub fn new(config: Config, limits: Limits, epoch: u64, key: u128) -> Result<Self, ConfigError> {
        config.validate()?;
        ConfigError::check_limit(limits.max_datagram)?;
        let contact = Token {
            index: 0,
            secret: config.contact.0,
        };
        let format = Format::first(&config, false);
        let times = Times {
            ack_delay: nanos(config.ack_delay),
            reordering: nanos(config.reordering_window),
            initial_rto: nanos(config.initial_rto),
            min_rto: nanos(config.min_rto),
            max_rto: nanos(config.max_rto),
            death: nanos(config.death_timeout),
            open: nanos(config.open_timeout),
            keepalive: nanos(config.keepalive),
        };
        Ok(Self {
            ack_bytes: ack_bytes_of(&limits, &config),
            config,
            format,
            sealing: None,
            times,
            limits,
            epoch: epoch.max(1),
            processor: 0,
            key: TokenKey::new(key),
            contact,
            now: 0,
            stalled: 0,
            peers: Vec::new(),
            addresses: Addresses::new(mix(key as u64) ^ mix((key >> 64) as u64).rotate_left(17)),
            down: BTreeMap::new(),
            flows: Vec::new(),
            actives: Vec::new(),
            placers: Placers::default(),
            active_peers: 0,
            free_actives: Vec::new(),
            free_flows: Vec::new(),
            sources: Sources::default(),
            ready: VecDeque::new(),
            bulk: VecDeque::new(),
            passed: 0,
            port: 0,
            rails: Rails::default(),
            ports: Ports::default(),
            heap: Heap::default(),
            events: VecDeque::new(),
            control: VecDeque::new(),
            held: Vec::new(),
            free_held: Vec::new(),
            next_token: 0,
            busy: 0,
            resets: [Budget::default(); 2],
            challenges: [Budget::default(); 2],
            vacancies: Vacancies::default(),
            suspects: Suspects::default(),
            attempts: Attempts::default(),
            lost: LostByPeer::default(),
            hints: Budget::default(),
            credit_news: None,
            stats: Stats::default(),
        })
    }

    // ---- getters

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// A peer has answered in this session, so the values known of it (its credit, for one) are its own and no
    /// defaults.
    #[must_use]
    #[inline]
    pub fn is_up(&self, peer: PeerId) -> bool {
        self.peers.get(peer.index()).is_some_and(Peer::is_bound)
    }

    /// State of a peer.
    #[must_use]
    pub fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        let p = self.peers.get(peer.index())?;
        let mut stats = PeerStats {
            max_datagram: p.mtu.into(),
            unexpected: p.cost_received.wrapping_sub(p.cost_released).into(),
            checksum: p.checksums(),
            unknown_features: p.features().unknown(),
            ..PeerStats::default()
        };
        let home = self.home_of(peer.0, 0);
        for flow in self.flows_of(peer.0) {
            let flow = &self.flows[flow as usize];
            if flow.key() == home {
                stats.smoothed_rtt = Duration::from_nanos(flow.rtt().smoothed.into());
                stats.min_rtt = Duration::from_nanos(flow.rtt().min.into());
            }
            if let Some(active) = self.actives.get(flow.active as usize) {
                let send = &active.send;
                if flow.key() == home {
                    stats.window = send.window().into();
                }
                let (bytes, packets) = send.in_flight();
                stats.in_flight += u64::from(bytes);
                stats.packets_in_flight += u64::from(packets);
                stats.queued += u64::from(send.queued_bytes());
            }
        }
        Some(stats)
    }

    /// Where a peer is.
    #[must_use]
    pub fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        self.peers.get(peer.index()).map(|p| p.address)
    }

    /// The processor number of a peer.
    #[must_use]
    pub fn processor(&self, peer: PeerId) -> Option<u32> {
        self.peers.get(peer.index()).map(|p| p.processor)
    }

    /// The peer at an address.
    #[must_use]
    pub fn peer_by_address(&self, address: SocketAddr) -> Option<PeerId> {
        let peer = self.addresses.get(&self.peers, address)?;
        (self.peers[peer as usize].place != Place::Left).then_some(PeerId(peer))
    }

    /// Peers, whatever their state.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// Number of the session with a peer that runs, or would be the next; from 1. 0 for no such peer.
    #[must_use]
    #[inline]
    pub fn session(&self, peer: PeerId) -> u32 {
        self.peers.get(peer.index()).map_or(0, |p| p.session)
    }

    /// Why this peer is down; `None` if it is not.
    #[must_use]
    pub fn down(&self, peer: PeerId) -> Option<PeerError> {
        self.down.get(&peer.0).copied()
    }

    /// Nothing is queued for or unacknowledged by this peer.
    #[must_use]
    pub fn is_idle(&self, peer: PeerId) -> bool {
        self.flows_of(peer.0).all(|flow| {
            let flow = &self.flows[flow as usize];
            self.actives
                .get(flow.active as usize)
                .is_none_or(|active| !active.send.is_busy(flow))
        })
    }

    /// This peer has been asked for a sign of life or of credit, and has not given it.
    pub(crate) fn is_asking(&self, peer: PeerId) -> bool {
        self.flows_of(peer.0).any(|flow| {
            let active = self.actives.get(self.flows[flow as usize].active as usize);
            active.is_some_and(|active| active.deadlines.is_set(Timer::Persist))
        })
    }

    /// Nothing is queued or unacknowledged at all.
    #[must_use]
    pub fn all_idle(&self) -> bool {
        self.busy == 0
    }

    /// A full batch waits for this peer on this channel, or nothing is in flight to it: worth transmitting at once.
    #[must_use]
    #[inline]
    pub fn should_transmit(&self, peer: PeerId, channel: u8) -> bool {
        self.sender(peer, channel).is_some() && self.due(peer, channel, 0) != Due::Later
    }

    /// When a message of `len` bytes to this peer on this channel, if it is queued now, is to be transmitted.
    #[must_use]
    #[inline]
    pub fn due(&self, peer: PeerId, channel: u8, len: usize) -> Due {
        match self.sender(peer, channel) {
            Some((flow, send)) if !send.is_quiet(flow) => {
                let is_batch = send.queued_bytes() as usize + len >= self.limits.max_batch;
                if is_batch { Due::Batch } else { Due::Later }
            }
            _ => Due::Now,
        }
    }

    /// A full batch waits for this peer on this channel.
    #[must_use]
    #[inline]
    pub fn has_batch(&self, peer: PeerId, channel: u8) -> bool {
        self.sender(peer, channel)
            .is_some_and(|(_, send)| send.queued_bytes() as usize >= self.limits.max_batch)
    }

    #[inline]
    fn sender(&self, peer: PeerId, channel: u8) -> Option<(&Flow, &Sender)> {
        let flow = &self.flows[self.find_flow(peer.0, self.home_of(peer.0, channel))? as usize];
        Some((flow, &self.actives.get(flow.active as usize)?.send))
    }

    // ---- commands

    /// Our processor number, for packets that carry no message. Default 0.
    pub fn set_processor(&mut self, processor: u32) {
        self.processor = processor;
    }

    /// The backend's limits have changed. (If a path no longer carries datagrams of the protocol's smallest size, its
    /// peers are lost in the end.)
    pub fn set_limits(&mut self, mut limits: Limits) {
        limits.max_datagram = limits.max_datagram.max(MIN_DATAGRAM.into());
        let most = u16::try_from(limits.max_datagram).unwrap_or(u16::MAX);
        let shrunk = limits.max_datagram < self.limits.max_datagram;
        self.limits = limits;
        self.ack_bytes = ack_bytes_of(&limits, &self.config);
        if !shrunk {
            return;
        }
        for peer in &mut self.peers {
            peer.mtu = peer.mtu.min(most);
        }
        self.rails.limit_mtu(most);
        for index in 0..self.actives.len() {
            if let Some(step) = self.actives[index].probe.limit(most) {
                self.on_mtu_step(index as u32, step);
            }
        }
    }

    /// Adds a peer. Costs nothing until something is sent to it or comes from it.
    ///
    /// # Errors
    /// There are too many, or this address is a peer already.
    pub fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        if let Some(peer) = self.peer_by_address(address) {
            self.peers[peer.index()].place = Place::Added;
            return Err(AddPeerError::Exists(peer));
        }
        self.new_peer(address, processor)
            .map(PeerId)
            .ok_or(AddPeerError::TooMany(self.config.max_peers))
    }

    /// Adds the peer of a process that has begun at this address after the one of any other peer there has ended: that
    /// peer is closed, if it is not down, and nothing reaches it any more. Sessions with the new peer are counted from 1,
    /// as with any other: it has not been lost before.
    ///
    /// # Errors
    /// There are too many peers.
    pub(crate) fn replace_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        if let Some(PeerId(ended)) = self.peer_by_address(address) {
            if !self.has_room_for_peer() {
                return Err(AddPeerError::TooMany(self.config.max_peers));
            }
            self.end_session(ended, PeerError::Closed);
            self.attempts.end(ended);
            self.peers[ended as usize].end_rails();
            self.rails.forget(ended);
            self.peers[ended as usize].place = Place::Left;
        }
        let peer = self.add_peer(address, processor)?;
        self.peers[peer.index()].session = 1;
        Ok(peer)
    }

    pub(super) fn new_peer(&mut self, address: SocketAddr, processor: u32) -> Option<u32> {
        if !self.has_room_for_peer() {
            return None;
        }
        self.vacancies.changed();
        let mtu = self.initial_mtu(address.is_ipv6());
        let rested = self.vacancies.take(self.now);
        let index = rested.unwrap_or(self.peers.len() as u32);
        let mut peer = Peer::new(address, processor, self.tokens(index, 1), mtu, self.format);
        if let Some(left) = self.addresses.get(&self.peers, address) {
            peer.succeed(&self.peers[left as usize]);
            self.addresses.remove(&self.peers, left);
        }
        if rested.is_some() {
            self.addresses.remove(&self.peers, index);
            self.replace(index, peer);
        } else {
            if self.peers.len() == self.peers.capacity() {
                // An eighth at a time: doubling would waste up to half of what idle peers take.
                self.peers.reserve_exact(self.peers.len() / 8 + 8);
            }
            self.peers.push(peer);
        }
        self.addresses.insert(&self.peers, index);
        Some(index)
    }

    /// Returns credit: `cost` bytes ([`super::Origin::cost`]) that were received in `session` are free again.
    #[inline]
    pub fn release(&mut self, peer: PeerId, session: u32, cost: u32) {
        let Some(p) = self.peers.get_mut(peer.index()) else {
            return;
        };
        if p.session != session {
            return;
        }
        p.cost_released = p.cost_released.wrapping_add(cost);
        let limit = p.cost_released.wrapping_add(self.config.unexpected_bytes);
        // Announce a quarter that has become free: the peer might be waiting for it.
        let more = limit.wrapping_sub(p.limit_told) as i32;
        if more >= (self.config.unexpected_bytes / 4) as i32 && p.is_bound() {
            let flow = self.flow_for(peer.0, self.home_of(peer.0, 0));
            let active = self.activate(flow);
            self.actives[active as usize].receive.acknowledge();
            self.actives[active as usize].receive.announce_credit();
            self.mark_ready(active);
        }
    }

    /// Asks for acknowledgement of everything outstanding at once (before a flush).
    pub fn request_acks(&mut self, now: Instant) {
        self.advance(now);
        for index in 0..self.actives.len() {
            let active = &mut self.actives[index];
            if active.flow != NONE && active.send.ask_for_all(&self.flows[active.flow as usize]) {
                self.mark_ready(index as u32);
            }
        }
    }

    /// Opens a session ahead of the first message, unless there is one. The opening goes alone and once; should it be
    /// lost, the first message opens.
    pub fn connect(&mut self, now: Instant, peer: PeerId) {
        self.advance(now);
        let Some(p) = self.peers.get(peer.index()) else { return };
        if p.phase != Phase::New || p.is_bound() {
            return;
        }
        let flow = self.flow_for(peer.0, self.home_of(peer.0, 0));
        let index = self.activate(flow);
        self.actives[index as usize].send.ask();
        self.mark_ready(index);
    }

    /// Watches a peer even while nothing is outstanding: its death is then noticed by itself.
    pub fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        self.advance(now);
        let Some(p) = self.peers.get_mut(peer.index()) else {
            return;
        };
        p.watch(on);
        if p.phase == Phase::Down {
            return;
        }
        let flow = self.flow_for(peer.0, self.home_of(peer.0, 0));
        let active = self.activate(flow);
        let Active { deadlines, send, .. } = &mut self.actives[active as usize];
        if on {
            // A deadline that is set already stays: repeated calls must not postpone it.
            if !deadlines.is_set(Timer::Keepalive) {
                deadlines.set(Timer::Keepalive, self.now + self.times.keepalive);
            }
        } else {
            deadlines.stop(Timer::Keepalive);
            if !send.is_busy(&self.flows[flow as usize]) {
                // No answer is awaited any more.
                send.wait_since(0);
            }
        }
        self.reschedule(active);
    }

    /// Says goodbye once everything queued is acknowledged. [`Event::Down`] tells when it is over.
    pub fn close(&mut self, now: Instant, peer: PeerId) {
        self.advance(now);
        let Some(p) = self.peers.get_mut(peer.index()) else {
            return;
        };
        match p.phase {
            Phase::New if p.first_flow == NONE => self.end_session(peer.0, PeerError::Closed),
            Phase::New | Phase::Open => {
                p.phase = Phase::Closing;
                self.goodbye_if_drained(peer.0);
            }
            Phase::Down => {
                self.attempts.end(peer.0);
            }
            Phase::Closing | Phase::Goodbye => {}
        }
    }

    /// The backend no longer refers to the bytes of this burst ([`Burst::token`]).
    pub fn handle_released(&mut self, token: u64) {
        let Some(held) = (token as usize)
            .checked_sub(1)
            .and_then(|index| self.held.get_mut(index))
        else {
            return;
        };
        let mut sources = core::mem::take(held);
        for source in sources.drain(..) {
            let freed = self.sources.unhold(source);
            self.on_freed(freed);
        }
        self.held[token as usize - 1] = sources;
        self.free_held.push(token as u32 - 1);
    }

    /// Notes that the backend may refer to the sources of `burst`.
    #[inline]
    pub(super) fn hold(&mut self, burst: &mut Burst) {
        if self.limits.holds_references && burst.sources().next().is_some() {
            self.hold_sources(burst);
        }
    }

    #[cold]
    fn hold_sources(&mut self, burst: &mut Burst) {
        let index = self.free_held.pop().unwrap_or_else(|| {
            self.held.push(Vec::new());
            self.held.len() as u32 - 1
        });
        for source in burst.sources() {
            self.sources.hold(source);
            self.held[index as usize].push(source);
        }
        burst.set_token(u64::from(index) + 1);
    }

    /// Counts a source that became free, and reports its completion.
    pub(super) fn on_freed(&mut self, freed: Freed) {
        let Freed::Shared(flow, Some(token), counted) = freed else {
            return;
        };
        let flow_state = &self.flows[flow as usize];
        if counted && let Some(active) = self.actives.get_mut(flow_state.active as usize) {
            active.send.forget_shared();
        }
        let peer = PeerId(flow_state.peer);
        self.events.push_back(Event::Sent { peer, token });
        self.tell_writable(peer.0);
        self.update_busy(flow);
    }

    pub(super) fn tell_writable(&mut self, peer: u32) {
        let p = &mut self.peers[peer as usize];
        if p.blocked {
            p.blocked = false;
            self.events.push_back(Event::Writable { peer: PeerId(peer) });
        }
    }

    /// From now on, peers whose credit changes are listed for [`poll_credit`](Self::poll_credit).
    pub(crate) fn note_credit(&mut self) {
        self.credit_news = Some(Vec::new());
    }

    /// The next peer whose credit has changed since this was last called for it: its session, and the limit of the
    /// credit in it.
    pub(crate) fn poll_credit(&mut self) -> Option<(PeerId, u32, u64)> {
        loop {
            let peer = self.credit_news.as_mut()?.pop()?;
            let p = &self.peers[peer as usize];
            if p.is_bound() {
                return Some((PeerId(peer), p.session, p.cost_limit));
            }
        }
    }

    /// At most half of the send queue's bytes for copies are in use for this peer.
    pub(crate) fn has_room(&self, peer: PeerId) -> bool {
        self.flows_of(peer.0).all(|flow| {
            self.actives
                .get(self.flows[flow as usize].active as usize)
                .is_none_or(|active| active.send.copied_bytes() <= self.config.send_queue_bytes / 2)
        })
    }

    /// [`Event::Writable`] tells when there is room for copies to this peer; at once, if there is.
    pub(crate) fn tell_when_writable(&mut self, peer: PeerId) {
        let room = self.has_room(peer);
        if let Some(p) = self.peers.get_mut(peer.index()) {
            p.blocked = true;
            if room {
                self.tell_writable(peer.0);
            }
        }
    }

    /// A goodbye has not been answered yet.
    pub(crate) fn is_parting(&self) -> bool {
        let mut phases = self.peers.iter().map(|p| p.phase);
        phases.any(|phase| matches!(phase, Phase::Closing | Phase::Goodbye))
    }

    /// There is a session that has begun (the peer has answered) and has not ended.
    pub(crate) fn has_sessions(&self) -> bool {
        self.peers.iter().any(|p| p.phase == Phase::Open)
    }

    /// Ends the session of a peer that has sent something that no correct peer sends.
    pub(crate) fn expel(&mut self, peer: PeerId, error: PeerError) {
        if peer.index() < self.peers.len() {
            self.end_session(peer.0, error);
        }
    }

    // ---- polls

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest; at once (the last `now`) while there is
    /// something to transmit or an event to take. May be early.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.ready.is_empty() || !self.bulk.is_empty() || !self.control.is_empty() || !self.events.is_empty() {
            return Some(Instant::from_nanos(self.now));
        }
        self.heap.earliest().map(Instant::from_nanos)
    }

    /// Number of events that have not been polled.
    pub(crate) fn untaken_events(&self) -> usize {
        self.events.len()
    }

    /// [`poll_event`](Self::poll_event) would give something.
    #[inline]
    /// Returns whether [`poll_event`](Self::poll_event) has something.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Passes the bytes of a burst to `each`, front to back. Call it before anything else changes the endpoint.
    #[inline]
    pub fn gather<'a>(&'a self, burst: &'a Burst, each: impl FnMut(&'a [u8])) {
        burst.each(|bytes| bytes, |source, range| &self.sources.bytes(source)[range], each);
    }

    /// Like [`gather`](Self::gather), for payloads that may be in memory that no slice can refer to.
    #[inline]
    pub(crate) fn gather_spans<'a>(&'a self, burst: &'a Burst, each: impl FnMut(Span<'a>)) {
        burst.each(Span::new, |source, range| self.sources.span(source).part(range), each);
    }

    // ---- inner

    /// Moves the clock on, never back.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) {
        self.now = later(self.now, now);
    }

    /// Now, without the time that this side did not run.
    #[inline]
    pub(super) fn active_now(&self) -> u64 {
        self.now - self.stalled.min(self.now)
    }

    /// Tokens of a session with a peer that has not begun.
    pub(super) fn tokens(&self, peer: u32, session: u32) -> Tokens {
        Tokens {
            local: self.key.secret(peer, session.into()),
            contact: self.contact,
        }
    }

    /// The size of datagram assumed to pass a path of this kind until the search for its MTU has ended, bytes.
    pub(super) fn initial_mtu(&self, ipv6: bool) -> u16 {
        let most = self
            .config
            .max_datagram
            .min(u16::try_from(self.limits.max_datagram).unwrap_or(u16::MAX));
        most.min(self.config.safe_datagram - if ipv6 { IPV6_MORE } else { 0 })
    }
}

/// The later of the two, ns.
#[inline]
pub(super) fn later(before: u64, now: Instant) -> u64 {
    before.max(now.as_nanos().min(LAST))
}

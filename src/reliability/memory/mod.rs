//! A packet layer for peers that are reached through memory: a medium that loses nothing and keeps the order.
//!
//! The measures of an [`Endpoint`](super::Endpoint) against loss have no part here: packets have no sequence numbers,
//! are not sent again, and nothing is timed. A queue for each peer, fragments, credit, and sessions that end with a goodbye
//! remain. Only placements are acknowledged: who has placed bytes may tell others that they are there, and those ways may
//! be faster.
//!
//! Packets have the form of [`wire`](crate::wire). The session token names the incarnation of its *sender*: the index
//! counts its sessions with this peer, the secret is its epoch.

mod apart;
mod cross_memory;
mod gate;
mod queue;
mod rings;
mod short;
mod watch;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::{fmt, net::SocketAddr};

use bytes::Bytes;

use self::cross_memory::Crosses;
#[cfg(feature = "mpi")]
pub(crate) use self::short::Run;
pub use self::{cross_memory::CrossMemory, gate::Gate};
use self::{
    gate::Blocked,
    queue::{Queue, Queued},
    rings::Rings,
};
pub(crate) use self::{
    rings::Inward,
    short::{Arriving, Which},
};
use super::{
    Burst, Due, Event, Limits, LostMessages, Origin, Outgoing, Path, Payload, Sink, Target, Verdict,
    credit::{INITIAL_CREDIT, cost_of},
    flow::{SourceId, Sources},
};
use crate::{
    config::{Config, ConfigError},
    error::{AddPeerError, DropReason, PeerError, SendError},
    id::{PeerId, SendToken},
    ring::Producer,
    stats::{PeerStats, Stats},
    time::Instant,
    wire::{Flags, Head, Kind, Packet, Seq, Token},
};

/// Time after which packets for which there was no room are delivered again.
const RETRY: core::time::Duration = core::time::Duration::from_millis(1);
/// A peer that has less credit left, in bytes, is told of all that becomes free. It is more than MPI's matching keeps in
/// reserve.
const LOW: i32 = 32 << 10;

/// Why there is no way to a peer that is there. A medium quotes this byte in the place of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    User = 1,
    Release = 2,
    Memory = 3,
}

impl Obstacle {
    fn read(quoted: &[u8]) -> PeerError {
        const USER: u8 = Obstacle::User as u8;
        const RELEASE: u8 = Obstacle::Release as u8;
        const MEMORY: u8 = Obstacle::Memory as u8;
        match quoted {
            [USER] => PeerError::OtherUser,
            [RELEASE] => PeerError::OtherRelease,
            [MEMORY] => PeerError::NoMemory,
            _ => PeerError::Refused,
        }
    }
}

#[derive(Debug)]
struct Peer {
    address: SocketAddr,
    processor: u32,
    /// Another layer reaches it: the number is only kept in step ([`MemoryLayer::skip_peer`]).
    is_elsewhere: bool,
    /// Number of the session, from 1.
    session: u32,
    /// The token of the peer's session that was heard last.
    theirs: Token,
    /// The peer has been heard in this session.
    is_up: bool,
    /// Something has been sent to it in this session.
    has_sent: bool,
    /// This side has closed the session; its goodbye is the last in the queue.
    is_closing: bool,
    down: Option<PeerError>,
    queue: Queue,
    /// Credit for the peer: the cost of all its packets, what of it is free again, and the limit that it knows.
    cost_received: u32,
    cost_released: u32,
    limit_told: u32,
    /// Packets for which there was no room when they came, and all that came after them.
    put_off: VecDeque<Vec<u8>>,
    /// When the peer was last sent something because it is watched.
    watched: Option<Instant>,
    /// Placements that the peer has not answered yet, in order; and those that it has.
    unanswered: VecDeque<SendToken>,
    answered: u32,
    /// Placements of the peer that have come: what this side answers.
    placed: u32,
    /// The ring for short messages to it.
    outward: Option<Producer>,
    /// What copies straight between its memory and ours.
    cross: Option<Box<dyn CrossMemory>>,
    /// Whether the medium has room for it.
    gate: Option<Gate>,
}

impl Peer {
    fn new(address: SocketAddr, processor: u32, is_elsewhere: bool) -> Self {
        Self {
            address,
            processor,
            is_elsewhere,
            session: 1,
            theirs: Token::NONE,
            is_up: false,
            has_sent: false,
            is_closing: false,
            down: None,
            queue: Queue::default(),
            cost_received: 0,
            cost_released: 0,
            limit_told: INITIAL_CREDIT,
            put_off: VecDeque::new(),
            watched: None,
            unanswered: VecDeque::new(),
            answered: 0,
            placed: 0,
            outward: None,
            cross: None,
            gate: None,
        }
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.unanswered.is_empty() && (self.is_up || !self.has_sent)
    }

    /// Begins the next session. The queue is empty.
    fn begin(&mut self) {
        let (address, processor, theirs, session) = (self.address, self.processor, self.theirs, self.session + 1);
        let gate = self.gate.take();
        *self = Self {
            theirs,
            session,
            gate,
            ..Self::new(address, processor, false)
        };
    }
}

/// See the module's documentation.
///
/// It is driven like an [`Endpoint`](super::Endpoint). The medium must take every burst, or refuse it so that the driver
/// keeps it (`Sent::Busy` of a backend), and must hold no references to it. While the driver keeps a burst, nothing else is
/// sent; a medium with room of its own for each peer says by [gates](Self::with_gates) for which peers it has some.
pub struct MemoryLayer {
    config: Config,
    limits: Limits,
    epoch: u64,
    /// The number of this side.
    processor: u32,
    now: Instant,
    peers: Vec<Peer>,
    addresses: BTreeMap<SocketAddr, u32>,
    /// The peer that sent last.
    last: u32,
    /// Peers to which something can be sent now.
    ready: VecDeque<u32>,
    /// Peers to which something could be sent if the medium had room.
    blocked: Blocked,
    /// The gate of a peer at this address.
    gates: Option<Gates>,
    /// What copies straight between the memory of a process and that of this one.
    crosses: Option<Crosses>,
    /// Peers from which packets are [put off](Peer::put_off).
    waiting: VecDeque<u32>,
    sources: Sources,
    /// The source that the last burst refers to, of this peer; and whether its end is answered.
    in_burst: Option<(u32, SourceId, bool)>,
    events: VecDeque<Event>,
    next_token: u64,
    rings: Rings,
    stats: Stats,
}

/// Gives the gate of the peer at an address.
type Gates = Box<dyn Fn(SocketAddr) -> Option<Gate> + Send>;

impl fmt::Debug for MemoryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLayer")
            .field("peers", &self.peers)
            .field("ready", &self.ready)
            .field("blocked", &self.blocked)
            .finish_non_exhaustive()
    }
}

/// Getters.
impl MemoryLayer {
    /// A layer over a medium with these `limits`. The `epoch` differs from one incarnation of this process to the next.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn new(config: Config, limits: Limits, epoch: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            limits,
            epoch,
            processor: 0,
            now: Instant::ZERO,
            peers: Vec::new(),
            addresses: BTreeMap::new(),
            last: 0,
            ready: VecDeque::new(),
            blocked: Blocked::default(),
            gates: None,
            crosses: None,
            waiting: VecDeque::new(),
            sources: Sources::default(),
            in_burst: None,
            events: VecDeque::new(),
            next_token: 0,
            rings: Rings::default(),
            stats: Stats::default(),
        })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn stats(&self) -> Stats {
        self.stats
    }

    #[inline]
    pub(super) fn is_up(&self, peer: PeerId) -> bool {
        self.peers
            .get(peer.index())
            .is_some_and(|p| p.is_up && p.down.is_none())
    }

    pub(super) fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        let p = self.peers.get(peer.index())?;
        Some(PeerStats {
            queued: p.queue.bytes(),
            max_datagram: self.limits.max_datagram as u64,
            unexpected: p.cost_received.wrapping_sub(p.cost_released).into(),
            ..PeerStats::default()
        })
    }

    pub(super) fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        self.peers.get(peer.index()).map(|p| p.address)
    }

    #[inline]
    pub(super) fn processor(&self, peer: PeerId) -> Option<u32> {
        self.peers.get(peer.index()).map(|p| p.processor)
    }

    pub(super) fn peers(&self) -> usize {
        self.peers.len()
    }

    #[inline]
    pub(super) fn session(&self, peer: PeerId) -> u32 {
        self.peers.get(peer.index()).map_or(0, |p| p.session)
    }

    pub(super) fn down(&self, peer: PeerId) -> Option<PeerError> {
        self.peers.get(peer.index())?.down
    }

    pub(super) fn is_idle(&self, peer: PeerId) -> bool {
        self.peers.get(peer.index()).is_none_or(Peer::is_idle)
    }

    pub(super) fn all_idle(&self) -> bool {
        self.peers.iter().all(Peer::is_idle)
    }

    #[inline]
    pub(super) fn should_transmit(&self, peer: PeerId, _channel: u8) -> bool {
        self.peers.get(peer.index()).is_some_and(|p| p.queue.is_ready)
    }

    #[inline]
    pub(super) fn due(&self, peer: PeerId, _channel: u8, _len: usize) -> Due {
        match self.peers.get(peer.index()) {
            Some(p) if !p.queue.is_empty() => Due::Batch,
            _ => Due::Now,
        }
    }

    /// A packet is a burst.
    pub(super) fn has_batch(&self, peer: PeerId, channel: u8) -> bool {
        self.should_transmit(peer, channel)
    }

    #[inline]
    pub(super) fn credit(&self, peer: PeerId) -> u64 {
        self.peers.get(peer.index()).map_or(0, |p| p.queue.credit())
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        if !self.ready.is_empty() || !self.events.is_empty() {
            return Some(self.now);
        }
        if !self.blocked.is_empty() {
            return Some(self.blocked.next_release(self.now, |peer| self.has_room(peer)));
        }
        (!self.waiting.is_empty()).then(|| self.now + RETRY)
    }

    pub(super) fn has_events(&self) -> bool {
        // The end of a burst may make one.
        !self.events.is_empty() || self.in_burst.is_some()
    }

    /// Returns whether this layer reaches the peer at `address`.
    #[inline]
    pub(super) fn reaches(&self, address: SocketAddr) -> bool {
        self.find(address).is_some()
    }

    #[inline]
    fn find(&self, address: SocketAddr) -> Option<u32> {
        match self.peers.get(self.last as usize) {
            Some(last) if last.address == address && !last.is_elsewhere => Some(self.last),
            _ => self.addresses.get(&address).copied(),
        }
    }
}

/// Commands.
impl MemoryLayer {
    /// `gates` gives the gate of the peer at an address, when that is added.
    #[must_use]
    pub fn with_gates(mut self, gates: impl Fn(SocketAddr) -> Option<Gate> + Send + 'static) -> Self {
        self.gates = Some(Box::new(gates));
        self
    }

    pub(super) fn set_processor(&mut self, processor: u32) {
        self.processor = processor;
    }

    pub(super) fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        if let Some(&peer) = self.addresses.get(&address) {
            return Err(AddPeerError::Exists(PeerId(peer)));
        }
        let peer = self.peers.len() as u32;
        if peer >= self.config.max_peers {
            return Err(AddPeerError::TooMany(self.config.max_peers));
        }
        let gate = self.gates.as_ref().and_then(|gates| gates(address));
        self.peers.push(Peer {
            gate,
            ..Peer::new(address, processor, false)
        });
        self.addresses.insert(address, peer);
        Ok(PeerId(peer))
    }

    /// The process at this address has ended, as the caller knows, and another one may have the address.
    pub(super) fn leave_peer(&mut self, address: SocketAddr) {
        if let Some(peer) = self.addresses.remove(&address) {
            self.end_session(peer, PeerError::Closed);
            if self.last == peer {
                self.last = u32::MAX;
            }
        }
    }

    /// Gives the next number to a peer that another layer reaches.
    pub(super) fn skip_peer(&mut self, address: SocketAddr, processor: u32) {
        self.peers.push(Peer::new(address, processor, true));
    }

    /// Why nothing can be sent to a peer, if so.
    fn check(&self, peer: PeerId) -> Result<(), SendError> {
        match self.peers.get(peer.index()) {
            None => Err(SendError::UnknownPeer(peer)),
            Some(Peer { down: Some(error), .. }) => Err(SendError::Peer(peer, *error)),
            Some(p) if p.is_closing => Err(SendError::Closed(peer)),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        self.now = self.now.max(now);
        self.check(peer)?;
        let is_shared = matches!(payload, Payload::Shared(_));
        let token = SendToken(self.next_token + 1);
        let queue = &mut self.peers[peer.index()].queue;
        queue.push_message(
            &self.config,
            &mut self.sources,
            (peer, is_shared.then_some(token)),
            channel,
            message,
            payload,
        )?;
        self.next_token += u64::from(is_shared);
        self.mark_ready(peer.0);
        Ok(is_shared.then_some(token))
    }

    pub(super) fn place(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        target: &Target,
        data: Bytes,
    ) -> Result<SendToken, SendError> {
        self.now = self.now.max(now);
        self.check(peer)?;
        let token = SendToken(self.next_token + 1);
        let queue = &mut self.peers[peer.index()].queue;
        queue.push_placement(
            &self.config,
            &mut self.sources,
            (peer, Some(token)),
            channel,
            target,
            data,
        )?;
        self.next_token += 1;
        self.mark_ready(peer.0);
        Ok(token)
    }

    pub(super) fn release(&mut self, peer: PeerId, session: u32, cost: u32) {
        if let Some(p) = self.peers.get_mut(peer.index())
            && p.session == session
        {
            p.cost_released = p.cost_released.wrapping_add(cost);
            self.tell_credit(peer.0);
        }
    }

    /// Announces credit that has become free: a quarter of all, or any if the peer has little left and might be waiting
    /// for it.
    fn tell_credit(&mut self, peer: u32) {
        let p = &mut self.peers[peer as usize];
        let limit = p.cost_released.wrapping_add(self.config.unexpected_bytes);
        let more = limit.wrapping_sub(p.limit_told) as i32;
        let is_low = (p.limit_told.wrapping_sub(p.cost_received) as i32) < LOW;
        let least = if is_low {
            1
        } else {
            (self.config.unexpected_bytes / 4) as i32
        };
        if more >= least && p.down.is_none() {
            p.limit_told = limit;
            p.queue.announce(limit);
            self.mark_ready(peer);
        }
    }

    /// Nothing is acknowledged.
    pub(super) fn request_acks(&mut self, _now: Instant) {}

    /// Sends a packet without a message, which opens the session.
    pub(super) fn connect(&mut self, now: Instant, peer: PeerId) {
        self.now = self.now.max(now);
        if self.check(peer).is_ok() {
            let p = &mut self.peers[peer.index()];
            p.queue.announce(p.limit_told);
            self.mark_ready(peer.0);
        }
    }

    pub(super) fn close(&mut self, now: Instant, peer: PeerId) {
        self.now = self.now.max(now);
        if self.check(peer).is_ok() {
            let p = &mut self.peers[peer.index()];
            p.is_closing = true;
            // (From the other side's ring messages are still taken.)
            p.outward = None;
            p.queue.push(Queued::control(Kind::Goodbye));
            self.mark_ready(peer.0);
        }
    }

    /// A session ends because its peer has gone: none of the messages that the medium took can be told to be lost.
    pub(super) fn take_lost(&mut self, _peer: PeerId) -> Vec<LostMessages> {
        Vec::new()
    }

    pub(super) fn reconnect(&mut self, peer: PeerId) {
        if let Some(p) = self.peers.get_mut(peer.index())
            && p.down.is_some()
        {
            p.begin();
        }
    }

    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// The medium is not spoofed: nothing is there (any more), or there is an [`Obstacle`].
    pub(super) fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        self.now = self.now.max(now);
        if let Some(peer) = self.find(address) {
            self.end_session(peer, Obstacle::read(quoted));
        }
    }

    /// The medium holds no references.
    pub(super) fn handle_released(&mut self, _token: u64) {}

    fn end_session(&mut self, peer: u32, error: PeerError) {
        let p = &mut self.peers[peer as usize];
        if p.down.is_some() {
            return;
        }
        p.down = Some(error);
        p.has_sent = false;
        p.put_off.clear();
        self.close_rings(peer);
        let p = &mut self.peers[peer as usize];
        let lost = p.queue.clear(&mut self.sources) || !p.unanswered.is_empty();
        p.unanswered.clear();
        self.waiting.retain(|other| *other != peer);
        self.ready.retain(|other| *other != peer);
        self.blocked.forget(peer);
        self.stats.peers_lost += u64::from(error != PeerError::Closed);
        self.events.push_back(Event::Down {
            peer: PeerId(peer),
            session: p.session,
            error,
            lost,
        });
    }
}

/// The outgoing side.
impl MemoryLayer {
    /// Returns whether the medium has room for a packet to this peer.
    #[inline]
    fn has_room(&self, peer: u32) -> bool {
        self.peers[peer as usize].gate.as_ref().is_none_or(Gate::is_open)
    }

    /// Peers whose gate has opened are ready again.
    #[cold]
    fn unblock(&mut self) {
        let Self {
            blocked, peers, ready, ..
        } = self;
        let is_open = |peer: u32| peers[peer as usize].gate.as_ref().is_none_or(Gate::is_open);
        blocked.release(is_open, |peer| ready.push_back(peer));
    }

    fn mark_ready(&mut self, peer: u32) {
        let queue = &mut self.peers[peer as usize].queue;
        if !queue.is_ready {
            queue.is_ready = true;
            self.ready.push_back(peer);
        }
    }

    /// A burst is one packet.
    pub(super) fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        self.now = self.now.max(now);
        self.rest();
        self.end_burst();
        if !self.blocked.is_empty() {
            self.unblock();
        }
        while let Some(peer) = self.ready.pop_front() {
            if !self.has_room(peer) {
                self.blocked.push(peer);
                continue;
            }
            let p = &mut self.peers[peer as usize];
            p.queue.is_ready = false;
            let token = Token {
                index: p.session,
                secret: self.epoch,
            };
            burst.begin(p.address);
            let answered = Seq(p.placed);
            let Some(sent) = p.queue.transmit(&self.limits, &self.sources, token, answered, burst) else {
                continue;
            };
            p.has_sent = true;
            self.stats.packets_sent += 1;
            self.stats.payload_sent += sent.payload as u64;
            self.in_burst = sent.ended.map(|source| (peer, source, sent.asks));
            if sent.kind == Kind::Goodbye {
                self.end_session(peer, PeerError::Closed);
            } else if !p.queue.is_empty() {
                self.mark_ready(peer);
            }
            return true;
        }
        false
    }

    /// The medium has copied the last burst.
    fn end_burst(&mut self) {
        let Some((peer, source, asks)) = self.in_burst.take() else {
            return;
        };
        let id = PeerId(peer);
        let p = &mut self.peers[peer as usize];
        if let Some(token) = p.queue.end(&mut self.sources, source)
            && p.down.is_none()
        {
            if asks {
                p.unanswered.push_back(token);
            } else {
                self.events.push_back(Event::Sent { peer: id, token });
            }
        }
        if p.queue.takes_again(&self.config) {
            self.events.push_back(Event::Writable { peer: id });
        }
    }

    #[inline]
    pub(super) fn gather<'a>(&'a self, burst: &'a Burst, each: impl FnMut(&'a [u8])) {
        burst.each(|bytes| bytes, |source, range| &self.sources.bytes(source)[range], each);
    }

    #[inline]
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.end_burst();
        self.events.pop_front()
    }
}

/// The incoming side.
impl MemoryLayer {
    pub(super) fn handle_datagrams<S: Sink + ?Sized>(
        &mut self,
        now: Instant,
        path: Path,
        data: &mut [u8],
        stride: usize,
        sink: &mut S,
    ) {
        let source = path.address;
        self.now = self.now.max(now);
        let Some(peer) = self.find(source).or_else(|| self.take_in(source, data)) else {
            self.stats.packets_received += 1;
            return self.stats.dropped.count(DropReason::Stranger);
        };
        self.last = peer;
        for datagram in data.chunks(stride.max(1)) {
            self.stats.packets_received += 1;
            if let Err(reason) = self.receive(peer, datagram, sink) {
                self.stats.dropped.count(reason);
                if reason == DropReason::DeadIncarnation {
                    self.tell_given_up(peer);
                }
                if reason == DropReason::Malformed {
                    // Memory damages nothing: the peer does not do what it should.
                    self.end_session(peer, PeerError::Misbehaved);
                }
            }
        }
    }

    /// A stranger becomes a peer, if strangers are welcome.
    #[cold]
    fn take_in(&mut self, source: SocketAddr, data: &[u8]) -> Option<u32> {
        let packet = Packet::new_checked(data)
            .ok()
            .filter(|_| self.config.accept_strangers)?;
        let peer = self.add_peer(source, packet.base().source).ok()?;
        Some(peer.0)
    }

    fn receive<S: Sink + ?Sized>(&mut self, peer: u32, datagram: &[u8], sink: &mut S) -> Result<(), DropReason> {
        let packet = Packet::new_checked(datagram).map_err(|_| DropReason::Malformed)?;
        self.enter_session(peer, packet.session(), sink)?;
        if !self.hear_answers(peer, packet.base().acknowledgement) {
            self.end_session(peer, PeerError::Misbehaved);
            return Err(DropReason::Refused);
        }
        let p = &mut self.peers[peer as usize];
        if let Some(credit) = packet.credit()
            && p.queue.raise_limit(credit.limit)
        {
            self.mark_ready(peer);
        }
        let p = &mut self.peers[peer as usize];
        if p.put_off.is_empty() {
            self.deliver(peer, packet, datagram, sink)
        } else {
            p.put_off.push_back(datagram.to_vec());
            Ok(())
        }
    }

    /// The peer has answered so many placements. Returns `false` if there were not so many.
    #[inline]
    fn hear_answers(&mut self, peer: u32, answered: Seq) -> bool {
        let p = &mut self.peers[peer as usize];
        let more = answered.0.wrapping_sub(p.answered);
        if more == 0 {
            return true;
        }
        if more as usize > p.unanswered.len() {
            return false;
        }
        p.answered = answered.0;
        let peer = PeerId(peer);
        let sent = p.unanswered.drain(..more as usize);
        self.events.extend(sent.map(|token| Event::Sent { peer, token }));
        true
    }

    /// A placement of the peer's has come as a whole: it waits for the answer.
    fn answer(&mut self, peer: u32) {
        let p = &mut self.peers[peer as usize];
        p.placed = p.placed.wrapping_add(1);
        p.queue.announce(p.limit_told);
        self.mark_ready(peer);
    }

    /// A packet with this token has come.
    #[inline]
    fn enter_session<S: Sink + ?Sized>(&mut self, peer: u32, token: Token, sink: &mut S) -> Result<(), DropReason> {
        let p = &mut self.peers[peer as usize];
        if p.theirs == token && p.is_up && p.down.is_none() {
            return Ok(());
        }
        self.begin_session(peer, token, sink)
    }

    #[cold]
    fn begin_session<S: Sink + ?Sized>(&mut self, peer: u32, token: Token, sink: &mut S) -> Result<(), DropReason> {
        let p = &self.peers[peer as usize];
        let is_next = p.theirs.secret != token.secret || p.theirs.index < token.index;
        if !is_next {
            return Err(DropReason::DeadIncarnation);
        }
        if p.is_up {
            // What it sent before lies in its ring.
            self.deliver_rings(Some(peer), sink);
            self.end_session(peer, PeerError::Restarted);
        }
        let p = &mut self.peers[peer as usize];
        if p.down.is_some() {
            p.begin();
        }
        p.theirs = token;
        p.is_up = true;
        let session = p.session;
        self.open_rings(peer);
        let p = &mut self.peers[peer as usize];
        self.stats.sessions_opened += 1;
        self.events.push_back(Event::Up {
            peer: PeerId(peer),
            session,
        });
        // The peer waits for an answer.
        p.limit_told = p.cost_released.wrapping_add(self.config.unexpected_bytes);
        p.queue.announce(p.limit_told);
        self.mark_ready(peer);
        Ok(())
    }

    fn deliver<S: Sink + ?Sized>(
        &mut self,
        peer: u32,
        packet: Packet<&[u8]>,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), DropReason> {
        let id = PeerId(peer);
        match packet.kind() {
            Kind::Data => {}
            Kind::Goodbye => {
                // What it sent before lies in its ring.
                self.deliver_rings(Some(peer), sink);
                self.end_session(peer, PeerError::Closed);
                return Ok(());
            }
            Kind::Return => {
                let base = packet.base();
                self.events.push_back(Event::Returned {
                    peer: id,
                    source: base.destination,
                    destination: base.source,
                    message: base.message,
                    messages: 1,
                });
                return Ok(());
            }
            Kind::Ack => return Ok(()),
            Kind::Reset => {
                self.end_session(peer, PeerError::Reset);
                return Ok(());
            }
            _ => return Err(DropReason::Unagreed),
        }
        let p = &mut self.peers[peer as usize];
        let (cost, len) = (cost_of(&packet, packet.flags()), packet.payload().len() as u32);
        let origin = Origin {
            peer: id,
            channel: packet.base().channel,
            session: p.session,
            cost,
            confirmed: true,
        };
        match sink.deliver(origin, packet) {
            Verdict::Taken => {
                p.cost_received = p.cost_received.wrapping_add(cost);
                self.stats.note_delivered(1, len);
                if packet.flags().contains(Flags::ACK_REQUEST) {
                    self.answer(peer);
                }
                Ok(())
            }
            Verdict::Misaddressed => {
                p.cost_received = p.cost_received.wrapping_add(cost);
                let is_message = !packet.flags().contains(Flags::PLACEMENT);
                if is_message && packet.fragment().is_none_or(|fragment| fragment.offset == 0) {
                    p.queue.push(Queued::returned(&packet.base()));
                    self.mark_ready(peer);
                }
                self.release(id, origin.session, cost);
                if packet.flags().contains(Flags::ACK_REQUEST) {
                    self.answer(peer);
                }
                Err(DropReason::Misaddressed)
            }
            Verdict::NoRoom | Verdict::NoMemory | Verdict::Doubtful => {
                p.put_off.push_back(datagram.to_vec());
                self.waiting.push_back(peer);
                Ok(())
            }
            Verdict::Impossible => {
                self.end_session(peer, PeerError::Misbehaved);
                Err(DropReason::Refused)
            }
        }
    }

    /// Delivers the packets that were put off.
    pub(super) fn deliver_waiting<S: Sink + ?Sized>(&mut self, now: Instant, sink: &mut S) {
        self.now = self.now.max(now);
        for _ in 0..self.waiting.len() {
            let Some(peer) = self.waiting.pop_front() else { return };
            let mut packets = core::mem::take(&mut self.peers[peer as usize].put_off);
            while let Some(bytes) = packets.pop_front() {
                let Ok(packet) = Packet::new_checked(&bytes[..]) else {
                    continue;
                };
                if let Err(reason) = self.deliver(peer, packet, &bytes, sink) {
                    self.stats.dropped.count(reason);
                }
                let p = &mut self.peers[peer as usize];
                if !p.put_off.is_empty() {
                    // That one, again: those behind it stay behind it.
                    p.put_off.append(&mut packets);
                } else if p.down.is_some() {
                    packets.clear();
                }
            }
        }
    }
}

//! The side that has the messages. What it is told is in `proxy/reports.rs`.

mod reports;

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::net::SocketAddr;

use bytes::Bytes;

use super::{
    record::{self, BY_REFERENCE, IMMEDIATE, Kind, MATCHED, NEW, Record},
    record::{LINK, REPORT},
};
use crate::{
    config::{Config, ConfigError},
    error::{AddPeerError, AddRailError, PeerError, SendError},
    id::{PeerId, SendToken},
    reliability::{
        Burst, Due, Event, INITIAL_CREDIT, Limits, LostMessages, MAX_RAILS, MESSAGE_COST, Outgoing, PacketLayer, Path,
        Payload, RailState, RailStats, Route, Sink, Sources, Target,
    },
    span::Span,
    stats::{PeerStats, Stats},
    time::Instant,
};

/// Messages up to this size are copied where they go, larger ones are referred to until all is acknowledged.
pub(super) const COPIED: usize = 2_048;
/// Most bytes of copies that may be queued to one peer.
pub(super) const MOST_COPIES: u32 = 64 << 20;
/// The overhead of a copy beside its bytes.
const COPY_COST: u32 = 64;
/// A copy that may not fit a bundle, which those up to this size do at any MTU, takes a block of its own.
const BUNDLED: usize = 400;
const ALONE: u32 = Sources::MIN_BLOCK as u32;
/// Bytes of a placement that go in one record.
const PLACED: usize = 256 << 10;
/// Bytes of small messages that wait in one piece.
const BLOCK: usize = 64 << 10;
/// Credit is given back when this part of it is free. Its owner tells of quarters of it, so more than two thirds can
/// always be used.
const RELEASE: u32 = 16;

/// A record on its way.
#[derive(Debug)]
struct Piece {
    head: [u8; REPORT],
    payload: Body,
}

#[derive(Debug)]
enum Body {
    None,
    /// In the block.
    Copied {
        at: u32,
        len: u32,
    },
    Shared(Bytes),
}

/// The state of a peer.
#[derive(Debug)]
struct Peer {
    address: SocketAddr,
    processor: u32,
    session: u32,
    up: bool,
    closing: bool,
    /// Given up in this session.
    broken: bool,
    /// Refused a send for want of room: tell when there is some.
    blocked: bool,
    cost_queued: u64,
    cost_limit: u64,
    /// Credit that has been taken from the peer, and what of it is free and not given back yet.
    taken: u32,
    owed: u32,
    /// Bytes of copies sent since the host has last had room, and how many of them it has been asked about.
    copies: u32,
    asked: Option<u32>,
    /// Messages by reference, and the bytes of those that no caller waits for.
    shared: u32,
    large: u32,
    /// Number of the last command that sends something.
    last: u64,
    /// As far as it has been told; empty if there is only the first one.
    rails: Vec<RailStats>,
}

/// A message by reference.
#[derive(Debug)]
struct Outstanding {
    peer: u32,
    /// Parts whose end has not been reported.
    parts: u32,
    /// A caller waits for [`Event::Sent`], and may wait for the memory.
    notify: Option<Bytes>,
    /// Bytes of a copy.
    copy: u32,
}

/// Stands for an endpoint that runs in another process.
///
/// It is driven like an [`Endpoint`](crate::reliability::Endpoint): every burst that it wants transmitted is one record
/// for the host, and what it is handed as a datagram is one record of the host's.
#[derive(Debug)]
pub struct ProxyEndpoint {
    config: Config,
    processor: u32,
    /// Most bytes of a record's payload.
    most: usize,
    now: Instant,
    peers: Vec<Peer>,
    addresses: BTreeMap<SocketAddr, u32>,
    /// Our numbers of the peers, by the host's.
    ours: Vec<u32>,
    down: BTreeMap<u32, PeerError>,
    queue: VecDeque<Piece>,
    /// Bytes of small messages; used again when the queue is empty.
    block: Vec<u8>,
    /// The memory that the burst refers to.
    current: Bytes,
    /// Where records are copied that have to be looked at as a whole.
    whole: Vec<u8>,
    outstanding: BTreeMap<u64, Outstanding>,
    events: VecDeque<Event>,
    next_token: u64,
    /// Commands given.
    commands: u64,
    /// So many of them were executed, and all was acknowledged.
    idle: u64,
    stats: Stats,
}

/// Getters.
impl ProxyEndpoint {
    /// A stand-in for an endpoint with these settings, whose packets are for `processors` (the first is the sender).
    /// `limits` are those of the link: [`Limits::max_batch`] is the longest record.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn new(config: Config, limits: Limits, processors: &[u32]) -> Result<Self, ConfigError> {
        config.validate()?;
        let config = Config {
            send_queue_bytes: config.send_queue_bytes.min(MOST_COPIES),
            ..config
        };
        let processors = if processors.is_empty() { &[0] } else { processors };
        let payload = record::start_payload(&config, processors);
        let mut this = Self {
            config,
            processor: processors[0],
            most: limits.max_batch.saturating_sub(REPORT),
            now: Instant::ZERO,
            peers: Vec::new(),
            addresses: BTreeMap::new(),
            ours: Vec::new(),
            down: BTreeMap::new(),
            queue: VecDeque::new(),
            block: Vec::new(),
            current: Bytes::new(),
            whole: Vec::new(),
            outstanding: BTreeMap::new(),
            events: VecDeque::new(),
            next_token: 0,
            commands: 0,
            idle: 0,
            stats: Stats::default(),
        };
        this.push(&Record::new(Kind::Start, 0), Body::Shared(payload.into()));
        Ok(this)
    }

    /// There is a peer with this address.
    #[inline]
    pub(crate) fn knows(&self, address: &SocketAddr) -> bool {
        self.addresses.contains_key(address)
    }
}

/// Commands.
impl ProxyEndpoint {
    #[inline]
    fn push(&mut self, record: &Record, payload: Body) {
        self.commands += 1;
        self.queue.push_back(Piece {
            head: record.bytes(),
            payload,
        });
    }

    /// A command about a peer in its session, without payload.
    fn order(&mut self, kind: Kind, peer: PeerId, value: u32) {
        let record = Record {
            session: self.session(peer),
            value,
            ..Record::new(kind, peer.0)
        };
        self.push(&record, Body::None);
    }

    fn new_peer(&mut self, address: SocketAddr, processor: u32, theirs: u32) -> Option<PeerId> {
        let peer = self.peers.len() as u32;
        if peer >= self.config.max_peers {
            return None;
        }
        self.peers.push(Peer {
            address,
            processor,
            session: 1,
            up: false,
            closing: false,
            broken: false,
            blocked: false,
            cost_queued: 0,
            cost_limit: INITIAL_CREDIT.into(),
            taken: 0,
            owed: 0,
            copies: 0,
            asked: None,
            shared: 0,
            large: 0,
            last: 0,
            rails: Vec::new(),
        });
        self.addresses.insert(address, peer);
        let mut record = Record {
            value: theirs,
            destination: processor,
            ..Record::new(Kind::AddPeer, peer)
        };
        record.set_address(address);
        self.push(&record, Body::None);
        Some(PeerId(peer))
    }

    /// Why nothing can be sent to a peer.
    #[cold]
    fn why_not(&self, peer: PeerId) -> SendError {
        match (self.peers.get(peer.index()), self.down(peer)) {
            (None, _) => SendError::UnknownPeer(peer),
            (_, Some(error)) => SendError::Peer(peer, error),
            (Some(_), None) => SendError::Closed(peer),
        }
    }

    #[inline]
    pub(crate) fn check(&self, peer: PeerId) -> Result<(), SendError> {
        match self.peers.get(peer.index()) {
            Some(p) if !p.closing && (self.down.is_empty() || !self.down.contains_key(&peer.0)) => Ok(()),
            _ => Err(self.why_not(peer)),
        }
    }

    /// Puts a small message where the queue has its bytes.
    #[inline]
    fn copy(&mut self, data: &[u8]) -> Body {
        if self.queue.is_empty() {
            self.block.clear();
        }
        if self.block.len() + data.len() > BLOCK {
            return Body::Shared(Bytes::copy_from_slice(data));
        }
        let at = self.block.len() as u32;
        self.block.extend_from_slice(data);
        Body::Copied {
            at,
            len: data.len() as u32,
        }
    }

    fn share(&mut self, record: &mut Record, data: Bytes, notify: bool) -> SendToken {
        self.next_token += 1;
        record.flags |= BY_REFERENCE;
        record.c = self.next_token;
        self.peers[record.peer as usize].shared += 1;
        let outstanding = Outstanding {
            peer: record.peer,
            parts: 1,
            copy: if notify { 0 } else { data.len() as u32 },
            notify: notify.then(|| data.clone()),
        };
        self.outstanding.insert(self.next_token, outstanding);
        self.push(record, Body::Shared(data));
        SendToken(self.next_token)
    }

    fn ask_for_room(&mut self, peer: PeerId) {
        let p = &mut self.peers[peer.index()];
        if p.asked.is_none() && p.copies > 0 {
            p.asked = Some(p.copies);
            self.order(Kind::AskRoom, peer, 0);
        }
    }

    /// Nothing more is sent in this session. Gives whether something could be before.
    pub(crate) fn refuse_sends(&mut self, peer: PeerId) -> bool {
        let could = self.check(peer).is_ok();
        if could {
            self.peers[peer.index()].closing = true;
        }
        could
    }

    /// Once nothing more is sent: says so, after all that was.
    pub(crate) fn say_goodbye(&mut self, peer: PeerId) {
        if self.peers[peer.index()].closing && !self.down.contains_key(&peer.0) {
            self.order(Kind::Close, peer, 0);
        }
    }
}

impl Peer {
    /// Everything of the session before is over.
    fn begin(&mut self, session: u32) {
        self.session = session;
        self.up = false;
        self.closing = false;
        self.broken = false;
        self.cost_queued = 0;
        self.cost_limit = INITIAL_CREDIT.into();
        self.taken = 0;
        self.owed = 0;
        self.copies = 0;
        self.asked = None;
    }
}

impl PacketLayer for ProxyEndpoint {
    fn config(&self) -> &Config {
        &self.config
    }

    fn stats(&self) -> Stats {
        self.stats
    }

    #[inline]
    fn is_up(&self, peer: PeerId) -> bool {
        self.peers.get(peer.index()).is_some_and(|p| p.up)
    }

    fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        let p = self.peers.get(peer.index())?;
        Some(PeerStats {
            unexpected: p.taken.into(),
            ..PeerStats::default()
        })
    }

    fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        self.peers.get(peer.index()).map(|p| p.address)
    }

    #[inline]
    fn processor(&self, peer: PeerId) -> Option<u32> {
        self.peers.get(peer.index()).map(|p| p.processor)
    }

    fn peers(&self) -> usize {
        self.peers.len()
    }

    #[inline]
    fn session(&self, peer: PeerId) -> u32 {
        self.peers.get(peer.index()).map_or(0, |p| p.session)
    }

    #[inline]
    fn route(&self, peer: PeerId) -> Option<Route> {
        self.peers.get(peer.index()).map(|p| Route {
            processor: p.processor,
            session: p.session,
        })
    }

    fn down(&self, peer: PeerId) -> Option<PeerError> {
        self.down.get(&peer.0).copied()
    }

    fn is_idle(&self, peer: PeerId) -> bool {
        self.peers.get(peer.index()).is_none_or(|p| p.last <= self.idle)
    }

    fn all_idle(&self) -> bool {
        self.queue.is_empty() && self.peers.iter().all(|p| p.last <= self.idle)
    }

    fn should_transmit(&self, _: PeerId, _: u8) -> bool {
        !self.queue.is_empty()
    }

    /// Messages that wait to be bundled stay there.
    #[inline]
    fn due(&self, _: PeerId, _: u8, _: usize) -> Due {
        Due::Now
    }

    fn has_batch(&self, _: PeerId, _: u8) -> bool {
        false
    }

    #[inline]
    fn credit(&self, peer: PeerId) -> u64 {
        let p = self.peers.get(peer.index());
        p.map_or(0, |p| p.cost_limit.saturating_sub(p.cost_queued))
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        (!self.queue.is_empty() || !self.events.is_empty()).then_some(self.now)
    }

    fn set_processor(&mut self, processor: u32) {
        self.processor = processor;
    }

    fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        if let Some(&peer) = self.addresses.get(&address) {
            return Err(AddPeerError::Exists(PeerId(peer)));
        }
        self.new_peer(address, processor, NEW)
            .ok_or(AddPeerError::TooMany(self.config.max_peers))
    }

    /// By the rules of the endpoint, which will come to the same number.
    fn add_rail(&mut self, now: Instant, peer: PeerId, path: Path) -> Result<u8, AddRailError> {
        self.now = self.now.max(now);
        let p = self.peers.get_mut(peer.index());
        let p = p.ok_or(AddRailError::UnknownPeer(peer))?;
        if p.rails.is_empty() {
            p.rails.push(RailStats::new(p.address.into(), RailState::Up));
        }
        if let Some(known) = p.rails.iter().position(|rail| rail.path == path) {
            return Err(AddRailError::Exists(known as u8));
        }
        let number = p.rails.len();
        if number >= MAX_RAILS {
            return Err(AddRailError::TooMany);
        }
        let rail = RailStats::new(path, RailState::Unproven);
        p.rails.push(rail);
        let mut record = Record::new(Kind::AddRail, peer.0);
        record.set_rail(number as u8, &rail);
        self.push(&record, Body::None);
        Ok(number as u8)
    }

    fn rails_up(&self, peer: PeerId) -> usize {
        let rails = self.peers.get(peer.index()).map_or(&[][..], |p| &p.rails);
        rails.iter().filter(|rail| rail.state == RailState::Up).count().max(1)
    }

    /// As it was when it was last told: when a rail changes, and when a session begins or ends.
    fn rail_stats(&self, peer: PeerId, rail: u8) -> Option<RailStats> {
        let p = self.peers.get(peer.index())?;
        if rail == 0 && p.rails.is_empty() {
            return Some(RailStats::new(p.address.into(), RailState::Up));
        }
        p.rails.get(usize::from(rail)).copied()
    }

    fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        self.now = self.now.max(now);
        self.check(peer)?;
        let len = payload.len();
        if len > self.most {
            return Err(SendError::MessageTooLarge {
                len: len as u64,
                max: self.most as u64,
            });
        }
        let most = self.config.send_queue_bytes;
        let alone = message.immediate.is_some() || len > BUNDLED.min(self.config.max_payload.into());
        let cost = COPY_COST + if alone { ALONE.max(len as u32) } else { len as u32 };
        let p = &mut self.peers[peer.index()];
        let full = match &payload {
            Payload::Copy(_) => {
                let queued = u64::from(p.copies) + u64::from(p.large);
                queued > 0 && queued + u64::from(cost) > u64::from(most)
                    || len > COPIED && p.shared >= self.config.send_queue_messages
            }
            Payload::Shared(_) => p.shared >= self.config.send_queue_messages,
        };
        if full {
            p.blocked = true;
            self.ask_for_room(peer);
            return Err(SendError::WouldBlock(peer));
        }
        p.cost_queued += len as u64 + u64::from(MESSAGE_COST);
        p.last = self.commands + 1;
        let mut record = Record {
            channel,
            session: p.session,
            value: message.message.0,
            source: message.source,
            destination: message.destination,
            a: message.match_bits.unwrap_or(0),
            b: message.immediate.unwrap_or(0),
            ..Record::new(Kind::Send, peer.0)
        };
        record.flags |= if message.match_bits.is_some() { MATCHED } else { 0 };
        record.flags |= if message.immediate.is_some() { IMMEDIATE } else { 0 };
        let token = match payload {
            Payload::Copy(data) if len <= COPIED => {
                p.copies += cost;
                let ask = p.asked.is_none() && p.copies > most / 2;
                let body = self.copy(data);
                self.push(&record, body);
                if ask {
                    self.ask_for_room(peer);
                }
                None
            }
            Payload::Copy(data) => {
                let data = Bytes::copy_from_slice(data);
                p.large += len as u32;
                self.share(&mut record, data, false);
                None
            }
            Payload::Shared(data) => Some(self.share(&mut record, data, true)),
        };
        Ok(token)
    }

    fn place(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        target: &Target,
        data: Bytes,
    ) -> Result<SendToken, SendError> {
        self.now = self.now.max(now);
        self.check(peer)?;
        if data.len() as u64 > u64::from(u32::MAX) {
            return Err(SendError::MessageTooLarge {
                len: data.len() as u64,
                max: u32::MAX.into(),
            });
        }
        let size = PLACED.min(self.most);
        let parts = data.len().div_ceil(size).max(1);
        let p = &mut self.peers[peer.index()];
        if p.shared > 0 && p.shared as usize + parts > self.config.send_queue_messages as usize {
            p.blocked = true;
            return Err(SendError::WouldBlock(peer));
        }
        p.shared += parts as u32;
        self.next_token += 1;
        let record = Record {
            channel,
            flags: BY_REFERENCE,
            session: p.session,
            value: target.key,
            source: target.source,
            destination: target.destination,
            b: target.region.into(),
            c: self.next_token,
            ..Record::new(Kind::Place, peer.0)
        };
        for part in 0..parts {
            let at = part * size;
            let record = Record {
                a: target.offset.wrapping_add(at as u64),
                ..record
            };
            let piece = data.slice(at..data.len().min(at + size));
            self.push(&record, Body::Shared(piece));
        }
        self.peers[peer.index()].last = self.commands;
        let outstanding = Outstanding {
            peer: peer.0,
            parts: parts as u32,
            copy: 0,
            notify: Some(data),
        };
        self.outstanding.insert(self.next_token, outstanding);
        Ok(SendToken(self.next_token))
    }

    #[inline]
    fn release(&mut self, peer: PeerId, session: u32, cost: u32) {
        let Some(p) = self.peers.get_mut(peer.index()).filter(|p| p.session == session) else {
            return;
        };
        p.taken = p.taken.saturating_sub(cost);
        p.owed = p.owed.saturating_add(cost);
        if p.owed >= self.config.unexpected_bytes / RELEASE {
            let owed = core::mem::take(&mut p.owed);
            self.order(Kind::Release, peer, owed);
        }
    }

    fn request_acks(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.push(&Record::new(Kind::RequestAcks, 0), Body::None);
    }

    fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        self.now = self.now.max(now);
        if peer.index() < self.peers.len() {
            self.order(Kind::Watch, peer, on.into());
        }
    }

    fn connect(&mut self, now: Instant, peer: PeerId) {
        self.now = self.now.max(now);
        if self.check(peer).is_ok() && !self.is_up(peer) {
            self.order(Kind::Connect, peer, 0);
        }
    }

    fn close(&mut self, now: Instant, peer: PeerId) {
        self.now = self.now.max(now);
        if self.refuse_sends(peer) {
            self.say_goodbye(peer);
        }
    }

    /// The process that has the endpoint does not tell.
    fn take_lost(&mut self, _: PeerId) -> Vec<LostMessages> {
        Vec::new()
    }

    fn reconnect(&mut self, peer: PeerId) {
        if self.down.remove(&peer.0).is_some() {
            self.order(Kind::Reconnect, peer, 0);
        }
    }

    /// The host's backend is its own business.
    fn set_limits(&mut self, _: Limits) {}

    /// Its records are handed in as datagrams.
    fn handle_datagrams(&mut self, now: Instant, _: Path, data: &mut [u8], _: usize, sink: &mut dyn Sink) {
        self.read_record(now, Span::new(data), sink);
    }

    /// Nothing here depends on time.
    fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    fn handle_unreachable(&mut self, _: Instant, _: SocketAddr, _: &[u8]) {}

    /// Nothing refers to a record once it has been taken.
    fn handle_released(&mut self, _: u64) {}

    #[inline]
    fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        self.now = self.now.max(now);
        let Some(piece) = self.queue.pop_front() else {
            // A caller may wait for this memory, even if it is empty.
            self.current = Bytes::new();
            return false;
        };
        burst.begin(LINK);
        burst.header()[..REPORT].copy_from_slice(&piece.head);
        match piece.payload {
            Body::None => burst.push_inline(REPORT, Span::default()),
            Body::Copied { at, len } => {
                let (at, len) = (at as usize, len as usize);
                burst.push_inline(REPORT, Span::new(&self.block[at..at + len]));
            }
            Body::Shared(data) => {
                burst.push_reference(REPORT, 0, 0, data.len() as u32);
                self.current = data;
            }
        }
        self.stats.packets_sent += 1;
        self.stats.payload_sent += (burst.len() - REPORT) as u64;
        true
    }

    #[inline]
    fn gather<'a>(&'a self, burst: &'a Burst, each: &mut dyn FnMut(&'a [u8])) {
        burst.each(|bytes| bytes, |_, range| &self.current[range], each);
    }

    fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    #[inline]
    fn handle_shared(&mut self, now: Instant, _: SocketAddr, data: Span<'_>, sink: &mut dyn Sink) {
        self.read_record(now, data, sink);
    }
}

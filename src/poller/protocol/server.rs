//! The side that has the endpoint.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::{fmt, net::SocketAddr};

use super::{
    REPORT,
    proxy::{COPIED, MOST_COPIES},
    record::{self, BY_REFERENCE, DELIVERY, IMMEDIATE, Kind, LOST, MATCHED, NEW, RAIL_DOWN, RAIL_UP, Record},
};
use crate::{
    config::{Config, ConfigError},
    error::{AddPeerError, PeerError, SendError},
    id::{PeerId, SendToken},
    reliability::{Burst, Endpoint, Event, Limits, MAX_RAILS, Origin, Outgoing, Path, Sink, Source, Target, Verdict},
    span::{Foreign, Span},
    time::Instant,
    wire::{ANY_PROCESSOR, Packet, Plain, Seq},
};

/// Most messages by reference in a queue ([`Config::send_queue_messages`]), and parts of a placement.
const MOST_MESSAGES: u32 = 1 << 20;
const MOST_PARTS: u32 = 1 << 14;

/// While so many reports wait, what a process asks for and what comes for it waits, too.
pub(super) const MOST_REPORTS: usize = 16_384;

/// Bytes that one copy takes at most: one more than fits may always be queued.
const ONE_COPY: u32 = 8 << 10;

/// A process has said what a correct one cannot say.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// No command, or one of another length.
    Malformed,
    /// The first command must say how to begin, and no later one may.
    Order,
    /// A peer that it has not added, or more of them than its settings allow.
    Peer,
    /// More than it may have queued.
    Queue,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it gives commands that there are not",
            Self::Order => "it does not begin with its settings",
            Self::Peer => "it names peers that it has not added",
            Self::Queue => "it queues more than its settings allow",
        })
    }
}

crate::debug_as_display!(Broken);

impl core::error::Error for Broken {}

/// An endpoint that another process commands.
#[derive(Debug)]
pub struct ProxyServer {
    endpoint: Endpoint,
    /// Sorted.
    processors: Vec<u32>,
    /// Our numbers of the peers, by its numbers.
    peers: Vec<PeerId>,
    /// Peers whose addresses the process has got.
    announced: usize,
    /// Commands executed.
    commands: u64,
    /// It wants to know when everything is acknowledged.
    waits: bool,
    /// Its peers and tokens, by our tokens.
    tokens: BTreeMap<SendToken, (PeerId, u64)>,
    /// Reports of one event that are still to be told, because the state of each rail is told before.
    rest: VecDeque<Record>,
}

/// Decides what the packet of a datagram is, and whether there is room for it.
struct Gate<'a> {
    processors: &'a [u32],
    room: bool,
    delivered: Option<Origin>,
}

impl Sink for Gate<'_> {
    #[inline]
    fn deliver(&mut self, origin: Origin, packet: Packet<&[u8]>) -> Verdict {
        let destination = packet.base().destination;
        if packet.placement().is_none()
            && destination != ANY_PROCESSOR
            && self.processors.binary_search(&destination).is_err()
        {
            return Verdict::Misaddressed;
        }
        if !self.room {
            return Verdict::NoRoom;
        }
        self.delivered = Some(origin);
        Verdict::Taken
    }

    #[inline]
    fn deliver_plain(&mut self, origin: &Origin, message: &Plain<'_>) -> bool {
        // (A packet for any processor takes the general way, as every unusual one.)
        if !self.room || self.processors.binary_search(&message.destination).is_err() {
            return false;
        }
        self.delivered = Some(*origin);
        true
    }
}

impl ProxyServer {
    /// Begins with a process's first command. `limits`, `epoch` and `key` are as in [`Endpoint::new`]; `most_peers`: it
    /// gets no more, whatever it asks for.
    ///
    /// # Errors
    /// It is no such command, or its settings are out of their ranges.
    pub fn new(command: &[u8], limits: Limits, epoch: u64, key: u128, most_peers: u32) -> Result<Self, Broken> {
        let (record, settings) = command.split_first_chunk().ok_or(Broken::Malformed)?;
        let start = Record::command(record).ok_or(Broken::Malformed)?;
        if start.kind != Kind::Start {
            return Err(Broken::Order);
        }
        let (config, mut processors) = record::read_start(settings).ok_or(Broken::Malformed)?;
        let mut endpoint = Self::open(config, limits, epoch, key, most_peers).map_err(|_error| Broken::Malformed)?;
        endpoint.set_processor(processors[0]);
        processors.sort_unstable();
        Ok(Self {
            endpoint,
            processors,
            peers: Vec::new(),
            announced: 0,
            commands: 1,
            waits: false,
            tokens: BTreeMap::new(),
            rest: VecDeque::new(),
        })
    }

    fn open(
        mut config: Config,
        limits: Limits,
        epoch: u64,
        key: u128,
        most_peers: u32,
    ) -> Result<Endpoint, ConfigError> {
        // Half of it is what it was: then there is room again. What may come before it is told that there is none is
        // less than the other half.
        config.send_queue_bytes = 2 * (config.send_queue_bytes.min(MOST_COPIES) + ONE_COPY);
        // A placement is one there and may be many here.
        config.send_queue_messages = MOST_MESSAGES.min(config.send_queue_messages + MOST_PARTS);
        config.max_peers = config.max_peers.min(most_peers);
        let mut endpoint = Endpoint::new(config, limits, epoch, key)?;
        endpoint.note_credit();
        Ok(endpoint)
    }

    /// Executes a command, in the order in which they were given, with the bytes of its message, which are `stays` if they
    /// may stay where they are until they are acknowledged.
    ///
    /// # Errors
    /// The process is broken and should not be heard any more.
    pub fn handle_command(
        &mut self,
        now: Instant,
        command: &[u8; REPORT],
        carried: Span<'_>,
        stays: Option<&Foreign>,
    ) -> Result<(), Broken> {
        let record = Record::command(command).ok_or(Broken::Malformed)?;
        self.commands += 1;
        let carries = matches!(record.kind, Kind::Send | Kind::Place);
        if !carries && !carried.is_empty() {
            return Err(Broken::Malformed);
        }
        match record.kind {
            Kind::Start => return Err(Broken::Order),
            Kind::AddPeer => return self.add_peer(&record),
            Kind::RequestAcks => {
                self.endpoint.request_acks(now);
                self.waits = true;
                return Ok(());
            }
            _ => {}
        }
        let peer = *self.peers.get(record.peer as usize).ok_or(Broken::Peer)?;
        match record.kind {
            Kind::Watch => self.endpoint.watch(now, peer, record.value != 0),
            Kind::Reconnect => {
                self.endpoint.revive(peer);
            }
            Kind::AddRail => {
                // It counts as the host does, and knows whether there is room for another one.
                let _ = self.endpoint.add_rail(now, peer, record.rail().path);
            }
            // What follows is about a session, which may be over.
            _ if self.endpoint.session(peer) != record.session => {}
            Kind::Send => return self.send(now, peer, &record, carried, stays),
            Kind::Place => return self.place(now, peer, &record, (carried, stays)),
            Kind::AskRoom => self.endpoint.tell_when_writable(peer),
            Kind::Release => self.endpoint.release(peer, record.session, record.value),
            Kind::Close => self.endpoint.close(now, peer),
            Kind::GiveUp => self.endpoint.expel(peer, PeerError::Misbehaved),
            Kind::Connect => self.endpoint.connect(now, peer),
            _ => return Err(Broken::Malformed),
        }
        Ok(())
    }

    fn add_peer(&mut self, record: &Record) -> Result<(), Broken> {
        if record.peer as usize != self.peers.len() {
            return Err(Broken::Peer);
        }
        let peer = if record.value == NEW {
            match self.endpoint.add_peer(record.address(), record.destination) {
                // A stranger was first.
                Ok(peer) | Err(AddPeerError::Exists(peer)) => peer,
                Err(AddPeerError::TooMany(_)) => return Err(Broken::Peer),
            }
        } else if (record.value as usize) < self.endpoint.peers() {
            PeerId(record.value)
        } else {
            return Err(Broken::Peer);
        };
        self.peers.push(peer);
        Ok(())
    }

    fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        record: &Record,
        carried: Span<'_>,
        stays: Option<&Foreign>,
    ) -> Result<(), Broken> {
        let message = Outgoing {
            source: record.source,
            destination: record.destination,
            message: Seq(record.value),
            match_bits: (record.flags & MATCHED != 0).then_some(record.a),
            immediate: (record.flags & IMMEDIATE != 0).then_some(record.b),
        };
        let by_reference = record.flags & BY_REFERENCE != 0;
        if !by_reference && carried.len() > COPIED {
            return Err(Broken::Malformed);
        }
        let payload = match by_reference {
            false => Source::Copy(carried),
            true => Source::Shared((carried, stays)),
        };
        let sent = self.endpoint.send_from(now, peer, record.channel, &message, payload);
        self.note_sent(peer, record, sent)
    }

    fn place(
        &mut self,
        now: Instant,
        peer: PeerId,
        record: &Record,
        data: (Span<'_>, Option<&Foreign>),
    ) -> Result<(), Broken> {
        let target = Target {
            source: record.source,
            destination: record.destination,
            region: record.b as u32,
            key: record.value,
            offset: record.a,
        };
        let sent = self.endpoint.place_from(now, peer, record.channel, &target, data);
        self.note_sent(peer, record, sent.map(Some))
    }

    #[inline(always)]
    fn note_sent(
        &mut self,
        peer: PeerId,
        record: &Record,
        sent: Result<Option<SendToken>, SendError>,
    ) -> Result<(), Broken> {
        match sent {
            Ok(Some(token)) => {
                self.tokens.insert(token, (peer, record.c));
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(SendError::WouldBlock(_)) => Err(Broken::Queue),
            // It has closed the session, or it is over: the end of it is told.
            Err(_) => Ok(()),
        }
    }

    /// So much waits to be reported that nothing more is taken in until it has been: datagrams are dropped, as a full
    /// socket drops them, and commands are to be left where they are. A process that reads never comes to that.
    #[must_use]
    #[inline]
    pub fn is_full(&self) -> bool {
        self.endpoint.untaken_events() >= MOST_REPORTS
    }

    /// A datagram has come by a path. If it holds a packet for the process, gives the header of the record that delivers it: the
    /// record is these bytes and then the datagram's, all of them. Not if there is no `room` for it, or the host
    /// [is full](Self::is_full): then it will be sent again.
    #[inline]
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        path: impl Into<Path>,
        data: &mut [u8],
        room: bool,
    ) -> Option<[u8; DELIVERY]> {
        if self.is_full() {
            return None;
        }
        let mut gate = Gate {
            processors: &self.processors,
            room,
            delivered: None,
        };
        let stride = data.len();
        self.endpoint.handle_datagrams(now, path, data, stride, &mut gate);
        let origin = gate.delivered?;
        let record = Record {
            channel: origin.channel,
            session: origin.session,
            value: origin.cost,
            ..Record::new(Kind::Deliver, origin.peer.0)
        };
        Some(record.short_bytes())
    }

    /// The next report. Each is to reach the process, and before packets that come later.
    pub fn poll_report(&mut self) -> Option<[u8; REPORT]> {
        if self.announced < self.endpoint.peers() {
            let peer = PeerId(self.announced as u32);
            self.announced += 1;
            let mut record = Record::new(Kind::Peer, peer.0);
            record.destination = self.endpoint.processor(peer).unwrap_or(ANY_PROCESSOR);
            record.set_address(self.endpoint.address(peer)?);
            return Some(record.bytes());
        }
        if !self.rest.is_empty() {
            return self.go_on_telling();
        }
        while let Some(event) = self.endpoint.poll_event() {
            if let Some(record) = self.report(event) {
                return Some(record.bytes());
            }
        }
        if let Some((peer, session, limit)) = self.endpoint.poll_credit() {
            let record = Record {
                session,
                a: limit,
                ..Record::new(Kind::Credit, peer.0)
            };
            return Some(record.bytes());
        }
        if self.waits && self.endpoint.all_idle() {
            self.waits = false;
            let record = Record {
                a: self.commands,
                ..Record::new(Kind::Idle, 0)
            };
            return Some(record.bytes());
        }
        None
    }

    fn report(&mut self, event: Event) -> Option<Record> {
        Some(match event {
            Event::Up { peer, session } => {
                let record = Record {
                    session,
                    ..Record::new(Kind::Up, peer.0)
                };
                self.after_rails(record)
            }
            Event::Down {
                peer,
                session,
                error,
                lost,
            } => {
                // Nothing more is told of what was on its way.
                self.tokens.retain(|_, (of, _)| *of != peer);
                let mut record = Record {
                    session,
                    flags: if lost { LOST } else { 0 },
                    c: self.commands,
                    ..Record::new(Kind::Down, peer.0)
                };
                record.set_error(error);
                self.after_rails(record)
            }
            Event::Sent { peer, token } => Record {
                c: self.tokens.remove(&token)?.1,
                ..Record::new(Kind::Sent, peer.0)
            },
            Event::Returned {
                peer,
                source,
                destination,
                message,
                messages,
            } => Record {
                value: message.0,
                source,
                destination,
                a: messages,
                ..Record::new(Kind::Returned, peer.0)
            },
            Event::RailUp { peer, rail } => self.rail(peer, rail, RAIL_UP)?,
            Event::RailDown { peer, rail } => self.rail(peer, rail, RAIL_DOWN)?,
            Event::Writable { peer } => {
                if !self.endpoint.has_room(peer) {
                    self.endpoint.tell_when_writable(peer);
                    return None;
                }
                Record {
                    session: self.endpoint.session(peer),
                    ..Record::new(Kind::Room, peer.0)
                }
            }
        })
    }

    #[cold]
    fn go_on_telling(&mut self) -> Option<[u8; REPORT]> {
        self.rest.pop_front().map(|record| record.bytes())
    }

    #[cold]
    fn rail(&self, peer: PeerId, rail: u8, news: u16) -> Option<Record> {
        let stats = self.endpoint.rail_stats(peer, rail)?;
        let mut record = Record::new(Kind::Rail, peer.0);
        record.flags = news;
        record.set_rail(rail, &stats);
        Some(record)
    }

    /// Tells the state of the peer's rails, if it has several, and then this. Returns what is to be told first.
    #[cold]
    fn after_rails(&mut self, record: Record) -> Record {
        let peer = PeerId(record.peer);
        let rails = (0..MAX_RAILS as u8).filter_map(|rail| self.rail(peer, rail, 0));
        let mut all: VecDeque<Record> = rails.collect();
        if all.len() < 2 {
            return record;
        }
        all.push_back(record);
        self.rest = all;
        self.rest.pop_front().unwrap_or(record)
    }

    /// See [`Endpoint::limit_port`].
    pub fn limit_port(&mut self, port: u8, max_datagram: usize) {
        self.endpoint.limit_port(port, max_datagram);
    }

    /// See [`Endpoint::hold_port`].
    pub fn hold_port(&mut self, port: u8, is_full: bool) {
        self.endpoint.hold_port(port, is_full);
    }

    /// Fills `burst` with something to transmit, if there is anything.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        self.endpoint.poll_transmit(now, burst)
    }

    /// The bytes of a burst in order. See [`Endpoint::gather`]: some may lie where the process can write.
    #[inline]
    pub fn gather<'a>(&'a self, burst: &'a Burst, each: impl FnMut(Span<'a>)) {
        self.endpoint.gather_spans(burst, each);
    }

    /// See [`Endpoint::poll_timeout`].
    #[must_use]
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    /// See [`Endpoint::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }

    /// See [`Endpoint::handle_unreachable`].
    pub fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        self.endpoint.handle_unreachable(now, address, quoted);
    }

    /// See [`Endpoint::handle_released`].
    pub fn handle_released(&mut self, token: u64) {
        self.endpoint.handle_released(token);
    }

    /// See [`Endpoint::set_limits`].
    pub fn set_limits(&mut self, limits: Limits) {
        self.endpoint.set_limits(limits);
    }

    /// It has said goodbye to peers who have not answered yet.
    #[must_use]
    pub fn is_parting(&self) -> bool {
        self.endpoint.is_parting()
    }

    /// There are peers who do not know yet that it goes.
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        self.endpoint.has_sessions()
    }

    /// The endpoint: its getters. It has its own numbers of peers, and [`gather`](Self::gather) is the host's.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

//! TCP as workstations of the 1990s had it, in the place of this project's own protocol: to compare with.
//!
//! [`Streams`] is the packet layer of a process: packets of a [`MemoryLayer`], which needs a medium that loses nothing,
//! become records of byte streams. Where not all processes are connected, those on the way receive a record and write it
//! to the next stream.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    time::Duration,
};

use bytes::Bytes;

use super::{
    network::{RangeError, Routing},
    node::{address_of, process_at},
};
use crate::{
    config::Config,
    error::{AddPeerError, PeerError, SendError},
    id::{PeerId, SendToken},
    prng::mix,
    reliability::{
        Burst, Due, Event, Limits, LostMessages, MemoryLayer, Outgoing, PacketLayer, Path, Payload, Route, Sink, Target,
    },
    stats::{PeerStats, Stats},
    time::Instant,
};

/// Bytes of a TCP header beyond those of a UDP header, which the network counts for every datagram. They hold sequence
/// number and acknowledgement.
const HEADER: usize = 12;
/// Bytes before each record: its length, its source and its destination.
const RECORD: usize = 12;

/// TCP of 4.4BSD and its relatives (RFC 793, 896, 1122; Jacobson's slow start and congestion avoidance), with what a
/// process on the way of a message costs.
///
/// Connections are open from the beginning. Each message is one `write`, and a socket takes all that is written. A
/// receiver reads at once, so its window is always open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tcp {
    /// A segment that is not full waits until all before it are acknowledged (RFC 896). Default on.
    pub nagle: bool,
    /// An acknowledgement waits for the next tick of a clock of this period for data to ride on, but not beyond the
    /// second full segment. 0: it does not wait. At most 500 ms; default 200 ms, as in BSD.
    pub ack_delay: Duration,
    /// Bytes of the receiver's window, and of slow start's first threshold. From 4 KiB to 64 KiB; default 16 KiB.
    pub window: u32,
    /// Least time before a segment is sent again. From 10 ms to 60 s; default 1 s.
    pub min_rto: Duration,
    /// Time of a process on the way from the arrival of a message until it has written it to the next stream: it must be
    /// scheduled, and its calls take time. At most 1 s; default 0.
    pub relay: Duration,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            nagle: true,
            ack_delay: Duration::from_millis(200),
            window: 16 << 10,
            min_rto: Duration::from_secs(1),
            relay: Duration::ZERO,
        }
    }
}

impl Tcp {
    pub(super) fn validate(&self) -> Result<(), RangeError> {
        let rto = Duration::from_millis(10)..=Duration::from_secs(60);
        RangeError::first(&[
            (
                self.ack_delay <= Duration::from_millis(500),
                "ack_delay",
                "at most 500 ms",
            ),
            (
                (4 << 10..=64 << 10).contains(&self.window),
                "window",
                "from 4 KiB to 64 KiB",
            ),
            (rto.contains(&self.min_rto), "min_rto", "from 10 ms to 60 s"),
            (self.relay <= Duration::from_secs(1), "relay", "at most 1 s"),
        ])
    }
}

/// One connection, at one of its ends. Bytes are counted from its beginning.
#[derive(Debug, Default)]
struct Connection {
    /// Bytes from `acknowledged` on.
    out: VecDeque<u8>,
    acknowledged: u64,
    next: u64,
    /// End of the bytes that were ever sent.
    sent: u64,
    congestion: u32,
    threshold: u32,
    /// Acknowledgements that have said the same again.
    repeats: u32,
    /// A segment whose round trip is timed: its end, and when it was sent.
    timed: Option<(u64, Instant)>,
    round_trip: Option<(Duration, Duration)>,
    resend: Option<Instant>,
    resends: u32,
    last: Instant,
    /// The end of what has come without a gap.
    expected: u64,
    early: BTreeMap<u64, Vec<u8>>,
    inbox: Vec<u8>,
    unanswered: usize,
    answer: Option<Instant>,
    answer_now: bool,
}

/// The number nearest to `near` whose lower half is `low`.
fn widen(near: u64, low: u32) -> u64 {
    near.wrapping_add_signed(i64::from(low.wrapping_sub(near as u32) as i32))
}

impl Connection {
    fn new(tcp: &Tcp, segment: usize) -> Self {
        Self {
            congestion: segment as u32,
            threshold: tcp.window,
            ..Self::default()
        }
    }

    fn timeout(&self, tcp: &Tcp) -> Duration {
        // Three seconds before the first sample (RFC 1122, section 4.2.3.1).
        let base = self
            .round_trip
            .map_or(Duration::from_secs(3), |(mean, deviation)| mean + 4 * deviation);
        base.max(tcp.min_rto) * (1 << self.resends.min(6))
    }

    /// The next segment, if one may go: the bytes that it carries.
    fn segment(&mut self, now: Instant, tcp: &Tcp, segment: usize) -> Option<(u64, usize)> {
        let in_flight = self.next - self.acknowledged;
        if in_flight == 0 && now.saturating_since(self.last) > self.timeout(tcp) {
            self.congestion = segment as u32;
        }
        let window = u64::from(self.congestion.min(tcp.window));
        let left = self.acknowledged + self.out.len() as u64 - self.next;
        let len = left.min(segment as u64).min(window.saturating_sub(in_flight));
        let again = self.next < self.sent;
        let small = len == left && (in_flight == 0 || !tcp.nagle || again);
        if len == 0 || len < segment as u64 && !small {
            return std::mem::take(&mut self.answer_now).then(|| {
                self.answered();
                (self.next, 0)
            });
        }
        let from = self.next;
        self.next += len;
        if self.next > self.sent {
            self.sent = self.next;
            if !again {
                self.timed.get_or_insert((self.next, now));
            }
        }
        self.last = now;
        if self.resend.is_none() {
            self.resend = Some(now + self.timeout(tcp));
        }
        self.answered();
        Some((from, len as usize))
    }

    fn answered(&mut self) {
        (self.unanswered, self.answer, self.answer_now) = (0, None, false);
    }

    /// Sends again from the first byte that is not acknowledged.
    fn go_back(&mut self, segment: usize, congestion: u32) {
        let in_flight = (self.sent - self.acknowledged) as u32;
        self.threshold = (in_flight / 2).max(2 * segment as u32);
        self.congestion = if congestion == 0 { self.threshold } else { congestion };
        self.next = self.acknowledged;
        (self.timed, self.repeats) = (None, 0);
    }

    fn handle_answer(&mut self, now: Instant, tcp: &Tcp, segment: usize, answer: u32, is_bare: bool) {
        let answer = widen(self.acknowledged, answer);
        if answer == self.acknowledged && is_bare && self.sent > answer {
            self.repeats += 1;
            if self.repeats == 3 {
                self.go_back(segment, 0);
            }
        }
        if answer <= self.acknowledged || answer > self.sent {
            return;
        }
        self.out.drain(..(answer - self.acknowledged) as usize);
        self.acknowledged = answer;
        self.next = self.next.max(answer);
        if let Some((end, at)) = self.timed
            && end <= answer
        {
            self.timed = None;
            self.sample(now.saturating_since(at));
        }
        let (window, segment) = (self.congestion, segment as u32);
        self.congestion += if window < self.threshold {
            segment
        } else {
            segment * segment / window
        };
        self.congestion = self.congestion.min(tcp.window);
        (self.repeats, self.resends) = (0, 0);
        self.resend = (self.sent > answer).then(|| now + self.timeout(tcp));
    }

    /// Jacobson's mean and deviation.
    fn sample(&mut self, time: Duration) {
        self.round_trip = Some(match self.round_trip {
            None => (time, time / 2),
            Some((mean, deviation)) => (mean * 7 / 8 + time / 8, deviation * 3 / 4 + time.abs_diff(mean) / 4),
        });
    }

    fn handle_data(&mut self, now: Instant, segment: usize, tick: impl Fn(Instant) -> Instant, from: u32, data: &[u8]) {
        let from = widen(self.expected, from);
        if from + data.len() as u64 <= self.expected || from > self.expected {
            self.answer_now = true;
        }
        if from > self.expected {
            self.early.insert(from, data.to_vec());
            return;
        }
        let Some(fresh) = data.get((self.expected - from) as usize..) else {
            return;
        };
        self.accept(fresh);
        while let Some(entry) = self.early.first_entry()
            && *entry.key() <= self.expected
        {
            let (from, data) = entry.remove_entry();
            self.accept(data.get((self.expected - from) as usize..).unwrap_or_default());
        }
        if self.unanswered >= 2 * segment {
            self.answer_now = true;
        }
        if self.answer.is_none() {
            self.answer = Some(tick(now));
        }
    }

    fn accept(&mut self, data: &[u8]) {
        self.inbox.extend_from_slice(data);
        self.expected += data.len() as u64;
        self.unanswered += data.len();
    }

    /// The next whole record, with its source and destination.
    fn record(&mut self) -> Option<(u32, u32, Vec<u8>)> {
        let number = |at: usize| Some(u32::from_le_bytes(*self.inbox.get(at..)?.first_chunk()?));
        let (len, source, destination) = (number(0)? as usize, number(4)?, number(8)?);
        if self.inbox.len() < RECORD + len {
            return None;
        }
        let record = self.inbox.drain(..RECORD + len).skip(RECORD).collect();
        Some((source, destination, record))
    }

    fn handle_timeout(&mut self, now: Instant, segment: usize) {
        if self.answer.is_some_and(|at| at <= now) {
            (self.answer, self.answer_now) = (None, true);
        }
        if self.resend.is_some_and(|at| at <= now) {
            self.resend = None;
            if self.sent > self.acknowledged {
                self.resends += 1;
                self.go_back(segment, segment as u32);
            }
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Streams {
    inner: MemoryLayer,
    tcp: Tcp,
    routing: Option<Routing>,
    process: u32,
    processes: u32,
    /// Bytes of a full segment.
    segment: usize,
    /// By the process at the other end.
    connections: BTreeMap<u32, Connection>,
    /// The connection that sent last.
    last: u32,
    /// Records for others, and when this process will have passed them on.
    later: VecDeque<(Instant, u32, u32, Vec<u8>)>,
    /// For the layer within.
    burst: Option<Burst>,
}

impl Streams {
    /// The streams of one of `processes` processes. Datagrams have at most `datagram` bytes.
    pub(super) fn new(
        inner: MemoryLayer,
        tcp: Tcp,
        routing: Option<Routing>,
        (process, processes): (u32, u32),
        datagram: usize,
    ) -> Self {
        Self {
            inner,
            tcp,
            routing,
            process,
            processes,
            segment: datagram - HEADER,
            connections: BTreeMap::new(),
            last: 0,
            later: VecDeque::new(),
            burst: None,
        }
    }

    /// What a [`MemoryLayer`] over streams may send at once: records have no limit of their own.
    pub(super) const fn limits(limits: Limits) -> Limits {
        Limits {
            max_datagram: 65_507,
            max_batch: 65_507,
            ..limits
        }
    }

    fn write(&mut self, source: u32, destination: u32, data: &[u8]) {
        let next = match self.routing {
            Some(routing) => routing.next(self.process, destination, self.processes),
            None => destination,
        };
        let new = || Connection::new(&self.tcp, self.segment);
        let out = &mut self.connections.entry(next).or_insert_with(new).out;
        for number in [data.len() as u32, source, destination] {
            out.extend(number.to_le_bytes());
        }
        out.extend(data);
    }

    /// Puts the next segment into a burst.
    fn emit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        let peers = self.connections.keys().copied();
        let (before, after): (Vec<u32>, Vec<u32>) = peers.partition(|peer| *peer <= self.last);
        for peer in after.into_iter().chain(before) {
            let Some(connection) = self.connections.get_mut(&peer) else {
                continue;
            };
            let Some((from, len)) = connection.segment(now, &self.tcp, self.segment) else {
                continue;
            };
            let start = (from - connection.acknowledged) as usize;
            burst.begin(address_of(peer));
            let segment = burst.datagram(HEADER + len);
            segment[..4].copy_from_slice(&(from as u32).to_le_bytes());
            segment[4..8].copy_from_slice(&(connection.expected as u32).to_le_bytes());
            segment[8..HEADER].copy_from_slice(&(len as u32).to_le_bytes());
            let data = connection.out.range(start..start + len);
            data.zip(&mut segment[HEADER..]).for_each(|(from, to)| *to = *from);
            // Nothing follows it.
            burst.push_padding(HEADER + len, 0);
            self.last = peer;
            return true;
        }
        false
    }

    /// The next tick of the clock for acknowledgements: hosts did not start at the same time.
    fn tick(tcp: &Tcp, process: u32, now: Instant) -> Instant {
        let period = tcp.ack_delay.as_nanos() as u64;
        if period == 0 {
            return now;
        }
        let phase = mix(u64::from(process) + 1) % period;
        let now = now.as_nanos();
        Instant::from_nanos((now + period - phase) / period * period + phase)
    }
}

impl PacketLayer for Streams {
    fn config(&self) -> &Config {
        PacketLayer::config(&self.inner)
    }

    fn stats(&self) -> Stats {
        PacketLayer::stats(&self.inner)
    }

    fn is_up(&self, peer: PeerId) -> bool {
        PacketLayer::is_up(&self.inner, peer)
    }

    fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        PacketLayer::peer_stats(&self.inner, peer)
    }

    fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        PacketLayer::address(&self.inner, peer)
    }

    fn processor(&self, peer: PeerId) -> Option<u32> {
        PacketLayer::processor(&self.inner, peer)
    }

    fn peers(&self) -> usize {
        PacketLayer::peers(&self.inner)
    }

    fn session(&self, peer: PeerId) -> u32 {
        PacketLayer::session(&self.inner, peer)
    }

    fn down(&self, peer: PeerId) -> Option<PeerError> {
        PacketLayer::down(&self.inner, peer)
    }

    fn is_idle(&self, peer: PeerId) -> bool {
        PacketLayer::is_idle(&self.inner, peer)
    }

    fn all_idle(&self) -> bool {
        PacketLayer::all_idle(&self.inner)
    }

    fn should_transmit(&self, peer: PeerId, channel: u8) -> bool {
        PacketLayer::should_transmit(&self.inner, peer, channel)
    }

    fn due(&self, peer: PeerId, channel: u8, len: usize) -> Due {
        PacketLayer::due(&self.inner, peer, channel, len)
    }

    fn has_batch(&self, peer: PeerId, channel: u8) -> bool {
        PacketLayer::has_batch(&self.inner, peer, channel)
    }

    fn credit(&self, peer: PeerId) -> u64 {
        PacketLayer::credit(&self.inner, peer)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let connections = self.connections.values().flat_map(|it| [it.answer, it.resend]);
        let relayed = self.later.front().map(|(at, ..)| *at);
        connections
            .chain([relayed, PacketLayer::poll_timeout(&self.inner)])
            .flatten()
            .min()
    }

    fn has_events(&self) -> bool {
        PacketLayer::has_events(&self.inner)
    }

    fn route(&self, peer: PeerId) -> Option<Route> {
        PacketLayer::route(&self.inner, peer)
    }

    fn set_processor(&mut self, processor: u32) {
        PacketLayer::set_processor(&mut self.inner, processor);
    }

    fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        PacketLayer::add_peer(&mut self.inner, address, processor)
    }

    fn send(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        PacketLayer::send(&mut self.inner, now, peer, channel, message, payload)
    }

    fn place(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        target: &Target,
        data: Bytes,
    ) -> Result<SendToken, SendError> {
        PacketLayer::place(&mut self.inner, now, peer, channel, target, data)
    }

    fn release(&mut self, peer: PeerId, session: u32, cost: u32) {
        PacketLayer::release(&mut self.inner, peer, session, cost);
    }

    fn request_acks(&mut self, now: Instant) {
        PacketLayer::request_acks(&mut self.inner, now);
    }

    fn watch(&mut self, now: Instant, peer: PeerId, on: bool) {
        PacketLayer::watch(&mut self.inner, now, peer, on);
    }

    fn connect(&mut self, now: Instant, peer: PeerId) {
        PacketLayer::connect(&mut self.inner, now, peer);
    }

    fn close(&mut self, now: Instant, peer: PeerId) {
        PacketLayer::close(&mut self.inner, now, peer);
    }

    fn take_lost(&mut self, peer: PeerId) -> Vec<LostMessages> {
        PacketLayer::take_lost(&mut self.inner, peer)
    }

    fn reconnect(&mut self, peer: PeerId) {
        PacketLayer::reconnect(&mut self.inner, peer);
    }

    fn set_limits(&mut self, limits: Limits) {
        PacketLayer::set_limits(&mut self.inner, Self::limits(limits));
    }

    fn handle_timeout(&mut self, now: Instant) {
        let segment = self.segment;
        let connections = self.connections.values_mut();
        connections.for_each(|connection| connection.handle_timeout(now, segment));
        PacketLayer::handle_timeout(&mut self.inner, now);
    }

    fn handle_unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) {
        PacketLayer::handle_unreachable(&mut self.inner, now, address, quoted);
    }

    fn handle_released(&mut self, token: u64) {
        PacketLayer::handle_released(&mut self.inner, token);
    }

    /// A segment at a time. What the process writes next is looked at only when the streams have nothing to send, as each
    /// `write` would be sent before the next one.
    fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        loop {
            if self.emit(now, burst) {
                return true;
            }
            if self.later.front().is_some_and(|(at, ..)| *at <= now)
                && let Some((_, source, destination, data)) = self.later.pop_front()
            {
                self.write(source, destination, &data);
                continue;
            }
            let mut own = self.burst.take().unwrap_or_default();
            let any = PacketLayer::poll_transmit(&mut self.inner, now, &mut own);
            let mut data = Vec::new();
            if any {
                PacketLayer::gather(&self.inner, &own, &mut |bytes| data.extend_from_slice(bytes));
            }
            let destination = process_at(own.destination());
            self.burst = Some(own);
            match destination {
                Some(destination) if any => self.write(self.process, destination, &data),
                _ if any => {}
                _ => return false,
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        PacketLayer::poll_event(&mut self.inner)
    }

    fn handle_datagrams(&mut self, now: Instant, path: Path, data: &mut [u8], _stride: usize, sink: &mut dyn Sink) {
        let (Some(peer), Some((header, data))) = (process_at(path.address), data.split_first_chunk::<HEADER>()) else {
            return;
        };
        let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (tcp, segment, process) = (self.tcp, self.segment, self.process);
        let new = || Connection::new(&tcp, segment);
        let connection = self.connections.entry(peer).or_insert_with(new);
        connection.handle_answer(now, &tcp, segment, number(4), data.is_empty());
        if !data.is_empty() {
            let tick = |now| Self::tick(&tcp, process, now);
            connection.handle_data(now, segment, tick, number(0), data);
        }
        while let Some((from, to, mut record)) = self.connections.get_mut(&peer).and_then(Connection::record) {
            if to == self.process {
                let stride = record.len();
                PacketLayer::handle_datagrams(&mut self.inner, now, address_of(from).into(), &mut record, stride, sink);
            } else {
                self.later.push_back((now + self.tcp.relay, from, to, record));
            }
        }
    }

    fn deliver_waiting(&mut self, now: Instant, sink: &mut dyn Sink) {
        PacketLayer::deliver_waiting(&mut self.inner, now, sink);
    }

    fn gather<'a>(&'a self, burst: &'a Burst, each: &mut dyn FnMut(&'a [u8])) {
        // All of it was copied.
        burst.each(|bytes| bytes, |_, _| &[][..], each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        mpi::engine::Communicator,
        sim::{Cpu, Network, Simulation},
    };

    const SEGMENT: usize = 1_000;

    fn connection(tcp: &Tcp) -> Connection {
        Connection::new(tcp, SEGMENT)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn small_messages_wait_for_the_acknowledgement_and_go_together() {
        for nagle in [true, false] {
            let tcp = Tcp {
                nagle,
                ..Tcp::default()
            };
            let mut sender = connection(&tcp);
            sender.out.extend([1; 10]);
            assert_eq!(sender.segment(at(0), &tcp, SEGMENT), Some((0, 10)));
            sender.out.extend([2; 10]);
            let second = sender.segment(at(1), &tcp, SEGMENT);
            assert_eq!(second, (!nagle).then_some((10, 10)));
            sender.out.extend([3; 10]);
            sender.handle_answer(at(2), &tcp, SEGMENT, 10, true);
            let rest = sender.segment(at(2), &tcp, SEGMENT);
            assert_eq!(rest, Some(if nagle { (10, 20) } else { (20, 10) }));
        }
    }

    #[test]
    fn acknowledgements_wait_for_the_tick_or_the_second_full_segment() {
        let tcp = Tcp::default();
        let tick = |_| at(130);
        let mut receiver = connection(&tcp);
        receiver.handle_data(at(0), SEGMENT, tick, 0, &[0; 10]);
        assert_eq!((receiver.answer, receiver.answer_now), (Some(at(130)), false));
        receiver.handle_timeout(at(130), SEGMENT);
        assert_eq!(receiver.segment(at(130), &tcp, SEGMENT), Some((0, 0)));
        receiver.handle_data(at(140), SEGMENT, tick, 10, &[0; SEGMENT]);
        assert!(!receiver.answer_now);
        receiver.handle_data(at(140), SEGMENT, tick, 1_010, &[0; SEGMENT]);
        assert!(receiver.answer_now);
        // One that is early is kept, and the receiver says what it misses.
        receiver.answered();
        receiver.handle_data(at(141), SEGMENT, tick, 2_020, &[7; 10]);
        assert!(receiver.answer_now && receiver.expected == 2_010);
        receiver.handle_data(at(142), SEGMENT, tick, 2_010, &[6; 10]);
        assert_eq!(receiver.expected, 2_030);
    }

    #[test]
    fn windows_grow_and_what_is_lost_goes_again() {
        let tcp = Tcp::default();
        let mut sender = connection(&tcp);
        sender.out.extend([0; 20 * SEGMENT]);
        let burst = |sender: &mut Connection, now| {
            let mut count = 0;
            while sender.segment(at(now), &tcp, SEGMENT).is_some() {
                count += 1;
            }
            count
        };
        // Slow start.
        assert_eq!(burst(&mut sender, 0), 1);
        sender.handle_answer(at(10), &tcp, SEGMENT, 1_000, true);
        assert_eq!(burst(&mut sender, 10), 2);
        sender.handle_answer(at(20), &tcp, SEGMENT, 3_000, true);
        assert_eq!(burst(&mut sender, 20), 3);
        // Three acknowledgements that say the same, then a time-out.
        (0..3).for_each(|_| sender.handle_answer(at(30), &tcp, SEGMENT, 3_000, true));
        assert_eq!(sender.segment(at(30), &tcp, SEGMENT), Some((3_000, SEGMENT)));
        let due = sender.resend.unwrap();
        sender.handle_timeout(due, SEGMENT);
        assert_eq!(sender.segment(due, &tcp, SEGMENT), Some((3_000, SEGMENT)));
        assert_eq!(sender.congestion, SEGMENT as u32);
    }

    /// Over relays, with losses: everything arrives, and everything follows from the seed.
    #[test]
    fn messages_pass_over_relays() {
        for routing in [None, Some(Routing::Chain), Some(Routing::Torus)] {
            let mut simulation = Simulation::new(6, 1);
            simulation.network = Network {
                routing,
                loss: 0.02,
                ..Network::ethernet_10()
            };
            simulation.cpu = Cpu::FREE;
            simulation.tcp = Some(Tcp {
                relay: Duration::from_micros(60),
                ..Tcp::default()
            });
            let run = || {
                let outcome = simulation.run(|engine| {
                    let world = Communicator::world(engine);
                    let (rank, size) = (world.rank(), world.size());
                    for to in (0..size).filter(|to| *to != rank) {
                        let mut array = world.array(3_000);
                        array.get_mut().unwrap().fill(rank as u8);
                        world.send_array(&array, to, 7).unwrap();
                    }
                    for from in (0..size).filter(|from| *from != rank) {
                        let (array, _) = world.receive_array(from, 7).unwrap();
                        assert!(array.len() == 3_000 && array.iter().all(|byte| *byte == from as u8));
                    }
                    world.barrier().unwrap();
                });
                outcome.unwrap()
            };
            let outcome = run();
            assert!(outcome.network.lost > 0);
            assert_eq!(run(), outcome);
        }
    }

    #[test]
    fn relays_take_their_time() {
        let time = |relay| {
            let mut simulation = Simulation::new(3, 1);
            simulation.network.routing = Some(Routing::Chain);
            simulation.cpu = Cpu::FREE;
            simulation.tcp = Some(Tcp {
                relay: Duration::from_millis(relay),
                ..Tcp::default()
            });
            let outcome = simulation.run(|engine| {
                let world = Communicator::world(engine);
                match world.rank() {
                    0 => drop(world.send_array(&world.array(8), 2, 0).unwrap().wait().unwrap()),
                    2 => drop(world.receive_array(0, 0).unwrap()),
                    _ => {}
                }
            });
            outcome.unwrap().time
        };
        let (at_once, later) = (time(0), time(5));
        assert!(
            at_once < Duration::from_millis(1) && later > Duration::from_millis(5),
            "{at_once:?} {later:?}"
        );
    }

    #[test]
    fn values_out_of_range_are_named() {
        let mut simulation = Simulation::new(2, 1);
        simulation.tcp = Some(Tcp {
            window: 1,
            ..Tcp::default()
        });
        let error = simulation.run(|_| ()).unwrap_err();
        assert!(error.to_string().contains("`window`"), "{error}");
    }
}

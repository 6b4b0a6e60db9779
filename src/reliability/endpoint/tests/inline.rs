//! The short ways for a message that is all that its flow has to send, past the queue and out of it, against the general one.

use core::time::Duration;

use super::*;
use crate::{
    Recovery, WindowMode,
    reliability::{
        Target,
        burst::INLINE,
        flow::{FlowKey, NONE},
        packet_builder::Format,
        peer::Phase,
    },
    wire::Record,
};

/// All that a burst says, its bytes last.
pub(super) fn describe(endpoint: &Endpoint, burst: &Burst) -> impl PartialEq + core::fmt::Debug + use<> {
    let mut bytes = vec![];
    endpoint.gather(burst, |part| bytes.extend_from_slice(part));
    assert_eq!(bytes.len(), burst.len());
    (
        burst.destination(),
        burst.port(),
        burst.segment_size(),
        burst.segments(),
        burst.dont_fragment(),
        burst.token(),
        bytes,
    )
}

/// Begins a burst of a flow, as all ways to fill it expect it.
fn begin(endpoint: &Endpoint, index: u32) -> Burst {
    let flow = &endpoint.flows[endpoint.actives[index as usize].flow as usize];
    let mut burst = Burst::default();
    burst.begin(endpoint.peers[flow.peer as usize].address);
    burst
}

/// The general way: fills a burst of the flow as if there were no short one. Gives whether there may be more.
fn fill_generally(endpoint: &mut Endpoint, index: u32) -> (bool, Burst) {
    let mut burst = begin(endpoint, index);
    let more = endpoint.fill_any(index, &mut burst);
    endpoint.reschedule(index);
    (more, burst)
}

/// For each flow that may have something to transmit: if the short way does it, it fills the same burst as the general one
/// does, and leaves the same endpoint; otherwise it does nothing. Gives for how many it does.
pub(super) fn fill_both_ways(endpoint: &Endpoint, now: Instant) -> usize {
    let mut endpoint = endpoint.clone();
    endpoint.advance(now);
    let mut done = 0;
    for &index in endpoint.ready.iter().chain(&endpoint.bulk) {
        if endpoint.actives[index as usize].flow == NONE {
            continue;
        }
        let (mut short, mut general) = (endpoint.clone(), endpoint.clone());
        let mut burst = begin(&short, index);
        if !short.fill_lone(index, &mut burst) {
            assert!(burst.is_empty());
            // Nothing was done.
            assert_same(&short, &endpoint);
            continue;
        }
        short.reschedule(index);
        let (more, mut other) = fill_generally(&mut general, index);
        assert!(!more);
        short.hold(&mut burst);
        general.hold(&mut other);
        assert_eq!(describe(&short, &burst), describe(&general, &other));
        assert_same(&short, &general);
        done += 1;
    }
    done
}

/// What is sent past the queue is what would have gone through it: the same bytes, and the same endpoint afterwards.
/// Gives whether it was.
pub(super) fn send_past_the_queue(pair: &mut Pair, from: usize, peer: PeerId, number: u32, data: &[u8]) -> bool {
    let message = Outgoing {
        match_bits: number.is_multiple_of(3).then_some(number.into()),
        ..message(from, number)
    };
    send_as_through_the_queue(pair, from, peer, 0, &message, data)
}

/// The same with any message on any channel.
fn send_as_through_the_queue(
    pair: &mut Pair,
    from: usize,
    peer: PeerId,
    channel: u8,
    message: &Outgoing,
    data: &[u8],
) -> bool {
    let now = Instant::from_nanos(pair.now);
    // Nothing of others is in the way, and no question. (What was only left for later may be, and what rides on data.)
    let endpoint = &pair.ends[from].0;
    let flow = endpoint.find_flow(peer.0, FlowKey::new(0, channel));
    let is_own = |index: &u32| {
        let active = &endpoint.actives[*index as usize];
        Some(active.flow) == flow && !active.send.asks_alone()
    };
    if !endpoint.ready.iter().all(is_own) || !endpoint.bulk.is_empty() || !endpoint.control.is_empty() {
        pair.transmit();
    }
    let mut twin = pair.ends[from].0.clone();
    let (mut burst, mut nothing) = (Burst::default(), Burst::default());
    let endpoint = &mut pair.ends[from].0;
    let Some(inline) = endpoint.begin_inline(now, peer, channel, message, data, &mut burst) else {
        // Nothing was done.
        assert_same(endpoint, &twin);
        return false;
    };
    let lent = if burst.head().len() < burst.len() { data } else { &[] };
    let written = [burst.head(), lent].concat();
    endpoint.finish_inline(&inline, data, &mut burst);
    let mut gathered = Vec::new();
    endpoint.gather(&burst, |piece| gathered.extend_from_slice(piece));
    assert_eq!(written, gathered);
    let sent = describe(endpoint, &burst);
    assert!(!endpoint.poll_transmit(now, &mut nothing));
    twin.send(now, peer, channel, message, Payload::Copy(data)).unwrap();
    let index = twin.ready.pop_front().unwrap();
    twin.actives[index as usize].ready = false;
    let (more, mut other) = fill_generally(&mut twin, index);
    assert!(!more);
    twin.hold(&mut other);
    assert_eq!(sent, describe(&twin, &other));
    assert!(!twin.poll_transmit(now, &mut nothing));
    assert_same(endpoint, &twin);
    pair.emit(from, &burst);
    true
}

/// Small ones most of the time; about as large as what is copied into a burst, or as what fits a datagram; longer ones.
fn lens() -> impl Strategy<Value = usize> {
    prop_oneof![12 => 0_usize..40, 4 => 490_usize..530, 4 => 1_380_usize..1_480, 1 => 0_usize..6_000]
}

#[derive(Clone, Debug)]
enum Step {
    Send(Sent),
    /// Bytes for a region.
    Place(u8, usize),
    /// So many datagrams arrive.
    Arrive(u8),
    /// The next datagram comes last.
    Overtake,
    /// It comes twice.
    Repeat,
    /// So many packets find no room.
    PutOff(usize),
    /// The received messages are taken.
    Release,
    /// Acknowledgements are asked for.
    Ask,
    /// The backend refers to a burst no more.
    GiveBack,
    /// So many nanoseconds.
    Wait(u64),
    Transmit,
    Settle,
    Rest,
}

/// Messages one after the other.
#[derive(Clone, Debug)]
struct Sent {
    channel: u8,
    count: u8,
    len: usize,
    past_the_queue: bool,
    shared: bool,
    immediate: bool,
    to_nobody: bool,
}

fn channels() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0), 1 => 1_u8..3]
}

fn sends() -> impl Strategy<Value = Step> {
    let kind = [0.5, 0.15, 0.05, 0.05].map(prop::bool::weighted);
    (channels(), prop_oneof![3 => Just(1), 1 => 2_u8..5], lens(), kind).prop_map(|(channel, count, len, kind)| {
        let [past_the_queue, shared, immediate, to_nobody] = kind;
        Step::Send(Sent {
            channel,
            count,
            len,
            past_the_queue: past_the_queue && !shared,
            shared,
            immediate,
            to_nobody,
        })
    })
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let waits = prop::sample::select(vec![60_000, 250_000, 12_000_000, 1_100_000_000]);
    let step = prop_oneof![
        12 => sends(),
        1 => (channels(), lens()).prop_map(|(channel, len)| Step::Place(channel, len)),
        8 => (1_u8..4).prop_map(Step::Arrive),
        1 => Just(Step::Overtake),
        1 => Just(Step::Repeat),
        1 => (1_usize..3).prop_map(Step::PutOff),
        1 => Just(Step::Release),
        1 => Just(Step::Ask),
        1 => Just(Step::GiveBack),
        2 => waits.prop_map(Step::Wait),
        3 => Just(Step::Transmit),
        6 => Just(Step::Settle),
        1 => Just(Step::Rest),
    ];
    prop::collection::vec((0_usize..2, step), 1..120)
}

fn configs() -> impl Strategy<Value = Config> {
    let seldom = [0.1, 0.15, 0.15].map(prop::bool::weighted);
    let window = (
        prop_oneof![4 => 1_u16..9, 1 => Just(40)],
        prop::sample::select(vec![1 << 10, 4 << 10, 1 << 20]),
    );
    let max_payload = prop_oneof![1 => Just(20), 1 => Just(505), 6 => Just(65_507)];
    (any::<[bool; 6]>(), seldom, window, max_payload, 0_usize..3).prop_map(
        |(often, [checksum, go_back, wait], (window_packets, window_bytes), max_payload, congestion)| {
            let [timestamps, nack, bundle, path_mtu_discovery, ack_late, ack_seldom] = often;
            Config {
                timestamps,
                nack,
                bundle,
                path_mtu_discovery,
                checksum,
                recovery: [Recovery::SelectiveRepeat, Recovery::GoBackN][usize::from(go_back)],
                window_mode: [WindowMode::Sliding, WindowMode::BurstThenWait][usize::from(wait)],
                window_packets,
                window_bytes,
                max_payload,
                congestion: [Congestion::Fixed, Congestion::Aimd, Congestion::Delay][congestion],
                ack_delay: Duration::from_micros([0, 200][usize::from(ack_late)]),
                ack_bytes: [100, 64 << 10][usize::from(ack_seldom)],
                unexpected_bytes: 64 << 10,
                send_queue_bytes: 16 << 10,
                // Nobody is taken for dead.
                death_timeout: Duration::from_secs(3_600),
                ..Config::default()
            }
        },
    )
}

/// Messages that look like a record.
fn like_a_record(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = data(number, len);
    if let Some(len) = len.checked_sub(Record::header_len(None)) {
        Record::emit_header(&mut bytes, None, len as u16);
    }
    bytes
}

/// Two sides that say all kinds of things to each other.
struct Traffic {
    pair: Pair,
    peers: [PeerId; 2],
    /// Numbers of the next messages.
    next: [u32; 2],
    /// What was sent to somebody, and what has arrived there.
    sent: [Vec<(u32, Vec<u8>)>; 2],
    got: [Vec<(u32, Vec<u8>)>; 2],
}

/// The key of all regions: no message's number.
const KEY: u32 = 1 << 31;

impl Traffic {
    fn new(config: &Config, limits: Limits) -> Self {
        let (mut pair, to_b, to_a) = Pair::new(config);
        pair.ends.iter_mut().for_each(|end| end.0.set_limits(limits));
        pair.twins = true;
        Self {
            pair,
            peers: [to_b, to_a],
            next: [0; 2],
            sent: Default::default(),
            got: Default::default(),
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.pair.now)
    }

    fn step(&mut self, from: usize, step: &Step) {
        match step {
            Step::Send(sent) => (0..sent.count).for_each(|_| self.send(from, sent)),
            Step::Place(channel, len) => self.place(from, *channel, *len),
            Step::Arrive(count) => {
                for _ in 0..*count {
                    self.pair.arrive();
                }
            }
            Step::Overtake => {
                let first = self.pair.wire.pop_front();
                self.pair.wire.extend(first);
            }
            Step::Repeat => {
                let first = self.pair.wire.front().cloned();
                self.pair.wire.extend(first);
            }
            Step::PutOff(count) => self.pair.ends[from].2.put_off = *count,
            Step::Release => self.release(from),
            Step::Ask => {
                let now = self.now();
                self.pair.ends[from].0.request_acks(now);
            }
            Step::GiveBack => self.give_back(from, 1),
            Step::Wait(ns) => self.wait(self.pair.now + ns),
            Step::Transmit => self.pair.transmit(),
            Step::Settle => self.pair.settle(),
            Step::Rest => self.rest(),
        }
        self.take();
    }

    /// The output of both sides.
    fn take(&mut self) {
        for (end, got) in self.pair.ends.iter_mut().zip(&mut self.got) {
            got.extend(end.2.messages.drain(..).filter(|(number, _)| *number != KEY));
            while end.0.poll_event().is_some() {}
        }
    }

    fn send(&mut self, from: usize, sent: &Sent) {
        let number = self.next[from];
        let message = Outgoing {
            destination: if sent.to_nobody { NOBODY } else { 1 - from as u32 },
            match_bits: number.is_multiple_of(3).then_some(number.into()),
            immediate: sent.immediate.then_some(5),
            ..message(from, number)
        };
        let bytes = like_a_record(number, sent.len);
        let (now, peer) = (self.now(), self.peers[from]);
        let past = sent.past_the_queue
            && send_as_through_the_queue(&mut self.pair, from, peer, sent.channel, &message, &bytes);
        if !past {
            let payload = if sent.shared {
                Payload::Shared(bytes.clone().into())
            } else {
                Payload::Copy(&bytes)
            };
            match self.pair.ends[from].0.send(now, peer, sent.channel, &message, payload) {
                Ok(_) => {}
                Err(SendError::WouldBlock(_)) => return,
                Err(error) => panic!("{error}"),
            }
        }
        self.next[from] += 1;
        if !sent.to_nobody {
            self.sent[from].push((number, bytes));
        }
    }

    fn place(&mut self, from: usize, channel: u8, len: usize) {
        let target = Target {
            source: from as u32,
            destination: 1 - from as u32,
            region: 1,
            key: KEY,
            offset: 0,
        };
        let bytes = Bytes::from(like_a_record(KEY, len));
        let (now, endpoint) = (self.now(), &mut self.pair.ends[from].0);
        endpoint.place(now, self.peers[from], channel, &target, bytes).unwrap();
    }

    /// The received messages are taken.
    fn release(&mut self, from: usize) {
        let (peer, endpoint) = (self.peers[from], &mut self.pair.ends[from].0);
        let taken = endpoint.peer_stats(peer).map_or(0, |stats| stats.unexpected);
        endpoint.release(peer, endpoint.session(peer), taken as u32);
    }

    /// The backend refers to so many bursts no more.
    fn give_back(&mut self, from: usize, count: usize) {
        let held = &mut self.pair.held[from];
        for token in held.drain(..count.min(held.len())) {
            self.pair.ends[from].0.handle_released(token);
        }
    }

    fn wait(&mut self, until: u64) {
        self.pair.now = self.pair.now.max(until);
        let now = self.now();
        self.pair.ends.iter_mut().for_each(|end| end.0.handle_timeout(now));
    }

    /// All that was sent arrives.
    fn rest(&mut self) {
        for _ in 0..10_000 {
            self.pair.settle();
            self.take();
            if self.pair.ends.iter().all(|end| end.0.all_idle()) {
                return;
            }
            for from in [0, 1] {
                self.release(from);
                self.give_back(from, usize::MAX);
            }
            let next = self.pair.ends.iter().filter_map(|end| end.0.poll_timeout()).min();
            self.wait(next.map_or(0, Instant::as_nanos));
        }
        panic!("never comes to rest");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn the_short_ways_are_as_the_general_one(
        steps in steps(),
        config in configs(),
        drop_every in prop::sample::select(vec![5, 17, 40, usize::MAX]),
        (holds_references, max_segments) in (any::<bool>(), prop::sample::select(vec![1, 2, 64])),
        (have_met, goes) in (prop::bool::weighted(0.9), 0_usize..2),
    ) {
        let mut traffic = Traffic::new(&config, Limits { holds_references, max_segments, ..LIMITS });
        if have_met {
            for from in [0, 1] {
                traffic.step(from, &Step::Send(Sent {
                    channel: 0, count: 1, len: 1, past_the_queue: false, shared: false, immediate: false, to_nobody: false,
                }));
                traffic.step(from, &Step::Rest);
            }
        }
        traffic.pair.drop_every = drop_every;
        steps.iter().for_each(|(from, step)| traffic.step(*from, step));
        traffic.pair.drop_every = usize::MAX;
        traffic.step(0, &Step::Rest);
        for (from, got) in [1, 0].into_iter().zip(&mut traffic.got) {
            got.sort_unstable();
            prop_assert!(*got == traffic.sent[from]);
        }
        // One side goes while messages are under way in both directions.
        for from in [0, 1, 0, 1] {
            traffic.pair.send(from, traffic.peers[from], traffic.next[from], Payload::Copy(b"last"));
            traffic.pair.transmit();
        }
        let now = traffic.now();
        traffic.pair.ends[goes].0.close(now, traffic.peers[goes]);
        traffic.rest();
    }
}

/// Two that have met, and have nothing to say to each other.
pub(super) fn quiet() -> (Pair, PeerId, PeerId) {
    let (mut pair, to_b, to_a) = Pair::new(&Config {
        path_mtu_discovery: false,
        ..Config::default()
    });
    for number in 0..2 {
        pair.send(0, to_b, number, Payload::Copy(b"hello"));
        pair.send(1, to_a, number, Payload::Copy(b"hello"));
        pair.transmit();
        while pair.arrive() {
            pair.transmit();
        }
    }
    pair.ends[0].0.request_acks(Instant::from_nanos(pair.now));
    pair.settle();
    (pair, to_b, to_a)
}

/// A request finds its flow quiet, and so does its answer.
#[test]
fn request_and_answer_go_past_the_queue() {
    let (mut pair, to_b, to_a) = quiet();
    for number in 2..100 {
        for (from, peer) in [(0, to_b), (1, to_a)] {
            assert!(send_past_the_queue(&mut pair, from, peer, number, &data(number, 600)));
            while pair.arrive() {}
        }
    }
    // Behind what is under way it has to wait.
    assert!(send_past_the_queue(&mut pair, 0, to_b, 100, b"first"));
    assert!(!send_past_the_queue(&mut pair, 0, to_b, 101, b"second"));
}

/// Something waits on channel 0 of the side `from`.
pub(super) fn queue_one(endpoint: &mut Endpoint, from: usize) {
    let first = Payload::Copy(b"first");
    endpoint
        .send(Instant::ZERO, PeerId(0), 0, &message(from, 2), first)
        .unwrap();
}

/// One side of a session in which a message is under way, and another one of so many bytes queued; and its flow.
fn queued(len: usize) -> (Endpoint, usize) {
    let (mut pair, to_b, _) = quiet();
    pair.send(0, to_b, 2, Payload::Copy(b"hello"));
    pair.transmit();
    let next = Outgoing {
        match_bits: Some(1),
        ..message(0, 3)
    };
    let (now, [(mut endpoint, ..), _]) = (Instant::from_nanos(pair.now), pair.ends);
    endpoint
        .send(now, to_b, 0, &next, Payload::Copy(&data(3, len)))
        .unwrap();
    let index = endpoint.ready[0] as usize;
    (endpoint, index)
}

/// What keeps a message from going the short way out of the queue, and what just does not. However it goes, the packet is
/// the same.
#[test]
fn what_is_in_the_way_out_of_the_queue_is_seen() {
    const LEN: u32 = 10;
    /// As a record, and as a packet with a timestamp and match bits.
    const RECORD: u32 = LEN + 12;
    const PACKET: u16 = LEN as u16 + 56;
    type Change = fn(&mut Endpoint, usize);
    let changes: [(Change, bool); 24] = [
        (|_, _| {}, true),
        (|e, i| e.actives[i].receive.set_asks(), false),
        (|e, i| e.actives[i].receive.announce_credit(), false),
        (|e, i| e.actives[i].receive.acknowledge(), true),
        (
            |e, i| {
                e.actives[i].receive.note_gap(e.flows[0].expected().plus(1));
                e.actives[i].receive.acknowledge();
            },
            false,
        ),
        (|e, i| _ = e.actives[i].probe.start(1_472, 9_000), false),
        (|e, i| e.actives[i].send.lose_first(), false),
        (|e, i| e.actives[i].send.set_waiting(), false),
        (|e, _| e.peers[0].format.insert(Format::OPENING), false),
        (|e, _| e.peers[0].format.insert(Format::CHECKSUM), false),
        (|e, _| e.config.window_packets = 3, true),
        (|e, _| e.config.window_packets = 2, true),
        (|e, _| e.config.window_packets = 1, false),
        (|e, _| e.peers[0].mtu = PACKET, true),
        (|e, _| e.peers[0].mtu = PACKET - 1, false),
        (|e, _| e.peers[0].cost_limit = e.peers[0].cost_queued, true),
        (|e, _| e.peers[0].cost_limit = e.peers[0].cost_queued - 1, false),
        (
            |e, i| e.peers[0].window = e.actives[i].send.in_flight().0 + 2 * RECORD,
            true,
        ),
        (
            |e, i| e.peers[0].window = e.actives[i].send.in_flight().0 + 2 * RECORD - 1,
            true,
        ),
        (
            |e, i| e.peers[0].window = e.actives[i].send.in_flight().0 + RECORD,
            true,
        ),
        (
            |e, i| e.peers[0].window = e.actives[i].send.in_flight().0 + RECORD - 1,
            false,
        ),
        (
            |e, i| {
                e.peers[0].window = 0;
                e.actives[i].send.set_probe();
            },
            true,
        ),
        (|e, i| e.actives[i].send.set_timeouts(2), false),
        (|e, i| e.actives[i].send.set_want_ack(true), true),
    ];
    for (number, (change, short)) in changes.into_iter().enumerate() {
        let (mut endpoint, index) = queued(LEN as usize);
        change(&mut endpoint, index);
        let now = Instant::from_nanos(endpoint.now);
        assert_eq!(fill_both_ways(&endpoint, now), usize::from(short), "change {number}");
    }
    for (len, short) in [(0, true), (INLINE, true), (INLINE + 1, false)] {
        let endpoint = queued(len).0;
        let now = Instant::from_nanos(endpoint.now);
        assert_eq!(fill_both_ways(&endpoint, now), usize::from(short), "{len} bytes");
    }
}

/// The same past the queue.
#[test]
fn what_is_in_the_way_past_the_queue_is_seen() {
    const LEN: usize = 10;
    const COST: u64 = LEN as u64 + 64;
    /// As a record.
    const RECORD: u32 = LEN as u32 + 4;
    type Change = fn(&mut Endpoint, usize);
    let changes: [(Change, bool); 22] = [
        (|_, _| {}, true),
        (|e, i| e.actives[i].receive.set_asks(), false),
        (|e, i| e.actives[i].receive.announce_credit(), false),
        (|e, i| e.actives[i].receive.acknowledge(), true),
        (
            |e, i| e.actives[i].receive.note_gap(e.flows[0].expected().plus(1)),
            false,
        ),
        (|e, i| _ = e.actives[i].probe.start(1_472, 9_000), false),
        (|e, i| e.actives[i].send.set_timeouts(1), false),
        (|e, _| e.peers[0].format.insert(Format::OPENING), false),
        (|e, _| e.peers[0].format.insert(Format::CHECKSUM), false),
        (|e, _| e.peers[0].phase = Phase::Closing, false),
        (|e, _| e.peers[0].cost_limit = e.peers[0].cost_queued + COST, true),
        (|e, _| e.peers[0].cost_limit = e.peers[0].cost_queued + COST - 1, false),
        (|e, _| e.peers[0].window = 2 * RECORD, true),
        (|e, _| e.peers[0].window = 2 * RECORD - 1, true),
        (|e, _| e.config.window_packets = 2, true),
        (|e, _| e.config.window_packets = 1, true),
        (|e, i| e.actives[i].send.set_probe(), true),
        (|e, i| e.actives[i].send.set_want_ack(true), true),
        (|e, _| queue_one(e, 0), false),
        (|e, _| e.config.max_payload = LEN as u16 - 1, false),
        // This side did not run for a while, …
        (|e, _| e.stalled = 500, true),
        // … or its clock has gone back.
        (|e, _| e.now += 1_000, true),
    ];
    for (number, (change, past)) in changes.into_iter().enumerate() {
        let (mut pair, to_b, _) = quiet();
        pair.ends[0].0.actives[0].send.set_want_ack(false);
        change(&mut pair.ends[0].0, 0);
        let message = message(0, 2);
        let sent = send_as_through_the_queue(&mut pair, 0, to_b, 0, &message, &data(2, LEN));
        assert_eq!(sent, past, "change {number}");
    }
    // What fits a datagram of 1,472 bytes with a timestamp, and what does not.
    for (immediate, len, past) in [(None, 1_420, true), (None, 1_421, false), (Some(1), 1, false)] {
        let (mut pair, to_b, _) = quiet();
        let message = Outgoing {
            immediate,
            ..message(0, 2)
        };
        let sent = send_as_through_the_queue(&mut pair, 0, to_b, 0, &message, &data(2, len));
        assert_eq!(sent, past, "{len} bytes");
    }
}

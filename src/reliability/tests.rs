//! Two endpoints in one place, without a network: the smallest run of the whole.

use alloc::{collections::VecDeque, format, vec, vec::Vec};
use core::net::SocketAddr;

use bytes::Bytes;
use proptest::prelude::*;

use super::{Burst, Endpoint, Event, Limits, Origin, Outgoing, Payload, PeerId, Sink, Verdict, input::Arrival};
use crate::{
    Config, Congestion, SendError,
    time::Instant,
    wire::{Flags, Packet, Seq},
};

const LIMITS: Limits = Limits {
    max_datagram: 65_507,
    max_segments: 64,
    max_batch: 65_507,
    receive_buffer: 4 << 20,
    holds_references: false,
    ack_bytes: usize::MAX,
    receive_port: 0,
};

/// A processor that is nowhere.
const NOBODY: u32 = 99;

#[derive(Clone, Debug, Default)]
struct Got {
    messages: Vec<(u32, Vec<u8>)>,
    partial: Vec<(u32, Vec<u8>, usize)>,
    /// So many packets find no room.
    put_off: usize,
}

impl Sink for Got {
    fn deliver(&mut self, _: Origin, packet: Packet<&[u8]>) -> Verdict {
        if self.put_off > 0 {
            self.put_off -= 1;
            return Verdict::NoRoom;
        }
        if packet.base().destination == NOBODY {
            return Verdict::Misaddressed;
        }
        let number = packet.base().message.0;
        if packet.flags().contains(Flags::BUNDLE) {
            for (n, record) in (number..).zip(packet.records()) {
                self.messages.push((n, record.data.to_vec()));
            }
        } else if let Some(fragment) = packet.fragment() {
            let place = self.partial.iter().position(|(n, ..)| *n == number).unwrap_or_else(|| {
                self.partial.push((number, vec![0; fragment.total as usize], 0));
                self.partial.len() - 1
            });
            let (_, data, have) = &mut self.partial[place];
            data[fragment.offset as usize..][..packet.payload().len()].copy_from_slice(packet.payload());
            *have += packet.payload().len();
            if *have == data.len() {
                let (n, data, _) = self.partial.remove(place);
                self.messages.push((n, data));
            }
        } else {
            self.messages.push((number, packet.payload().to_vec()));
        }
        Verdict::Taken
    }
}

struct Pair {
    now: u64,
    ends: [(Endpoint, SocketAddr, Got, Vec<Event>); 2],
    wire: VecDeque<(usize, Vec<u8>, usize)>,
    datagrams: usize,
    drop_every: usize,
    /// What arrives is taken in by a twin, too, which predicts nothing; counts what was predicted.
    twins: bool,
    predicted: usize,
}

impl Pair {
    fn new(config: &Config) -> (Self, PeerId, PeerId) {
        let address = |n: u16| SocketAddr::from(([127, 0, 0, 1], n));
        let mut a = Endpoint::new(config.clone(), LIMITS, 11, 1).unwrap();
        let mut b = Endpoint::new(config.clone(), LIMITS, 22, 2).unwrap();
        let to_b = a.add_peer(address(2), 1).unwrap();
        let to_a = b.add_peer(address(1), 0).unwrap();
        let ends = [
            (a, address(1), Got::default(), vec![]),
            (b, address(2), Got::default(), vec![]),
        ];
        (
            Self {
                now: 0,
                ends,
                wire: VecDeque::new(),
                datagrams: 0,
                drop_every: usize::MAX,
                twins: false,
                predicted: 0,
            },
            to_b,
            to_a,
        )
    }

    /// Puts a burst on the wire.
    fn emit(&mut self, from: usize, burst: &Burst) {
        let mut bytes = vec![];
        self.ends[from].0.gather(burst, |part| bytes.extend_from_slice(part));
        assert_eq!(bytes.len(), burst.len());
        for datagram in bytes.chunks(burst.segment_size()) {
            self.carry(from, datagram);
        }
    }

    /// Puts a datagram on the wire, unless it is lost.
    fn carry(&mut self, from: usize, datagram: &[u8]) {
        self.datagrams += 1;
        if !self.datagrams.is_multiple_of(self.drop_every) {
            self.wire.push_back((1 - from, datagram.to_vec(), datagram.len()));
        }
    }

    fn transmit(&mut self) {
        let mut burst = Burst::default();
        let now = Instant::from_nanos(self.now);
        for n in 0..2 {
            while self.ends[n].0.poll_transmit(now, &mut burst) {
                self.emit(n, &burst);
            }
        }
    }

    /// Takes in what is next on the wire; `false`: nothing.
    fn arrive(&mut self) -> bool {
        let Some((to, mut bytes, stride)) = self.wire.pop_front() else {
            return false;
        };
        self.now += 1_000;
        let from = self.ends[1 - to].1;
        let (now, end) = (Instant::from_nanos(self.now), &mut self.ends[to]);
        let before = self.twins.then(|| (end.0.clone(), end.2.clone()));
        end.0.handle_datagrams(now, from, &mut bytes, stride, &mut end.2);
        let after = before.map(|(mut twin, mut got)| {
            self.predicted += usize::from(handle_unpredicted(&mut twin, now, from, &bytes, &mut got));
            (twin, got)
        });
        if let Some(after) = after {
            let mut caught_up = end.0.clone();
            assert_eq!(caught_up.all_idle(), after.0.all_idle());
            caught_up.catch_up();
            assert_eq!(
                format!("{:?}", (&caught_up, &end.2)),
                format!("{:?}", (&after.0, &after.1))
            );
        }
        true
    }

    /// All that can be sent arrives, and no time-out.
    fn settle(&mut self) {
        self.transmit();
        while self.arrive() {
            self.transmit();
        }
    }

    fn pump(&mut self) {
        for _ in 0..100_000 {
            self.transmit();
            if !self.arrive() {
                let next = self.ends.iter().filter_map(|end| end.0.poll_timeout()).min();
                let Some(next) = next else { return };
                self.now = self.now.max(next.as_nanos());
                for end in &mut self.ends {
                    end.0.handle_timeout(Instant::from_nanos(self.now));
                }
            }
            for end in &mut self.ends {
                while let Some(event) = end.0.poll_event() {
                    end.3.push(event);
                }
            }
        }
        panic!("never comes to rest");
    }

    fn send(&mut self, from: usize, peer: PeerId, number: u32, payload: Payload<'_>) {
        assert!(self.try_send(from, peer, number, payload));
    }

    /// `false`: there is no room.
    fn try_send(&mut self, from: usize, peer: PeerId, number: u32, payload: Payload<'_>) -> bool {
        let now = Instant::from_nanos(self.now);
        match self.ends[from].0.send(now, peer, 0, &message(from, number), payload) {
            Ok(_) => true,
            Err(SendError::WouldBlock(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

fn message(from: usize, number: u32) -> Outgoing {
    Outgoing {
        source: from as u32,
        destination: 1 - from as u32,
        message: Seq(number),
        match_bits: None,
        immediate: None,
    }
}

fn data(n: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(n + 7) as u8).collect()
}

fn exchange(config: &Config, drop_every: usize) -> Pair {
    let (mut pair, to_b, to_a) = Pair::new(config);
    pair.drop_every = drop_every;
    let sizes = [0, 1, 8, 64, 1_024, 1_400, 1_500, 5_000, 70_000, 300_000];
    let mut number = 0;
    for round in 0..3 {
        for &len in &sizes {
            let bytes = data(number, len);
            if round == 1 {
                pair.send(0, to_b, number, Payload::Shared(Bytes::from(bytes.clone())));
            } else {
                pair.send(0, to_b, number, Payload::Copy(&bytes));
            }
            pair.send(1, to_a, number, Payload::Copy(&bytes));
            number += 1;
        }
        pair.pump();
    }
    for end in &mut pair.ends {
        end.2.messages.sort_by_key(|(n, _)| *n);
        assert_eq!(end.2.messages.len(), number as usize);
        for (n, (got, bytes)) in (0..).zip(&end.2.messages) {
            assert_eq!(n, *got);
            assert!(*bytes == data(n, sizes[n as usize % sizes.len()]));
        }
        assert!(end.0.all_idle());
        assert_eq!(end.0.poll_timeout(), None);
    }
    assert_eq!(
        pair.ends[0]
            .3
            .iter()
            .filter(|event| matches!(event, Event::Sent { .. }))
            .count(),
        sizes.len()
    );
    pair
}

#[test]
fn messages_of_all_sizes_cross() {
    let pair = exchange(&Config::default(), usize::MAX);
    assert_eq!(pair.ends[0].0.stats().resends, 0);
    assert_eq!(pair.ends[0].0.stats().dropped.total(), 0);
}

#[test]
fn losses_are_mended() {
    let pair = exchange(&Config::default(), 7);
    assert!(pair.ends[0].0.stats().resends > 0);
}

/// Sends so many messages of `len` octets at once; gives the numbers of datagrams in their bursts.
fn bursts(messages: u32, len: usize) -> Vec<usize> {
    let (mut pair, to_b, _) = Pair::new(&Config {
        path_mtu_discovery: false,
        ..Config::default()
    });
    pair.send(0, to_b, 0, Payload::Copy(&[1]));
    pair.pump();
    for number in 1..=messages {
        let bytes = Bytes::from(data(number, len));
        pair.send(0, to_b, number, Payload::Shared(bytes));
    }
    let now = Instant::from_nanos(pair.now);
    let (mut burst, mut sizes) = (Burst::default(), vec![]);
    let [(a, from, ..), (b, _, got, _)] = &mut pair.ends;
    while a.poll_transmit(now, &mut burst) {
        let mut bytes = vec![];
        a.gather(&burst, |part| bytes.extend_from_slice(part));
        sizes.push(burst.segments());
        b.handle_datagrams(now, *from, &mut bytes, burst.segment_size(), got);
    }
    pair.pump();
    let got = &mut pair.ends[1].2.messages;
    got.sort_by_key(|(number, _)| *number);
    assert_eq!(got.len(), 1 + messages as usize);
    assert!(got[1..].iter().all(|(number, bytes)| *bytes == data(*number, len)));
    assert_eq!(pair.ends[0].0.stats().resends, 0);
    sizes
}

#[test]
fn ends_of_messages_do_not_end_bursts() {
    // Each is 46 full datagrams of 1,472 octets and a short one; a burst holds 44.
    assert_eq!(bursts(4, 65_536), [44, 44, 44, 44, 12]);
    // A full one and a short one: all full ones and a short one, then the rest of the short ones.
    assert_eq!(bursts(40, 2_048), [41, 39]);
    // Nothing short, or nothing to pass.
    assert_eq!(bursts(2, 1_424 * 22), [44]);
    assert_eq!(bursts(1, 65_536), [44, 3]);
}

/// Those who have little to send go first, but do not hold up for ever who has much.
#[test]
fn many_small_messages_do_not_starve_a_large_one() {
    let address = |n: u16| SocketAddr::from(([127, 0, 0, 1], n));
    let now = Instant::ZERO;
    let mut endpoint = Endpoint::new(Config::default(), LIMITS, 11, 1).unwrap();
    for (n, len) in [(1, 100_000)].into_iter().chain((2..40).map(|n| (n, 10))) {
        let peer = endpoint.add_peer(address(n), u32::from(n)).unwrap();
        let message = Outgoing {
            source: 0,
            destination: u32::from(n),
            message: Seq(0),
            match_bits: None,
            immediate: None,
        };
        endpoint
            .send(now, peer, 0, &message, Payload::Copy(&data(0, len)))
            .unwrap();
    }
    let mut burst = Burst::default();
    let mut order = vec![];
    while endpoint.poll_transmit(now, &mut burst) {
        order.push(burst.destination());
    }
    let large = order.iter().position(|to| *to == address(1));
    assert_eq!(large, Some(16));
}

#[test]
fn an_open_gap_does_not_have_each_packet_acknowledged() {
    let (mut pair, to_b, _) = Pair::new(&Config {
        path_mtu_discovery: false,
        ..Config::default()
    });
    pair.drop_every = 100;
    let bytes = data(0, 3_000_000);
    pair.send(0, to_b, 0, Payload::Copy(&bytes));
    pair.pump();
    assert!(pair.ends[1].2.messages == [(0, bytes)]);
    let (resends, acks) = (pair.ends[0].0.stats().resends, pair.ends[1].0.stats().acks_alone);
    assert!(
        resends > 15 && acks < 10 * resends,
        "{resends} resends, {acks} acknowledgements"
    );
}

#[test]
fn the_backend_may_ask_for_more_acknowledgements() {
    let acks = |ack_bytes| {
        let (mut pair, to_b, _) = Pair::new(&Config::default());
        pair.ends[1].0.set_limits(Limits { ack_bytes, ..LIMITS });
        let bytes = data(0, 3_000_000);
        pair.send(0, to_b, 0, Payload::Copy(&bytes));
        pair.pump();
        assert!(pair.ends[1].2.messages == [(0, bytes)]);
        pair.ends[1].0.stats().acks_alone
    };
    let [seldom, often] = [usize::MAX, 64 << 10].map(acks);
    assert!(often >= 2 * seldom && often >= 22, "{often} instead of {seldom}");
}

#[test]
fn the_papers_protocol_works_with_and_without_loss() {
    exchange(&Config::dse(), usize::MAX);
    exchange(&Config::dse(), 13);
    exchange(
        &Config {
            window_mode: crate::WindowMode::BurstThenWait,
            ..Config::dse()
        },
        13,
    );
}

#[test]
fn a_burst_shares_datagrams_and_a_goodbye_ends_the_session() {
    let (mut pair, to_b, _) = Pair::new(&Config::default());
    for n in 0..1_000 {
        pair.send(0, to_b, n, Payload::Copy(&data(n, 64)));
    }
    pair.pump();
    assert_eq!(pair.ends[1].2.messages.len(), 1_000);
    assert!(pair.datagrams < 100, "{}", pair.datagrams);
    let now = Instant::from_nanos(pair.now);
    pair.ends[0].0.close(now, to_b);
    pair.pump();
    for end in &pair.ends {
        assert!(
            matches!(
                end.3.last(),
                Some(Event::Down {
                    error: crate::PeerError::Closed,
                    ..
                })
            ),
            "{:?}",
            end.3
        );
    }
}

/// Whoever holds messages for longer than the death time-out is not dead.
#[test]
fn no_room_for_long_is_not_death() {
    let config = Config::default();
    let (mut pair, to_b, _) = Pair::new(&config);
    pair.send(0, to_b, 0, Payload::Copy(b"first"));
    pair.pump();
    pair.ends[1].2.put_off = 100;
    let before = pair.now;
    pair.send(0, to_b, 1, Payload::Copy(b"second"));
    pair.pump();
    assert!(u128::from(pair.now - before) > 2 * config.death_timeout.as_nanos());
    assert_eq!(pair.ends[1].2.messages.len(), 2);
    let dropped = pair.ends[1].0.stats().dropped;
    assert_eq!(dropped.of(crate::DropReason::BeyondCredit), 100);
    for end in &pair.ends {
        assert!(
            !end.3.iter().any(|event| matches!(event, Event::Down { .. })),
            "{:?}",
            end.3
        );
    }
}

#[test]
fn resident_parts_are_small() {
    use super::{flow::Flow, peer::Peer};
    // 256 octets in all for an idle peer, tables' slack included (an eighth), and what messaging keeps.
    let resident = size_of::<Peer>() + size_of::<Flow>();
    assert!(resident <= 184, "{resident}");
}

/// Messages of no octets take memory too while they wait.
#[test]
fn empty_messages_are_refused_in_the_end() {
    let (mut pair, to_b, _) = Pair::new(&Config::default());
    let message = |n| Outgoing {
        source: 0,
        destination: 1,
        message: Seq(n),
        match_bits: None,
        immediate: Some(1),
    };
    for _ in 0..2 {
        let mut sent = 0;
        let refused = loop {
            let now = Instant::from_nanos(pair.now);
            match pair.ends[0].0.send(now, to_b, 0, &message(sent), Payload::Copy(b"")) {
                Ok(_) => sent += 1,
                Err(refused) => break refused,
            }
            assert!(sent < 100_000, "never refused");
        };
        assert_eq!(refused, SendError::WouldBlock(to_b));
        pair.pump();
        assert_eq!(pair.ends[1].2.messages.len() as u32, sent);
        pair.ends[1].2.messages.clear();
        assert_eq!(pair.ends[0].3.last(), Some(&Event::Writable { peer: to_b }));
    }
}

/// The largest headers in the smallest datagrams, one octet at a time, and the end of time.
#[test]
fn extremes_of_settings() {
    for (max_payload, window_packets) in [(1, 1), (65_507, 1), (1, 1_024)] {
        let config = Config {
            max_datagram: 512,
            safe_datagram: 512,
            max_payload,
            window_packets,
            checksum: true,
            ..Config::default()
        };
        let (mut pair, to_b, _) = Pair::new(&config);
        let limits = Limits {
            max_datagram: 1,
            ..LIMITS
        };
        assert!(Endpoint::new(config.clone(), limits, 1, 1).is_err());
        for number in 0..2 {
            let message = Outgoing {
                source: 0,
                destination: 1,
                message: Seq(number),
                match_bits: Some(1),
                immediate: Some(2),
            };
            let now = Instant::from_nanos(pair.now);
            let payload = data(number, 700);
            let sent = pair.ends[0].0.send(now, to_b, 0, &message, Payload::Copy(&payload));
            assert_eq!(sent, Ok(None));
            pair.pump();
            assert_eq!(pair.ends[1].2.messages.pop(), Some((number, payload)));
            // The interface has become useless; nothing panics.
            pair.ends[0].0.set_limits(limits);
        }
        let end = Instant::from_nanos(u64::MAX);
        pair.send(0, to_b, 2, Payload::Copy(b"late"));
        pair.ends[0].0.handle_timeout(end);
        let mut burst = Burst::default();
        while pair.ends[0].0.poll_transmit(end, &mut burst) {}
        assert!(pair.ends[0].0.poll_timeout().is_some());
    }
}

/// Messages to a processor that is not there are an error of these messages alone, and the sender hears of each, once.
#[test]
fn misaddressed_messages_come_back() {
    let config = Config {
        unexpected_bytes: 64 << 10,
        ..Config::default()
    };
    for drop_every in [usize::MAX, 5] {
        let (mut pair, to_b, _) = Pair::new(&config);
        pair.drop_every = drop_every;
        let mut good = 0;
        for round in 0..50 {
            // One alone, some that share a datagram, one in fragments: more than all the credit in the end.
            for (n, len) in [(0, 1), (1, 10), (2, 10), (3, 10), (4, 20_000)] {
                let message = Outgoing {
                    source: 0,
                    destination: NOBODY,
                    message: Seq(5 * round + n),
                    match_bits: None,
                    immediate: None,
                };
                let now = Instant::from_nanos(pair.now);
                let payload = data(n, len);
                pair.ends[0]
                    .0
                    .send(now, to_b, 0, &message, Payload::Copy(&payload))
                    .unwrap();
                if n == 0 {
                    pair.pump();
                }
            }
            for _ in 0..3 {
                pair.send(0, to_b, good, Payload::Copy(&data(good, 2_000)));
                good += 1;
            }
            pair.pump();
            let end = &mut pair.ends[1];
            // What was received is taken at once.
            let stats = end.0.peer_stats(PeerId(0)).unwrap();
            end.0.release(PeerId(0), 1, stats.unexpected as u32);
            pair.pump();
        }
        assert_eq!(pair.ends[1].2.messages.len(), good as usize);
        let mut back: Vec<u32> = vec![];
        for event in &pair.ends[0].3 {
            match *event {
                Event::Returned {
                    source: 0,
                    destination: NOBODY,
                    message,
                    messages,
                    ..
                } => back.extend((0..messages as u32).map(|n| message.0 + n)),
                Event::Up { .. } | Event::Writable { .. } => {}
                _ => panic!("{event:?}"),
            }
        }
        back.sort_unstable();
        assert_eq!(back, (0..250).collect::<Vec<_>>());
        for end in &pair.ends {
            assert!(end.0.all_idle());
            assert!(!end.3.iter().any(|event| matches!(event, Event::Down { .. })));
        }
        assert!(pair.ends[1].0.stats().dropped.of(crate::DropReason::Misaddressed) >= 150);
    }
}

/// Whoever sends nothing but misaddressed messages, and does not listen, makes no queue grow.
#[test]
fn returns_are_bounded() {
    let (mut pair, to_b, _) = Pair::new(&Config::default());
    pair.send(0, to_b, 0, Payload::Copy(b"hello"));
    pair.pump();
    let mut burst = Burst::default();
    for n in 0..500 {
        let message = Outgoing {
            source: 0,
            destination: NOBODY,
            message: Seq(n),
            match_bits: None,
            immediate: Some(0),
        };
        let now = Instant::from_nanos(pair.now);
        pair.ends[0]
            .0
            .send(now, to_b, 0, &message, Payload::Copy(b"x"))
            .unwrap();
    }
    let now = Instant::from_nanos(pair.now + 1);
    let mut delivered = 0;
    while pair.ends[0].0.poll_transmit(now, &mut burst) {
        let mut octets = vec![];
        pair.ends[0].0.gather(&burst, |part| octets.extend_from_slice(part));
        let end = &mut pair.ends[1];
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        end.0
            .handle_datagrams(now, from, &mut octets, burst.segment_size(), &mut end.2);
        delivered += burst.segments();
    }
    assert!(delivered >= 100, "{delivered}");
    let queued = pair.ends[1].0.actives.iter().map(|active| active.send.queue.len());
    assert_eq!(queued.max(), Some(64));
    // They are only put off.
    pair.pump();
    let returned = |event: &&Event| matches!(event, Event::Returned { .. });
    assert_eq!(pair.ends[0].3.iter().filter(returned).count(), 500);
}

/// Takes in a datagram as if nothing could be predicted. Gives whether it was as predicted.
fn handle_unpredicted(endpoint: &mut Endpoint, now: Instant, source: SocketAddr, octets: &[u8], got: &mut Got) -> bool {
    endpoint.advance(now);
    endpoint.stats.packets_received += 1;
    let arrival = Arrival::new(source, octets, Packet::new_checked(octets).unwrap());
    let predicted = endpoint.clone().handle_predicted(&arrival, &mut got.clone()).is_some();
    if let Err(reason) = endpoint.handle_any(&arrival, &mut [].chunks(1), got) {
        endpoint.count_drop(reason);
    }
    predicted
}

/// What is sent past the queue is what would have gone through it: the same octets, and the same endpoint afterwards.
/// Gives whether it was.
fn send_past_the_queue(pair: &mut Pair, from: usize, peer: PeerId, number: u32, data: &[u8]) -> bool {
    let now = Instant::from_nanos(pair.now);
    let message = Outgoing {
        match_bits: number.is_multiple_of(3).then_some(number.into()),
        ..message(from, number)
    };
    // Nothing of others is in the way. (What was only left for later may be.)
    let endpoint = &pair.ends[from].0;
    if !endpoint.ready.is_empty() || !endpoint.bulk.is_empty() || !endpoint.control.is_empty() {
        pair.transmit();
    }
    let mut twin = pair.ends[from].0.clone();
    let mut burst = Burst::default();
    let mut octets = vec![];
    let transmit = |burst: &mut Burst, rest: &[u8]| octets = [burst.head(), rest].concat();
    let endpoint = &mut pair.ends[from].0;
    if !endpoint.send_alone(now, peer, 0, &message, data, &mut burst, transmit) {
        assert_eq!(
            format!("{:?}", pair.ends[from].0),
            format!("{twin:?}"),
            "nothing was done"
        );
        return false;
    }
    assert_eq!((octets.len(), octets.len()), (burst.len(), burst.segment_size()));
    pair.carry(from, &octets);
    twin.send(now, peer, 0, &message, Payload::Copy(data)).unwrap();
    assert!(twin.poll_transmit(now, &mut burst));
    let mut others = vec![];
    twin.gather(&burst, |part| others.extend_from_slice(part));
    assert_eq!(octets, others);
    assert!(!twin.poll_transmit(now, &mut burst));
    assert_eq!(format!("{:?}", pair.ends[from].0), format!("{twin:?}"));
    true
}

proptest! {
    // Each of them compares whole endpoints.
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn past_the_queue_is_as_through_it(
        steps in prop::collection::vec((0_usize..2, 0_usize..3_000, 0_u8..6), 1..80),
        drop_every in 3_usize..40,
        timestamps in any::<bool>(),
        checksum in any::<bool>(),
        window_packets in 1_u16..8,
    ) {
        let config = Config { timestamps, checksum, window_packets, ..Config::default() };
        let (mut pair, to_b, to_a) = Pair::new(&config);
        pair.drop_every = drop_every;
        let peers = [to_b, to_a];
        let mut sent = [vec![], vec![]];
        for (from, len, then) in steps {
            let number = sent[from].len() as u32;
            let octets = data(number, len);
            if !send_past_the_queue(&mut pair, from, peers[from], number, &octets) {
                pair.send(from, peers[from], number, Payload::Copy(&octets));
            }
            sent[from].push(octets);
            match then {
                0 => pair.pump(),
                1..4 => drop(pair.arrive()),
                _ => {}
            }
        }
        pair.pump();
        for (end, sent) in pair.ends.iter_mut().zip([&sent[1], &sent[0]]) {
            end.2.messages.sort_by_key(|(n, _)| *n);
            let got: Vec<_> = end.2.messages.iter().map(|(_, data)| data.clone()).collect();
            prop_assert_eq!(&got, sent);
            prop_assert!(end.0.all_idle());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn as_predicted_is_as_ever(
        steps in prop::collection::vec((0_usize..2, 1_usize..8, 0_usize..3_000, 0_u8..16, any::<bool>()), 1..60),
        drop_every in prop::sample::select(vec![3, 5, 11, 40, usize::MAX]),
        (timestamps, checksum, nack) in (any::<bool>(), prop::bool::weighted(0.2), any::<bool>()),
        window_packets in 1_u16..8,
        (put_off, congestion) in (0_usize..3, 0_usize..3),
    ) {
        let congestion = [Congestion::Fixed, Congestion::Aimd, Congestion::Delay][congestion];
        let config = Config {
            timestamps, checksum, nack, window_packets, congestion, send_queue_bytes: 16 << 10, ..Config::default()
        };
        let (mut pair, to_b, to_a) = Pair::new(&config);
        pair.twins = true;
        let peers = [to_b, to_a];
        (0..2).for_each(|from| pair.send(from, peers[from], 0, Payload::Copy(b"first")));
        pair.pump();
        pair.drop_every = drop_every;
        let mut sent = [1, 1];
        for (from, count, len, then, shared) in steps {
            for _ in 0..count {
                let octets = data(sent[from], len);
                let shared = shared.then(|| Payload::Shared(Bytes::from(octets.clone())));
                sent[from] += u32::from(pair.try_send(from, peers[from], sent[from], shared.unwrap_or(Payload::Copy(&octets))));
            }
            match then {
                0 => pair.pump(),
                1..4 => drop(pair.arrive()),
                4..10 => pair.settle(),
                10..13 => {
                    pair.now += 150_000;
                    let now = Instant::from_nanos(pair.now);
                    pair.ends.iter_mut().for_each(|end| end.0.handle_timeout(now));
                    pair.transmit();
                }
                13 => pair.ends[1 - from].2.put_off = put_off,
                _ => {}
            }
        }
        // One side goes while messages are under way in both directions.
        for from in [0, 1, 0, 1] {
            pair.try_send(from, peers[from], sent[from], Payload::Copy(b"last"));
            sent[from] += 1;
            pair.transmit();
        }
        let now = Instant::from_nanos(pair.now);
        pair.ends[0].0.close(now, to_b);
        pair.pump();
        prop_assert!(pair.ends.iter().all(|end| end.0.all_idle()));
    }
}

/// A session in which both sides have just said something; what arrives is compared, and the next datagram is under way.
fn about_to_arrive(checksum: bool) -> (Pair, PeerId) {
    let (mut pair, to_b, to_a) = Pair::new(&Config {
        checksum,
        ..Config::default()
    });
    for number in 0..4 {
        (0..2).for_each(|from| pair.send(from, [to_b, to_a][from], number, Payload::Copy(b"hello")));
        pair.settle();
    }
    pair.twins = true;
    pair.send(0, to_b, 4, Payload::Copy(b"hello"));
    pair.transmit();
    (pair, to_a)
}

/// Nothing that is not as predicted is taken for it: without the checksum that there must be, …
#[test]
fn a_missing_checksum_is_seen() {
    let (mut pair, _) = about_to_arrive(true);
    let (_, datagram, stride) = pair.wire.front_mut().unwrap();
    let flags = Packet::new_checked(&datagram[..]).unwrap().flags();
    assert!(flags.contains(Flags::CHECKSUM));
    datagram[2..4].copy_from_slice(&(flags - Flags::CHECKSUM).bits().to_be_bytes());
    // It is the last extension before the payload.
    let payload = datagram.len() - b"hello".len();
    datagram.drain(payload - 8..payload);
    *stride = datagram.len();
    assert!(pair.arrive());
    let stats = pair.ends[1].0.stats();
    assert_eq!(stats.dropped.of(crate::DropReason::Checksum), 1);
    assert_eq!(pair.ends[1].2.messages.len(), 4);
}

/// … from elsewhere, …
#[test]
fn a_peer_that_has_moved_is_seen() {
    let (mut pair, to_a) = about_to_arrive(false);
    pair.ends[0].1 = SocketAddr::from(([127, 0, 0, 1], 77));
    assert!(pair.arrive());
    assert_eq!(pair.ends[1].0.address(to_a), Some(pair.ends[0].1));
}

/// … or with an acknowledgement of what was never sent.
#[test]
fn an_impossible_acknowledgement_is_seen() {
    let (mut pair, _) = about_to_arrive(false);
    let (_, datagram, _) = pair.wire.front_mut().unwrap();
    let ack = Packet::new_checked(&datagram[..]).unwrap().base().acknowledgement;
    datagram[20..24].copy_from_slice(&ack.plus(1).0.to_be_bytes());
    assert!(pair.arrive());
    assert_eq!(pair.ends[1].0.stats().dropped.of(crate::DropReason::BadAck), 1);
    assert_eq!(pair.ends[1].2.messages.len(), 4);
}

/// Where nothing is lost, all that follows the opening is as predicted.
#[test]
fn requests_and_answers_are_predicted() {
    let (mut pair, to_b, to_a) = Pair::new(&Config {
        path_mtu_discovery: false,
        ..Config::default()
    });
    let round = |pair: &mut Pair, number| {
        for (from, peer) in [(0, to_b), (1, to_a)] {
            pair.send(from, peer, number, Payload::Copy(&data(number, 600)));
            pair.transmit();
            while pair.arrive() {}
        }
    };
    (0..4).for_each(|number| round(&mut pair, number));
    pair.twins = true;
    let before = pair.datagrams;
    (4..104).for_each(|number| round(&mut pair, number));
    // But for those that tell of credit.
    let (predicted, all) = (pair.predicted, pair.datagrams - before);
    assert!(predicted >= 180 && all == 200, "{predicted} of {all}");
}

/// A request finds its flow quiet, and so does its answer.
#[test]
fn request_and_answer_go_past_the_queue() {
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
    pair.transmit();
    while pair.arrive() {
        pair.transmit();
    }
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

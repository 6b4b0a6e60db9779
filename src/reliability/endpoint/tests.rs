//! Two endpoints in one place, without a network: the smallest run of the whole.

mod guesses;
mod inline;
mod liveness;
mod locate;
mod predicted;
mod rails;
mod replaced;
mod strangers;
mod windows;

use alloc::{collections::VecDeque, vec, vec::Vec};
use core::net::SocketAddr;

use bytes::Bytes;
use proptest::prelude::*;

use super::Endpoint;
use crate::{
    Config, Congestion, SendError,
    reliability::{Burst, Due, Event, Limits, Origin, Outgoing, Payload, PeerId, Sink, Verdict},
    time::Instant,
    wire::{Flags, Packet, Plain, Seq},
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

#[derive(Clone, Debug, Default, PartialEq)]
struct Got {
    messages: Vec<(u32, Vec<u8>)>,
    partial: Vec<(u32, Vec<u8>, usize)>,
    /// So many packets find no room.
    put_off: usize,
}

impl Sink for Got {
    fn deliver_plain(&mut self, _: &Origin, message: &Plain<'_>) -> bool {
        let takes = self.put_off == 0 && message.destination != NOBODY && message.source != NOBODY;
        if takes {
            self.messages.push((message.message.0, message.payload.to_vec()));
        }
        takes
    }

    fn deliver(&mut self, _: Origin, packet: Packet<&[u8]>) -> Verdict {
        if self.put_off > 0 {
            self.put_off -= 1;
            return Verdict::NoRoom;
        }
        if packet.base().destination == NOBODY {
            return Verdict::Misaddressed;
        }
        if packet.base().source == NOBODY {
            return Verdict::Impossible;
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
    /// Bursts that the backends refer to.
    held: [VecDeque<u64>; 2],
    datagrams: usize,
    drop_every: usize,
    /// What arrives is taken in by a twin, too, which predicts nothing, and what is queued is transmitted by twins that know
    /// no short way; counts what was predicted, and what the short way has transmitted.
    twins: bool,
    predicted: usize,
    lone: usize,
    /// All that has been on the wire, if it is recorded: whom it goes to, and bytes.
    tape: Option<Vec<(usize, Vec<u8>)>>,
}

/// All that they know is the same.
fn assert_same(one: &Endpoint, other: &Endpoint) {
    // (To print all bytes takes long.)
    assert!(one == other, "{one:?}\n{other:?}");
}

impl Pair {
    fn new(config: &Config) -> (Self, PeerId, PeerId) {
        let endpoint = |epoch, key| Endpoint::new(config.clone(), LIMITS, epoch, key).unwrap();
        Self::of([endpoint(11, 1), endpoint(22, 2)])
    }

    /// With these ends. Peers that they have already are each other.
    fn of([mut a, mut b]: [Endpoint; 2]) -> (Self, PeerId, PeerId) {
        let address = |n: u16| SocketAddr::from(([127, 0, 0, 1], n));
        let to_b = a.add_peer(address(2), 1).unwrap_or(PeerId(0));
        let to_a = b.add_peer(address(1), 0).unwrap_or(PeerId(0));
        let ends = [
            (a, address(1), Got::default(), vec![]),
            (b, address(2), Got::default(), vec![]),
        ];
        (
            Self {
                now: 0,
                ends,
                wire: VecDeque::new(),
                held: Default::default(),
                datagrams: 0,
                drop_every: usize::MAX,
                twins: false,
                predicted: 0,
                lone: 0,
                tape: None,
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
        if burst.token() != 0 {
            self.held[from].push_back(burst.token());
        }
    }

    /// Puts a datagram on the wire, unless it is lost.
    fn carry(&mut self, from: usize, datagram: &[u8]) {
        self.datagrams += 1;
        if let Some(tape) = &mut self.tape {
            tape.push((1 - from, datagram.to_vec()));
        }
        if !self.datagrams.is_multiple_of(self.drop_every) {
            self.wire.push_back((1 - from, datagram.to_vec(), datagram.len()));
        }
    }

    fn transmit(&mut self) {
        let mut burst = Burst::default();
        let now = Instant::from_nanos(self.now);
        for n in 0..2 {
            loop {
                if self.twins {
                    self.lone += inline::fill_both_ways(&self.ends[n].0, now);
                }
                if !self.ends[n].0.poll_transmit(now, &mut burst) {
                    break;
                }
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
            self.predicted += usize::from(predicted::handle_unpredicted(&mut twin, now, from, &bytes, &mut got));
            (twin, got)
        });
        if let Some(after) = after {
            assert_same(&end.0, &after.0);
            assert!(end.2 == after.1, "{:?}\n{:?}", end.2, after.1);
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
    // (Copies of what comes again every 256 bytes, as debug builds take long for each byte.)
    let period: Vec<u8> = (0..256).map(|i: u32| i.wrapping_mul(n + 7) as u8).collect();
    let mut data = period.repeat(len / 256 + 1);
    data.truncate(len);
    data
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

/// Sends so many messages of `len` bytes at once; gives the numbers of datagrams in their bursts.
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
    // Each is 46 full datagrams of 1,472 bytes and a short one; a burst holds 44.
    assert_eq!(bursts(4, 65_536), [44, 44, 44, 44, 12]);
    // A full one and a short one: all full ones and a short one, then the rest of the short ones.
    assert_eq!(bursts(40, 2_048), [41, 39]);
    // Nothing short, or nothing to pass.
    assert_eq!(bursts(2, 1_416 * 22), [44]);
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

/// Whoever is to be told when it is worth to transmit.
#[test]
fn quiet_flows_and_full_batches_are_worth_transmitting() {
    let (mut pair, to_b, _) = Pair::new(&Config::default());
    pair.ends[0].0.set_limits(Limits {
        max_batch: 1_000,
        ..LIMITS
    });
    let told = |pair: &Pair| {
        let endpoint = &pair.ends[0].0;
        (endpoint.due(to_b, 0, 0) == Due::Now, endpoint.should_transmit(to_b, 0))
    };
    assert_eq!(told(&pair), (true, false), "nothing was ever sent");
    pair.send(0, to_b, 0, Payload::Copy(b"first"));
    assert_eq!(told(&pair), (true, true));
    pair.transmit();
    pair.send(0, to_b, 1, Payload::Copy(b"second"));
    assert_eq!(told(&pair), (false, false), "the first is under way");
    pair.send(0, to_b, 2, Payload::Copy(&[0; 990]));
    assert_eq!(told(&pair), (false, true), "a full batch");
    pair.settle();
    pair.ends[0].0.request_acks(Instant::from_nanos(pair.now));
    pair.settle();
    assert_eq!(told(&pair), (true, true));
}

/// Memory that the backend still refers to has not come back, though what was in it has arrived.
#[test]
fn a_message_is_under_way_until_the_backend_has_let_go() {
    let (mut pair, to_b, to_a) = Pair::new(&Config::default());
    pair.ends[0].0.set_limits(Limits {
        holds_references: true,
        ..LIMITS
    });
    pair.send(0, to_b, 0, Payload::Copy(b"first"));
    pair.pump();
    pair.send(0, to_b, 1, Payload::Shared(data(1, 1_000).into()));
    pair.transmit();
    pair.ends[0].0.request_acks(Instant::from_nanos(pair.now));
    pair.settle();
    // What follows, and is answered, changes nothing.
    pair.send(0, to_b, 2, Payload::Copy(b"request"));
    pair.transmit();
    assert!(pair.arrive());
    pair.send(1, to_a, 0, Payload::Copy(b"answer"));
    pair.transmit();
    assert!(pair.arrive());
    assert_eq!((pair.ends[1].2.messages.len(), pair.ends[0].2.messages.len()), (3, 1));
    let sent = |event: &Event| matches!(event, Event::Sent { .. });
    let (endpoint, .., events) = &mut pair.ends[0];
    assert!(!endpoint.all_idle() && !endpoint.is_idle(to_b) && !events.iter().any(sent));
    for token in pair.held[0].drain(..) {
        endpoint.handle_released(token);
    }
    assert!(endpoint.all_idle() && endpoint.is_idle(to_b));
    assert!(endpoint.poll_event().is_some_and(|event| sent(&event)));
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
    use crate::reliability::{flow::Flow, peer::Peer};
    // 256 bytes in all for an idle peer, tables' slack included (an eighth), and what messaging keeps.
    let resident = size_of::<Peer>() + size_of::<Flow>();
    assert!(resident <= 184, "{resident}");
}

/// Messages of no bytes take memory too while they wait.
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

/// The largest headers in the smallest datagrams, one byte at a time, and the end of time.
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
    // (Without checksums, each must come twice.)
    let config = Config {
        checksum: true,
        ..Config::default()
    };
    let (mut pair, to_b, _) = Pair::new(&config);
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
        let mut bytes = vec![];
        pair.ends[0].0.gather(&burst, |part| bytes.extend_from_slice(part));
        let end = &mut pair.ends[1];
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        end.0
            .handle_datagrams(now, from, &mut bytes, burst.segment_size(), &mut end.2);
        delivered += burst.segments();
    }
    assert!(delivered >= 100, "{delivered}");
    let queued = pair.ends[1].0.actives.iter().map(|active| active.send.queue_len());
    assert_eq!(queued.max(), Some(64));
    // They are only put off.
    pair.pump();
    let returned = |event: &&Event| matches!(event, Event::Returned { .. });
    assert_eq!(pair.ends[0].3.iter().filter(returned).count(), 500);
}

//! Several paths between two endpoints.

use alloc::collections::BTreeMap;
use core::time::Duration;

mod crossed;
mod proof;
mod rates;
mod restart;
mod sessions;
mod short;
mod strangers;

use super::{inline::describe, *};
use crate::{
    error::{AddRailError, PeerError},
    prng::Prng,
    reliability::{Path, RailState},
};

/// One direction of a wire.
#[derive(Clone, Copy)]
struct Way {
    /// Bytes per microsecond.
    rate: u64,
    /// ns.
    delay: u64,
    /// No datagram arrives any more.
    cut: bool,
    /// No process listens at its end, which the host there reports as often as Linux does: six times at once, and then once
    /// a second.
    refuses: bool,
    refused: u32,
    refused_at: u64,
    /// Largest datagram that passes, bytes.
    mtu: usize,
    /// Bytes that may wait; more are lost.
    queue: u64,
    /// One of so many datagrams is lost.
    drop_every: u64,
    free_at: u64,
    carried: u64,
    bytes: u64,
}

const WAY: Way = Way {
    rate: 1_000,
    delay: 20_000,
    cut: false,
    refuses: false,
    refused: 0,
    refused_at: 0,
    mtu: 65_507,
    queue: u64::MAX,
    drop_every: u64::MAX,
    free_at: 0,
    carried: 0,
    bytes: 0,
};

struct Datagram {
    to: usize,
    rail: u8,
    source: SocketAddr,
    bytes: Vec<u8>,
    /// The network brings it back.
    refusal: bool,
}

/// Two endpoints with a wire for each port.
struct Net {
    now: u64,
    ends: [Endpoint; 2],
    got: [Got; 2],
    events: [Vec<Event>; 2],
    /// By direction (to whom), then by port.
    ways: [Vec<Way>; 2],
    wire: BTreeMap<(u64, u64), Datagram>,
    sent: u64,
    /// What has come to the first end.
    recorded: Option<Vec<Vec<u8>>>,
    /// What arrives is taken in by a twin, too, which predicts nothing; counts what was predicted.
    twins: bool,
    predicted: usize,
    /// Messages that went past the queue.
    past_the_queue: usize,
    /// Until then, no process is at that end, ns; and its host says so.
    away: [u64; 2],
    refuses: bool,
    /// Two ports of each end are in one network, with a way for each pair of them.
    crossed: bool,
}

const PEER: PeerId = PeerId(0);

fn address(end: usize, port: u8) -> SocketAddr {
    SocketAddr::from(([10, port, 0, end as u8 + 1], 4_800))
}

/// An endpoint gets to know the other end, which has so many addresses.
fn meet(endpoint: &mut Endpoint, other: usize, rails: usize) {
    endpoint.add_peer(address(other, 0), other as u32).unwrap();
    for port in 1..rails as u8 {
        let path = Path::new(address(other, port), port);
        assert_eq!(endpoint.add_rail(Instant::ZERO, PEER, path), Ok(port));
    }
}

impl Net {
    fn new(config: &Config, rails: &[Way]) -> Self {
        Self::with(config, rails, false)
    }

    /// Whose packets may be sealed.
    fn with(config: &Config, rails: &[Way], sealed: bool) -> Self {
        let ends = [(11, 1), (22, 2)].map(|(epoch, key)| {
            let end = Endpoint::new(config.clone(), LIMITS, epoch, key).unwrap();
            let mut end = match sealed {
                true => end.with_sealer(Box::new(strangers::Sum)),
                false => end,
            };
            end.set_processor(key as u32 - 1);
            meet(&mut end, 2 - key as usize, rails.len());
            end
        });
        Self {
            now: 0,
            ends,
            got: Default::default(),
            events: Default::default(),
            ways: [rails.to_vec(), rails.to_vec()],
            wire: BTreeMap::new(),
            sent: 0,
            recorded: None,
            twins: false,
            predicted: 0,
            past_the_queue: 0,
            away: [0; 2],
            refuses: false,
            crossed: false,
        }
    }

    /// The ports between which a way is.
    fn ports(&self, way: u8) -> [u8; 2] {
        if self.crossed { [way / 2, way % 2] } else { [way; 2] }
    }

    /// A datagram comes to the first end.
    fn handle(&mut self, path: Path, bytes: &mut [u8]) {
        let (now, len) = (Instant::from_nanos(self.now), bytes.len());
        self.ends[0].handle_datagrams(now, path, bytes, len, &mut self.got[0]);
    }

    /// What the first end knows of its peer and its rails.
    fn view(&self) -> impl PartialEq + core::fmt::Debug + use<> {
        let end = &self.ends[0];
        let rails = [0, 1, 2].map(|rail| end.rail_stats(PEER, rail).map(|rail| (rail.path, rail.state)));
        let answered = { end.rails.all(0).iter() }
            .map(|rail| rail.answered_at)
            .collect::<Vec<u64>>();
        (rails, end.address(PEER), answered)
    }

    fn cut(&mut self, rail: usize, cut: bool) {
        for ways in &mut self.ways {
            ways[rail].cut = cut;
        }
    }

    fn transmit(&mut self) {
        let mut burst = Burst::default();
        for end in 0..2 {
            while self.ends[end].poll_transmit(Instant::from_nanos(self.now), &mut burst) {
                self.emit(end, &burst);
            }
            while let Some(event) = self.ends[end].poll_event() {
                self.events[end].push(event);
            }
        }
    }

    /// Puts a burst on its wire.
    fn emit(&mut self, from: usize, burst: &Burst) {
        let mut bytes = vec![];
        self.ends[from].gather(burst, |part| bytes.extend_from_slice(part));
        let to = 1 - from;
        let leads = |&way: &u8| {
            let ports = self.ports(way);
            ports[from] == burst.port() && address(to, ports[to]) == burst.destination()
        };
        let way = (0..self.ways[to].len() as u8).find(leads);
        let way = way.expect("each port has its own network");
        for datagram in bytes.chunks(burst.segment_size()) {
            self.carry(to, way, datagram);
        }
    }

    fn carry(&mut self, to: usize, way: u8, datagram: &[u8]) {
        let ports = self.ports(way);
        let way = &mut self.ways[to][usize::from(way)];
        way.carried += 1;
        if way.cut || datagram.len() > way.mtu || way.carried.is_multiple_of(way.drop_every) {
            return;
        }
        let waiting = way.free_at.saturating_sub(self.now) * way.rate / 1_000;
        if waiting + datagram.len() as u64 > way.queue {
            return;
        }
        way.bytes += datagram.len() as u64;
        way.free_at = way.free_at.max(self.now) + datagram.len() as u64 * 1_000 / way.rate;
        self.sent += 1;
        let (mut to, mut source, mut at) = (to, address(1 - to, ports[1 - to]), way.free_at + way.delay);
        let refuses = way.refuses || self.refuses && at < self.away[to];
        if refuses {
            if way.refused >= 6 && at < way.refused_at + 1_000_000_000 {
                return;
            }
            (way.refused, way.refused_at) = (way.refused + 1, at);
            (to, source, at) = (1 - to, address(to, ports[to]), at + way.delay);
        }
        let datagram = Datagram {
            to,
            rail: ports[to],
            source,
            bytes: datagram.to_vec(),
            refusal: refuses,
        };
        self.wire.insert((at, self.sent), datagram);
    }

    /// Runs until `done`; at most so many milliseconds.
    fn run(&mut self, limit_ms: u64, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + limit_ms * 1_000_000;
        while self.now < end {
            self.transmit();
            if done(self) {
                return true;
            }
            let arrival = self.wire.keys().next().map(|key| key.0);
            let deadline = self
                .ends
                .iter()
                .filter_map(Endpoint::poll_timeout)
                .min()
                .map(Instant::as_nanos);
            let Some(next) = arrival.into_iter().chain(deadline).min() else {
                return done(self);
            };
            self.now = self.now.max(next);
            let now = Instant::from_nanos(self.now);
            while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let mut datagram = entry.remove();
                let (len, path) = (datagram.bytes.len(), Path::new(datagram.source, datagram.rail));
                let to = datagram.to;
                if self.now < self.away[to] {
                    continue;
                }
                if datagram.refusal {
                    let quoted = &datagram.bytes[..len.min(256)];
                    self.ends[to].handle_unreachable(now, datagram.source, quoted);
                    continue;
                }
                if let Some(recorded) = self.recorded.as_mut().filter(|_| to == 0) {
                    recorded.push(datagram.bytes.clone());
                }
                if self.twins {
                    self.take_in_twice(to, path, &mut datagram.bytes);
                    continue;
                }
                self.ends[to].handle_datagrams(now, path, &mut datagram.bytes, len, &mut self.got[to]);
            }
            for end in &mut self.ends {
                end.handle_timeout(now);
            }
        }
        done(self)
    }

    /// Sends a message by reference.
    fn send(&mut self, from: usize, number: u32, len: usize) {
        let now = Instant::from_nanos(self.now);
        let bytes = Bytes::from(data(number, len));
        let sent = self.ends[from].send(now, PEER, 0, &message(from, number), Payload::Shared(bytes));
        assert!(sent.is_ok(), "{sent:?}");
    }

    /// Sends a message by copy, past the queue if that is possible.
    fn send_copied(&mut self, from: usize, number: u32, len: usize) {
        self.transmit();
        let (now, message, data) = (Instant::from_nanos(self.now), message(from, number), data(number, len));
        let (end, mut burst) = (&mut self.ends[from], Burst::default());
        let mut twin = end.clone();
        let inline = end.begin_inline(now, PEER, 0, &message, &data, &mut burst);
        if let Some(inline) = &inline {
            end.finish_inline(inline, &data, &mut burst);
        }
        let sent = twin.send(now, PEER, 0, &message, Payload::Copy(&data));
        assert!(sent.is_ok(), "{sent:?}");
        if inline.is_none() {
            self.ends[from] = twin;
            return;
        }
        // What is sent past the queue is what would have gone through it.
        let mut other = Burst::default();
        assert!(twin.poll_transmit(now, &mut other));
        assert_eq!(describe(end, &burst), describe(&twin, &other));
        assert_same(end, &twin);
        self.past_the_queue += 1;
        self.emit(from, &burst);
    }

    /// The end has got exactly these messages, each once.
    fn assert_got(&mut self, end: usize, lens: &[usize]) {
        let mut got = self.got[end].messages.clone();
        got.sort_by_key(|(number, _)| *number);
        assert_eq!(got.len(), lens.len());
        for ((number, bytes), (n, len)) in got.iter().zip((0..).zip(lens)) {
            assert_eq!(*number, n);
            assert!(*bytes == data(n, *len), "message {n}");
        }
        assert!(self.got[end].partial.is_empty());
    }

    /// The first session that has ended at either end.
    fn first_loss(&self) -> Option<&Event> {
        let mut all = self.events.iter().flatten();
        all.find(|event| matches!(event, Event::Down { .. }))
    }

    fn state(&self, end: usize, rail: u8) -> RailState {
        self.ends[end].rail_stats(PEER, rail).unwrap().state
    }

    /// A session is open, and its rails are proven as far as they can be.
    fn open(&mut self) {
        self.send(0, 0, 1);
        assert!(self.run(100, |net| net.got[0].messages.len() + net.got[1].messages.len() == 1));
        self.run(20, |_| false);
    }
}

fn settings() -> Config {
    Config {
        unexpected_bytes: 64 << 20,
        ..Config::default()
    }
}

#[test]
fn rails_are_proven_by_probes() {
    let mut net = Net::new(&settings(), &[WAY, WAY, WAY]);
    // What the second end sends on rail 2 gets lost, the answers to probes of the first end included.
    net.ways[0][2].cut = true;
    net.open();
    for end in 0..2 {
        assert_eq!(net.state(end, 1), RailState::Up);
        assert_eq!(net.state(end, 2), RailState::Unproven, "one way is no rail");
        assert_eq!(
            net.events[end]
                .iter()
                .filter(|event| matches!(event, Event::RailUp { rail: 1, .. }))
                .count(),
            1
        );
    }
    let carried = net.ways[1][2].carried;
    net.send(0, 1, 4 << 20);
    assert!(net.run(1_000, |net| net.got[1].messages.len() == 2));
    net.assert_got(1, &[1, 4 << 20]);
    assert!(net.ways[1][2].carried - carried < 10, "nothing but probes");
    assert!(net.ends[0].rail_stats(PEER, 1).unwrap().bytes_sent > 1 << 20);
    net.ways[0][2].cut = false;
    assert!(net.run(2_000, |net| net.state(0, 2) == RailState::Up
        && net.state(1, 2) == RailState::Up));
}

/// Both sides ask again before an answer can be there; it counts all the same, and the round trip is the right one.
#[test]
fn a_rail_with_a_long_round_trip_is_proven() {
    for far in [8_000_000, 80_000_000, 700_000_000] {
        let mut net = Net::new(&settings(), &[WAY, Way { delay: far, ..WAY }]);
        net.open();
        net.run(10_000, |_| false);
        for end in 0..2 {
            let stats = net.ends[end].rail_stats(PEER, 1).unwrap();
            assert_eq!(stats.state, RailState::Up, "{far}");
            let trip = stats.round_trip.as_nanos() as u64;
            assert!((2 * far..2 * far + 10_000_000).contains(&trip), "{far}: {stats:?}");
            assert_eq!(net.ends[end].primary_rail(PEER), 0);
        }
    }
}

#[test]
fn small_messages_take_the_quickest_rail() {
    let far = Way {
        delay: 2_000_000,
        ..WAY
    };
    let mut net = Net::new(&settings(), &[far, WAY]);
    net.open();
    assert_eq!(net.ends[0].primary_rail(PEER), 1);
    let before = net.now;
    net.send(0, 1, 8);
    assert!(net.run(100, |net| net.got[1].messages.len() == 2));
    assert!(net.now - before < 100_000, "{} ns", net.now - before);
}

#[test]
fn a_rail_that_is_added_later_is_used() {
    let far = Way {
        delay: 2_000_000,
        ..WAY
    };
    let mut net = Net::new(&settings(), &[far]);
    net.open();
    for end in 0..2 {
        net.ways[end].push(WAY);
        let path = Path::new(address(1 - end, 1), 1);
        assert_eq!(net.ends[end].add_rail(Instant::from_nanos(net.now), PEER, path), Ok(1));
    }
    assert!(net.run(100, |net| [0, 1].map(|end| net.state(end, 1)) == [RailState::Up; 2]));
    net.run(20, |_| false);
    assert_eq!([0, 1].map(|end| net.ends[end].primary_rail(PEER)), [1, 1]);
    net.send(0, 1, 4 << 20);
    assert!(net.run(1_000, |net| net.got[1].messages.len() == 2));
    net.assert_got(1, &[1, 4 << 20]);
}

/// A session is opened although the first rail carries nothing; and when that rail works, it is used.
fn opens_elsewhere(first: Way, cut: [bool; 2]) {
    for both in [false, true] {
        let mut net = Net::new(&settings(), &[first, WAY, WAY]);
        for (ways, cut) in net.ways.iter_mut().zip(cut) {
            ways[0].cut = cut;
        }
        net.send(0, 0, 100);
        if both {
            net.send(1, 0, 100);
        }
        assert!(net.run(1_000, |net| net.got[1].messages.len() == 1));
        assert!(net.run(1_000, |net| net.got[0].messages.len() == usize::from(both)));
        assert!(net.run(1_000, |net| [0, 1].map(|end| net.state(end, 1)) == [RailState::Up; 2]));
        let lens: Vec<usize> = (0..5).map(|number| [100, 4 << 20][usize::from(number > 0)]).collect();
        for number in 1..5 {
            net.send(0, number, 4 << 20);
        }
        assert!(net.run(2_000, |net| net.got[1].messages.len() == 5 && net.ends[0].all_idle()));
        net.assert_got(1, &lens);
        for ways in &mut net.ways {
            (ways[0].cut, ways[0].refuses) = (false, false);
        }
        net.run(2_000, |net| [0, 1].map(|end| net.state(end, 0)) == [RailState::Up; 2]);
        assert_eq!([0, 1].map(|end| net.state(end, 0)), [RailState::Up; 2]);
        let before = net.ways[1][0].bytes;
        net.send(0, 5, 4 << 20);
        assert!(net.run(1_000, |net| net.ends[0].all_idle()));
        assert!(net.ways[1][0].bytes - before > 1 << 20);
        net.assert_got(1, &[&lens[..], &[4 << 20]].concat());
        assert_eq!(net.first_loss(), None);
    }
}

#[test]
fn a_session_opens_by_any_rail() {
    for cut in [[true, true], [true, false], [false, true]] {
        opens_elsewhere(WAY, cut);
    }
    let walled = Way { refuses: true, ..WAY };
    opens_elsewhere(walled, [false, false]);
}

#[test]
fn what_leaves_by_a_full_port_waits_and_others_go_on() {
    let mut net = Net::new(&settings(), &[WAY, WAY]);
    net.open();
    net.ends[0].hold_port(1, true);
    let before = net.ways[1][1].carried;
    net.send(0, 1, 4 << 20);
    assert!(net.run(1_000, |net| net.got[1].messages.len() == 2));
    assert_eq!(net.ways[1][1].carried, before);
    net.ends[0].hold_port(1, false);
    net.send(0, 2, 4 << 20);
    assert!(net.run(1_000, |net| net.got[1].messages.len() == 3));
    assert!(net.ends[0].rail_stats(PEER, 1).unwrap().bytes_sent > 1 << 20);
    net.assert_got(1, &[1, 4 << 20, 4 << 20]);
}

#[test]
fn each_port_has_its_own_largest_datagram() {
    let mut net = Net::new(&settings(), &[WAY, WAY]);
    net.ends[0].limit_port(1, 1_472);
    net.open();
    net.run(500, |_| false);
    let mtu_of = |net: &Net, rail| net.ends[0].rail_stats(PEER, rail).unwrap().max_datagram;
    assert_eq!(mtu_of(&net, 1), 1_472);
    assert!(mtu_of(&net, 0) > 1_472);
    net.ends[0].limit_port(0, 1_300);
    assert_eq!([0, 1].map(|rail| mtu_of(&net, rail)), [1_300, 1_472]);
}

/// Two hosts behind address translation have the same private address.
#[test]
fn an_address_of_two_peers_is_that_of_neither() {
    let mut end = Endpoint::new(settings(), LIMITS, 1, 2).unwrap();
    let shared = address(1, 7);
    for number in 0..2 {
        let peer = end.add_peer(address(1, number), number.into()).unwrap();
        assert_eq!(end.peer_at(shared), (number == 1).then_some(0));
        assert_eq!(end.add_rail(Instant::ZERO, peer, Path::new(shared, 1)), Ok(1));
    }
    assert_eq!(end.peer_at(shared), None);
    assert_eq!(end.peer_at(address(1, 1)), Some(1));
}

/// Sends until something happens in the middle, and then goes on: nothing is lost or doubled.
fn survives(rails: &[Way], mut happens: impl FnMut(&mut Net), mut ends: impl FnMut(&mut Net)) {
    let mut net = Net::new(&settings(), rails);
    net.open();
    let mut lens = vec![1];
    for number in 1..=40 {
        let len = if number % 3 == 0 { 100 } else { 1 << 20 };
        net.send(0, number, len);
        lens.push(len);
        if number == 10 {
            net.run(2, |_| false);
            happens(&mut net);
        }
        assert!(
            net.run(4_000, |net| net.got[1].messages.len() + 4 >= lens.len()),
            "stuck at {number}"
        );
    }
    assert!(net.run(4_000, |net| net.ends[0].all_idle()));
    net.assert_got(1, &lens);
    assert!(!net.events[0].iter().any(|event| matches!(event, Event::Down { .. })));
    let sent = net.events[0]
        .iter()
        .filter(|event| matches!(event, Event::Sent { .. }))
        .count();
    assert_eq!(sent, lens.len());
    ends(&mut net);
}

#[test]
fn a_dead_rail_is_no_dead_peer() {
    for dead in 0..2 {
        let rail = dead as u8;
        survives(
            &[WAY, WAY],
            |net| net.cut(dead, true),
            |net| {
                assert_eq!(net.state(0, rail), RailState::Down);
                let stats = net.ends[0].rail_stats(PEER, rail).unwrap();
                assert_eq!(stats.failures, 1);
                assert!(net.ends[0].stats().flows_settled > 0);
                assert!(net.ways[1][dead].carried > 0);
                net.cut(dead, false);
                assert!(net.run(2_000, |net| net.state(0, rail) == RailState::Up));
                let before = net.ends[0].rail_stats(PEER, rail).unwrap().bytes_sent;
                net.send(0, 41, 4 << 20);
                assert!(net.run(1_000, |net| net.got[1].messages.len() == 42));
                assert!(
                    net.ends[0].rail_stats(PEER, rail).unwrap().bytes_sent > before,
                    "it is used again"
                );
            },
        );
    }
}

#[test]
fn a_rail_that_loses_acknowledgements_doubles_nothing() {
    for dead in 0..2 {
        survives(
            &[WAY, WAY, WAY],
            |net| {
                // What the receiver says on this rail gets lost first; then all of it dies.
                net.ways[0][dead].cut = true;
                net.run(3, |_| false);
                net.cut(dead, true);
            },
            |net| assert_eq!(net.state(0, dead as u8), RailState::Down),
        );
    }
}

/// A rail on which nothing is under way is not missed. It must not be taken for the way out when another one dies.
#[test]
fn a_rail_that_has_died_unnoticed_is_no_way_out() {
    let way = |delay| Way { delay, ..WAY };
    let mut net = Net::new(&settings(), &[way(40_000), way(400_000), way(10_000)]);
    net.open();
    assert_eq!(net.ends[0].primary_rail(PEER), 2);
    net.cut(0, true);
    net.cut(2, true);
    net.send(0, 1, 8);
    net.send(0, 2, 20_000);
    assert!(net.run(200, |net| net.got[1].messages.len() == 3));
    net.assert_got(1, &[1, 8, 20_000]);
    assert!(net.run(200, |net| net.ends[0].all_idle()));
    assert_eq!(net.ends[0].primary_rail(PEER), 1);
}

#[test]
fn rails_that_lose_and_reorder_lose_nothing() {
    let lossy = Way { drop_every: 37, ..WAY };
    let far = Way {
        delay: 3_000_000,
        drop_every: 101,
        ..WAY
    };
    survives(&[lossy, far, WAY], |_| {}, |_| {});
}

#[test]
fn a_rail_with_a_smaller_mtu_takes_smaller_packets() {
    let small = Way { mtu: 1_472, ..WAY };
    let jumbo = Way { mtu: 8_972, ..WAY };
    survives(
        &[jumbo, small],
        |_| {},
        |net| {
            let mtu = |rail| net.ends[0].rail_stats(PEER, rail).unwrap().max_datagram;
            assert!((8_900..=8_972).contains(&mtu(0)), "{}", mtu(0));
            assert!((1_400..=1_472).contains(&mtu(1)), "{}", mtu(1));
            assert!(net.ends[0].rail_stats(PEER, 1).unwrap().bytes_sent > 1 << 20);
        },
    );
}

#[test]
fn a_peer_is_dead_when_all_its_rails_are_silent() {
    let mut net = Net::new(&settings(), &[WAY, WAY]);
    net.open();
    net.send(0, 1, 4 << 20);
    net.run(1, |_| false);
    net.cut(0, true);
    net.cut(1, true);
    // Within the usual limit, by less than two more round trips that no answer came for.
    let limit = settings().death_timeout + Duration::from_millis(500);
    assert!(net.run(limit.as_millis() as u64, |net| {
        net.events[0].iter().any(|event| matches!(event, Event::Down { .. }))
    }));
    assert_eq!(net.ends[0].stats().rails_down, 0, "no rail is worse than the other");
}

#[test]
fn a_process_that_is_gone_is_lost_by_its_refusals() {
    for (len, limit_ms) in [(8, 150), (4 << 20, 1_300)] {
        for rails in [&[WAY][..], &[WAY, WAY], &[WAY, Way { delay: 100_000, ..WAY }, WAY]] {
            let mut net = Net::new(&settings(), rails);
            net.open();
            net.send(0, 1, len);
            net.run(1, |net| net.ends[0].stats().packets_sent > 20);
            for rail in 0..rails.len() {
                (net.ways[1][rail].refuses, net.ways[0][rail].cut) = (true, true);
            }
            net.send(0, 2, len);
            let is_down = |net: &Net| net.ends[0].down(PEER) == Some(PeerError::Refused);
            assert!(net.run(limit_ms, is_down), "{} rails, {len} bytes", rails.len());
        }
    }
}

/// What one rail refuses comes by the other one, and soon.
#[test]
fn a_rail_that_a_firewall_refuses_is_dead_and_its_peer_is_not() {
    for refused in [0, 1] {
        let mut net = Net::new(&settings(), &[WAY, WAY]);
        net.open();
        net.send(0, 1, 4 << 20);
        net.run(1, |_| false);
        net.ways[1][refused].refuses = true;
        for number in 2..=20 {
            net.send(0, number, 1 << 20);
            assert!(
                net.run(400, |net| net.got[1].messages.len() as u32 + 2 > number),
                "{number}"
            );
        }
        assert!(net.run(400, |net| net.ends[0].all_idle()));
        assert_eq!(net.state(0, refused as u8), RailState::Down);
        assert_eq!(net.ends[0].down(PEER), None);
    }
}

#[test]
fn a_goodbye_takes_a_living_path() {
    let far = Way {
        delay: 1_000_000,
        ..WAY
    };
    let mut net = Net::new(&settings(), &[WAY, far]);
    net.open();
    assert_eq!(net.ends[0].primary_rail(PEER), 0);
    net.cut(0, true);
    net.ends[0].close(Instant::from_nanos(net.now), PEER);
    assert!(net.run(500, |net| net.ends.iter().all(|end| end.down(PEER).is_some())));
    for end in &net.ends {
        assert_eq!(end.down(PEER), Some(PeerError::Closed));
    }
    // The next session begins on the first rail, and proves the other one anew.
    assert_eq!(
        [0, 1].map(|rail| net.state(0, rail)),
        [RailState::Up, RailState::Unproven]
    );
    net.cut(0, false);
    net.ends[0].reconnect(PEER);
    net.send(0, 1, 1);
    assert!(net.run(500, |net| net.state(0, 1) == RailState::Up
        && net.state(1, 1) == RailState::Up));
    net.assert_got(1, &[1, 1]);
}

/// The receiver says goodbye when it has all, by a rail that is quicker than that of the last acknowledgements.
#[test]
fn a_goodbye_leaves_nothing_unacknowledged() {
    for seed in 0..100 {
        let mut prng = Prng::new(seed);
        let mut way = || Way {
            rate: [125, 1_250][prng.below(2) as usize],
            delay: prng.range(10_000..4_000_000),
            ..WAY
        };
        let ways = [way(), way(), way()];
        let mut net = Net::new(&settings(), &ways);
        net.open();
        net.run(100, |_| false);
        let lens = [1, 300_000, 1 << 20, 1 << 20, 70_000, 1 << 20];
        for (number, len) in (1..).zip(&lens[1..]) {
            net.send(0, number, *len);
        }
        assert!(
            net.run(1_000, |net| net.got[1].messages.len() == lens.len()),
            "seed {seed}"
        );
        net.ends[1].close(Instant::from_nanos(net.now), PEER);
        let is_over = |net: &Net| net.ends.iter().all(|end| end.down(PEER) == Some(PeerError::Closed));
        assert!(net.run(1_000, is_over), "seed {seed}");
        net.run(1, |_| true);
        let count = |wanted: fn(&Event) -> bool| net.events[0].iter().filter(|event| wanted(event)).count();
        assert_eq!(
            count(|event| matches!(event, Event::Sent { .. })),
            lens.len(),
            "seed {seed}"
        );
        assert_eq!(
            count(|event| matches!(event, Event::Down { lost: true, .. })),
            0,
            "seed {seed}"
        );
    }
}

#[test]
fn paths_are_added_once() {
    let mut net = Net::new(&settings(), &[WAY, WAY]);
    let end = &mut net.ends[0];
    let now = Instant::ZERO;
    assert_eq!(end.add_rail(now, PEER, address(1, 0)), Err(AddRailError::Exists(0)));
    let again = Path::new(address(1, 1), 1);
    assert_eq!(end.add_rail(now, PEER, again), Err(AddRailError::Exists(1)));
    assert_eq!(
        end.add_rail(now, PeerId(7), again),
        Err(AddRailError::UnknownPeer(PeerId(7)))
    );
    for port in 2..16 {
        assert_eq!(end.add_rail(now, PEER, Path::new(address(1, port), port)), Ok(port));
    }
    assert_eq!(
        end.add_rail(now, PEER, Path::new(address(1, 16), 16)),
        Err(AddRailError::TooMany)
    );
}

/// Packets of others fill the queue of the quickest rail for longer than several time-outs; nothing is lost.
#[test]
fn a_rail_behind_a_long_queue_is_not_dead() {
    let quick = Way { delay: 10_000, ..WAY };
    let mut net = Net::new(&settings(), &[WAY, quick]);
    net.open();
    let mut lens = vec![1];
    for number in 1..=200 {
        let until = net.now + if number % 50 == 0 { 6_000_000 } else { 0 };
        net.ways.iter_mut().for_each(|ways| ways[1].free_at = until);
        net.send_copied(0, number, 100);
        lens.push(100);
        assert!(net.run(100, |net| net.ends[0].all_idle()));
    }
    net.assert_got(1, &lens);
    let stats = net.ends[0].stats();
    assert!(stats.spurious_timeouts >= 3, "{stats:?}");
    assert_eq!([0, 1].map(|end| net.ends[end].stats().rails_down), [0, 0]);
}

/// Rails, messages and mishaps that a seed draws; one rail never dies.
fn drawn(seed: u64) {
    let mut prng = Prng::new(seed);
    let count = 1 + prng.below(3) as usize;
    let mut ways: Vec<Way> = vec![];
    for _ in 0..count {
        ways.push(Way {
            rate: [12, 125, 1_250][prng.below(3) as usize],
            delay: prng.range(5_000..3_000_000),
            mtu: [1_472, 8_972, 65_507][prng.below(3) as usize],
            drop_every: [u64::MAX, 29, 200][prng.below(3) as usize],
            ..WAY
        });
    }
    let mut net = Net::new(&settings(), &ways);
    net.open();
    let mut lens = [vec![], vec![1]];
    let lives = prng.below(count as u64) as usize;
    for _ in 0..30 {
        let from = prng.below(2) as usize;
        let len = [8, 1_000, 20_000, 300_000][prng.below(4) as usize];
        net.send(from, lens[1 - from].len() as u32, len);
        lens[1 - from].push(len);
        let rail = prng.below(count as u64) as usize;
        match prng.below(6) {
            0 if rail != lives => net.cut(rail, true),
            // One direction.
            1 if rail != lives => net.ways[prng.below(2) as usize][rail].cut = true,
            2 => net.cut(rail, false),
            _ => {}
        }
        net.run(prng.below(40), |_| false);
    }
    let idle = net.run(60_000, |net| net.ends.iter().all(Endpoint::all_idle));
    assert!(idle, "seed {seed}: {:?}", [net.ends[0].stats(), net.ends[1].stats()]);
    assert_eq!(net.first_loss(), None, "seed {seed}");
    for (end, lens) in lens.iter().enumerate() {
        let got = &net.got[end];
        let missing: Vec<_> = (0..lens.len() as u32)
            .filter(|n| got.messages.iter().all(|(number, _)| number != n))
            .collect();
        let (whole, parts) = (got.messages.len(), got.partial.len());
        assert_eq!(
            (whole, parts),
            (lens.len(), 0),
            "seed {seed}, end {end}: {missing:?} of {lens:?}"
        );
        net.assert_got(end, lens);
    }
}

#[test]
fn model_of_drawn_rails() {
    for seed in 0..100 {
        drawn(seed);
    }
}

/// What is sent again is not lost each time behind the question whether the rail works, where the network has room for one
/// packet only.
#[test]
fn a_question_is_not_always_in_the_way() {
    let way = Way {
        rate: 10,
        queue: 460,
        ..WAY
    };
    let config = Config {
        path_mtu_discovery: false,
        ..settings()
    };
    let mut net = Net::new(&config, &[way; 2]);
    net.open();
    assert_eq!([0, 1].map(|end| net.state(end, 1)), [RailState::Up; 2]);
    (0..2).for_each(|rail| net.cut(rail, true));
    net.send(0, 1, 400);
    net.run(200, |_| false);
    (0..2).for_each(|rail| net.cut(rail, false));
    assert!(net.run(5_000, |net| net.got[1].messages.len() == 2));
    net.assert_got(1, &[1, 400]);
}

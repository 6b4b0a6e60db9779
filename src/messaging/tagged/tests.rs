//! The queues against plain models, and two sides that talk.

use alloc::{boxed::Box, collections::BTreeSet, vec, vec::Vec};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use proptest::prelude::*;

use super::{posted::Posted, unexpected::Unexpected, *};
use crate::{
    config::Config,
    error::PeerError,
    reliability::{Burst, Endpoint, Event, Limits},
};

fn selectors() -> impl Strategy<Value = Selector> {
    let source = prop_oneof![Just(None), (0..3_u32).prop_map(Some)];
    let ignore = prop_oneof![4 => Just(0_u64), 1 => Just(3), 1 => Just(u64::MAX), 1 => 0..8_u64];
    (source, 0..8_u64, ignore).prop_map(|(source, bits, ignore)| Selector { source, bits, ignore })
}

proptest! {
    #[test]
    fn posted_receives_are_matched_oldest_first(
        steps in prop::collection::vec((0..4_u8, selectors(), 0..3_u32, 0..8_u64), 1..300)
    ) {
        let mut posted = Posted::default();
        let mut model: Vec<(Selector, usize)> = Vec::new();
        let mut places = Vec::new();
        for (n, (what, selector, source, bits)) in steps.into_iter().enumerate() {
            match what {
                0 | 1 => {
                    places.push((posted.push(&selector, n), n));
                    model.push((selector, n));
                }
                2 => {
                    let at = model.iter().position(|(selector, _)| selector.matches(source, bits));
                    let expected = at.map(|at| model.remove(at).1);
                    prop_assert_eq!(posted.take(source, bits), expected);
                }
                _ if bits == 0 => {
                    let which = |other: &Selector| other.source == Some(source);
                    let expected: Vec<_> = model.iter().filter(|(s, _)| which(s)).map(|(_, n)| *n).collect();
                    model.retain(|(s, _)| !which(s));
                    prop_assert_eq!(posted.drain(which), expected);
                }
                _ if !places.is_empty() => {
                    let (place, n) = places[bits as usize * 31 % places.len()];
                    let at = model.iter().position(|(_, other)| *other == n);
                    let expected = at.map(|at| model.remove(at).1);
                    prop_assert_eq!(posted.cancel(place), expected);
                }
                _ => {}
            }
            prop_assert_eq!(posted.len(), model.len());
        }
    }

    #[test]
    fn unexpected_messages_are_found_oldest_first(
        steps in prop::collection::vec((0..4_u8, selectors(), 0..3_u32, 0..8_u64), 1..300)
    ) {
        let mut unexpected = Unexpected::new(7);
        let mut model: Vec<(u32, u64, usize)> = Vec::new();
        for (n, (what, selector, source, bits)) in steps.into_iter().enumerate() {
            let at = model.iter().position(|&(source, bits, _)| selector.matches(source, bits));
            match what {
                0 | 1 => {
                    unexpected.push(source, bits, n);
                    model.push((source, bits, n));
                }
                2 => prop_assert_eq!(unexpected.take(&selector), at.map(|at| model.remove(at))),
                _ if bits == 0 => {
                    let expected: Vec<_> = model.iter().filter(|(s, ..)| *s == source).map(|(.., n)| *n).collect();
                    model.retain(|(s, ..)| *s != source);
                    prop_assert_eq!(unexpected.drain(|s, _| s == source), expected);
                }
                _ => prop_assert_eq!(unexpected.peek(&selector).map(|(s, b, n)| (s, b, *n)), at.map(|at| model[at])),
            }
            prop_assert_eq!(unexpected.len(), model.len());
        }
    }
}

/// A buffer that can be looked at after it was given away.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn new(len: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![0xee; len])))
    }

    fn get(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl MemoryRegion for Shared {
    fn capacity(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn place(&mut self, offset: u64, bytes: Span<'_>) {
        MemoryRegion::place(&mut *self.0.lock().unwrap(), offset, bytes);
    }
}

struct Side {
    messenger: Messenger,
    tagged: Tagged<Shared>,
    active: Vec<(u32, u32, Vec<u8>)>,
}

impl ActiveMessages for Vec<(u32, u32, Vec<u8>)> {
    fn handle(&mut self, _: PeerId, source: u32, handler: u32, data: &[u8]) {
        self.push((source, handler, data.to_vec()));
    }

    fn landed(&mut self, _: RegionId) {}
}

/// Two processors, 0 and 1, without a network in between.
struct Pair {
    sides: [Side; 2],
    now: Instant,
}

const PEER: PeerId = PeerId(0);
const LIMITS: Limits = Limits {
    max_datagram: 1_472,
    max_segments: 16,
    max_batch: 65_000,
    receive_buffer: 1 << 20,
    holds_references: false,
    ack_bytes: usize::MAX,
    receive_port: 0,
};

fn address(side: usize) -> core::net::SocketAddr {
    core::net::SocketAddr::from(([127, 0, 0, 1], 1_000 + side as u16))
}

impl Pair {
    fn new(unexpected_bytes: u32) -> Self {
        let sides = [0, 1].map(|side: usize| {
            let config = Config {
                unexpected_bytes,
                ..Config::default()
            };
            let endpoint = Endpoint::new(config, LIMITS, 7 + side as u64, 9).unwrap();
            let mut messenger = Messenger::new(endpoint, &[side as u32]);
            messenger.add_peer(address(1 - side), 1 - side as u32).unwrap();
            Side {
                tagged: Tagged::new(&messenger, 4_096),
                messenger,
                active: Vec::new(),
            }
        });
        let now = Instant::from_nanos(1_000);
        Self { sides, now }
    }

    /// Until nothing happens any more.
    fn run(&mut self) {
        let mut quiet = 0;
        while quiet < 4 {
            quiet = if self.step() { 0 } else { quiet + 1 };
        }
    }

    /// Each side has its turn once. Gives whether something was transmitted.
    fn step(&mut self) -> bool {
        self.now += Duration::from_micros(300);
        let mut any = false;
        for side in 0..2 {
            any |= self.carry(side);
            self.work(side);
        }
        any
    }

    /// The other side gets what this one has to transmit. Gives whether that is anything.
    fn carry(&mut self, side: usize) -> bool {
        let (mut burst, mut any) = (Burst::default(), false);
        while self.sides[side].messenger.poll_transmit(self.now, &mut burst) {
            let mut bytes = Vec::new();
            self.sides[side]
                .messenger
                .gather(&burst, |piece| bytes.extend_from_slice(piece));
            let other = &mut self.sides[1 - side].messenger;
            other.handle_datagrams(self.now, address(side), &mut bytes, burst.segment_size());
            any = true;
        }
        any
    }

    /// A side does what is to be done with what has come.
    fn work(&mut self, side: usize) {
        let Side {
            messenger,
            tagged,
            active,
        } = &mut self.sides[side];
        if messenger.poll_timeout().is_some_and(|at| at <= self.now) {
            messenger.handle_timeout(self.now);
        }
        while let Some(event) = messenger.poll_event() {
            match event {
                Event::Sent { token, .. } => assert!(tagged.handle_sent(token)),
                Event::Down { peer, error, .. } => tagged.handle_down(messenger, peer, error),
                _ => {}
            }
        }
        tagged.handle_ready(messenger, self.now, active);
    }

    /// Sends as an engine does: eagerly if that is possible. Gives whether it is complete.
    fn send(&mut self, side: usize, bits: u64, data: &[u8], request: u64) -> bool {
        let now = self.now;
        let Side { messenger, tagged, .. } = &mut self.sides[side];
        if tagged.is_eager(messenger, PEER, data.len() as u64) {
            tagged.send_eager(messenger, now, PEER, bits, data).unwrap();
            return true;
        }
        let content = Box::new(Bytes::copy_from_slice(data));
        tagged.send(messenger, now, PEER, bits, content, request).unwrap();
        false
    }

    fn receive(&mut self, side: usize, selector: Selector, len: usize, request: u64) -> (Shared, Posting) {
        let buffer = Shared::new(len);
        let now = self.now;
        let Side { messenger, tagged, .. } = &mut self.sides[side];
        let posting = tagged.receive(messenger, now, selector, buffer.clone(), request);
        (buffer, posting)
    }

    fn completions(&mut self, side: usize) -> Vec<Completion> {
        core::iter::from_fn(|| self.sides[side].tagged.poll_completion()).collect()
    }
}

fn any(bits: u64) -> Selector {
    Selector {
        source: None,
        bits,
        ignore: 0,
    }
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + salt * 13) as u8).collect()
}

#[test]
fn small_and_large_messages_meet_posted_and_late_receives() {
    for late in [false, true] {
        for len in [0, 1, 4_096, 4_097, 100_000, 9_000_000] {
            let mut pair = Pair::new(1 << 20);
            let data = pattern(len, 3);
            let mut received = None;
            if !late {
                received = Some(pair.receive(1, any(5), len, 50));
                assert!(matches!(received.as_ref().unwrap().1, Posting::Posted(_)));
            }
            let complete = pair.send(0, 5, &data, 40);
            assert_eq!(complete, len <= 4_096);
            pair.run();
            if late {
                assert_eq!(pair.sides[1].tagged.probe(&any(5)).map(|e| e.len), Some(len as u64));
                assert_eq!(pair.sides[1].tagged.probe(&any(6)), None);
                received = Some(pair.receive(1, any(5), len, 50));
                pair.run();
            }
            let (buffer, posting) = received.unwrap();
            let done = match posting {
                Posting::Done(done) => vec![done],
                _ => pair.completions(1),
            };
            let envelope = Envelope {
                source: 0,
                bits: 5,
                len: len as u64,
            };
            let expected = Completion {
                request: 50,
                envelope,
                outcome: Outcome::Complete,
            };
            assert_eq!(done, [expected], "{len} {late}");
            assert!(buffer.get() == data, "{len} {late}");
            let sent = pair.completions(0);
            assert_eq!(sent.len(), usize::from(!complete));
            assert!(
                sent.iter()
                    .all(|done| done.request == 40 && done.outcome == Outcome::Complete)
            );
            assert_eq!(pair.sides[1].tagged.stats().unexpected_bytes, 0);
        }
    }
}

#[test]
fn what_is_too_long_is_truncated_and_harms_nothing_else() {
    for (len, room) in [(1_000, 10), (1_000, 0), (50_000, 1_000), (50_000, 0)] {
        let mut pair = Pair::new(1 << 20);
        let (data, next) = (pattern(len, 1), pattern(77, 2));
        let (first, _) = pair.receive(1, any(1), room, 1);
        let (second, _) = pair.receive(1, any(1), 77, 2);
        pair.send(0, 1, &data, 3);
        pair.send(0, 1, &next, 4);
        pair.run();
        let mut done = pair.completions(1);
        done.sort_by_key(|done| done.request);
        assert_eq!(
            done.iter()
                .map(|done| (done.envelope.len, done.outcome))
                .collect::<Vec<_>>(),
            [(len as u64, Outcome::Truncated), (77, Outcome::Complete)]
        );
        assert_eq!(first.get(), data[..room]);
        assert_eq!(second.get(), next);
    }
}

/// However much is sent, no more than the credit is kept; and what needs no memory still gets through.
#[test]
fn a_flood_becomes_requests_and_grants_pass_it() {
    let mut pair = Pair::new(64 << 10);
    pair.send(0, 9, &pattern(1, 0), 0);
    pair.run();
    for n in 1..3_000 {
        pair.send(0, 9, &pattern(1_000, n), n as u64);
        if n % 100 == 0 {
            pair.run();
        }
    }
    let stats = pair.sides[1].tagged.stats();
    assert!(stats.unexpected_peak <= 64 << 10);
    assert!(pair.sides[0].tagged.stats().converted > 2_000);
    // The flooded side sends something large: the grant comes from the flooding side, whose credit is used up.
    let large = pattern(300_000, 5);
    let (buffer, _) = pair.receive(0, any(1), large.len(), 7_000);
    pair.send(1, 1, &large, 8_000);
    pair.run();
    assert!(pair.completions(0).iter().any(|done| done.request == 7_000));
    assert!(buffer.get() == large);
    // And all of it is received in order.
    let mut done = Vec::new();
    for n in 0..3_000 {
        let (buffer, posting) = pair.receive(1, any(9), 1_000, n);
        pair.run();
        done.extend(pair.completions(1));
        if let Posting::Done(one) = posting {
            done.push(one);
        }
        let len = if n == 0 { 1 } else { 1_000 };
        assert!(buffer.get()[..len] == pattern(len, n as usize), "{n}");
    }
    assert!(
        done.iter()
            .filter(|done| done.request < 3_000)
            .all(|done| done.outcome == Outcome::Complete)
    );
    assert_eq!(pair.sides[1].tagged.stats().unexpected_bytes, 0);
    assert!(pair.sides[0].tagged.outbox.is_empty());
}

/// Credit that comes back is there before the requests that wait for it are sent: a message that is short enough for it
/// must not overtake them.
#[test]
fn an_eager_message_does_not_overtake_requests_that_wait() {
    let mut pair = Pair::new(64 << 10);
    let mut sent = 0;
    while !pair.sides[0].tagged.holds_requests(PEER) {
        pair.send(0, 9, &pattern(1_000, sent), sent as u64);
        pair.run();
        sent += 1;
    }
    let receive = |pair: &mut Pair, n: usize| {
        let (buffer, _) = pair.receive(1, any(9), 1_000, n as u64);
        (buffer, n)
    };
    let mut received: Vec<_> = (0..20).map(|n| receive(&mut pair, n)).collect();
    for _ in 0..8 {
        // (Side 0 hears of the credit, and does nothing.)
        pair.now += Duration::from_millis(1);
        pair.work(1);
        pair.carry(1);
    }
    let Side { messenger, tagged, .. } = &mut pair.sides[0];
    assert!(messenger.layer().credit(PEER) > 2 * RESERVE && tagged.holds_requests(PEER));
    pair.send(0, 9, &pattern(8, sent), sent as u64);
    pair.run();
    received.extend((20..=sent).map(|n| receive(&mut pair, n)));
    pair.run();
    for (buffer, n) in received {
        let len = if n == sent { 8 } else { 1_000 };
        assert!(buffer.get()[..len] == pattern(len, n), "{n}");
    }
}

/// A request to send that nobody receives takes memory, which its credit pays for: there are not more of them than that,
/// the rest waits at the sender, and all are received in the end.
#[test]
fn requests_hold_credit_too() {
    const BOUND: u32 = 64 << 10;
    const REQUESTS: u64 = 3_000;
    let mut pair = Pair::new(BOUND);
    pair.send(0, 9, &pattern(1, 0), 0);
    pair.run();
    for n in 1..REQUESTS {
        let now = pair.now;
        let Side { messenger, tagged, .. } = &mut pair.sides[0];
        let content = Box::new(Bytes::from(pattern(10, n as usize)));
        tagged.send(messenger, now, PEER, 9, content, n).unwrap();
        pair.run();
    }
    let kept = pair.sides[1].tagged.unexpected();
    assert!(kept > 100 && kept <= (BOUND / MESSAGE_COST) as usize, "{kept}");
    let unexpected = |pair: &Pair| pair.sides[1].messenger.layer().peer_stats(PEER).unwrap().unexpected;
    assert!(unexpected(&pair) >= (kept as u64 - 1) * u64::from(MESSAGE_COST));
    for n in 0..REQUESTS {
        let (buffer, _) = pair.receive(1, any(9), 10, n);
        pair.run();
        let len = if n == 0 { 1 } else { 10 };
        assert!(buffer.get()[..len] == pattern(len, n as usize), "{n}");
    }
    assert_eq!(unexpected(&pair), 0);
    assert_eq!(pair.completions(0).len() as u64, REQUESTS - 1);
}

/// The key of a table whose keys peers choose is that of its messenger, which they do not know.
#[test]
fn the_table_of_unexpected_messages_has_the_messengers_key() {
    let hash = |seed| {
        let messenger = &mut Pair::new(1 << 20).sides[0].messenger;
        messenger.seed_keys(seed);
        Tagged::<Shared>::new(messenger, 0).unexpected.hash(1, 2)
    };
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

/// A sender that places what it was not granted yet, or what it has placed before, loses its session at once, and what it
/// was granted.
#[test]
fn a_peer_that_places_beyond_its_grant_or_twice_is_given_up() {
    const LEN: u64 = 3 * GRANT_BYTES;
    // What it places: offsets from the beginning and from the end of its grant.
    let place: [&[(bool, u64)]; 4] = [
        &[(false, 0), (true, 0)],
        &[(true, LEN - GRANT_BYTES - 100)],
        &[(false, 0), (false, 0)],
        &[(false, 200), (false, 150)],
    ];
    for places in place {
        let mut pair = Pair::new(1 << 20);
        pair.send(0, 1, &pattern(10, 0), 0);
        pair.run();
        pair.receive(1, any(5), LEN as usize, 50);
        // It says what it likes, without queues of its own.
        let now = pair.now;
        let liar = &mut pair.sides[0].messenger;
        let mut request = Vec::new();
        Control::RequestToSend {
            id: 3,
            bits: 5,
            len: LEN,
            offer: None,
        }
        .emit(&mut request);
        liar.send(now, PEER, &SendOptions::default(), Payload::Copy(&request))
            .unwrap();
        pair.carry(0);
        pair.work(1);
        pair.carry(1);
        let liar = &mut pair.sides[0].messenger;
        let grant = liar.receive().map(|message| match Control::parse(&message) {
            Ok(Control::FollowUp {
                what: FollowUp::Grant(Grant { region, until, .. }),
                ..
            }) => (region, until),
            other => panic!("{other:?}"),
        });
        let (region, until) = grant.unwrap();
        assert_eq!(until, GRANT_BYTES);
        for &(from_end, offset) in places {
            let offset = if from_end { until + offset } else { offset };
            let bytes = Bytes::from(vec![7; 100]);
            liar.place(now, PEER, BULK, region, offset, bytes).unwrap();
        }
        pair.carry(0);
        pair.work(1);
        let done = pair.completions(1);
        let given_up = Outcome::Failed(PeerError::Misbehaved);
        assert_eq!(
            done.iter().map(|done| done.outcome).collect::<Vec<_>>(),
            [given_up],
            "{places:?}"
        );
        assert_eq!(pair.sides[1].messenger.layer().down(PEER), Some(PeerError::Misbehaved));
    }
}

/// However many sends wait, each has an id of its own, and a grant finds the one that it is for.
#[test]
fn a_million_sends_are_told_from_each_other() {
    const SENDS: u64 = (1 << 20) + 3;
    let mut pair = Pair::new(64 << 10);
    let now = pair.now;
    let Side { messenger, tagged, .. } = &mut pair.sides[0];
    let ids: BTreeSet<u32> = (0..SENDS)
        .map(|n| tagged.rendezvous.begin_send(PEER, 1, Box::new(Bytes::new()), n))
        .collect();
    assert_eq!(ids.len() as u64, SENDS);
    let nothing = Grant {
        region: RegionId { region: 0, key: 0 },
        until: 0,
        limit: 0,
        exposure: None,
    };
    for (n, id) in ids.into_iter().enumerate() {
        let answers = &mut tagged.outbox.at(now, &mut tagged.scratch);
        let done = tagged.rendezvous.granted(messenger, now, (PEER, id), &nothing, answers);
        assert_eq!(done.map(|done| done.request), Some(n as u64));
    }
}

/// Messages that are large against the bound hold credit, too, or are not sent eagerly.
#[test]
fn what_is_kept_holds_its_credit() {
    let mut pair = Pair::new(64 << 10);
    pair.sides[0].tagged.set_eager_limit(60_000);
    let lens = [40_000, 32_000, 31_000, 60_000, 20_000, 50_000];
    for (n, len) in lens.into_iter().enumerate() {
        pair.send(0, 1, &pattern(len, n), n as u64);
        pair.run();
        let kept = pair.sides[1].messenger.layer().peer_stats(PEER).unwrap().unexpected;
        let stats = pair.sides[1].tagged.stats();
        assert!(stats.unexpected_bytes <= kept && kept <= 64 << 10, "{kept}, {stats:?}");
    }
    for (n, len) in lens.into_iter().enumerate() {
        let (buffer, _) = pair.receive(1, any(1), len, n as u64);
        pair.run();
        assert!(buffer.get() == pattern(len, n), "{len}");
    }
    assert_eq!(pair.sides[1].messenger.layer().peer_stats(PEER).unwrap().unexpected, 0);
}

/// A peer that does not care gets nowhere.
#[test]
fn what_can_not_be_kept_is_dropped() {
    let mut pair = Pair::new(64 << 10);
    let options = SendOptions {
        tag: Some(1),
        ..SendOptions::default()
    };
    for _ in 0..10 {
        let (now, data) = (pair.now, pattern(60_000, 1));
        let messenger = &mut pair.sides[0].messenger;
        messenger.send(now, PEER, &options, Payload::Copy(&data)).unwrap();
        pair.run();
    }
    let stats = pair.sides[1].tagged.stats();
    assert_eq!((stats.malformed, stats.unexpected_bytes), (10, 0));
    assert_eq!(pair.sides[1].messenger.layer().peer_stats(PEER).unwrap().unexpected, 0);
    // If somebody waits for it, it is no trouble.
    let (buffer, _) = pair.receive(1, any(1), 60_000, 1);
    let (now, data) = (pair.now, pattern(60_000, 1));
    let messenger = &mut pair.sides[0].messenger;
    messenger.send(now, PEER, &options, Payload::Copy(&data)).unwrap();
    pair.run();
    assert!(buffer.get() == data);
}

/// Only so many messages are granted something at a time; what wants nothing needs no turn.
#[test]
fn a_message_of_nothing_ends_behind_many_large_ones() {
    let mut pair = Pair::new(1 << 20);
    let large = pattern(100_000, 1);
    let rooms = [large.len(); SERVED + 6].into_iter().chain([0, 10]);
    for (n, room) in rooms.enumerate() {
        pair.receive(1, any(1), room, n as u64);
    }
    let contents = [&large[..]; SERVED + 7].into_iter().chain([&[][..]]);
    for (n, content) in contents.enumerate() {
        let now = pair.now;
        let Side { messenger, tagged, .. } = &mut pair.sides[0];
        let content = Box::new(Bytes::copy_from_slice(content));
        tagged.send(messenger, now, PEER, 1, content, n as u64).unwrap();
    }
    pair.run();
    for side in 0..2 {
        let mut done: Vec<u64> = pair.completions(side).iter().map(|done| done.request).collect();
        done.sort_unstable();
        assert!(done.into_iter().eq(0..SERVED as u64 + 8), "side {side}");
    }
}

#[test]
fn messages_to_ourselves_are_matched_too() {
    let mut pair = Pair::new(1 << 20);
    let (late, large) = (pattern(10, 1), pattern(100_000, 2));
    pair.sides[0].tagged.send_self(1, &late);
    let content = Box::new(Bytes::from(large.clone()));
    pair.sides[0].tagged.send_self_later(1, content, 11);
    let (first, posting) = pair.receive(0, any(1), 10, 1);
    assert!(matches!(posting, Posting::Done(_)));
    let (second, posting) = pair.receive(0, any(1), large.len(), 2);
    assert!(matches!(posting, Posting::Done(done) if done.request == 2));
    assert_eq!(
        pair.completions(0).iter().map(|done| done.request).collect::<Vec<_>>(),
        [11]
    );
    let (third, _) = pair.receive(0, any(1), 10, 3);
    pair.sides[0].tagged.send_self(1, &late);
    assert_eq!(pair.completions(0).len(), 1);
    assert_eq!((first.get(), third.get()), (late.clone(), late));
    assert!(second.get() == large);
}

#[test]
fn claimed_messages_belong_to_who_claimed_them() {
    let mut pair = Pair::new(1 << 20);
    for (n, len) in [10, 20_000].into_iter().enumerate() {
        pair.send(0, 1, &pattern(len, n), n as u64);
    }
    pair.run();
    let claims = [(); 2].map(|()| pair.sides[1].tagged.claim(&any(1)).unwrap());
    assert!(pair.sides[1].tagged.claim(&any(1)).is_none());
    for (n, claim) in claims.into_iter().enumerate().rev() {
        let len = claim.envelope().len as usize;
        let buffer = Shared::new(len);
        let now = pair.now;
        let Side { messenger, tagged, .. } = &mut pair.sides[1];
        tagged.receive_claimed(messenger, now, claim, buffer.clone(), n as u64);
        pair.run();
        assert!(buffer.get() == pattern(len, n));
    }
}

#[test]
fn a_lost_peer_ends_what_is_pending_with_it() {
    let mut pair = Pair::new(1 << 20);
    pair.run();
    let named = Selector {
        source: Some(0),
        ..any(1)
    };
    let (_, posting) = pair.receive(1, named, 10, 1);
    let (_, open) = pair.receive(1, any(2), 10, 2);
    pair.send(0, 5, &pattern(100, 0), 0);
    pair.send(0, 6, &pattern(100_000, 0), 0);
    pair.run();
    pair.send(1, 3, &pattern(100_000, 0), 3);
    assert_eq!(pair.sides[1].tagged.unexpected(), 2);
    let Side { messenger, tagged, .. } = &mut pair.sides[1];
    tagged.handle_down(messenger, PEER, PeerError::Restarted);
    let mut done = pair.completions(1);
    done.sort_by_key(|done| done.request);
    let failed = Outcome::Failed(PeerError::Restarted);
    assert_eq!(
        done.iter().map(|done| (done.request, done.outcome)).collect::<Vec<_>>(),
        [(1, failed), (3, failed)]
    );
    let tagged = &mut pair.sides[1].tagged;
    assert_eq!((tagged.unexpected(), tagged.stats().unexpected_bytes), (0, 0));
    let (Posting::Posted(named), Posting::Posted(open)) = (posting, open) else {
        panic!("neither was there");
    };
    assert!(tagged.cancel(named).is_none());
    assert!(tagged.cancel(open).is_some());
}

/// A peer restarts and opens a session: nothing of what was agreed with its old incarnation is sent to the new one.
#[test]
fn a_new_incarnation_gets_nothing_that_was_meant_for_the_old_one() {
    let mut pair = Pair::new(1 << 20);
    pair.send(0, 1, &pattern(10, 0), 0);
    pair.send(1, 1, &pattern(10, 0), 0);
    pair.run();
    let endpoint = Endpoint::new(Config::default(), LIMITS, 77, 78).unwrap();
    let mut messenger = Messenger::new(endpoint, &[1]);
    messenger.add_peer(address(0), 0).unwrap();
    pair.sides[1] = Side {
        tagged: Tagged::new(&messenger, 4_096),
        messenger,
        active: Vec::new(),
    };
    pair.receive(1, any(2), 100_000, 1);
    pair.send(1, 2, &pattern(10, 0), 0);
    pair.run();
    let now = pair.now;
    let Side { messenger, tagged, .. } = &mut pair.sides[0];
    assert_eq!(messenger.layer().down(PEER), None, "there is a session again");
    let gone = Err(SendError::Peer(PEER, PeerError::Restarted));
    assert_eq!(tagged.send_eager(messenger, now, PEER, 2, &[1; 10]), gone);
    let content = Box::new(Bytes::from(vec![1; 100_000]));
    assert_eq!(tagged.send(messenger, now, PEER, 2, content, 3), gone);
    pair.run();
    assert_eq!(pair.sides[1].tagged.posted(), 1);
}

#[test]
fn revoked_bits_end_sends_and_receives() {
    const CONTEXT: u64 = 7 << 32;
    let mut pair = Pair::new(1 << 20);
    pair.receive(1, any(CONTEXT | 1), 10, 1);
    pair.receive(1, any(2), 10, 2);
    pair.send(0, CONTEXT | 5, &pattern(100, 0), 0);
    pair.run();
    pair.send(1, CONTEXT | 3, &pattern(100_000, 0), 3);
    let now = pair.now;
    let Side { messenger, tagged, .. } = &mut pair.sides[1];
    tagged.revoke(messenger, now, CONTEXT, 0xffff_ffff);
    let mut done = pair.completions(1);
    done.sort_by_key(|done| done.request);
    assert_eq!(
        done.iter().map(|done| (done.request, done.outcome)).collect::<Vec<_>>(),
        [(1, Outcome::Revoked), (3, Outcome::Revoked)]
    );
    assert_eq!(
        (pair.sides[1].tagged.posted(), pair.sides[1].tagged.unexpected()),
        (1, 0)
    );
}

/// One side alone revokes: the other's receive ends, be it granted already, posted later or claimed, and keeps nothing
/// from messages with other bits.
#[test]
fn what_is_revoked_by_its_sender_alone_is_withdrawn() {
    const CONTEXT: u64 = 7 << 32;
    let huge = Bytes::from(vec![1; 20 << 20]);
    let mut pair = Pair::new(1 << 20);
    pair.receive(1, any(CONTEXT), huge.len(), 1);
    for request in 0..3 {
        let now = pair.now;
        let Side { messenger, tagged, .. } = &mut pair.sides[0];
        tagged
            .send(messenger, now, PEER, CONTEXT + request, Box::new(huge.clone()), request)
            .unwrap();
    }
    // The first is granted something, the third claimed.
    for _ in 0..2 {
        pair.step();
    }
    let claimed = pair.sides[1].tagged.claim(&any(CONTEXT + 2)).unwrap();
    let now = pair.now;
    let Side { messenger, tagged, .. } = &mut pair.sides[0];
    tagged.revoke(messenger, now, CONTEXT, 0xffff_ffff);
    pair.run();
    pair.receive(1, any(CONTEXT + 1), huge.len(), 3);
    let Side { messenger, tagged, .. } = &mut pair.sides[1];
    tagged.receive_claimed(messenger, now, claimed, Shared::new(10), 5);
    pair.run();
    for side in 0..2 {
        let mut done = pair.completions(side);
        done.sort_by_key(|done| done.request);
        let expected = [[0, 1, 2], [1, 3, 5]][side].map(|request| (request, Outcome::Revoked));
        assert_eq!(
            done.iter().map(|done| (done.request, done.outcome)).collect::<Vec<_>>(),
            expected
        );
    }
    let other = pattern(100_000, 4);
    pair.send(0, 9, &other, 9);
    let (buffer, _) = pair.receive(1, any(9), other.len(), 9);
    pair.run();
    assert_eq!(pair.completions(1).len(), 1);
    assert!(buffer.get() == other);
}

/// A sender keeps in mind what it has revoked before its receiver has granted anything, but not after that one is lost.
#[test]
fn what_was_withdrawn_is_forgotten_with_its_receiver() {
    for lost in [false, true] {
        let mut pair = Pair::new(1 << 20);
        pair.send(0, 5, &pattern(100_000, 0), 1);
        let now = pair.now;
        let Side { messenger, tagged, .. } = &mut pair.sides[0];
        tagged.revoke(messenger, now, 5, 0);
        if lost {
            tagged.handle_down(messenger, PEER, PeerError::Restarted);
        }
        // (The first send has the id 0.)
        assert_eq!(tagged.rendezvous.take_withdrawn(PEER, 0), !lost);
    }
}

/// A sender that was granted room and places nothing keeps messages behind its own waiting for 100 ms; one that withdraws,
/// no longer than that takes to arrive. Its receiver has its memory back.
#[test]
fn a_grant_that_is_not_used_keeps_nothing_from_others_for_long() {
    for withdrawn_after in [None, Some(30)] {
        let mut pair = Pair::new(1 << 20);
        let (first, _) = pair.receive(1, any(5), GRANT_BYTES as usize, 1);
        pair.receive(1, any(5), GRANT_BYTES as usize, 2);
        // It says what it likes, without queues of its own.
        let say = |pair: &mut Pair, control: &Control<'_>| {
            let (mut bytes, now) = (Vec::new(), pair.now);
            control.emit(&mut bytes);
            let liar = &mut pair.sides[0].messenger;
            liar.send(now, PEER, &SendOptions::default(), Payload::Copy(&bytes))
                .unwrap();
        };
        for id in [3, 4] {
            let (bits, len) = (5, GRANT_BYTES);
            say(
                &mut pair,
                &Control::RequestToSend {
                    id,
                    bits,
                    len,
                    offer: None,
                },
            );
        }
        let mut grants = Vec::new();
        for ms in 0..1_000 {
            if withdrawn_after == Some(ms) {
                let what = FollowUp::Withdraw;
                say(&mut pair, &Control::FollowUp { id: 3, what });
            }
            pair.carry(0);
            pair.work(1);
            pair.carry(1);
            let liar = &mut pair.sides[0].messenger;
            while let Some(message) = liar.receive() {
                match Control::parse(&message) {
                    Ok(Control::FollowUp {
                        id,
                        what: FollowUp::Grant(_),
                    }) => grants.push((id, ms)),
                    other => panic!("{other:?}"),
                }
            }
            if ms < 100 {
                let alarm = pair.sides[1].messenger.poll_timeout().unwrap();
                assert!(alarm <= Instant::from_nanos(1_000) + Duration::from_millis(100));
            }
            pair.now += Duration::from_millis(1);
            pair.sides[0].messenger.handle_timeout(pair.now);
        }
        assert_eq!(grants, [(3, 0), (4, withdrawn_after.unwrap_or(100))]);
        let revoked: Vec<_> = pair.completions(1).iter().map(|done| done.request).collect();
        assert_eq!(revoked, withdrawn_after.map_or(vec![], |_| vec![1]));
        assert_eq!(Arc::strong_count(&first.0), if revoked.is_empty() { 2 } else { 1 });
    }
}

#[test]
fn active_messages_come_in_order_and_nonsense_is_counted() {
    let mut pair = Pair::new(1 << 20);
    let now = pair.now;
    let Side { messenger, tagged, .. } = &mut pair.sides[0];
    for n in 0..200_u8 {
        tagged.send_active(messenger, now, PEER, n.into(), &[n; 100]);
    }
    messenger
        .send(now, PEER, &SendOptions::default(), Payload::Copy(b"nonsense"))
        .unwrap();
    pair.run();
    let came = &pair.sides[1].active;
    assert_eq!(came.len(), 200);
    assert!(
        came.iter()
            .enumerate()
            .all(|(n, (source, handler, data))| *source == 0 && *handler == n as u32 && **data == [n as u8; 100])
    );
    assert_eq!(pair.sides[1].tagged.stats().malformed, 1);
}

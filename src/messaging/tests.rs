//! The inbox against a plain model, and under attack.

use alloc::{
    collections::{BTreeMap, VecDeque},
    format, vec,
    vec::Vec,
};

use proptest::prelude::*;

use super::inbox::Inbox;
use crate::{
    config::Config,
    prng::Prng,
    reliability::{Origin, PeerId, Sink, Verdict},
    wire::{ANY_PROCESSOR, Base, Builder, Flags, Fragment, Kind, MAX_HEADER_LEN, Packet, Record, Seq, Token},
};

/// Bytes that a packet costs besides its payload.
const OVERHEAD: u32 = 64;

#[derive(Clone)]
struct Sent {
    origin: Origin,
    bytes: Vec<u8>,
}

impl Sent {
    fn deliver(&self, inbox: &mut Inbox) -> Verdict {
        inbox.deliver(self.origin, Packet::new_checked(&self.bytes[..]).unwrap())
    }
}

#[derive(Clone, Copy)]
struct From {
    peer: u32,
    session: u32,
    pair: (u32, u32),
}

enum Part<'a> {
    Whole(&'a [u8]),
    Fragment(Fragment, &'a [u8]),
    Bundle(&'a [Vec<u8>]),
}

fn packet(from: From, number: u32, tag: Option<u64>, part: &Part<'_>) -> Sent {
    let base = Base {
        kind: Kind::Data,
        channel: 0,
        source: from.pair.0,
        destination: from.pair.1,
        session: Token { index: 1, secret: 1 },
        sequence: Seq(0),
        acknowledgement: Seq(0),
        rail: 0,
        message: Seq(number),
    };
    let mut header = [0; MAX_HEADER_LEN];
    let mut builder = Builder::new(&mut header, &base);
    let mut payload = Vec::new();
    if let Some(tag) = tag
        && !matches!(part, Part::Bundle(_))
    {
        builder.match_bits(tag);
    }
    match part {
        Part::Whole(data) => payload.extend_from_slice(data),
        Part::Fragment(fragment, data) => {
            builder.fragment(*fragment);
            payload.extend_from_slice(data);
        }
        Part::Bundle(messages) => {
            builder.set(Flags::BUNDLE);
            for message in *messages {
                let mut record = [0; 12];
                let len = Record::emit_header(&mut record, tag, message.len() as u16);
                payload.extend_from_slice(&record[..len]);
                payload.extend_from_slice(message);
            }
        }
    }
    let len = builder.finish(payload.len() as u16);
    let mut bytes = header[..len].to_vec();
    bytes.extend_from_slice(&payload);
    Sent {
        origin: Origin {
            peer: PeerId(from.peer),
            channel: 0,
            session: from.session,
            cost: payload.len() as u32 + OVERHEAD,
            confirmed: true,
        },
        bytes,
    }
}

fn content(from: From, number: u32, len: usize) -> Vec<u8> {
    let mut random = Prng::new(u64::from(from.peer) << 40 ^ u64::from(from.pair.0) << 32 ^ u64::from(number));
    let mut data = vec![0; len];
    for chunk in data.chunks_mut(8) {
        let bytes = random.below(u64::MAX).to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
    data
}

/// The packets of messages of the given lengths: bundles of short ones, fragments of long ones, as it happens.
fn packets(from: From, lens: &[usize], first: u32, max_payload: usize, random: &mut Prng) -> Vec<Sent> {
    let mut packets = Vec::new();
    let mut number = first;
    let mut rest = lens;
    while let Some((&len, others)) = rest.split_first() {
        let tag = |number: u32| number.is_multiple_of(3).then_some(u64::from(number));
        let bundle = (random.below(5) + 1).min(rest.len() as u64) as usize;
        let bytes: usize = rest[..bundle].iter().map(|len| len + 12).sum();
        if bundle > 1 && bytes <= max_payload {
            let messages: Vec<_> = (0..bundle).map(|i| content(from, number + i as u32, rest[i])).collect();
            packets.push(packet(from, number, Some(u64::from(number)), &Part::Bundle(&messages)));
            number += bundle as u32;
            rest = &rest[bundle..];
            continue;
        }
        let data = content(from, number, len);
        if len <= max_payload {
            packets.push(packet(from, number, tag(number), &Part::Whole(&data)));
        } else {
            for (i, chunk) in data.chunks(max_payload).enumerate() {
                let fragment = Fragment {
                    offset: (i * max_payload) as u32,
                    total: len as u32,
                };
                packets.push(packet(from, number, tag(number), &Part::Fragment(fragment, chunk)));
            }
        }
        number += 1;
        rest = others;
    }
    packets
}

/// The messages that the application got, and the credit that is out.
#[derive(Default)]
struct Receiver {
    next: BTreeMap<(u32, u32, u32), u32>,
    held: BTreeMap<(u32, u32), i64>,
    /// The datagram that was handed in last, where a message may have stayed.
    place: Vec<u8>,
    /// Messages that stayed there.
    stayed: u32,
}

impl Receiver {
    fn deliver(&mut self, inbox: &mut Inbox, sent: &Sent) -> Verdict {
        inbox.copy_out(&self.place);
        assert!(!inbox.is_in_place());
        self.place.clone_from(&sent.bytes);
        let verdict = sent.deliver(inbox);
        self.stayed += u32::from(inbox.is_in_place());
        if verdict == Verdict::Taken {
            *self.held.entry((sent.origin.peer.0, sent.origin.session)).or_default() += i64::from(sent.origin.cost);
        }
        self.releases(inbox);
        verdict
    }

    fn releases(&mut self, inbox: &mut Inbox) {
        for (peer, session, cost) in inbox.releases() {
            let held = self.held.get_mut(&(peer.0, session)).unwrap();
            *held -= i64::from(cost);
            assert!(*held >= 0, "more credit given back than taken");
        }
    }

    /// Gives back what was taken.
    fn retire(&mut self, inbox: &mut Inbox) {
        if let Some((peer, session, cost)) = inbox.retire() {
            inbox.release(peer, session, cost);
        }
        self.releases(inbox);
    }

    fn held(&self, peer: u32, session: u32) -> i64 {
        self.held.get(&(peer, session)).copied().unwrap_or(0)
    }

    /// Takes one message and compares it with what the model says comes next of its pair.
    fn take(&mut self, inbox: &mut Inbox, lens: &BTreeMap<(u32, u32, u32), Vec<usize>>, keep: bool) -> bool {
        self.retire(inbox);
        let ready = inbox.messages();
        let Some(message) = inbox.take(&self.place) else {
            assert_eq!(ready, 0);
            return false;
        };
        let key = (message.peer().0, message.source(), message.destination());
        let number = self.next.entry(key).or_default();
        let from = From {
            peer: key.0,
            session: 1,
            pair: (key.1, key.2),
        };
        let expected = content(from, *number, lens[&key][*number as usize]);
        *number += 1;
        assert!(message.data() == expected, "message {} of {key:?}", *number - 1);
        if keep {
            assert!(message.into_vec() == expected);
        }
        assert_eq!(inbox.messages(), ready - 1);
        true
    }
}

fn config(unexpected_bytes: u32, max_message: u32) -> Config {
    Config {
        unexpected_bytes,
        max_message,
        ..Config::default()
    }
}

const PROCESSORS: [u32; 3] = [5, 9, 7];

fn pairs() -> impl Strategy<Value = (u32, u32, u32)> {
    (
        0_u32..3,
        100_u32..103,
        prop::sample::select(vec![5, 7, 9, ANY_PROCESSOR]),
    )
}

fn lens() -> impl Strategy<Value = Vec<usize>> {
    let len = prop_oneof![4 => 0_usize..100, 2 => 0_usize..3_000, 1 => 0_usize..20_000];
    prop::collection::vec(len, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any interleaving of the packets of any messages gives every message once, in the order of its pair, with its
    /// bytes, and all credit back; also if a message that is taken at once is read where it came in.
    #[test]
    fn every_order_of_packets_gives_the_same_messages(
        streams in prop::collection::btree_map(pairs(), lens(), 1..6),
        max_payload in 60_usize..2_000,
        reordering in prop_oneof![Just(1_u64), Just(4), Just(1 << 20)],
        eager in 0_u64..4,
        lends: bool,
        seed: u64,
    ) {
        let mut random = Prng::new(seed);
        let mut queue = VecDeque::new();
        let mut queues: Vec<VecDeque<Sent>> = streams
            .iter()
            .map(|(&(peer, source, destination), lens)| {
                let from = From { peer, session: 1, pair: (source, destination) };
                packets(from, lens, 0, max_payload, &mut random).into()
            })
            .collect();
        while !queues.is_empty() {
            let i = random.below(queues.len() as u64) as usize;
            queue.extend(queues[i].pop_front());
            queues.retain(|queue| !queue.is_empty());
        }
        let mut inbox = Inbox::new(&config(64 << 20, 1 << 20), &PROCESSORS);
        inbox.lend(lends);
        let mut receiver = Receiver::default();
        while !queue.is_empty() {
            let i = random.below(reordering.min(queue.len() as u64)) as usize;
            let sent = queue.swap_remove_front(i).unwrap();
            prop_assert_eq!(receiver.deliver(&mut inbox, &sent), Verdict::Taken);
            for _ in 0..random.below(eager + 1) {
                receiver.take(&mut inbox, &streams, random.below(4) == 0);
            }
        }
        while receiver.take(&mut inbox, &streams, false) {}
        for (key, lens) in &streams {
            prop_assert_eq!(receiver.next.get(key).copied().unwrap_or(0) as usize, lens.len());
        }
        prop_assert!(receiver.held.values().all(|&held| held == 0));
        prop_assert_eq!(inbox.waits_len(), 0);
        prop_assert!(lends || receiver.stayed == 0);
    }

    /// With little credit, messages far larger than it, and an application that takes only when nothing else moves,
    /// everything arrives: what is oldest can always be completed.
    #[test]
    fn little_credit_suffices(
        streams in prop::collection::btree_map(pairs(), prop::collection::vec(0_usize..200_000, 1..12), 1..4),
        max_payload in 200_usize..2_000,
        seed: u64,
    ) {
        const UNEXPECTED: u32 = 16 << 10;
        let mut random = Prng::new(seed);
        let mut inbox = Inbox::new(&config(UNEXPECTED, 1 << 20), &PROCESSORS);
        let mut receiver = Receiver::default();
        // One flow per peer: messages one after the other, in the order in which the peer's pairs take turns.
        let mut flows: BTreeMap<u32, VecDeque<Sent>> = BTreeMap::new();
        for (&(peer, source, destination), lens) in &streams {
            for (number, &len) in lens.iter().enumerate() {
                let from = From { peer, session: 1, pair: (source, destination) };
                flows.entry(peer).or_default().extend(packets(from, &[len], number as u32, max_payload, &mut random));
            }
        }
        let mut window: BTreeMap<u32, Vec<Sent>> = BTreeMap::new();
        let mut stuck = 0;
        loop {
            let mut moved = false;
            for (&peer, flow) in &mut flows {
                let window = window.entry(peer).or_default();
                // Credit counts what is on the way.
                while let Some(sent) = flow.front() {
                    let on_the_way: i64 = window.iter().map(|sent| i64::from(sent.origin.cost)).sum();
                    let cost = i64::from(sent.origin.cost);
                    if receiver.held(peer, 1) + on_the_way + cost > UNEXPECTED.into() {
                        break;
                    }
                    window.extend(flow.pop_front());
                }
                if !window.is_empty() {
                    let sent = window.swap_remove(random.below(window.len() as u64) as usize);
                    prop_assert_eq!(receiver.deliver(&mut inbox, &sent), Verdict::Taken);
                    moved = true;
                }
                prop_assert!(receiver.held(peer, 1) <= UNEXPECTED.into());
            }
            // To find nothing frees what was found before, so it takes two times to be stuck.
            stuck = if moved || receiver.take(&mut inbox, &streams, false) { 0 } else { stuck + 1 };
            if stuck == 2 {
                break;
            }
        }
        for (key, lens) in &streams {
            prop_assert_eq!(receiver.next.get(key).copied().unwrap_or(0) as usize, lens.len());
        }
        prop_assert!(receiver.held.values().all(|&held| held == 0));
    }

    /// A peer that sends anything that parses, within its credit, cannot make us panic nor fill more memory than its
    /// credit and one message; and it gets its credit back when its session ends and the rest is taken.
    #[test]
    fn attackers_are_bounded(seed: u64, sessions in 1_u32..4, take in 0_u64..3) {
        const UNEXPECTED: u32 = 32 << 10;
        const MAX: u32 = 256 << 10;
        let mut random = Prng::new(seed);
        let mut inbox = Inbox::new(&config(UNEXPECTED, MAX), &PROCESSORS);
        let mut receiver = Receiver::default();
        for session in 1..=sessions {
            for _ in 0..2_000 {
                let from = From {
                    peer: 0,
                    session,
                    pair: (random.below(3) as u32, [5, 5, 5, 9, 3, ANY_PROCESSOR][random.below(6) as usize]),
                };
                let number = match random.below(20) {
                    0 => random.below(1 << 32) as u32,
                    1..10 => 0,
                    _ => random.below(30) as u32,
                };
                let most = [2, 2, 2_000][random.below(3) as usize];
                let data = vec![0; random.below(most) as usize];
                let total = [4_u64, 100, 100, 100_000, 300_000][random.below(5) as usize] as u32;
                let sent = match random.below(4) {
                    0 => packet(from, number, None, &Part::Whole(&data)),
                    1 => packet(from, number, None, &Part::Bundle(&vec![vec![0; random.below(9) as usize]; random.below(9) as usize + 1])),
                    _ => {
                        let len = (data.len() + 1).min(total as usize);
                        let offset = random.below(u64::from(total) - len as u64 + 1) as u32;
                        packet(from, number, None, &Part::Fragment(Fragment { offset, total }, &vec![1; len]))
                    }
                };
                if receiver.held(0, session) + i64::from(sent.origin.cost) <= UNEXPECTED.into() {
                    // A real endpoint ends the session at the first impossible packet; this attacker may go on.
                    receiver.deliver(&mut inbox, &sent);
                }
                if random.below(10) < take {
                    receiver.retire(&mut inbox);
                    inbox.take(&[]);
                }
                let bound = u64::from(sessions) * 2 * u64::from(UNEXPECTED) + u64::from(MAX);
                prop_assert!(inbox.memory() <= bound, "{} bytes, {bound} allowed", inbox.memory());
            }
            inbox.end(PeerId(0), session);
            receiver.releases(&mut inbox);
            prop_assert_eq!(inbox.waits_len(), 0);
        }
        loop {
            receiver.retire(&mut inbox);
            if inbox.take(&[]).is_none() {
                break;
            }
        }
        prop_assert!(receiver.held.values().all(|&held| held == 0), "{:?}", receiver.held);
        prop_assert_eq!(inbox.memory(), 0);
    }
}

const FROM: From = From {
    peer: 0,
    session: 1,
    pair: (100, 5),
};

fn whole(from: From, number: u32, data: &[u8]) -> Sent {
    packet(from, number, None, &Part::Whole(data))
}

fn piece(from: From, number: u32, offset: u32, total: u32, len: usize) -> Sent {
    packet(
        from,
        number,
        None,
        &Part::Fragment(Fragment { offset, total }, &vec![7; len]),
    )
}

/// A message that is the only one stays where it came in. What comes before it is taken waits behind it.
#[test]
fn a_lone_message_stays_where_it_is() {
    let mut inbox = Inbox::new(&Config::default(), &PROCESSORS);
    inbox.lend(true);
    for (number, len) in [(0, 0), (2, 100), (4, 4_096), (6, 4_097), (8, 9_000)] {
        let data = content(FROM, number, len);
        let [first, second] = [number, number + 1].map(|number| whole(FROM, number, &data));
        // The first of all is not the next one of a session that is known.
        assert_eq!(first.deliver(&mut inbox), Verdict::Taken);
        assert_eq!(inbox.is_in_place(), number > 0);
        if len == 100 {
            let message = inbox.take(&first.bytes).unwrap();
            assert_eq!(message.data().as_ptr(), first.bytes[first.bytes.len() - len..].as_ptr());
        }
        inbox.copy_out(&first.bytes);
        assert!(!inbox.is_in_place());
        assert_eq!(second.deliver(&mut inbox), Verdict::Taken);
        assert!(!inbox.is_in_place(), "not the only one");
        let mut left = all(&mut inbox);
        assert_eq!(left.pop().unwrap(), data);
        assert_eq!(left.len(), usize::from(len != 100));
        assert!(left.iter().all(|message| *message == data));
    }
    assert_eq!(inbox.memory(), 0);
}

fn all(inbox: &mut Inbox) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    loop {
        inbox.retire();
        match inbox.take(&[]) {
            Some(message) => messages.push(message.into_vec()),
            None => return messages,
        }
    }
}

/// The worked example of the publication about DSE's protocol: 1 and 2 are halves of a message, a and b are; arrival a, 0, 1, b, c, 2, 3, d.
#[test]
fn the_published_example() {
    let (one, other) = (
        FROM,
        From {
            peer: 1,
            pair: (101, 5),
            ..FROM
        },
    );
    let half = |from, number, offset, data: &[u8]| {
        packet(from, number, None, &Part::Fragment(Fragment { offset, total: 2 }, data))
    };
    let arrivals = [
        half(other, 0, 0, b"a"),
        whole(one, 0, b"0"),
        half(one, 1, 0, b"1"),
        half(other, 0, 1, b"b"),
        whole(other, 1, b"c"),
        half(one, 1, 1, b"2"),
        whole(one, 2, b"3"),
        whole(other, 2, b"d"),
    ];
    let mut inbox = Inbox::new(&Config::default(), &PROCESSORS);
    let mut log = Vec::new();
    for sent in arrivals {
        assert_eq!(sent.deliver(&mut inbox), Verdict::Taken);
        log.push(all(&mut inbox).concat());
    }
    let none = Vec::new;
    assert_eq!(
        log,
        [
            none(),
            b"0".to_vec(),
            none(),
            b"ab".to_vec(),
            b"c".to_vec(),
            b"12".to_vec(),
            b"3".to_vec(),
            b"d".to_vec()
        ]
    );
}

#[test]
fn a_new_session_begins_at_zero_and_drops_what_was_incomplete() {
    let mut inbox = Inbox::new(&Config::default(), &PROCESSORS);
    assert_eq!(whole(FROM, 0, b"old").deliver(&mut inbox), Verdict::Taken);
    assert_eq!(piece(FROM, 1, 0, 2, 1).deliver(&mut inbox), Verdict::Taken);
    assert_eq!(whole(FROM, 2, b"lost").deliver(&mut inbox), Verdict::Taken);
    let new = From { session: 2, ..FROM };
    assert_eq!(whole(new, 0, b"new").deliver(&mut inbox), Verdict::Taken);
    let given_back: u32 = inbox
        .releases()
        .map(|(_, session, cost)| {
            assert_eq!(session, 1);
            cost
        })
        .sum();
    assert_eq!(given_back, 1 + 4 + 2 * OVERHEAD);
    // The end of the old session is told late: it must not touch the new one.
    inbox.end(PeerId(0), 1);
    assert_eq!(whole(new, 1, b"newer").deliver(&mut inbox), Verdict::Taken);
    assert_eq!(all(&mut inbox), [b"old".to_vec(), b"new".to_vec(), b"newer".to_vec()]);
}

/// A fragment that begins where the last one ended belongs to another message if its peer, session or pair differs.
#[test]
fn fragments_that_fit_by_chance_are_not_mixed() {
    let (peer, session) = (From { peer: 1, ..FROM }, From { session: 2, ..FROM });
    let pair = From {
        pair: (FROM.pair.0 + 1, FROM.pair.1),
        ..FROM
    };
    for (other, messages) in [(peer, 2), (session, 1), (pair, 2)] {
        let mut inbox = Inbox::new(&Config::default(), &PROCESSORS);
        let mut deliver = |from, offset, len| piece(from, 0, offset, 100, len).deliver(&mut inbox);
        assert_eq!(deliver(FROM, 0, 40), Verdict::Taken);
        assert_eq!(deliver(other, 40, 40), Verdict::Taken);
        if messages == 2 {
            assert_eq!(deliver(FROM, 40, 40), Verdict::Taken);
            assert_eq!(deliver(FROM, 80, 20), Verdict::Taken);
        }
        assert_eq!(deliver(other, 0, 40), Verdict::Taken);
        assert_eq!(deliver(other, 80, 20), Verdict::Taken);
        assert_eq!(all(&mut inbox), vec![vec![7; 100]; messages]);
    }
}

#[test]
fn impossible_and_misaddressed() {
    let check = |before: &[Sent], sent: Sent, expected| {
        let mut inbox = Inbox::new(&config(1 << 20, 1_000), &PROCESSORS);
        for sent in before {
            assert_eq!(sent.deliver(&mut inbox), Verdict::Taken);
        }
        assert_eq!(sent.deliver(&mut inbox), expected);
    };
    let impossible = Verdict::Impossible;
    check(&[], whole(FROM, 0, &[0; 1_001]), impossible);
    check(&[], piece(FROM, 0, 0, 1_001, 1), impossible);
    check(&[], whole(FROM, u32::MAX, b"old number"), impossible);
    check(&[], whole(FROM, 1 << 30, b"far ahead"), impossible);
    check(
        &[],
        whole(
            From {
                pair: (ANY_PROCESSOR, 5),
                ..FROM
            },
            0,
            b"from nobody",
        ),
        impossible,
    );
    check(&[whole(FROM, 0, b"")], whole(FROM, 0, b"twice"), impossible);
    check(&[whole(FROM, 1, b"")], whole(FROM, 1, b"twice, early"), impossible);
    check(&[whole(FROM, 1, b"")], piece(FROM, 1, 0, 2, 1), impossible);
    check(&[piece(FROM, 0, 0, 2, 1)], whole(FROM, 0, b"xx"), impossible);
    check(&[piece(FROM, 0, 0, 3, 1)], piece(FROM, 0, 1, 4, 1), impossible);
    check(&[piece(FROM, 0, 0, 3, 2)], piece(FROM, 0, 1, 3, 1), impossible);
    check(
        &[],
        whole(From { pair: (100, 6), ..FROM }, 0, b"not here"),
        Verdict::Misaddressed,
    );
    check(
        &[],
        whole(
            From {
                pair: (100, ANY_PROCESSOR),
                ..FROM
            },
            0,
            b"whoever",
        ),
        Verdict::Taken,
    );
    check(
        &[],
        whole(From { pair: (100, 7), ..FROM }, 0, b"another of ours"),
        Verdict::Taken,
    );
}

#[test]
fn numbers_wrap() {
    let mut inbox = Inbox::new(&Config::default(), &PROCESSORS);
    assert_eq!(whole(FROM, 0, b"").deliver(&mut inbox), Verdict::Taken);
    inbox.set_next(PeerId(0), Seq(u32::MAX));
    assert_eq!(whole(FROM, 1, b"c").deliver(&mut inbox), Verdict::Taken);
    let bundle = [b"a".to_vec(), b"b".to_vec()];
    assert_eq!(
        packet(FROM, u32::MAX, None, &Part::Bundle(&bundle)).deliver(&mut inbox),
        Verdict::Taken
    );
    assert_eq!(
        format!("{:?}", all(&mut inbox).concat()),
        format!("{:?}", b"abc".to_vec())
    );
}

/// A peer that restarts again and again while nobody takes its messages is held off.
#[test]
fn sessions_do_not_add_up() {
    let mut inbox = Inbox::new(&config(4 << 10, 64 << 10), &PROCESSORS);
    let mut taken = 0;
    for session in 1..100 {
        let from = From { session, ..FROM };
        for number in 0..4 {
            let verdict = whole(from, number, &[0; 1_000]).deliver(&mut inbox);
            assert!(matches!(verdict, Verdict::Taken | Verdict::NoRoom), "{verdict:?}");
            taken += usize::from(verdict == Verdict::Taken);
        }
    }
    assert!(taken <= 8, "{taken} messages of 1,000 bytes");
    assert_eq!(all(&mut inbox).len(), taken);
    assert_eq!(
        whole(From { session: 99, ..FROM }, 0, b"again").deliver(&mut inbox),
        Verdict::Taken
    );
}

/// The same with messages whose credit was given back as they landed.
#[test]
fn landed_messages_of_former_sessions_do_not_add_up() {
    let mut inbox = Inbox::new(&config(4 << 10, 64 << 10), &PROCESSORS);
    for session in 1..100 {
        let from = From { session, ..FROM };
        for part in 0..64 {
            piece(from, 0, part << 10, 64 << 10, 1 << 10).deliver(&mut inbox);
        }
        inbox.end(PeerId(0), session);
    }
    assert!(inbox.memory() <= (64 << 10) + 2 * (4 << 10), "{}", inbox.memory());
    assert_eq!(all(&mut inbox).len(), 1);
    let from = From { session: 99, ..FROM };
    assert_eq!(whole(from, 0, b"again").deliver(&mut inbox), Verdict::Taken);
}

/// A message that would be promoted once the ones before it are taken is forgotten with its session.
#[test]
fn sessions_leave_no_candidates() {
    let mut inbox = Inbox::new(&config(64 << 10, 1 << 20), &PROCESSORS);
    assert_eq!(
        whole(From { peer: 1, ..FROM }, 0, b"not taken").deliver(&mut inbox),
        Verdict::Taken
    );
    for session in 1..100 {
        for source in 0..50 {
            let pair = (source, 5);
            let large = piece(From { session, pair, ..FROM }, 0, 0, 1 << 20, 1);
            assert_eq!(large.deliver(&mut inbox), Verdict::Taken);
        }
        inbox.end(PeerId(0), session);
    }
    assert_eq!(inbox.candidates_len(), 0);
}

/// Fragments that follow nothing, which cost next to no credit: no more of them are remembered than the bound.
#[test]
fn scattered_fragments_are_bounded() {
    const MIB: u32 = 1 << 20;
    // In many messages; in one, at its place; in one that has no buffer, because another takes all there may be.
    for case in 0..3 {
        let mut inbox = Inbox::new(&config(8 * MIB, MIB), &PROCESSORS);
        if case == 2 {
            assert_eq!(piece(FROM, 0, 0, MIB, 1).deliver(&mut inbox), Verdict::Taken);
        }
        let number = |n| if case == 0 { 1 + n } else { 1 };
        let mut taken = 0;
        for n in 0..100_000 {
            match piece(FROM, number(n), 1 + 2 * n, MIB, 1).deliver(&mut inbox) {
                Verdict::Taken => taken += 1,
                verdict => assert_eq!(verdict, Verdict::NoRoom),
            }
        }
        assert_eq!(taken, 4_096, "case {case}");
        // What is in order is taken all the same: nothing comes to a standstill.
        for n in 0..MIB / 1_024 {
            let message = if case == 0 { 100_001 } else { 2 };
            let sent = piece(FROM, message, 1_024 * n, MIB, 1_024);
            assert_eq!(sent.deliver(&mut inbox), Verdict::Taken, "case {case}");
        }
        assert!(inbox.memory() < 3 * u64::from(MIB), "{}", inbox.memory());
        // The session's end makes room.
        inbox.end(PeerId(0), 1);
        let next = From { session: 2, ..FROM };
        assert_eq!(piece(next, 0, 1, 4, 1).deliver(&mut inbox), Verdict::Taken);
    }
}

/// A message costs the memory of what has landed of it, and not of what it says its length is.
#[test]
fn claims_cost_no_memory() {
    let mut inbox = Inbox::new(&config(8 << 20, 1 << 30), &[1]);
    for peer in 0..100 {
        for number in 0..10 {
            let from = From {
                peer,
                session: 1,
                pair: (5 + peer, 1),
            };
            assert_eq!(
                piece(from, number, 0, 1 << 30, 1_000).deliver(&mut inbox),
                Verdict::Taken
            );
        }
    }
    let memory = inbox.memory();
    assert!(memory <= 100 * ((4 << 20) + 10 * 4_096), "{memory}");
}

/// Where there is no memory for a message it waits, and nothing is kept of it that its credit does not pay for.
#[test]
fn a_message_without_memory_is_put_off() {
    let mut inbox = Inbox::new(&config(8 << 20, 1 << 30), &[1]);
    let from = From {
        peer: 0,
        session: 1,
        pair: (5, 1),
    };
    inbox.pool().most = Some(100_000);
    for number in 0..1_000 {
        assert_eq!(
            piece(from, number, 0, 1 << 20, 1_000).deliver(&mut inbox),
            Verdict::NoMemory
        );
    }
    assert_eq!(inbox.waits_len(), 0);
    // A message for which there is memory can be there meanwhile, and in the end the first one, too.
    assert_eq!(
        piece(from, 1, 0, 50_000, 50_000 - 1).deliver(&mut inbox),
        Verdict::Taken
    );
    assert_eq!(
        piece(from, 1, 50_000 - 1, 50_000, 1).deliver(&mut inbox),
        Verdict::Taken
    );
    assert_eq!(piece(from, 0, 0, 1 << 20, 1_000).deliver(&mut inbox), Verdict::NoMemory);
    inbox.pool().most = None;
    let mut at = 0;
    while at < 1 << 20 {
        let len = 50_000.min((1 << 20) - at);
        assert_eq!(
            piece(from, 0, at, 1 << 20, len as usize).deliver(&mut inbox),
            Verdict::Taken
        );
        at += len;
    }
    let lens: Vec<usize> = all(&mut inbox).iter().map(Vec::len).collect();
    assert_eq!(lens, [1 << 20, 50_000]);
}

/// A peer that sends single bytes is not held off when they come in order, buffer or not.
#[test]
fn single_bytes_in_order_are_no_burden() {
    let mut inbox = Inbox::new(&config(1 << 20, 10_000), &PROCESSORS);
    // Takes all the buffers there may be, so that the others come in pieces.
    assert_eq!(piece(FROM, 0, 0, 10_000, 1).deliver(&mut inbox), Verdict::Taken);
    for number in 1..10 {
        for offset in 0..9_000 {
            assert_eq!(
                piece(FROM, number, offset, 9_000, 1).deliver(&mut inbox),
                Verdict::Taken
            );
        }
    }
    assert_eq!(piece(FROM, 0, 1, 10_000, 9_999).deliver(&mut inbox), Verdict::Taken);
    assert_eq!(all(&mut inbox).len(), 10);
}

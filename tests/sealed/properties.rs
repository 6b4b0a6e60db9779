//! What seals promise: nothing readable leaves an endpoint, no transmission has the name of another, and what is not
//! sealed, sealed with another key, or altered, is dropped and counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use bytes::Bytes;
use hikyaku::{
    Config, DropReason, PeerError,
    reliability::{Burst, Endpoint, Event, Limits, Origin, Outgoing, Payload, PeerId, Sink, Target, Verdict},
    time::Instant,
    wire::{Kind, Packet, Seq},
};

use crate::harness::{Prng, scenario, seal::TestSealer};

const SECRET: u64 = 12;
const MS: u64 = 1_000_000;
/// Bytes of content that are looked for on the wire.
const WINDOW: usize = 8;

/// Takes everything, and keeps the payload.
#[derive(Default)]
struct Taken(Vec<Vec<u8>>);

impl Sink for Taken {
    fn deliver(&mut self, _: Origin, packet: Packet<&[u8]>) -> Verdict {
        self.0.push(packet.payload().to_vec());
        Verdict::Taken
    }
}

/// Two endpoints on a wire.
struct Wire {
    ends: [Endpoint; 2],
    /// Each end's peer: the other.
    peers: [PeerId; 2],
    taken: [Taken; 2],
    now: Instant,
    /// Every datagram: the end that sent it, and its bytes.
    sent: Vec<(usize, Vec<u8>)>,
    burst: Burst,
}

fn address(end: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + end as u8], 4_000))
}

fn endpoint(config: &Config, epoch: u64, secret: Option<u64>) -> Endpoint {
    let limits = Limits {
        max_datagram: 8_972,
        max_segments: 16,
        max_batch: 65_507,
        receive_buffer: 4 << 20,
        holds_references: true,
        ack_bytes: usize::MAX,
        receive_port: 0,
    };
    let endpoint = Endpoint::new(config.clone(), limits, epoch, epoch.into()).unwrap();
    match secret {
        Some(secret) => endpoint.with_sealer(Box::new(TestSealer::new(secret))),
        None => endpoint,
    }
}

impl Wire {
    /// Ends that seal with these secrets; the first knows the other as its peer 0.
    fn new(epoch: u64, secrets: [Option<u64>; 2]) -> Self {
        let config = Config {
            nack: true,
            ..Config::default()
        };
        let mut ends = [0, 1].map(|end| endpoint(&config, epoch + end, secrets[end as usize]));
        let peers = [0, 1].map(|end| ends[end].add_peer(address(1 - end), 1 - end as u32).unwrap());
        Self {
            ends,
            peers,
            taken: [Taken::default(), Taken::default()],
            now: Instant::from_nanos(1),
            sent: Vec::new(),
            burst: Burst::default(),
        }
    }

    /// The datagrams that an end sends now.
    fn transmit(&mut self, end: usize) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        while self.ends[end].poll_transmit(self.now, &mut self.burst) {
            let mut bytes = Vec::new();
            self.ends[end].gather(&self.burst, |piece| bytes.extend_from_slice(piece));
            assert_eq!(self.burst.token(), 0, "a sealed burst refers to no lent memory");
            datagrams.extend(bytes.chunks(self.burst.segment_size()).map(<[u8]>::to_vec));
        }
        self.sent.extend(datagrams.iter().map(|bytes| (end, bytes.clone())));
        datagrams
    }

    fn receive(&mut self, end: usize, mut bytes: Vec<u8>) {
        let (len, from) = (bytes.len(), address(1 - end));
        self.ends[end].handle_datagrams(self.now, from, &mut bytes, len, &mut self.taken[end]);
    }

    /// Lets both ends talk for some time; `arrives` tells which datagrams arrive.
    fn run(&mut self, ms: u64, mut arrives: impl FnMut(&[u8]) -> bool) {
        for _ in 0..ms {
            for end in [0, 1] {
                self.ends[end].handle_timeout(self.now);
                for bytes in self.transmit(end) {
                    if arrives(&bytes) {
                        self.receive(1 - end, bytes);
                    }
                }
            }
            self.now = self.now.plus_nanos(MS);
        }
    }

    fn send(&mut self, end: usize, number: u32, payload: Payload<'_>) {
        let message = Outgoing {
            source: end as u32,
            destination: 1 - end as u32,
            message: Seq(number),
            match_bits: number.is_multiple_of(2).then_some(7),
            immediate: None,
        };
        self.ends[end]
            .send(self.now, self.peers[end], 0, &message, payload)
            .unwrap();
    }

    fn dropped(&self, end: usize, reason: DropReason) -> u64 {
        self.ends[end].stats().dropped.of(reason)
    }

    fn downs(&mut self, end: usize) -> Vec<PeerError> {
        let mut downs = Vec::new();
        while let Some(event) = self.ends[end].poll_event() {
            if let Event::Down { error, .. } = event {
                downs.push(error);
            }
        }
        downs
    }
}

fn content(rng: &mut Prng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.next() as u8).collect()
}

/// Messages that are copied, bundled, cut into fragments, sent by reference and placed, over a wire that loses one
/// datagram in ten, so that many are sent again.
#[test]
fn nothing_that_is_sent_can_be_read_and_no_number_is_used_twice() {
    scenario(
        "properties::nothing_that_is_sent_can_be_read_and_no_number_is_used_twice",
        8,
        |seed| {
            let mut rng = Prng::new(seed);
            let mut wire = Wire::new(seed * 10 + 1, [Some(SECRET); 2]);
            let mut contents = Vec::new();
            let mut lent = Vec::new();
            for number in 0..60 {
                let end = rng.below(2) as usize;
                let len = rng.pick(&[8, 9, 64, 200, 500, 1_400, 5_000]);
                let bytes = content(&mut rng, len);
                if rng.chance(500) {
                    wire.send(end, number, Payload::Copy(&bytes));
                } else {
                    let shared = Bytes::from(bytes.clone());
                    wire.send(end, number, Payload::Shared(shared.clone()));
                    lent.push((shared, bytes.clone()));
                }
                contents.push(bytes);
                if rng.chance(300) {
                    wire.run(rng.below(4), |_| rng.below(10) > 0);
                }
            }
            let placed = content(&mut rng, 10_000);
            let target = Target {
                source: 0,
                destination: 1,
                region: 3,
                key: 4,
                offset: 0,
            };
            let (now, peer) = (wire.now, wire.peers[0]);
            wire.ends[0]
                .place(now, peer, 0, &target, Bytes::from(placed.clone()))
                .unwrap();
            contents.push(placed);
            wire.run(3_000, |_| rng.below(10) > 0);
            assert!(wire.ends.iter().all(Endpoint::all_idle), "everything has arrived");
            let resends: u64 = wire.ends.iter().map(|end| end.stats().resends).sum();
            assert!(resends > 0, "something was sent again");

            let readable: BTreeSet<&[u8]> = contents.iter().flat_map(|bytes| bytes.windows(WINDOW)).collect();
            let mut numbers = BTreeSet::new();
            let mut kinds = BTreeMap::new();
            for (end, bytes) in &wire.sent {
                let found = bytes.windows(WINDOW).find(|bytes| readable.contains(bytes));
                assert_eq!(found, None, "plain bytes of a message on the wire");
                let packet = Packet::new_checked(&bytes[..]).unwrap();
                *kinds.entry(packet.kind().name()).or_insert(0) += 1;
                if matches!(packet.kind(), Kind::Reset | Kind::Challenge) {
                    continue;
                }
                let seal = packet.seal().expect("every packet of a session is sealed");
                assert!(numbers.insert((*end, seal.number)), "{} was used twice", seal.number);
            }
            for kind in ["data", "ack", "probe", "probe-ack"] {
                assert!(kinds.contains_key(kind), "no {kind} in {kinds:?}");
            }
            for (shared, bytes) in &lent {
                assert_eq!(shared, bytes, "lent memory has changed");
            }
            let taken: usize = wire.taken.iter().flat_map(|taken| &taken.0).map(Vec::len).sum();
            assert!(taken >= contents.iter().map(Vec::len).sum());
        },
    );
}

/// A session between two that seal, and a datagram that is under way in it.
fn under_way() -> (Wire, Vec<u8>) {
    let mut wire = Wire::new(1, [Some(SECRET); 2]);
    wire.send(0, 0, Payload::Copy(b"hello"));
    wire.run(500, |_| true);
    wire.send(0, 1, Payload::Copy(b"a message of one packet"));
    let datagrams = wire.transmit(0);
    assert_eq!(datagrams.len(), 1);
    (wire, datagrams.into_iter().next().unwrap())
}

#[test]
fn a_packet_that_is_altered_in_any_byte_is_dropped() {
    let (mut wire, datagram) = under_way();
    let before = wire.taken[1].0.len();
    for at in 0..datagram.len() {
        for change in [0x01, 0x80, 0xff] {
            let dropped = wire.ends[1].stats().dropped.total();
            let mut altered = datagram.clone();
            altered[at] ^= change;
            wire.receive(1, altered);
            assert_eq!(wire.taken[1].0.len(), before, "byte {at}, change {change:#04x}");
            assert_eq!(
                wire.ends[1].stats().dropped.total(),
                dropped + 1,
                "byte {at} {change:#04x}"
            );
        }
    }
    // The numbers, match bits, number of the seal, tag and payload: most bytes are known to be wrong by the tag alone.
    assert!(wire.dropped(1, DropReason::Forged) > 2 * datagram.len() as u64);
    wire.receive(1, datagram);
    assert_eq!(wire.taken[1].0.last().unwrap(), b"a message of one packet");
}

#[test]
fn a_packet_without_its_seal_is_dropped() {
    let (mut wire, _) = under_way();
    let mut plain = Wire::new(1, [None; 2]);
    plain.send(0, 0, Payload::Copy(b"hello"));
    plain.run(500, |_| true);
    plain.send(0, 1, Payload::Copy(b"a message of one packet"));
    // The same epochs and keys give the same tokens and numbers: all that it lacks is the seal.
    let datagram = plain.transmit(0).remove(0);
    let taken = wire.taken[1].0.len();
    wire.receive(1, datagram);
    assert_eq!(wire.taken[1].0.len(), taken);
    assert_eq!(wire.dropped(1, DropReason::Unsealed), 1);
    assert_eq!(wire.downs(1), []);
}

#[test]
fn a_packet_that_is_sealed_with_another_key_is_dropped() {
    let mut wire = Wire::new(1, [Some(SECRET), Some(SECRET + 1)]);
    wire.send(0, 0, Payload::Copy(b"hello"));
    wire.run(500, |_| true);
    assert!(wire.taken[1].0.is_empty());
    assert!(wire.dropped(1, DropReason::Forged) > 0);
    assert!(!wire.ends[1].is_up(wire.peers[1]));
}

/// The side that does not seal says that it does not know what the other requires; the side that seals says what it
/// requires.
#[test]
fn both_sides_of_one_that_seals_and_one_that_does_not_know_why_there_is_no_session() {
    let features = 1 << 16;
    for (opener, secrets) in [(0, [Some(SECRET), None]), (0, [None, Some(SECRET)])] {
        let mut wire = Wire::new(1, secrets);
        wire.send(opener, 0, Payload::Copy(b"hello"));
        wire.run(500, |_| true);
        assert_eq!(
            wire.downs(opener),
            [PeerError::Incompatible { features }],
            "{secrets:?}"
        );
        assert!(wire.taken[1].0.is_empty());
        let reason = if secrets[1].is_some() {
            DropReason::Unsealed
        } else {
            DropReason::Incompatible
        };
        assert!(wire.dropped(1, reason) > 0, "{secrets:?}");
    }
}

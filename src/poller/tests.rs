//! Tests of rings between two threads, and of everything that a broken side may write into a ring or into the memory to
//! which its records point, at any time.

mod double;

use std::{
    env, fs,
    os::unix::net::UnixListener,
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
};

use proptest::prelude::*;

use self::double::{BEFORE, Double, OURS, PACKETS, PEER, THEIRS, delivery, packet};
use super::{
    PollerBackend, PollerError, ProxyEndpoint,
    layout::{self, kind, numbered},
    protocol::LINK,
};
use crate::{
    Config,
    backends::{Backend, Data, Received},
    messaging::{Access, Messenger, RegionId},
    reliability::{Burst, Limits, PacketLayer, Path},
    shm::{NOBODY, as_nobody},
    time::Instant,
    transport::{BuildError, Transport},
    wire::{BASE_LEN, Flags, Fragment, Placement, Record},
};

fn rank(backend: PollerBackend) -> Transport {
    let builder = Transport::builder().processor(OURS).behind_poller(backend.path());
    builder.backend(Box::new(backend)).unwrap()
}

/// A message keeps the bytes that it had when its record was read, even if its source is overwritten later.
#[test]
fn what_is_handed_up_does_not_change_any_more() {
    let (mut double, backend) = Double::new();
    let mut rank = rank(backend);
    double.tell_peer();
    for (message, len) in [(0, 20), (1, 80), (2, 1_000), (3, 1_400)] {
        let record = delivery(&packet(message, &vec![7; len], |_| {}));
        double.push_away(4_096, &record);
        while rank.ready() == 0 {
            rank.progress().unwrap();
        }
        double.packets.write(4_096, &vec![0xff; record.len()]);
        let message = rank.try_receive().unwrap().expect("it is ready");
        assert!(message.data() == vec![7; len], "{len} bytes");
    }
    // The same for a bundle, before and after its turn. The lengths of its messages are read only once, too.
    for (message, ready) in [(6, 0), (4, 4)] {
        let bytes = bundle(&[&[1, 7, 20][..], &[7; 20]].concat());
        let record = delivery(&packet(message, &bytes, |header| {
            header.set(Flags::BUNDLE);
        }));
        double.push_away(4_096, &record);
        while double.up.refresh().unwrap() < double.up.position() {
            rank.progress().unwrap();
        }
        double.packets.write(4_096, &vec![0xff; record.len()]);
        assert_eq!(rank.ready(), ready);
    }
    for len in [1, 20, 1, 20] {
        assert_eq!(rank.try_receive().unwrap().expect("it is ready").data(), vec![7; len]);
    }
    // The same for a record that lies in the ring.
    let record = delivery(&packet(8, &[7; 100], |_| {}));
    double.push(kind::WHOLE, &record);
    while rank.ready() == 0 {
        rank.progress().unwrap();
    }
    double.memory.write(layout::UP.data, &[0xff; 64 << 10]);
    assert_eq!(rank.try_receive().unwrap().expect("it is ready").data(), [7; 100]);
}

#[test]
fn a_transport_without_the_layer_is_refused() {
    let (_double, backend) = Double::new();
    let error = Transport::builder()
        .processor(OURS)
        .backend(Box::new(backend))
        .unwrap_err();
    assert!(matches!(error, BuildError::Layered("poller")), "{error}");
    assert!(error.to_string().contains("behind_poller"), "{error}");
}

/// Records lie where the poller may write, so they are never lent as slices.
#[test]
fn records_are_shared() {
    let (mut double, mut backend) = Double::new();
    let records = [1_400, 0, 300].map(|len| delivery(&packet(0, &vec![7; len], |_| {})));
    for (n, record) in records.iter().enumerate() {
        double.push_away(4_096 * n, record);
    }
    assert_eq!(backend.receive(Instant::ZERO, 8).unwrap(), 3);
    for (index, record) in records.iter().enumerate() {
        let received = backend.received(index);
        assert_eq!((received.source, received.stride), (LINK, record.len()));
        assert_eq!(received.data.to_vec(), *record);
        assert!(received.data.own().is_none(), "record {index}");
    }
}

/// The other side changes the lengths and flags of a header between any two reads of it.
#[test]
fn headers_that_change_meanwhile_are_read_once() {
    const AT: usize = 4_096;
    const LEN: usize = 1_000;
    /// Bytes of the message if the packet has match bits, which take the first 8 bytes.
    const SHORTER: usize = LEN - 8;
    const TRIES: u32 = 100_000;
    let (mut double, backend) = Double::new();
    let mut rank = rank(backend);
    double.tell_peer();
    let record = delivery(&packet(0, &[7; LEN], |_| {}));
    double.packets.write(AT, &record);
    let first = u64::from_be_bytes(record[BEFORE..BEFORE + 8].try_into().unwrap());
    let packets = Arc::clone(&double.packets);
    let (number, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let mut taken = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            let put = |at: usize, word: u64| packets.atomic(AT + BEFORE + at).store(word.to_be(), Ordering::Relaxed);
            while !stop.load(Ordering::Relaxed) {
                let message = u64::from(number.load(Ordering::Relaxed));
                for len in [LEN, 0, SHORTER, 60_000, LEN + 1, LEN] {
                    for flags in [
                        Flags::BUNDLE,
                        Flags::MATCH,
                        Flags::FRAGMENT,
                        Flags::SACK,
                        Flags::empty(),
                    ] {
                        put(0, first | u64::from(flags.bits()) << 32);
                        put(BASE_LEN - 8, (len as u64) << 48 | message);
                    }
                }
            }
        });
        for _ in 0..TRIES {
            double.push(kind::AWAY, &numbered(AT, record.len()));
            rank.progress().unwrap();
            while let Some(message) = rank.try_receive().unwrap() {
                assert!(matches!(message.len(), LEN | SHORTER), "{} bytes", message.len());
                assert!(message.iter().all(|byte| *byte == 7));
                taken += 1;
                number.store(taken, Ordering::Relaxed);
            }
            while rank.next_event().is_some() {}
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(taken > 0);
}

/// An act of a broken poller.
#[derive(Clone, Debug)]
enum Act {
    /// Writes a number anywhere into the ring to the process, or into its control block.
    Write { at: usize, word: u64 },
    /// Writes a record into the ring.
    Push { kind: u32, bytes: Vec<u8> },
    /// Writes a record into the memory for packets, and points to it in the ring.
    PushAway { at: usize, bytes: Vec<u8> },
    /// Writes a record of the ring that points to an arbitrary place.
    Point { kind: u32, at: u64, len: u64 },
    /// Overwrites part of the memory for packets.
    Smear { at: usize, byte: u8 },
}

/// A number near one of the limits, or any number.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0_u64..256,
        3 => (prop_oneof![Just(PACKETS as u64), Just(layout::MEMORY as u64), Just(4_096), Just(u64::MAX)], 0_u64..64)
            .prop_map(|(limit, less)| limit - less),
        1 => any::<u64>(),
    ]
}

/// Messages that share a packet. Each message's first byte is taken from `bytes` as its length.
fn bundle(mut bytes: &[u8]) -> Vec<u8> {
    let mut bundle = vec![];
    while let Some((&len, rest)) = bytes.split_first() {
        let (data, rest) = rest.split_at(rest.len().min(len.into()));
        let match_bits = (len % 2 == 0).then_some(len.into());
        let mut record = vec![0; Record { match_bits, data }.len()];
        Record { match_bits, data }.emit(&mut record);
        bundle.extend(record);
        bytes = rest;
    }
    bundle
}

/// A record as a poller writes it, with up to two bytes overwritten.
fn record() -> impl Strategy<Value = Vec<u8>> {
    let report = (64_u8..76, prop::collection::vec(any::<u8>(), 47), 0_u8..3, 0_u8..4).prop_map(
        |(kind, mut rest, peer, session)| {
            rest.insert(0, kind);
            rest[4..16].copy_from_slice(&[peer, 0, 0, 0, session, 0, 0, 0, 1, 0, 0, 0]);
            rest
        },
    );
    let of_peer = Just(double::peer().to_vec());
    let extensions = (any::<Option<u64>>(), any::<Option<u64>>(), 0_u8..5, number(), number());
    let brought = (0_u32..6, extensions, prop::collection::vec(any::<u8>(), 0..300)).prop_map(
        |(message, (bits, immediate, what, one, other), payload)| {
            let payload = if what == 4 { bundle(&payload) } else { payload };
            let packet = packet(message, &payload, |header| {
                if what == 4 {
                    header.set(Flags::BUNDLE);
                }
                if let Some(bits) = bits.filter(|_| what != 4) {
                    header.match_bits(bits);
                }
                if let Some(immediate) = immediate.filter(|_| what != 4) {
                    header.immediate(immediate);
                }
                match what {
                    1 => {
                        let (offset, total) = (one as u32, other as u32);
                        header.fragment(Fragment { offset, total });
                    }
                    2 | 3 => {
                        let region = if what == 2 { 1 << 20 } else { one as u32 };
                        header.placement(Placement { region, offset: other });
                    }
                    _ => {}
                }
            });
            delivery(&packet)
        },
    );
    let bytes = prop_oneof![2 => report, 1 => of_peer, 4 => brought, 1 => prop::collection::vec(any::<u8>(), 0..200)];
    let spoils = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    (bytes, spoils).prop_map(|(mut bytes, spoils)| {
        for (at, byte) in spoils {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes
    })
}

fn act() -> impl Strategy<Value = Act> {
    let places = prop_oneof![0_usize..24, 512..1_024_usize];
    prop_oneof![
        1 => (places, number()).prop_map(|(word, value)| Act::Write { at: 8 * word, word: value }),
        6 => (prop_oneof![8 => Just(kind::WHOLE), 1 => 0_u32..6], record())
            .prop_map(|(kind, bytes)| Act::Push { kind, bytes }),
        6 => (0_usize..PACKETS - 1_000, record()).prop_map(|(at, bytes)| Act::PushAway { at, bytes }),
        2 => (0_u32..6, number(), number()).prop_map(|(kind, at, len)| Act::Point { kind, at, len }),
        1 => (0_usize..PACKETS - 100, any::<u8>()).prop_map(|(at, byte)| Act::Smear { at, byte }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the rings and the places to which they point contain, the process accepts it, ignores it, or finds that
    /// its poller is broken.
    #[test]
    fn nothing_that_a_poller_writes_does_harm(acts in prop::collection::vec(act(), 1..60), region: bool, rails: bool) {
        /// The most records of one round. None may be longer than the bytes that were written.
        const MOST: usize = layout::REPORTS / 16;
        let (mut double, mut backend) = Double::new();
        let mut proxy = ProxyEndpoint::new(Config::default(), Limits::from(&backend.capabilities()), &[OURS]).unwrap();
        if rails {
            let peer = proxy.add_peer(PEER.parse().unwrap(), THEIRS).unwrap();
            let path = Path::new("10.98.0.2:7".parse().unwrap(), 1);
            prop_assert_eq!(proxy.add_rail(Instant::ZERO, peer, path), Ok(1));
        }
        let mut messenger = Messenger::new(Box::new(proxy), &[OURS]);
        if region {
            let RegionId { region, .. } = messenger.register(Access::Lasting, Box::new(vec![0; 100])).unwrap();
            prop_assert_eq!(region, 1 << 20);
        }
        let mut burst = Burst::default();
        double.tell_peer();
        for act in acts {
            match act {
                Act::Write { at, word } => double.memory.atomic(at).store(word, Ordering::Release),
                Act::Push { kind, bytes } if double.up.has_room(bytes.len()) == Ok(true) => double.push(kind, &bytes),
                Act::PushAway { at, bytes } if double.up.has_room(16) == Ok(true) => double.push_away(at, &bytes),
                Act::Point { kind, at, len } if double.up.has_room(16) == Ok(true) => {
                    double.push(kind, &numbered(at as usize, len as usize));
                }
                Act::Smear { at, byte } => double.packets.write(at, &[byte; 100]),
                // The double has damaged its own ring.
                _ => {}
            }
            let mut records = 0;
            while let Ok(count @ 1..) = backend.receive(Instant::ZERO, 64) {
                for index in 0..count {
                    let Received { source, data: Data::Shared(record), .. } = backend.received(index) else {
                        panic!("not a record");
                    };
                    prop_assert!(record.len() <= layout::REPORTS.max(PACKETS));
                    messenger.handle_shared(Instant::ZERO, source, record);
                }
                records += count;
                prop_assert!(records <= MOST, "it never ends");
            }
            while messenger.receive().is_some() {}
            while messenger.poll_event().is_some() {}
            while messenger.poll_transmit(Instant::ZERO, &mut burst) {}
        }
    }
}

/// Another user was the first to make a socket of that name, in a folder where every user may make files.
#[test]
fn a_socket_of_somebody_else_is_not_believed() {
    let path = env::temp_dir().join(format!("hikyaku-foreign-{}", process::id()));
    let _ = fs::remove_file(&path);
    let Some(listener) = as_nobody(|| UnixListener::bind(&path).unwrap()) else {
        println!("left out: it needs root");
        return;
    };
    let error = PollerBackend::connect(&path, 0).unwrap_err();
    drop(listener);
    fs::remove_file(&path).unwrap();
    assert!(
        matches!(
            error,
            PollerError::Foreign {
                user: NOBODY,
                own: 0,
                ..
            }
        ),
        "{error}"
    );
}

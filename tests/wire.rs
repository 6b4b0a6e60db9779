//! The wire format: against the vectors, against itself, and against any bytes.

#[path = "support/corpus.rs"]
mod corpus;
#[path = "support/exercise.rs"]
mod exercise;
#[path = "support/vectors.rs"]
mod vectors;

use std::collections::BTreeSet;

use hikyaku::wire::{
    ANY_PROCESSOR, Base, Builder, Credit, Error, Features, Flags, Fragment, Header, Kind, MAX_HEADER_LEN,
    MAX_SACK_WORDS, Open, Packet, Placement, Record, Records, Sack, Seal, Seq, Timestamp, Token, VERSION, checksum,
    pretty::Pretty,
};
use proptest::{collection::vec, option, prelude::*};

/// Everything that is looked at in any bytes.
fn exercise(bytes: &[u8]) {
    exercise::header(bytes);
    exercise::packet(bytes);
}

fn base(kind: Kind) -> Base {
    Base {
        kind,
        channel: 0,
        source: 7,
        destination: 9,
        session: Token {
            index: 3,
            secret: 0xc0ff_ee00_c0ff_ee00,
        },
        sequence: Seq(17),
        acknowledgement: Seq(5),
        rail: 0,
        message: Seq(42),
    }
}

// Vectors.

/// An error as the vectors write it.
fn name_of(error: &Error) -> String {
    match error {
        Error::Truncated { need, have } => format!("Truncated {{ need: {need}, have: {have} }}"),
        Error::Version(version) => format!("Version({version})"),
        Error::Kind(kind) => format!("Kind({kind})"),
        Error::Flags(flags) => format!("Flags({flags})"),
        Error::Reserved => "Reserved".to_owned(),
        Error::Trailing { excess } => format!("Trailing {{ excess: {excess} }}"),
        Error::SackWords(words) => format!("SackWords({words})"),
        Error::Fragment => "Fragment".to_owned(),
        Error::Bundle => "Bundle".to_owned(),
        Error::Unexpected => "Unexpected".to_owned(),
        error => panic!("no vector can have this error: {error}"),
    }
}

#[test]
fn vectors_say_what_their_lines_say() {
    for vector in vectors::all() {
        let name = &vector.name;
        corpus::keep(&vector.bytes);
        match (Packet::new_checked(&vector.bytes[..]), &vector.error) {
            (Ok(packet), None) => {
                assert_eq!(vectors::fields(&vector.bytes, &packet), vector.fields, "{name}");
            }
            (Err(error), Some(expected)) => assert_eq!(&name_of(&error), expected, "{name}"),
            (result, expected) => panic!("{name}: {result:?}, and not {expected:?}"),
        }
        assert_eq!(vector.error.is_some(), name.starts_with("bad-"), "{name}");
    }
}

#[test]
fn vectors_survive_reading_and_writing() {
    for vector in vectors::all() {
        exercise(&vector.bytes);
    }
}

/// A new kind, extension, error or reason of a reset must come with a vector.
#[test]
fn vectors_are_complete() {
    let vectors = vectors::all();
    let packets: Vec<_> = vectors
        .iter()
        .filter_map(|vector| Packet::new_checked(&vector.bytes[..]).ok())
        .collect();
    let flags = packets
        .iter()
        .fold(Flags::empty(), |flags, packet| flags | packet.flags());
    assert_eq!(flags, Flags::all());
    let kinds: BTreeSet<u8> = packets.iter().map(|packet| packet.kind() as u8).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), (0..=9).collect::<Vec<_>>());
    let resets = packets.iter().filter(|packet| packet.kind() == Kind::Reset);
    let reasons: BTreeSet<u32> = resets.map(|packet| packet.base().message.0).collect();
    assert_eq!(reasons.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    let longest = packets.iter().map(Packet::header_len).max();
    assert_eq!(longest, Some(MAX_HEADER_LEN));
    let errors: BTreeSet<&str> = vectors
        .iter()
        .filter_map(|vector| vector.error.as_ref()?.split(['(', ' ']).next())
        .collect();
    let all = [
        "Bundle",
        "Flags",
        "Fragment",
        "Kind",
        "Reserved",
        "SackWords",
        "Trailing",
        "Truncated",
        "Unexpected",
        "Version",
    ];
    assert_eq!(errors.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn truncated_anywhere() {
    for vector in vectors::all() {
        for len in 0..vector.bytes.len() {
            let bytes = &vector.bytes[..len];
            exercise(bytes);
            if vector.error.is_none() {
                assert!(
                    matches!(Packet::new_checked(bytes), Err(Error::Truncated { have, .. }) if have == len),
                    "{} cut to {len}",
                    vector.name
                );
            }
        }
    }
}

#[test]
fn any_bit_flipped() {
    for vector in vectors::all() {
        for bit in 0..8 * vector.bytes.len() {
            let mut bytes = vector.bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            exercise(&bytes);
            let Ok(packet) = Packet::new_checked(&bytes[..]) else {
                continue;
            };
            if packet.checksum().is_some() && vector.name != "data-checksum-wrong" {
                assert!(!checksum::verify(&packet, &bytes), "{} bit {bit}", vector.name);
            }
        }
    }
}

// Headers.

fn open() -> impl Strategy<Value = Open> {
    (any::<[u64; 2]>(), any::<[u32; 5]>(), any::<[u16; 2]>()).prop_map(|([epoch, secret], words, halves)| Open {
        epoch,
        token: Token {
            index: words[0],
            secret,
        },
        features: Features::from_bits_retain(words[1]),
        credit: Credit {
            limit: words[2],
            window: words[3],
        },
        ack_delay: words[4],
        max_datagram: halves[0],
        port: halves[1],
    })
}

fn any_base() -> impl Strategy<Value = Base> {
    let kind = prop::sample::select(vec![
        Kind::Data,
        Kind::Data,
        Kind::Data,
        Kind::Ack,
        Kind::Reset,
        Kind::Goodbye,
        Kind::Probe,
        Kind::ProbeAck,
        Kind::Return,
        Kind::Challenge,
        Kind::Settle,
        Kind::Settled,
    ]);
    let destination = prop_oneof![any::<u32>(), Just(ANY_PROCESSOR)];
    (kind, any::<[u8; 2]>(), any::<[u32; 5]>(), destination, any::<u64>()).prop_map(
        |(kind, [channel, rail], words, destination, secret)| Base {
            kind,
            channel,
            source: words[0],
            destination,
            session: Token {
                index: words[1],
                secret,
            },
            sequence: Seq(words[2]),
            acknowledgement: Seq(words[3]),
            rail,
            message: Seq(words[4]),
        },
    )
}

/// A header of whatever its type allows, and a payload.
fn any_header() -> impl Strategy<Value = (Header, Vec<u8>)> {
    let of_data = (
        option::of(any::<u64>()),
        option::of(any::<u64>()),
        option::of(any::<[u32; 2]>()),
        option::of((any::<u32>(), any::<u64>())),
    );
    let of_any = (
        option::of(any::<[u32; 2]>()),
        option::of(any::<[u32; 2]>()),
        option::of(any::<u32>()),
        option::of(open()),
        vec(any::<u64>(), 0..=MAX_SACK_WORDS),
        option::of((any::<u64>(), any::<[u8; 16]>())),
    );
    let payload = vec(any::<u8>(), 0..100);
    (any_base(), any::<u16>(), of_data, of_any, payload).prop_map(|(base, flags, of_data, of_any, payload)| {
        let header = Header {
            flags: Flags::from_bits_truncate(flags) & Flags::MARKS,
            match_bits: of_data.0,
            immediate: of_data.1,
            fragment: of_data.2.map(|[offset, total]| Fragment { offset, total }),
            placement: of_data.3.map(|(region, offset)| Placement { region, offset }),
            timestamp: of_any.0.map(|[value, echo]| Timestamp { value, echo }),
            credit: of_any.1.map(|[limit, window]| Credit { limit, window }),
            checksum: of_any.2,
            open: of_any.3,
            sack: Sack::from_words(&of_any.4).unwrap(),
            seal: of_any.5.map(|(number, tag)| Seal { number, tag }),
            ..Header::new(base)
        };
        (header, payload)
    })
}

/// Changes what has no meaning, so that it is a packet.
fn make_sense((mut header, mut payload): (Header, Vec<u8>)) -> (Header, Vec<u8>) {
    if header.base.kind != Kind::Data {
        header.flags.remove(Flags::BUNDLE);
        header.match_bits = None;
        if header.base.kind != Kind::Return {
            header.immediate = None;
        }
        header.fragment = None;
        header.placement = None;
        if header.base.kind != Kind::Probe {
            payload.clear();
        }
    }
    if header.seal.is_none() {
        header.flags.remove(Flags::KEY_PHASE);
    }
    if header.flags.contains(Flags::BUNDLE) {
        header.match_bits = None;
        header.immediate = None;
        header.fragment = None;
        header.placement = None;
        payload = bundle(&[(Some(1), &payload), (None, &[]), (None, b"last")]);
    }
    if let Some(fragment) = &mut header.fragment {
        if payload.is_empty() {
            payload.push(1);
        }
        let len = payload.len() as u32;
        fragment.offset = fragment.offset.min(u32::MAX - len);
        fragment.total = fragment.total.max(fragment.offset + len);
    }
    (header, payload)
}

fn bundle(records: &[(Option<u64>, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(match_bits, data) in records {
        let record = Record { match_bits, data };
        let at = bytes.len();
        bytes.resize(at + record.len(), 0xa5);
        assert_eq!(record.emit(&mut bytes[at..]), record.len());
    }
    bytes
}

fn datagram(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xa5; MAX_HEADER_LEN + payload.len()];
    let len = header.emit(payload.len() as u16, &mut bytes);
    assert_eq!(len, header.len());
    assert!(
        bytes[len..].iter().all(|&byte| byte == 0xa5),
        "written beyond its length"
    );
    bytes.truncate(len);
    bytes.extend_from_slice(payload);
    bytes
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: Some(Box::new(proptest::test_runner::FileFailurePersistence::WithSource(
            "regressions",
        ))),
        ..ProptestConfig::with_cases(1000)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn header_written_and_read(header in any_header().prop_map(make_sense)) {
        let (header, payload) = header;
        let bytes = datagram(&header, &payload);
        corpus::keep(&bytes);
        let packet = Packet::new_checked(&bytes[..]).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(Header::parse(&packet), header);
        prop_assert_eq!(packet.payload(), &payload[..]);
        exercise(&bytes);
    }

    #[test]
    fn header_without_meaning_is_written_without_panic(header in any_header()) {
        exercise(&datagram(&header.0, &header.1));
    }

    #[test]
    fn bytes_read_and_written(bytes in vec(any::<u8>(), 0..300)) {
        exercise(&bytes);
    }

    /// Arbitrary bytes are hardly ever a packet; these mostly are.
    #[test]
    fn damaged_packets_read_and_written(
        header in any_header().prop_map(make_sense),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let mut bytes = datagram(&header.0, &header.1);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        corpus::keep(&bytes);
        exercise(&bytes);
    }
}

#[test]
fn longest_header_is_as_long_as_promised() {
    let mut header = Header::new(base(Kind::Data));
    header.match_bits = Some(1);
    header.immediate = Some(2);
    header.fragment = Some(Fragment { offset: 3, total: 4 });
    header.placement = Some(Placement { region: 5, offset: 6 });
    header.timestamp = Some(Timestamp { value: 7, echo: 8 });
    header.credit = Some(Credit { limit: 9, window: 10 });
    header.checksum = Some(11);
    header.open = Some(Open {
        epoch: 12,
        token: Token { index: 13, secret: 21 },
        features: Features::from_bits_retain(14),
        credit: Credit { limit: 15, window: 16 },
        ack_delay: 17,
        max_datagram: 18,
        port: 19,
    });
    header.sack = Sack::from_words(&[20; MAX_SACK_WORDS]).unwrap();
    header.seal = Some(Seal {
        number: 22,
        tag: [23; 16],
    });
    assert_eq!(header.len(), MAX_HEADER_LEN);
    // A buffer of exactly this length will do.
    let mut bytes = [0xa5; MAX_HEADER_LEN];
    assert_eq!(header.emit(1, &mut bytes), MAX_HEADER_LEN);
}

#[test]
fn flags_of_extensions_do_not_count_in_a_value() {
    let mut header = Header::new(base(Kind::Data));
    header.flags = Flags::from_bits_retain(!0);
    header.flags.remove(Flags::BUNDLE | Flags::KEY_PHASE);
    let bytes = datagram(&header, b"x");
    let packet = Packet::new_checked(&bytes[..]).unwrap();
    assert_eq!(packet.flags(), Flags::ACK_REQUEST | Flags::NACK);
}

/// Bytes of every length that are nothing but a base header's beginning, and all first bytes.
#[test]
fn first_bytes() {
    for first in 0..=u8::MAX {
        let mut bytes = [0; 40];
        bytes[0] = first;
        let expected = match (first >> 4, first & 0xf) {
            (VERSION, 0..=9) => None,
            (VERSION, kind) => Some(Error::Kind(kind)),
            (version, _) => Some(Error::Version(version)),
        };
        assert_eq!(Packet::new_checked(&bytes[..]).err(), expected);
        exercise(&bytes);
    }
}

// Writing: caller's errors.

#[test]
#[should_panic]
fn buffer_too_short_for_base() {
    let _ = Builder::new(&mut [0; 39], &base(Kind::Ack)).finish(0);
}

#[test]
#[should_panic]
fn buffer_too_short_for_extension() {
    Builder::new(&mut [0; 47], &base(Kind::Data)).match_bits(1);
}

#[test]
#[should_panic(expected = "1 to 16 words")]
fn sack_of_no_words() {
    Builder::new(&mut [0; MAX_HEADER_LEN], &base(Kind::Ack)).sack(&[]);
}

#[test]
#[should_panic(expected = "1 to 16 words")]
fn sack_of_too_many_words() {
    Builder::new(&mut [0; 1000], &base(Kind::Ack)).sack(&[0; MAX_SACK_WORDS + 1]);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "checked in debug builds only")]
#[should_panic(expected = "out of order")]
fn extensions_out_of_order() {
    Builder::new(&mut [0; MAX_HEADER_LEN], &base(Kind::Data))
        .immediate(1)
        .match_bits(1);
}

#[test]
#[should_panic(expected = "packet truncated")]
fn checksum_of_no_packet() {
    checksum::fill(&mut [0; 39]);
}

#[test]
fn checksum_of_a_gather_list() {
    let mut header = [0xa5; MAX_HEADER_LEN];
    let mut builder = Builder::new(&mut header, &base(Kind::Data));
    builder.checksum();
    let at = builder.checksum_offset().unwrap();
    let len = builder.finish(11);
    let header = &mut header[..len];
    checksum::fill_gathered(header, at, [&b"hello"[..], b"", b" world"]);
    let bytes = [&*header, b"hello world"].concat();
    let packet = Packet::new_checked(&bytes[..]).unwrap();
    assert!(checksum::verify(&packet, &bytes));
}

// Records.

#[test]
fn records_as_written() {
    let written = [(None, &b"one"[..]), (Some(!0), &[0; 300]), (Some(0), b""), (None, b"")];
    let bytes = bundle(&written);
    let read: Vec<_> = Records::new(&bytes)
        .map(|record| (record.match_bits, record.data))
        .collect();
    assert_eq!(read, written);
}

#[test]
fn longest_record() {
    let data = vec![1; 65_535];
    let bytes = bundle(&[(Some(3), &data), (None, b"behind")]);
    let (record, rest) = Record::split(&bytes).unwrap();
    assert_eq!((record.match_bits, record.data), (Some(3), &data[..]));
    assert_eq!(Record::split(rest).unwrap().0.data, b"behind");
}

#[test]
#[should_panic(expected = "65536 bytes")]
fn record_too_long() {
    bundle(&[(None, &[0; 65_536])]);
}

#[test]
fn records_end_at_what_is_none() {
    let mut bytes = bundle(&[(None, b"one"), (Some(2), b"two")]);
    let complete = bytes.len();
    for len in 0..complete {
        let whole = Records::new(&bytes[..len]).count();
        assert_eq!(whole, usize::from(len >= 7));
    }
    bytes.extend([0, 0, 0x80, 0]);
    assert_eq!(Records::new(&bytes).count(), 2);
}

// Serial numbers.

proptest! {
    #![proptest_config(config())]

    /// Against numbers that do not wrap.
    #[test]
    fn serial_numbers_count_like_numbers(start: u64, steps in -0x7fff_ffff_i64..=0x7fff_ffff) {
        let (from, to) = (start as u32, start.wrapping_add_signed(steps) as u32);
        let (from, to) = (Seq(from), Seq(to));
        prop_assert_eq!(from.before(to), steps > 0);
        prop_assert_eq!(from.after(to), steps < 0);
        prop_assert_eq!(from == to, steps == 0);
        let distance = steps.unsigned_abs() as u32;
        if steps >= 0 {
            prop_assert_eq!(from.plus(distance), to);
            prop_assert_eq!(to.distance(from), distance);
        } else {
            prop_assert_eq!(from.minus(distance), to);
            prop_assert!(to.distance(from) > 1 << 31);
        }
    }
}

#[test]
fn serial_numbers_at_the_edge() {
    assert!(Seq(u32::MAX).before(Seq(0)));
    assert!(Seq(0).after(Seq(u32::MAX)));
    assert_eq!(Seq(u32::MAX).plus(1), Seq(0));
    assert_eq!(Seq(0).minus(1), Seq(u32::MAX));
    assert!(Seq(0).before(Seq(0x7fff_ffff)));
    assert!(Seq(0x8000_0001).before(Seq(0)));
    // Half-way round nothing can be said; both come first.
    assert!(Seq(0).before(Seq(1 << 31)) && Seq(1 << 31).before(Seq(0)));
}

// Printing.

#[test]
fn printed() {
    let vectors = vectors::all();
    let line = |name: &str| {
        let vector = vectors.iter().find(|vector| vector.name == name).unwrap();
        Pretty(&vector.bytes).to_string()
    };
    for (name, expected) in [
        (
            "data-plain",
            "7 > 9 data ch 0 session 3:c0ffee00c0ffee00 seq 17 ack 5 msg 42 len 5",
        ),
        (
            "data-fragment-first",
            "7 > 9 data ch 0 session 3:c0ffee00c0ffee00 seq 17 ack 5 msg 42 match 0x0000000000000007 frag 0/4000 len 16",
        ),
        (
            "data-bundle",
            "7 > 9 data ch 0 session 3:c0ffee00c0ffee00 seq 17 ack 5 msg 42 bundle len 29 records 3,6,0",
        ),
        (
            "data-bundle-many",
            "7 > 9 data ch 0 session 3:c0ffee00c0ffee00 seq 17 ack 5 msg 42 bundle len 50 records 1,1,1,1,1,1,1,1,..",
        ),
        (
            "data-checksum-wrong",
            "7 > 9 data ch 0 session 3:c0ffee00c0ffee00 seq 17 ack 5 msg 42 crc 0x9552c0a2 len 5 bad crc",
        ),
        (
            "ack-nack",
            "7 > 9 ack ch 0 session 3:c0ffee00c0ffee00 seq 17 ack 5 msg 0 nack sack 6-7,9 len 0",
        ),
        (
            "ack-sack-longest",
            "7 > 9 ack ch 0 session 3:c0ffee00c0ffee00 seq 17 ack 5 msg 0 sack 6,8,10,12,14,16,18,20,.. len 0",
        ),
        (
            "numbers-wrap",
            "7 > 9 data ch 0 session 3:c0ffee00c0ffee00 seq 4294967295 ack 4294967294 msg 4294967295 sack 4294967295-1 len 5",
        ),
        (
            "any-processor",
            "7 > * data ch 0 session 0:0000000000000000 seq 0 ack 0 msg 0 crc 0x339f444f open 0x0123456789abcdef token 5:decafbaddecafbad \
             features 0x00000009 credit 1048576 window 212992 delay 25000 max 1472 port 4810 len 5",
        ),
        (
            "rail",
            "0 > 4294967294 data ch 255 session 3:c0ffee00c0ffee00 seq 17 ack 5 msg 42 rail 255 len 5",
        ),
        (
            "return",
            "99 > 7 return ch 0 session 3:c0ffee00c0ffee00 seq 17 ack 5 msg 42 imm 0x0000000000000002 len 0",
        ),
        (
            "data-sealed-key-phase",
            "7 > 9 data ch 0 session 3:c0ffee00c0ffee00 seq 17 ack 5 msg 42 key-phase seal 72623859790382856 \
             tag a1a2a3a4a5a6a7a8a9aaabacadaeafb0 len 5",
        ),
        (
            "settled",
            "7 > 9 settled ch 0 session 3:c0ffee00c0ffee00 seq 17 ack 5 msg 42 sack 6 len 0",
        ),
        (
            "bad-truncated-base",
            "malformed, 39 bytes: packet truncated: 40 bytes needed, 39 there",
        ),
    ] {
        assert_eq!(line(name), expected, "{name}");
    }
}

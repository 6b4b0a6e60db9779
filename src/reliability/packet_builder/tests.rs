//! Every kind of packet fills the space that it was given, and no more, with and without a seal.

use alloc::{boxed::Box, vec::Vec};

use super::{
    super::{
        burst::Burst,
        sealing::{Forged, Sealer, Sealing, Transmission},
    },
    message::Cut,
    *,
};
use crate::{
    config::Config,
    reliability::{
        Limits,
        flow::{NONE, Sources, Whole},
    },
    wire::{Base, Builder, Flags, Fragment, Kind, MAX_HEADER_LEN, Packet, Placement, Seq, Timestamp, Token},
};

/// Turns all bits, and signs with the number.
#[derive(Debug)]
struct Turn;

impl Sealer for Turn {
    fn seal(&mut self, transmission: Transmission, _: &[u8], payload: &mut [u8]) -> [u8; 16] {
        payload.iter_mut().for_each(|byte| *byte = !*byte);
        [transmission.number as u8; 16]
    }

    fn open(&mut self, transmission: Transmission, _: &[u8], payload: &mut [u8], tag: &[u8; 16]) -> Result<(), Forged> {
        payload.iter_mut().for_each(|byte| *byte = !*byte);
        if *tag == [transmission.number as u8; 16] {
            Ok(())
        } else {
            Err(Forged)
        }
    }
}

const LIMITS: Limits = Limits {
    max_datagram: 65_507,
    max_segments: 64,
    max_batch: 65_507,
    receive_buffer: 4 << 20,
    holds_references: false,
    ack_bytes: usize::MAX,
    receive_port: 0,
};

const BASE: Base = Base {
    kind: Kind::Data,
    channel: 0,
    source: 1,
    destination: 2,
    session: Token { index: 3, secret: 4 },
    sequence: Seq(5),
    acknowledgement: Seq(6),
    rail: 0,
    message: Seq(7),
};

/// The extensions of a message.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    match_bits: bool,
    immediate: bool,
    fragment: bool,
    placement: bool,
}

/// A packet of this format with these parts and `len` bytes of a source, and what was sealed.
fn write(format: Format, parts: Parts, len: usize, sealing: Option<&mut Sealing>) -> (Burst, Sources) {
    let config = Config::default();
    let mut sources = Sources::default();
    let source = if len == 0 {
        NONE
    } else {
        sources.block(len, Whole::default())
    };
    if len > 0 {
        let bytes = &mut sources.block_mut(source)[..len];
        bytes.iter_mut().enumerate().for_each(|(n, byte)| *byte = n as u8);
    }
    let mut burst = Burst::default();
    burst.begin(core::net::SocketAddr::from(([10, 0, 0, 1], 1)));
    let mut header = Builder::new(burst.header(), &BASE);
    if parts.match_bits {
        header.match_bits(1);
    }
    if parts.immediate {
        header.immediate(2);
    }
    if parts.fragment {
        header.fragment(Fragment {
            offset: 0,
            total: 70_000,
        });
    }
    if parts.placement {
        header.placement(Placement { region: 1, offset: 2 });
    }
    let stamp = format
        .contains(Format::TIMESTAMP)
        .then_some(Timestamp { value: 1, echo: 0 });
    let open = format.contains(Format::OPENING).then(|| {
        let token = Token { index: 9, secret: 9 };
        open_of(&config, &LIMITS, 1, token, 1 << 16, format.is_sealed())
    });
    finish_extensions(&mut header, stamp, None, format.has_checksum(), open.as_ref());
    let written = Written::of(header, len);
    let body = Body::Part {
        sources: &sources,
        source,
        from: 0,
        len,
    };
    finish(&mut burst, written, body, sealing);
    (burst, sources)
}

fn bytes_of(burst: &Burst, sources: &Sources) -> Vec<u8> {
    let mut all = Vec::new();
    burst.each(
        |ours| ours.to_vec(),
        |source, range| sources.bytes(source)[range].to_vec(),
        |piece| all.extend_from_slice(&piece),
    );
    all
}

/// Sizes of paths: the least, usual ones, and the largest.
const MTUS: [usize; 5] = [512, 1_200, 1_472, 8_972, 65_507];

#[test]
fn every_kind_of_packet_fills_its_space_exactly() {
    let mut sealing = Sealing::new(Box::new(Turn), 77);
    for bits in 0..=Format::all().bits() {
        let format = Format::from_bits_retain(bits);
        for mtu in MTUS {
            let room = mtu - format.overhead();
            let whole = Cut::of_message(room - 16, 16, true, room, usize::MAX);
            let first = Cut::of_message(room - 15, 16, true, room, usize::MAX);
            let later = Cut::of_message(70_000, 0, false, room, usize::MAX);
            let placed = Cut::of_placement(70_000, room, usize::MAX);
            let both = Parts {
                match_bits: true,
                immediate: true,
                ..Parts::default()
            };
            let (fragment, placement) = (true, true);
            let cases = [
                (whole, both),
                (first, Parts { fragment, ..both }),
                (
                    later,
                    Parts {
                        fragment,
                        ..Parts::default()
                    },
                ),
                (
                    placed,
                    Parts {
                        placement,
                        ..Parts::default()
                    },
                ),
                (Cut::plain(room), Parts::default()),
            ];
            for (cut, parts) in cases {
                assert_eq!(cut.payload + cut.extensions, room, "{format:?} {parts:?}");
                let (burst, sources) = write(format, parts, cut.payload, format.is_sealed().then_some(&mut sealing));
                assert_eq!(burst.len(), mtu, "{format:?} {parts:?}");
                let mut bytes = bytes_of(&burst, &sources);
                let packet = Packet::new_checked(&bytes[..]).unwrap();
                let is_plain = packet.payload().iter().enumerate().all(|(n, byte)| *byte == n as u8);
                assert_eq!(is_plain, !format.is_sealed(), "{format:?} {parts:?}");
                if let Some((seal, at)) = packet.seal().zip(packet.seal_offset()) {
                    let opened = sealing.open(&mut bytes, at, &seal, 77).unwrap();
                    let (plain, sources) = write(format.difference(Format::SEAL), parts, cut.payload, None);
                    let plain = Packet::new_checked(bytes_of(&plain, &sources)).unwrap();
                    let opened = Packet::new_checked(&*opened).unwrap();
                    assert_eq!(opened.payload(), plain.payload(), "{parts:?}");
                    assert_eq!(opened.base(), plain.base());
                    assert_eq!(opened.flags(), plain.flags() - Flags::CHECKSUM);
                }
            }
        }
    }
}

#[test]
fn a_packet_that_is_sent_again_is_cut_as_before() {
    for room in [400, 1_400] {
        for (left, first) in [(100, 0), (100, 16), (room, 0), (room, 16), (70_000, 8)] {
            let cut = Cut::of_message(left, first, true, room, 1_000);
            assert_eq!(
                Cut::again(cut.payload, first, cut.payload == left),
                cut,
                "{left} {first}"
            );
        }
        let placed = Cut::of_placement(70_000, room, 1_000);
        assert_eq!(Cut::of_placement(placed.payload, usize::MAX, placed.payload), placed);
    }
}

#[test]
fn no_two_transmissions_have_one_number() {
    let mut sealing = Sealing::new(Box::new(Turn), 1);
    let format = Format::SEAL | Format::TIMESTAMP;
    for number in 0..10 {
        let (burst, sources) = write(format, Parts::default(), 8, Some(&mut sealing));
        let bytes = bytes_of(&burst, &sources);
        let seal = Packet::new_checked(&bytes[..]).unwrap().seal().unwrap();
        assert_eq!(seal.number, number);
    }
}

#[test]
fn a_burst_of_sealed_packets_has_room_for_all() {
    let mut sealing = Sealing::new(Box::new(Turn), 1);
    let mut burst = Burst::default();
    burst.begin(core::net::SocketAddr::from(([10, 0, 0, 1], 1)));
    for _ in 0..64 {
        let header = Builder::new(burst.header(), &BASE);
        let written = Written::of(header, 1_000);
        finish(&mut burst, written, Body::Zeros(1_000), Some(&mut sealing));
    }
    assert_eq!((burst.segments(), burst.len()), (64, 64 * (40 + 24 + 1_000)));
    let bytes = bytes_of(&burst, &Sources::default());
    for packet in bytes.chunks(burst.segment_size()) {
        assert_eq!(Packet::new_checked(packet).unwrap().payload(), [255; 1_000]);
    }
    assert!(burst.header().len() == MAX_HEADER_LEN);
}

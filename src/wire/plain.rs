//! The fast path for the most common packet, which is read and written as a whole instead of field by field. Such a
//! packet carries one whole message and has no extensions but match bits and a timestamp. Its bytes are the same as
//! those that [`Builder`](super::Builder) writes and [`Packet`](super::Packet) reads.

use zerocopy::network_endian::U64;

use super::{
    BASE_LEN, Base, Flags, Kind, MAX_HEADER_LEN, Seq, Timestamp, Token, VERSION,
    builder::{pair, words},
};

/// Flags that a plain packet may have.
const FLAGS: Flags = Flags::MATCH.union(Flags::TIMESTAMP).union(Flags::ACK_REQUEST);

/// A data packet with one whole message and an acknowledgement, and with no extensions but match bits and a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    /// Channel of the flow.
    pub channel: u8,
    /// Rail of the flow.
    pub rail: u8,
    /// The sender asks for an acknowledgement at once.
    pub ack_request: bool,
    /// Processor that sent the packet.
    pub source: u32,
    /// Processor that the packet is addressed to.
    pub destination: u32,
    /// The session, as its receiver named it.
    pub session: Token,
    /// Sequence number of the packet.
    pub sequence: Seq,
    /// Cumulative acknowledgement: all packets of the other direction before this sequence number have arrived.
    pub acknowledgement: Seq,
    /// Number of the message.
    pub message: Seq,
    /// Match bits of the message.
    pub match_bits: Option<u64>,
    /// Timestamp and echo.
    pub timestamp: Option<Timestamp>,
    /// The message.
    pub payload: &'a [u8],
}

impl<'a> Plain<'a> {
    /// The packet in `bytes`, if it is a plain one and its length is right.
    #[inline(always)]
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (base, mut rest) = bytes.split_first_chunk::<BASE_LEN>()?;
        let words: [U64; BASE_LEN / 8] = zerocopy::transmute!(*base);
        let [first, second, secret, order, last] = words.map(U64::get);
        let flags = Flags::from_bits_retain((first >> 32) as u16);
        if first >> 56 != u64::from(VERSION << 4 | Kind::Data as u8) || !FLAGS.contains(flags) {
            return None;
        }
        let mut next = |flag: Flags| {
            if !flags.contains(flag) {
                return Some(None);
            }
            let (bytes, after) = rest.split_first_chunk::<8>()?;
            rest = after;
            Some(Some(u64::from_be_bytes(*bytes)))
        };
        let (match_bits, stamp) = (next(Flags::MATCH)?, next(Flags::TIMESTAMP)?);
        // (This also requires that the reserved byte is 0.)
        if (rest.len() as u64) << 16 != (last >> 32) & !0xff00 {
            return None;
        }
        Some(Self {
            channel: (first >> 48) as u8,
            rail: (last >> 40) as u8,
            ack_request: flags.contains(Flags::ACK_REQUEST),
            source: first as u32,
            destination: (second >> 32) as u32,
            session: Token {
                index: second as u32,
                secret,
            },
            sequence: Seq((order >> 32) as u32),
            acknowledgement: Seq(order as u32),
            message: Seq(last as u32),
            match_bits,
            timestamp: stamp.map(|stamp| Timestamp {
                value: (stamp >> 32) as u32,
                echo: stamp as u32,
            }),
            payload: rest,
        })
    }
}

/// Writes the header of a plain packet for a payload of `payload` bytes, with `marks`, which announce no extension.
/// Returns the length of the header.
#[inline(always)]
pub(crate) fn write(
    header: &mut [u8; MAX_HEADER_LEN],
    base: &Base,
    marks: Flags,
    match_bits: Option<u64>,
    timestamp: Option<Timestamp>,
    payload: u16,
) -> usize {
    debug_assert!(Flags::MARKS.contains(marks), "extensions are known by what is in them");
    let (mut flags, mut len) = (marks, BASE_LEN);
    if let Some(bits) = match_bits {
        flags |= Flags::MATCH;
        header[BASE_LEN..BASE_LEN + 8].copy_from_slice(&bits.to_be_bytes());
        len += 8;
    }
    if let Some(stamp) = timestamp {
        flags |= Flags::TIMESTAMP;
        header[len..len + 8].copy_from_slice(&pair(stamp.value, stamp.echo));
        len += 8;
    }
    for (place, word) in header[..BASE_LEN].chunks_exact_mut(8).zip(words(base, flags, payload)) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    len
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::{
        super::{Builder, Packet},
        *,
    };

    fn packets() -> impl Strategy<Value = (Base, Flags, Option<u64>, Option<Timestamp>, Vec<u8>)> {
        let numbers = any::<(u8, u8, u32, u32, u32, u64, u32, u32, u32)>();
        let stamp = prop::option::of(any::<(u32, u32)>().prop_map(|(value, echo)| Timestamp { value, echo }));
        let marks = prop_oneof![4 => Just(Flags::empty()), 1 => Just(Flags::ACK_REQUEST)];
        let payload = prop::collection::vec(any::<u8>(), 0..80);
        (numbers, marks, any::<Option<u64>>(), stamp, payload).prop_map(|(numbers, marks, bits, stamp, payload)| {
            let (channel, rail, source, destination, index, secret, sequence, acknowledgement, message) = numbers;
            let base = Base {
                kind: Kind::Data,
                channel,
                source,
                destination,
                session: Token { index, secret },
                sequence: Seq(sequence),
                acknowledgement: Seq(acknowledgement),
                rail,
                message: Seq(message),
            };
            (base, marks, bits, stamp, payload)
        })
    }

    /// The contents of a packet, read with the general reader.
    fn plain_of<'a>(packet: &Packet<&'a [u8]>) -> Plain<'a> {
        let base = packet.base();
        Plain {
            channel: base.channel,
            rail: base.rail,
            ack_request: packet.flags().contains(Flags::ACK_REQUEST),
            session: base.session,
            source: base.source,
            destination: base.destination,
            sequence: base.sequence,
            acknowledgement: base.acknowledgement,
            message: base.message,
            match_bits: packet.match_bits(),
            timestamp: packet.timestamp(),
            payload: packet.into_payload(),
        }
    }

    proptest! {
        #[test]
        fn it_is_what_the_general_way_writes_and_reads(
            (base, marks, bits, stamp, payload) in packets(),
            (at, change) in (any::<prop::sample::Index>(), 1_u8..),
        ) {
            let (mut general, mut short) = ([0xaa; MAX_HEADER_LEN], [0x55; MAX_HEADER_LEN]);
            let mut header = Builder::new(&mut general, &base);
            header.set(marks);
            bits.iter().for_each(|bits| _ = header.match_bits(*bits));
            stamp.iter().for_each(|stamp| _ = header.timestamp(*stamp));
            let len = header.finish(payload.len() as u16);
            prop_assert_eq!(write(&mut short, &base, marks, bits, stamp, payload.len() as u16), len);
            prop_assert_eq!(&short[..len], &general[..len]);

            let mut datagram = [&short[..len], &payload].concat();
            let packet = Packet::new_checked(&datagram[..]).unwrap();
            prop_assert_eq!(Plain::read(&datagram), Some(plain_of(&packet)));

            // After any change of one byte, the fast reader accepts exactly the plain ones of the packets that the
            // general reader accepts.
            let at = at.index(datagram.len());
            datagram[at] ^= change;
            let read = Plain::read(&datagram);
            let packet = Packet::new_checked(&datagram[..]);
            let plain = packet.ok().filter(|packet| {
                let base = packet.base();
                base.kind == Kind::Data && FLAGS.contains(packet.flags())
            });
            prop_assert_eq!(read, plain.as_ref().map(plain_of));
            datagram.truncate(at);
            prop_assert_eq!(Plain::read(&datagram), None);
        }
    }
}

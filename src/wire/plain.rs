//! The usual packet, read and written at once instead of field by field: one whole message, and nothing beside the base
//! header but match bits and a timestamp. The octets are those of [`Builder`](super::Builder) and
//! [`Packet`](super::Packet).

use zerocopy::network_endian::U64;

use super::{
    BASE_LEN, Base, Flags, Kind, MAX_HEADER_LEN, Seq, Timestamp,
    builder::{first_words, pair, words},
};

/// Extensions that a plain packet may have.
const EXTENSIONS: Flags = Flags::MATCH.union(Flags::TIMESTAMP);

/// A data packet with one whole message, which says nothing else but what it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    /// Processor that has sent.
    pub source: u32,
    /// Processor that is meant.
    pub destination: u32,
    /// Sequence number of the packet.
    pub sequence: Seq,
    /// All before this sequence number of the other direction has arrived.
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

/// What is the same in all plain packets of one flow, from processor to processor: their first 16 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    words: [u64; 2],
    extensions: Flags,
}

impl Prefix {
    /// Of a packet with this base and these flags. `None`: it is not plain.
    pub(crate) fn of(base: &Base, flags: Flags) -> Option<Self> {
        let is_plain = base.kind == Kind::Data && EXTENSIONS.contains(flags);
        is_plain.then(|| Self {
            words: first_words(base, flags),
            extensions: flags,
        })
    }

    /// The packet in `octets`, if it begins so and its length is right. (Who listens where is not looked at: it has no
    /// meaning here.)
    #[inline(always)]
    pub(crate) fn read<'a>(&self, octets: &'a [u8]) -> Option<Plain<'a>> {
        let (base, mut rest) = octets.split_first_chunk::<BASE_LEN>()?;
        let words: [U64; BASE_LEN / 8] = zerocopy::transmute!(*base);
        let [first, second, order, last] = words.map(U64::get);
        if [first, second] != self.words {
            return None;
        }
        let mut next = |flag: Flags| {
            if !self.extensions.contains(flag) {
                return Some(None);
            }
            let (octets, after) = rest.split_first_chunk::<8>()?;
            rest = after;
            Some(Some(u64::from_be_bytes(*octets)))
        };
        let (match_bits, stamp) = (next(Flags::MATCH)?, next(Flags::TIMESTAMP)?);
        if rest.len() as u64 != last >> 48 {
            return None;
        }
        Some(Plain {
            source: self.words[0] as u32,
            destination: (self.words[1] >> 32) as u32,
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

/// Writes the header of a plain packet with a payload of so many octets, and with `marks`, which announce no extension.
/// Gives its length.
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

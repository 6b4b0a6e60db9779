//! A header as a plain value.

use core::{fmt, ops::Deref};

use super::{
    Builder, Packet,
    header::{
        ANY_PROCESSOR, BASE_LEN, Base, Credit, Flags, Fragment, MAX_SACK_WORDS, OPEN_LEN, Open, Placement, SEAL_LEN,
        Seal, Timestamp,
    },
};

/// The words of a selective acknowledgement (see [`Builder::sack`]). Without words the packet has no such extension.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Sack {
    // The words beyond `len` are zero, so that equality can be derived.
    words: [u64; MAX_SACK_WORDS],
    len: u8,
}

impl Sack {
    /// No words.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            words: [0; MAX_SACK_WORDS],
            len: 0,
        }
    }

    /// A selective acknowledgement of these words, or `None` if there are more than [`MAX_SACK_WORDS`].
    #[must_use]
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let mut sack = Self::new();
        sack.words.get_mut(..words.len())?.copy_from_slice(words);
        sack.len = words.len() as u8;
        Some(sack)
    }

    /// Runs of packets that have arrived, each as the first and last distance from the cumulative acknowledgement. The
    /// runs are ascending and separated by gaps. The packet right after the acknowledged number has distance 1.
    pub fn runs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let end = 64 * u32::from(self.len);
        let bit = |i: u32| self.words[(i / 64) as usize] >> (i % 64) & 1 == 1;
        let mut at = 0;
        core::iter::from_fn(move || {
            let first = (at..end).find(|&i| bit(i))?;
            at = (first..end).find(|&i| !bit(i)).unwrap_or(end);
            Some((first + 1, at))
        })
    }
}

impl Deref for Sack {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.words[..usize::from(self.len)]
    }
}

impl fmt::Debug for Sack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for word in self.iter() {
            list.entry(&format_args!("{word:#018x}"));
        }
        list.finish()
    }
}

/// All contents of a header as plain data: for tests, tools and code where speed does not matter.
///
/// [`Packet`] and [`Builder`] read and write the same contents directly. Any value can be [emitted](Self::emit).
/// Whether the result is a packet depends on its contents too (an acknowledgement, for example, cannot carry match
/// bits). A value from [`parse`](Self::parse) always gives a packet.
///
/// ```
/// use hikyaku::wire::{Base, Credit, Header, Kind, Packet, Seq, Token};
///
/// let header = Header {
///     credit: Some(Credit { limit: 1 << 20, window: 1 << 16 }),
///     ..Header::new(Base {
///         kind: Kind::Ack,
///         channel: 0,
///         source: 7,
///         destination: 9,
///         session: Token { index: 3, secret: 0x0123_4567_89ab_cdef },
///         sequence: Seq(1),
///         acknowledgement: Seq(100),
///         rail: 0,
///         message: Seq(0),
///     })
/// };
/// let mut bytes = [0; 64];
/// let len = header.emit(0, &mut bytes);
/// assert_eq!(len, header.len());
/// assert_eq!(Header::parse(&Packet::new_checked(&bytes[..len])?), header);
/// # Ok::<(), hikyaku::wire::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The base header.
    pub base: Base,
    /// The flags that announce no extension (see [`Flags::MARKS`]). Other flags are ignored: they follow from the
    /// fields below.
    pub flags: Flags,
    /// Match bits of the message.
    pub match_bits: Option<u64>,
    /// Immediate data of the message.
    pub immediate: Option<u64>,
    /// The place of the fragment.
    pub fragment: Option<Fragment>,
    /// The placement.
    pub placement: Option<Placement>,
    /// Timestamp and echo.
    pub timestamp: Option<Timestamp>,
    /// Credit.
    pub credit: Option<Credit>,
    /// The checksum, unverified.
    pub checksum: Option<u32>,
    /// The opening of a session.
    pub open: Option<Open>,
    /// Selective acknowledgement; empty if there is none.
    pub sack: Sack,
    /// The seal, unverified.
    pub seal: Option<Seal>,
}

impl Header {
    /// A header without extensions.
    #[must_use]
    pub const fn new(base: Base) -> Self {
        Self {
            base,
            flags: Flags::empty(),
            match_bits: None,
            immediate: None,
            fragment: None,
            placement: None,
            timestamp: None,
            credit: None,
            checksum: None,
            open: None,
            sack: Sack::new(),
            seal: None,
        }
    }

    /// Reads the header of a packet.
    #[must_use]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        let mut sack = Sack::new();
        for (to, word) in sack.words.iter_mut().zip(packet.sack()) {
            *to = word;
            sack.len += 1;
        }
        Self {
            base: packet.base(),
            flags: packet.flags() & Flags::MARKS,
            match_bits: packet.match_bits(),
            immediate: packet.immediate(),
            fragment: packet.fragment(),
            placement: packet.placement(),
            timestamp: packet.timestamp(),
            credit: packet.credit(),
            checksum: packet.checksum(),
            open: packet.open(),
            sack,
            seal: packet.seal(),
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    pub fn len(&self) -> usize {
        let bytes = |present: bool, len: usize| if present { len } else { 0 };
        BASE_LEN
            + bytes(self.match_bits.is_some(), 8)
            + bytes(self.immediate.is_some(), 8)
            + bytes(self.fragment.is_some(), 8)
            + bytes(self.placement.is_some(), 16)
            + bytes(self.timestamp.is_some(), 8)
            + bytes(self.credit.is_some(), 8)
            + bytes(self.checksum.is_some(), 8)
            + bytes(self.open.is_some(), OPEN_LEN)
            + bytes(!self.sack.is_empty(), 8 + 8 * self.sack.len())
            + bytes(self.seal.is_some(), SEAL_LEN)
    }

    /// Writes the header for a payload of `payload_len` bytes at the start of `buffer` and returns the length of the
    /// header.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`len`](Self::len).
    pub fn emit(&self, payload_len: u16, buffer: &mut [u8]) -> usize {
        let mut builder = Builder::new(buffer, &self.base);
        builder.set(self.flags & Flags::MARKS);
        if let Some(bits) = self.match_bits {
            builder.match_bits(bits);
        }
        if let Some(data) = self.immediate {
            builder.immediate(data);
        }
        if let Some(fragment) = self.fragment {
            builder.fragment(fragment);
        }
        if let Some(placement) = self.placement {
            builder.placement(placement);
        }
        if let Some(timestamp) = self.timestamp {
            builder.timestamp(timestamp);
        }
        if let Some(credit) = self.credit {
            builder.credit(credit);
        }
        if self.checksum.is_some() {
            builder.checksum();
        }
        if let Some(open) = &self.open {
            builder.open(open);
        }
        if !self.sack.is_empty() {
            builder.sack(&self.sack);
        }
        if let Some(seal) = &self.seal {
            builder.seal(seal);
        }
        let checksum_at = builder.checksum_offset();
        let len = builder.finish(payload_len);
        if let (Some(at), Some(crc)) = (checksum_at, self.checksum) {
            buffer[at..at + 4].copy_from_slice(&crc.to_be_bytes());
        }
        len
    }
}

/// Largest number of runs of a selective acknowledgement that are printed.
const RUNS_SHOWN: usize = 8;

/// Prints one line, in the format of [`super::pretty`].
impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = &self.base;
        write!(f, "{} > ", base.source)?;
        match base.destination {
            ANY_PROCESSOR => f.write_str("*")?,
            number => write!(f, "{number}")?,
        }
        write!(
            f,
            " {} ch {} session {} seq {} ack {} msg {}",
            base.kind.name(),
            base.channel,
            base.session,
            base.sequence,
            base.acknowledgement,
            base.message
        )?;
        if base.rail != 0 {
            write!(f, " rail {}", base.rail)?;
        }
        for (flag, name) in [
            (Flags::BUNDLE, "bundle"),
            (Flags::ACK_REQUEST, "ack-request"),
            (Flags::NACK, "nack"),
            (Flags::KEY_PHASE, "key-phase"),
        ] {
            if self.flags.contains(flag) {
                write!(f, " {name}")?;
            }
        }
        if let Some(bits) = self.match_bits {
            write!(f, " match {bits:#018x}")?;
        }
        if let Some(data) = self.immediate {
            write!(f, " imm {data:#018x}")?;
        }
        if let Some(Fragment { offset, total }) = self.fragment {
            write!(f, " frag {offset}/{total}")?;
        }
        if let Some(Placement { region, offset }) = self.placement {
            write!(f, " region {region} at {offset}")?;
        }
        if let Some(Timestamp { value, echo }) = self.timestamp {
            write!(f, " time {value} echo {echo}")?;
        }
        if let Some(Credit { limit, window }) = self.credit {
            write!(f, " credit {limit} window {window}")?;
        }
        if let Some(crc) = self.checksum {
            write!(f, " crc {crc:#010x}")?;
        }
        if let Some(open) = &self.open {
            write!(
                f,
                " open {:#018x} token {} features {:#010x} credit {} window {} delay {} max {} port {}",
                open.epoch,
                open.token,
                open.features.bits(),
                open.credit.limit,
                open.credit.window,
                open.ack_delay,
                open.max_datagram,
                open.port
            )?;
        }
        if !self.sack.is_empty() {
            f.write_str(" sack")?;
            for (i, (first, last)) in self.sack.runs().enumerate() {
                f.write_str(if i == 0 { " " } else { "," })?;
                if i == RUNS_SHOWN {
                    f.write_str("..")?;
                    break;
                }
                write!(f, "{}", base.acknowledgement.plus(first))?;
                if first != last {
                    write!(f, "-{}", base.acknowledgement.plus(last))?;
                }
            }
        }
        if let Some(Seal { number, tag }) = self.seal {
            write!(f, " seal {number} tag {:032x}", u128::from_be_bytes(tag))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    fn runs(words: &[u64]) -> Vec<(u32, u32)> {
        Sack::from_words(words).unwrap().runs().collect()
    }

    #[test]
    fn runs_of_bits() {
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[0, 0]), []);
        assert_eq!(runs(&[0b1011]), [(1, 2), (4, 4)]);
        assert_eq!(runs(&[1 << 63, 1]), [(64, 65)]);
        assert_eq!(runs(&[!0; MAX_SACK_WORDS]), [(1, 1024)]);
    }

    #[test]
    fn more_words_than_fit() {
        assert_eq!(Sack::from_words(&[1; MAX_SACK_WORDS + 1]), None);
    }
}

//! Writing headers.

use zerocopy::IntoBytes;

use super::header::{
    BASE_LEN, Base, Credit, Flags, Fragment, MAX_SACK_WORDS, OPEN_LEN, Open, Placement, SEAL_LEN, Seal, Timestamp,
    VERSION,
};

/// Writes one header front to back into a buffer. The caller starts with the base, adds extensions in their fixed order
/// and calls [`finish`](Self::finish).
///
/// # Panics
/// If the buffer is shorter than the header ([`super::MAX_HEADER_LEN`] always suffices). If the caller adds an
/// extension out of order or twice, builds with debug assertions panic; other builds write bytes that are not a packet.
#[derive(Debug)]
pub struct Builder<'a> {
    buffer: &'a mut [u8],
    len: usize,
    base: Base,
    flags: Flags,
    checksum_at: Option<usize>,
}

impl<'a> Builder<'a> {
    /// Starts a header at the beginning of `buffer`.
    #[must_use]
    #[inline]
    pub fn new(buffer: &'a mut [u8], base: &Base) -> Self {
        Self {
            buffer,
            len: BASE_LEN,
            base: *base,
            flags: Flags::empty(),
            checksum_at: None,
        }
    }

    /// Sets flags that announce no extension: [`Flags::MARKS`].
    #[inline]
    pub fn set(&mut self, flags: Flags) -> &mut Self {
        debug_assert!(Flags::MARKS.contains(flags), "extension flags are set by their writers");
        self.flags |= flags;
        self
    }

    #[inline]
    fn put<const N: usize>(&mut self, flag: Flags, bytes: [u8; N]) {
        debug_assert!(
            (self.flags & Flags::EXTENSIONS).bits() < flag.bits(),
            "extensions out of order"
        );
        self.flags |= flag;
        self.buffer[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += N;
    }

    /// Adds the match bits of a message.
    #[inline]
    pub fn match_bits(&mut self, bits: u64) -> &mut Self {
        self.put(Flags::MATCH, bits.to_be_bytes());
        self
    }

    /// Adds immediate data of a message.
    #[inline]
    pub fn immediate(&mut self, data: u64) -> &mut Self {
        self.put(Flags::IMMEDIATE, data.to_be_bytes());
        self
    }

    /// Adds the place of a fragment.
    #[inline]
    pub fn fragment(&mut self, fragment: Fragment) -> &mut Self {
        self.put(Flags::FRAGMENT, pair(fragment.offset, fragment.total));
        self
    }

    /// Adds a placement.
    #[inline]
    pub fn placement(&mut self, placement: Placement) -> &mut Self {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&placement.region.to_be_bytes());
        bytes[8..].copy_from_slice(&placement.offset.to_be_bytes());
        self.put(Flags::PLACEMENT, bytes);
        self
    }

    /// Adds a timestamp.
    #[inline]
    pub fn timestamp(&mut self, timestamp: Timestamp) -> &mut Self {
        self.put(Flags::TIMESTAMP, pair(timestamp.value, timestamp.echo));
        self
    }

    /// Adds credit.
    #[inline]
    pub fn credit(&mut self, credit: Credit) -> &mut Self {
        self.put(Flags::CREDIT, pair(credit.limit, credit.window));
        self
    }

    /// Adds room for a checksum, filled with zeros for now (see [`super::checksum`]).
    #[inline]
    pub fn checksum(&mut self) -> &mut Self {
        self.checksum_at = Some(self.len);
        self.put(Flags::CHECKSUM, [0; 8]);
        self
    }

    /// Adds the opening of a session.
    pub fn open(&mut self, open: &Open) -> &mut Self {
        let mut bytes = [0; OPEN_LEN];
        bytes[..8].copy_from_slice(&open.epoch.to_be_bytes());
        bytes[8..16].copy_from_slice(&pair(open.token.index, open.features.bits()));
        bytes[16..24].copy_from_slice(&open.token.secret.to_be_bytes());
        bytes[24..32].copy_from_slice(&pair(open.credit.limit, open.credit.window));
        bytes[32..36].copy_from_slice(&open.ack_delay.to_be_bytes());
        bytes[36..38].copy_from_slice(&open.max_datagram.to_be_bytes());
        bytes[38..].copy_from_slice(&open.port.to_be_bytes());
        self.put(Flags::OPEN, bytes);
        self
    }

    /// Adds a selective acknowledgement of `words` (1 to [`MAX_SACK_WORDS`]): bit `i` of word `w` says that sequence
    /// number `acknowledgement + 1 + 64 w + i` has arrived. (`acknowledgement` itself has not arrived, by definition.)
    ///
    /// # Panics
    /// If there are no words, or too many.
    pub fn sack(&mut self, words: &[u64]) -> &mut Self {
        assert!(
            (1..=MAX_SACK_WORDS).contains(&words.len()),
            "a bitmap has 1 to {MAX_SACK_WORDS} words"
        );
        self.put(Flags::SACK, [words.len() as u8, 0, 0, 0, 0, 0, 0, 0]);
        for word in words {
            self.buffer[self.len..self.len + 8].copy_from_slice(&word.to_be_bytes());
            self.len += 8;
        }
        self
    }

    /// Adds a seal. The caller can compute the tag only when the header is finished;
    /// [`seal_offset`](super::Packet::seal_offset) of the finished packet gives the offset of the seal.
    pub fn seal(&mut self, seal: &Seal) -> &mut Self {
        let mut bytes = [0; SEAL_LEN];
        bytes[..8].copy_from_slice(&seal.number.to_be_bytes());
        bytes[8..].copy_from_slice(&seal.tag);
        self.put(Flags::SEAL, bytes);
        self
    }

    /// Bytes written so far, including the base.
    #[must_use]
    #[inline]
    pub fn header_len(&self) -> usize {
        self.len
    }

    /// Offset of the checksum field, if there is one.
    #[must_use]
    #[inline]
    pub fn checksum_offset(&self) -> Option<usize> {
        self.checksum_at
    }

    /// Writes the base for a payload of `payload_len` bytes and returns the length of the header.
    ///
    /// # Panics
    /// If the buffer is shorter than a base header.
    #[inline]
    pub fn finish(self, payload_len: u16) -> usize {
        let words = words(&self.base, self.flags, payload_len);
        self.buffer[..BASE_LEN].copy_from_slice(words.map(u64::to_be).as_bytes());
        self.len
    }
}

/// The base header, as five numbers.
#[inline(always)]
pub(super) fn words(base: &Base, flags: Flags, payload_len: u16) -> [u64; BASE_LEN / 8] {
    let first = u16::from_be_bytes([VERSION << 4 | base.kind as u8, base.channel]);
    [
        u64::from(first) << 48 | u64::from(flags.bits()) << 32 | u64::from(base.source),
        u64::from(base.destination) << 32 | u64::from(base.session.index),
        base.session.secret,
        u64::from(base.sequence.0) << 32 | u64::from(base.acknowledgement.0),
        u64::from(payload_len) << 48 | u64::from(base.rail) << 40 | u64::from(base.message.0),
    ]
}

#[inline]
pub(super) fn pair(a: u32, b: u32) -> [u8; 8] {
    (u64::from(a) << 32 | u64::from(b)).to_be_bytes()
}

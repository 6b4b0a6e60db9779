//! Reading packets: a checked view over received bytes.

use zerocopy::FromBytes;

use super::{
    Seq,
    error::Error,
    header::{
        BASE_LEN, Base, Credit, Features, Flags, Fragment, Kind, MAX_SACK_WORDS, OPEN_LEN, Open, Placement, RawBase,
        SEAL_LEN, Seal, Timestamp, Token, VERSION,
    },
    record::Records,
};

/// Total length of the extensions for every set of the flag bits 0 to 7. For the set of the bits below bit `n` it is
/// the offset of the extension of bit `n` from the end of the base header.
const OFFSETS: [u8; 256] = {
    const SIZES: [u8; 8] = [8, 8, 8, 16, 8, 8, 8, OPEN_LEN as u8];
    let mut table = [0u8; 256];
    let mut set = 0;
    while set < 256 {
        let mut bit = 0;
        while bit < 8 {
            if set >> bit & 1 == 1 {
                table[set] += SIZES[bit];
            }
            bit += 1;
        }
        set += 1;
    }
    table
};

/// Flags of the extensions whose offset depends on more than the flags.
const VARIABLE: Flags = Flags::SACK.union(Flags::SEAL);

/// Flags for which a data packet needs more checks than those of its lengths.
const PARTICULAR: Flags = Flags::PLACEMENT
    .union(Flags::CHECKSUM)
    .union(Flags::BUNDLE)
    .union(Flags::KEY_PHASE);

/// The parts that can be read of a packet of which only the beginning is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// The base header.
    pub base: Base,
    /// The opening, if the flags announce one and all of it is present.
    pub open: Option<Open>,
}

/// The properties of a header whose lengths are right.
struct Checked {
    kind: Kind,
    flags: Flags,
    header: usize,
    payload_len: usize,
}

/// A view of one datagram as a packet.
///
/// After [`new_checked`](Packet::new_checked) no accessor panics, whatever the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks that `buffer` holds exactly one packet of this version.
    ///
    /// It does not verify the checksum, if there is one: [`super::checksum::verify`] does that.
    ///
    /// # Errors
    /// The first fault found; the caller must not use anything of the datagram then.
    #[inline(always)]
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let packet = Self { buffer };
        packet.check()?;
        Ok(packet)
    }

    /// Reads the header at the beginning of a truncated datagram, as far as it is present; an ICMP message quotes such
    /// a beginning. `None`: the bytes are too short for a base header, or it is not a base header of this version.
    #[must_use]
    pub fn quoted(buffer: T) -> Option<Quoted> {
        let have = buffer.as_ref().len();
        if have < BASE_LEN {
            return None;
        }
        let packet = Self { buffer };
        let raw = packet.raw();
        Kind::from_bits(raw.version_kind & 0xf).filter(|_| raw.version_kind >> 4 == VERSION)?;
        Some(Quoted {
            base: packet.base(),
            open: if have < packet.fixed_len() { None } else { packet.open() },
        })
    }

    #[inline(always)]
    fn check(&self) -> Result<(), Error> {
        let len = self.buffer.as_ref().len();
        let Checked {
            kind,
            flags,
            payload_len,
            ..
        } = self.check_header(len)?;
        if kind == Kind::Data && !flags.intersects(PARTICULAR) {
            return self.check_fragment(flags, payload_len);
        }
        self.check_meaning(kind, flags, payload_len)?;
        // Sealed records can be checked only after decryption.
        if flags.contains(Flags::BUNDLE) && !flags.contains(Flags::SEAL) {
            return Records::check(self.payload());
        }
        Ok(())
    }

    /// Makes the checks that do not depend on the kind of packet. The packet has `len` bytes and begins with the bytes
    /// in the buffer.
    #[inline(always)]
    fn check_header(&self, len: usize) -> Result<Checked, Error> {
        let bytes = self.buffer.as_ref();
        let have = bytes.len();
        if have < BASE_LEN {
            return Err(Error::Truncated { need: BASE_LEN, have });
        }
        let raw = self.raw();
        if raw.version_kind >> 4 != VERSION {
            return Err(Error::Version(raw.version_kind >> 4));
        }
        let Some(kind) = Kind::from_bits(raw.version_kind & 0xf) else {
            return Err(Error::Kind(raw.version_kind & 0xf));
        };
        let bits = raw.flags.get();
        let Some(flags) = Flags::from_bits(bits) else {
            return Err(Error::Flags(bits & !Flags::all().bits()));
        };
        let payload_len = usize::from(raw.payload_len.get());
        let fixed = BASE_LEN + usize::from(OFFSETS[usize::from(bits & 0xff)]);
        if have < fixed {
            return Err(Error::Truncated { need: fixed, have });
        }
        if raw.reserved != 0 {
            return Err(Error::Reserved);
        }
        let header = if flags.intersects(VARIABLE) {
            self.check_variable(bytes, flags, fixed)?
        } else {
            fixed
        };
        let need = header + payload_len;
        if len < need {
            return Err(Error::Truncated { need, have: len });
        }
        if len > need {
            return Err(Error::Trailing { excess: len - need });
        }
        Ok(Checked {
            kind,
            flags,
            header,
            payload_len,
        })
    }

    /// Checks the extensions in [`VARIABLE`] and returns the length of the header. The extensions before them, whose
    /// offsets follow from the flags, end at `at`.
    #[cold]
    fn check_variable(&self, bytes: &[u8], flags: Flags, at: usize) -> Result<usize, Error> {
        let at = if flags.contains(Flags::SACK) {
            self.check_sack(bytes, at)?
        } else {
            at
        };
        Ok(if flags.contains(Flags::SEAL) { at + SEAL_LEN } else { at })
    }

    fn check_sack(&self, bytes: &[u8], at: usize) -> Result<usize, Error> {
        let have = bytes.len();
        if have < at + 8 {
            return Err(Error::Truncated { need: at + 8, have });
        }
        let words = bytes[at];
        if words == 0 || usize::from(words) > MAX_SACK_WORDS {
            return Err(Error::SackWords(words));
        }
        if bytes[at + 1..at + 8] != [0; 7] {
            return Err(Error::Reserved);
        }
        Ok(at + 8 + 8 * usize::from(words))
    }

    fn check_meaning(&self, kind: Kind, flags: Flags, payload_len: usize) -> Result<(), Error> {
        const OF_DATA: Flags = Flags::MATCH
            .union(Flags::IMMEDIATE)
            .union(Flags::FRAGMENT)
            .union(Flags::PLACEMENT)
            .union(Flags::BUNDLE);
        if kind != Kind::Data {
            let foreign = if kind == Kind::Return {
                OF_DATA.difference(Flags::IMMEDIATE)
            } else {
                OF_DATA
            };
            if flags.intersects(foreign) || (payload_len > 0 && kind != Kind::Probe) {
                return Err(Error::Unexpected);
            }
        } else {
            self.check_data(flags, payload_len)?;
        }
        if flags.intersects(Flags::KEY_PHASE.union(Flags::CHECKSUM)) {
            return self.check_rare(flags);
        }
        Ok(())
    }

    #[inline(never)]
    fn check_rare(&self, flags: Flags) -> Result<(), Error> {
        if flags.contains(Flags::KEY_PHASE) && !flags.contains(Flags::SEAL) {
            return Err(Error::Unexpected);
        }
        if flags.contains(Flags::CHECKSUM) && self.field::<8>(Flags::CHECKSUM)[4..] != [0; 4] {
            return Err(Error::Reserved);
        }
        Ok(())
    }

    #[inline(always)]
    fn check_fragment(&self, flags: Flags, payload_len: usize) -> Result<(), Error> {
        if let Some(fragment) = self.fragment() {
            let end = u64::from(fragment.offset) + payload_len as u64;
            if end > u64::from(fragment.total) || payload_len == 0 || flags.contains(Flags::BUNDLE) {
                return Err(Error::Fragment);
            }
        }
        Ok(())
    }

    fn check_data(&self, flags: Flags, payload_len: usize) -> Result<(), Error> {
        self.check_fragment(flags, payload_len)?;
        if flags.contains(Flags::PLACEMENT) && self.field::<16>(Flags::PLACEMENT)[4..8] != [0; 4] {
            return Err(Error::Reserved);
        }
        let alone = Flags::MATCH.union(Flags::IMMEDIATE).union(Flags::PLACEMENT);
        if flags.contains(Flags::BUNDLE) && flags.intersects(alone) {
            return Err(Error::Unexpected);
        }
        Ok(())
    }

    #[inline]
    fn raw(&self) -> &RawBase {
        match RawBase::ref_from_prefix(self.buffer.as_ref()) {
            Ok((raw, _)) => raw,
            Err(_) => unreachable!("length was checked"),
        }
    }

    /// The bytes of extension `flag`, which must be present.
    #[inline]
    fn field<const N: usize>(&self, flag: Flags) -> [u8; N] {
        let at = self.offset_of(flag);
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.buffer.as_ref()[at..at + N]);
        bytes
    }

    #[inline]
    fn offset_of(&self, flag: Flags) -> usize {
        let lower = self.raw().flags.get() & (flag.bits() - 1) & 0xff;
        BASE_LEN + usize::from(OFFSETS[usize::from(lower)])
    }

    #[inline(always)]
    fn pair(&self, flag: Flags) -> Option<(u32, u32)> {
        if !self.flags().contains(flag) {
            return None;
        }
        let both = u64::from_be_bytes(self.field(flag));
        Some(((both >> 32) as u32, both as u32))
    }

    /// The packet has this number, and is else of the kind, flow and session of `before`, with the same acknowledgement.
    #[must_use]
    #[inline]
    pub(crate) fn goes_on(&self, before: &Packet<&[u8]>, sequence: Seq) -> bool {
        let (raw, other) = (self.raw(), before.raw());
        [raw.version_kind, raw.channel] == [other.version_kind, other.channel]
            && raw.session_index == other.session_index
            && raw.session_secret == other.session_secret
            && raw.sequence.get() == sequence.0
            && raw.acknowledgement == other.acknowledgement
            && raw.rail == other.rail
    }

    /// The values of the base header.
    #[must_use]
    #[inline]
    pub fn base(&self) -> Base {
        let raw = self.raw();
        Base {
            kind: self.kind(),
            channel: raw.channel,
            source: raw.source.get(),
            destination: raw.destination.get(),
            session: self.session(),
            sequence: Seq(raw.sequence.get()),
            acknowledgement: Seq(raw.acknowledgement.get()),
            rail: raw.rail,
            message: Seq(raw.message.get()),
        }
    }

    /// The purpose of the packet.
    #[must_use]
    #[inline]
    pub fn kind(&self) -> Kind {
        Kind::from_bits(self.raw().version_kind & 0xf).unwrap_or(Kind::Ack)
    }

    /// The session token.
    #[must_use]
    #[inline]
    pub fn session(&self) -> Token {
        let raw = self.raw();
        Token {
            index: raw.session_index.get(),
            secret: raw.session_secret.get(),
        }
    }

    /// The flags.
    #[must_use]
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags::from_bits_retain(self.raw().flags.get())
    }

    /// Match bits of the message.
    #[must_use]
    #[inline]
    pub fn match_bits(&self) -> Option<u64> {
        self.flags()
            .contains(Flags::MATCH)
            .then(|| u64::from_be_bytes(self.field(Flags::MATCH)))
    }

    /// Immediate data of the message.
    #[must_use]
    #[inline]
    pub fn immediate(&self) -> Option<u64> {
        self.flags()
            .contains(Flags::IMMEDIATE)
            .then(|| u64::from_be_bytes(self.field(Flags::IMMEDIATE)))
    }

    /// The place of the fragment.
    #[must_use]
    #[inline]
    pub fn fragment(&self) -> Option<Fragment> {
        self.pair(Flags::FRAGMENT)
            .map(|(offset, total)| Fragment { offset, total })
    }

    /// The placement.
    #[must_use]
    #[inline]
    pub fn placement(&self) -> Option<Placement> {
        self.flags().contains(Flags::PLACEMENT).then(|| {
            let both = u128::from_be_bytes(self.field(Flags::PLACEMENT));
            Placement {
                region: (both >> 96) as u32,
                offset: both as u64,
            }
        })
    }

    /// Timestamp and echo.
    #[must_use]
    #[inline]
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.pair(Flags::TIMESTAMP)
            .map(|(value, echo)| Timestamp { value, echo })
    }

    /// Credit.
    #[must_use]
    #[inline]
    pub fn credit(&self) -> Option<Credit> {
        self.pair(Flags::CREDIT).map(|(limit, window)| Credit { limit, window })
    }

    /// The value of the checksum field, unverified.
    #[must_use]
    #[inline]
    pub fn checksum(&self) -> Option<u32> {
        self.pair(Flags::CHECKSUM).map(|(crc, _)| crc)
    }

    /// Offset of the checksum field in the packet.
    #[must_use]
    #[inline]
    pub fn checksum_offset(&self) -> Option<usize> {
        self.flags()
            .contains(Flags::CHECKSUM)
            .then(|| self.offset_of(Flags::CHECKSUM))
    }

    /// The opening of a session.
    #[must_use]
    pub fn open(&self) -> Option<Open> {
        if !self.flags().contains(Flags::OPEN) {
            return None;
        }
        let bytes: [u8; OPEN_LEN] = self.field(Flags::OPEN);
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let double = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        Some(Open {
            epoch: double(0),
            token: Token {
                index: word(8),
                secret: double(16),
            },
            features: Features::from_bits_retain(word(12)),
            credit: Credit {
                limit: word(24),
                window: word(28),
            },
            ack_delay: word(32),
            max_datagram: half(36),
            port: half(38),
        })
    }

    /// The words of the selective acknowledgement (see [`super::Builder::sack`]); empty if there is none.
    #[inline]
    pub fn sack(&self) -> impl Iterator<Item = u64> + '_ {
        let bytes = self.buffer.as_ref();
        let (start, end) = if self.flags().contains(Flags::SACK) {
            let at = self.fixed_len();
            (at + 8, at + 8 + 8 * usize::from(bytes[at]))
        } else {
            (0, 0)
        };
        bytes[start..end].chunks_exact(8).map(|word| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            u64::from_be_bytes(bytes)
        })
    }

    /// The seal.
    #[must_use]
    pub fn seal(&self) -> Option<Seal> {
        let at = self.seal_offset()?;
        let (number, rest) = self.buffer.as_ref()[at..].split_first_chunk()?;
        Some(Seal {
            number: u64::from_be_bytes(*number),
            tag: *rest.first_chunk()?,
        })
    }

    /// Offset of the seal in the packet. The seal is the last extension; its tag begins 8 bytes later.
    #[must_use]
    pub fn seal_offset(&self) -> Option<usize> {
        self.flags().contains(Flags::SEAL).then(|| self.header_len() - SEAL_LEN)
    }

    #[inline]
    fn fixed_len(&self) -> usize {
        BASE_LEN + usize::from(OFFSETS[usize::from(self.raw().flags.get() & 0xff)])
    }

    /// Bytes before the payload.
    #[must_use]
    #[inline]
    pub fn header_len(&self) -> usize {
        self.buffer.as_ref().len() - usize::from(self.raw().payload_len.get())
    }

    /// The payload.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[self.header_len()..]
    }

    /// The records of a bundle; empty for a sealed bundle, because it has not been decrypted.
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        let flags = self.flags();
        Records::new(if flags.contains(Flags::BUNDLE) && !flags.contains(Flags::SEAL) {
            self.payload()
        } else {
            &[]
        })
    }
}

impl<'a> Packet<&'a [u8]> {
    /// The payload, with the lifetime of the underlying bytes.
    #[must_use]
    #[inline]
    pub fn into_payload(self) -> &'a [u8] {
        &self.buffer[self.header_len()..]
    }

    /// The header alone.
    #[must_use]
    #[inline(always)]
    pub fn head(self) -> Head<'a> {
        Head { packet: self }
    }
}

/// A view of the header of a data packet whose payload is elsewhere, in memory that no slice may refer to: for example
/// memory that another process may be writing.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The payload of this packet may be missing.
    packet: Packet<&'a [u8]>,
}

impl<'a> Head<'a> {
    /// The header of a packet of `len` bytes that begins with `beginning`, and the length of that header. If this
    /// returns a header, the header followed by any payload of the right length is a packet by [`Packet::new_checked`],
    /// except that the caller must still check the records of a bundle.
    ///
    /// `None`: it is not a valid data packet, or it is sealed, or its header may extend beyond `beginning`. The caller
    /// then needs the whole packet to decide.
    #[must_use]
    #[inline(always)]
    pub fn of_data(beginning: &'a [u8], len: usize) -> Option<(Self, usize)> {
        let packet = Packet { buffer: beginning };
        let checked = packet.check_header(len).ok()?;
        let Checked {
            kind,
            flags,
            header,
            payload_len,
        } = checked;
        if kind != Kind::Data || flags.contains(Flags::SEAL) || header > beginning.len() {
            return None;
        }
        if flags.intersects(PARTICULAR) {
            packet.check_meaning(kind, flags, payload_len).ok()?;
        }
        Some((Self { packet }, header))
    }

    /// See [`Packet::base`].
    #[must_use]
    #[inline]
    pub fn base(&self) -> Base {
        self.packet.base()
    }

    /// See [`Packet::flags`].
    #[must_use]
    #[inline]
    pub fn flags(&self) -> Flags {
        self.packet.flags()
    }

    /// See [`Packet::match_bits`].
    #[must_use]
    #[inline]
    pub fn match_bits(&self) -> Option<u64> {
        self.packet.match_bits()
    }

    /// See [`Packet::immediate`].
    #[must_use]
    #[inline]
    pub fn immediate(&self) -> Option<u64> {
        self.packet.immediate()
    }

    /// See [`Packet::fragment`].
    #[must_use]
    #[inline]
    pub fn fragment(&self) -> Option<Fragment> {
        self.packet.fragment()
    }

    /// See [`Packet::placement`].
    #[must_use]
    #[inline]
    pub fn placement(&self) -> Option<Placement> {
        self.packet.placement()
    }
}

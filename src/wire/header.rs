//! The values that a header carries.

use bitflags::bitflags;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::network_endian::{U16, U32, U64},
};

use super::Seq;

/// Version of the wire format that this code speaks.
pub const VERSION: u8 = 2;
/// Bytes of the base header. Every packet begins with it.
pub const BASE_LEN: usize = 40;
/// Bytes of the longest header: the base and every extension, with the largest selective acknowledgement.
pub const MAX_HEADER_LEN: usize = BASE_LEN + 8 + 8 + 8 + 16 + 8 + 8 + 8 + OPEN_LEN + 8 + 8 * MAX_SACK_WORDS + SEAL_LEN;
/// Bytes of an [`Open`] in a header.
pub(crate) const OPEN_LEN: usize = 40;
/// Bytes of a checksum in a header.
pub(crate) const CHECKSUM_LEN: usize = 8;
/// Bytes of a [`Seal`] in a header.
pub(crate) const SEAL_LEN: usize = 24;
/// Largest number of 64-bit words in a selective-acknowledgement bitmap: it covers this × 64 packets.
pub const MAX_SACK_WORDS: usize = 16;
/// Destination processor "any processor that listens at this address": for a sender that knows an address but no
/// processor number yet.
pub const ANY_PROCESSOR: u32 = 0xffff_ffff;

/// The purpose of a packet. Only [`Kind::Data`], [`Kind::Goodbye`] and [`Kind::Return`] use up a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Payload: a message, a fragment of one, or a bundle of several.
    Data = 0,
    /// An acknowledgement alone; `sequence` is the next number that its sender will use.
    Ack = 1,
    /// The sender of the reset does not know a session, or refuses one:
    ///
    /// - `message` 0: it does not know the session. The reset carries the token of the packet that it answers.
    /// - `message` 1: it refuses an opening. The session is the token in that opening; `sequence` holds the
    ///   [`Features`] that it refuses, or 0 if that session is over.
    /// - `message` 2: it refuses an opening, as with 1, because it has no room.
    Reset = 2,
    /// The last packet of a session: its sender sends nothing more.
    Goodbye = 3,
    /// Path MTU probe (RFC 8899): the payload is padding, and `message` is the number of the probe.
    Probe = 4,
    /// Answer to a probe: `message` is the number of the probe.
    ProbeAck = 5,
    /// The addressed processor does not exist at this endpoint. `source` is the processor that was addressed and
    /// `destination` the processor that sent. The receiver of the return gives up the message numbered `message` and as
    /// many messages after it as the immediate data says (none without immediate data).
    Return = 6,
    /// Asks the opener to repeat its opening with the token in the opening of this packet, which proves that the opener
    /// receives at its source address. The sender of a challenge keeps no state until the opener answers.
    Challenge = 7,
    /// Asks the receiver to declare void every number of this flow before `sequence` that has not arrived. `message` is
    /// the number of the request. Only where [`Features::SETTLE`] is agreed.
    Settle = 8,
    /// Answer to a [`Settle`](Self::Settle): `message` is the number of the request; the acknowledgement tells which
    /// packets had arrived before.
    Settled = 9,
}

impl Kind {
    pub(crate) const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Data,
            1 => Self::Ack,
            2 => Self::Reset,
            3 => Self::Goodbye,
            4 => Self::Probe,
            5 => Self::ProbeAck,
            6 => Self::Return,
            7 => Self::Challenge,
            8 => Self::Settle,
            9 => Self::Settled,
            _ => return None,
        })
    }

    /// Whether packets of this kind take a sequence number, are acknowledged and are retransmitted when lost.
    #[must_use]
    pub const fn is_sequenced(self) -> bool {
        matches!(self, Self::Data | Self::Goodbye | Self::Return)
    }

    /// A short lower-case name, as [`super::pretty`] prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Ack => "ack",
            Self::Reset => "reset",
            Self::Goodbye => "goodbye",
            Self::Probe => "probe",
            Self::ProbeAck => "probe-ack",
            Self::Return => "return",
            Self::Challenge => "challenge",
            Self::Settle => "settle",
            Self::Settled => "settled",
        }
    }
}

bitflags! {
    /// The flags field. The low ten bits tell which extensions follow the base header, in the order of the bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Flags: u16 {
        /// Match bits of the message (8 bytes).
        const MATCH = 1 << 0;
        /// Immediate data of the message (8 bytes).
        const IMMEDIATE = 1 << 1;
        /// [`Fragment`] (8 bytes).
        const FRAGMENT = 1 << 2;
        /// [`Placement`] (16 bytes).
        const PLACEMENT = 1 << 3;
        /// [`Timestamp`] (8 bytes).
        const TIMESTAMP = 1 << 4;
        /// [`Credit`] (8 bytes).
        const CREDIT = 1 << 5;
        /// CRC-32C of the whole datagram (8 bytes, the last 4 are zero).
        const CHECKSUM = 1 << 6;
        /// [`Open`] (40 bytes).
        const OPEN = 1 << 7;
        /// Selective acknowledgement: a bitmap (8 + 8 × words bytes).
        const SACK = 1 << 8;
        /// [`Seal`] (24 bytes): the payload is encrypted, and everything before the tag is authenticated. Only where
        /// [`Features::SEALED`] is agreed.
        const SEAL = 1 << 9;
        /// The payload is a sequence of records, each a whole message.
        const BUNDLE = 1 << 10;
        /// The receiver should acknowledge at once: the sender waits for the acknowledgement.
        const ACK_REQUEST = 1 << 11;
        /// Negative acknowledgement: the sender requests the packets that the acknowledgement fields show as missing,
        /// at once.
        const NACK = 1 << 12;
        /// Which of two alternating keys sealed this packet. Only together with [`SEAL`](Self::SEAL).
        const KEY_PHASE = 1 << 13;
    }
}

impl Flags {
    /// The flags that announce an extension.
    pub const EXTENSIONS: Self = Self::from_bits_retain(0x3ff);
    /// The flags that announce no extension: [`BUNDLE`](Self::BUNDLE), [`ACK_REQUEST`](Self::ACK_REQUEST),
    /// [`NACK`](Self::NACK) and [`KEY_PHASE`](Self::KEY_PHASE).
    pub const MARKS: Self = Self::all().difference(Self::EXTENSIONS);
}

/// Base header as laid out on the wire.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawBase {
    pub(crate) version_kind: u8,
    pub(crate) channel: u8,
    pub(crate) flags: U16,
    pub(crate) source: U32,
    pub(crate) destination: U32,
    pub(crate) session_index: U32,
    pub(crate) session_secret: U64,
    pub(crate) sequence: U32,
    pub(crate) acknowledgement: U32,
    pub(crate) payload_len: U16,
    pub(crate) rail: u8,
    pub(crate) reserved: u8,
    pub(crate) message: U32,
}

const _: () = assert!(size_of::<RawBase>() == BASE_LEN && align_of::<RawBase>() == 1);

/// Names a session to the endpoint that issued the token. A sender that presents the token proves that it received the
/// token from that endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token {
    /// Index in a table of the endpoint that issued the token, from 1. 0: no session yet. [`Token::COOKIE`]: no session
    /// yet, and the packet answers a challenge.
    pub index: u32,
    /// 64 bits that cannot be guessed. With index 0 it is the secret that the processes of one job share, or 0.
    pub secret: u64,
}

impl Token {
    /// No token: index and secret are 0.
    pub const NONE: Self = Self { index: 0, secret: 0 };
    /// Index of a token that came with a [`Kind::Challenge`]: the opener repeats the secret of that challenge.
    pub const COOKIE: u32 = 0xffff_ffff;

    /// Whether the sender of a packet with this token has not received a session token yet.
    #[must_use]
    #[inline]
    pub const fn is_first(self) -> bool {
        self.index == 0
    }
}

/// Index and secret, as `7:0123456789abcdef`.
impl core::fmt::Display for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}:{:016x}", self.index, self.secret)
    }
}

/// Like [`Display`](core::fmt::Display).
impl core::fmt::Debug for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

/// The values of the base header, without the flags and the payload length: the rest of the packet determines those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// The purpose of the packet.
    pub kind: Kind,
    /// Channel: the flow within the session. 0 carries control and small messages.
    pub channel: u8,
    /// Processor that sends the packet.
    pub source: u32,
    /// Processor that the packet is addressed to, or [`ANY_PROCESSOR`].
    pub destination: u32,
    /// The token that the *receiver* of this packet issued; its index is 0 until the sender has received that token.
    pub session: Token,
    /// Sequence number in the flow.
    pub sequence: Seq,
    /// Cumulative acknowledgement: the next sequence number that the sender expects from the other side.
    pub acknowledgement: Seq,
    /// The rail of the flow (session, rail, channel) that the numbers belong to; the packet itself may take any path. 0
    /// unless [`Features::RAILS`] is agreed.
    pub rail: u8,
    /// Message number within the ordered pair (source, destination); for a bundle, the number of its first record.
    pub message: Seq,
}

/// The place of a fragment in its message: every fragment carries its own place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset of the payload in the message, bytes.
    pub offset: u32,
    /// Length of the whole message, bytes.
    pub total: u32,
}

/// The place of the payload in memory that the receiver has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The region that the receiver granted.
    pub region: u32,
    /// Offset in the region, bytes.
    pub offset: u64,
}

/// Timestamp and its echo, in units of 1 ns modulo 2^32 (it wraps every 4.29 s).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// The sender's clock when it sent this packet; 0 means none.
    pub value: u32,
    /// The latest value received, plus the time since then. The clock of this packet's receiver minus `echo` is thus
    /// the round-trip time without the acknowledgement delay. 0 means none.
    pub echo: u32,
}

/// How much the sender of this packet is ready to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// How much the peer may send in total in this session, on all channels, modulo 2^32 (as MAX_DATA in RFC 9000). A
    /// message counts as its bytes plus 64. Messages count in the order in which they were queued.
    pub limit: u32,
    /// Bytes that may be in flight on this flow at once: as many as the socket buffer can hold.
    pub window: u32,
}

bitflags! {
    /// Features that a side announces in its opening, beyond version 2. The bits of the upper half are
    /// [`REQUIRED`](Self::REQUIRED).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Features: u32 {
        /// Every packet of the session carries a checksum, in both directions. In use if either side announces it:
        /// every implementation supports checksums.
        const CHECKSUM = 1 << 0;
        /// A sender can settle the numbers of a flow: [`Kind::Settle`]. In use if both sides announce it.
        const SETTLE = 1 << 1;
        /// The session has flows on several rails. In use if both sides announce it.
        const RAILS = 1 << 2;
        /// Every packet but resets and challenges is sealed ([`Flags::SEAL`]). Required. An endpoint with a
        /// [sealer](crate::reliability::Endpoint::with_sealer) announces it.
        const SEALED = 1 << 16;
    }
}

/// As its bits.
#[cfg(feature = "serde")]
impl serde::Serialize for Features {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.bits().serialize(serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Features {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u32::deserialize(deserializer).map(Self::from_bits_retain)
    }
}

impl Features {
    /// Features that the other side must know: a side that does not know one refuses the session. A side ignores other
    /// features that it does not know.
    pub const REQUIRED: Self = Self::from_bits_retain(0xffff_0000);

    /// The features that this release supports. (The other named features are not in use yet.)
    pub const SUPPORTED: Self = Self::CHECKSUM.union(Self::SETTLE);

    /// The features in this set that this side does not support.
    #[must_use]
    pub const fn unknown(self) -> Self {
        self.difference(Self::SUPPORTED)
    }

    /// The features in this set for which this side must refuse the session: required and not supported.
    #[must_use]
    pub const fn refused(self) -> Self {
        Self::from_bits_retain(self.unknown().bits() & Self::REQUIRED.bits())
    }
}

/// Opens a session. A sender includes it until the other side uses the sender's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Random number of this incarnation of the sender.
    pub epoch: u64,
    /// Token that the other side puts into `session` from now on.
    pub token: Token,
    /// The features that the sender wants or supports beyond version 2.
    pub features: Features,
    /// Initial [`Credit`]: the limit of the session and the window of each flow.
    pub credit: Credit,
    /// Longest time that the sender delays an acknowledgement, ns.
    pub ack_delay: u32,
    /// Largest datagram that the sender can receive, bytes of UDP payload.
    pub max_datagram: u16,
    /// UDP port for answers if it differs from the packet's source port, else 0.
    pub port: u16,
}

/// Encryption and authentication of one packet (an AEAD as in RFC 5116). The additional data are all bytes of the
/// packet before the tag; the payload is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Number of this transmission. It never occurs twice under one key; a retransmitted packet gets a new one. The
    /// nonce is derived from it, and a receiver recognises replays by it.
    pub number: u64,
    /// The authentication tag.
    pub tag: [u8; 16],
}

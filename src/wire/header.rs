//! The values that a header carries.

use bitflags::bitflags;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::network_endian::{U16, U32, U64},
};

use super::Seq;

/// Version of the wire format that this code speaks.
pub const VERSION: u8 = 2;
/// Bytes of the base header, which every packet begins with.
pub const BASE_LEN: usize = 40;
/// Octets of the longest header: the base and every extension, the largest selective acknowledgement included.
pub const MAX_HEADER_LEN: usize = BASE_LEN + 8 + 8 + 8 + 16 + 8 + 8 + 8 + OPEN_LEN + 8 + 8 * MAX_SACK_WORDS + SEAL_LEN;
/// Bytes of an [`Open`] in a header.
pub(crate) const OPEN_LEN: usize = 40;
/// Bytes of a checksum in a header.
pub(crate) const CHECKSUM_LEN: usize = 8;
/// Bytes of a [`Seal`] in a header.
pub(super) const SEAL_LEN: usize = 24;
/// Most 64-bit words of a selective-acknowledgement bitmap: it covers this × 64 packets.
pub const MAX_SACK_WORDS: usize = 16;
/// Destination processor "whoever listens here", for who knows an address and no number yet.
pub const ANY_PROCESSOR: u32 = 0xffff_ffff;

/// What a packet is for. Only [`Kind::Data`], [`Kind::Goodbye`] and [`Kind::Return`] use up a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Payload: a message, a fragment of one, or a bundle of several.
    Data = 0,
    /// An acknowledgement alone; `sequence` is the next number its sender will use.
    Ack = 1,
    /// `message` 0: "I do not know this session", which is the token of the packet that caused it, given back. `message`
    /// 1: "I refuse this opening", whose own token is the session; `sequence` says which [`Features`] are in the way, 0 if
    /// that session is over. `message` 2: the same, for want of room.
    Reset = 2,
    /// The last packet of a session: its sender will send nothing more.
    Goodbye = 3,
    /// Path MTU probe (RFC 8899): the payload is padding, `message` numbers the probe.
    Probe = 4,
    /// Answer to a probe: `message` is its number.
    ProbeAck = 5,
    /// "There is no such processor here": from `source`, which was meant, to `destination`, which has sent. The message
    /// numbered `message` is given up, and so many after it as the immediate data says (none without it).
    Return = 6,
    /// "Say your opening again, with the token of this one: then I believe that you live there." Until it is answered its
    /// sender keeps nothing.
    Challenge = 7,
    /// "Of this flow, what is before `sequence` and has not come shall not come any more." `message` numbers the
    /// request. Only where [`Features::SETTLE`] is agreed.
    Settle = 8,
    /// Answer to a [`Settle`](Self::Settle): `message` is its number, the acknowledgement says what had come before.
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

    /// Takes a sequence number, is acknowledged and sent again when lost.
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
    /// The flags field. The low ten bits say which extensions follow the base header, in the order of the bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Flags: u16 {
        /// Match bits of the message (8 octets).
        const MATCH = 1 << 0;
        /// Immediate data of the message (8 octets).
        const IMMEDIATE = 1 << 1;
        /// [`Fragment`] (8 octets).
        const FRAGMENT = 1 << 2;
        /// [`Placement`] (16 octets).
        const PLACEMENT = 1 << 3;
        /// [`Timestamp`] (8 octets).
        const TIMESTAMP = 1 << 4;
        /// [`Credit`] (8 octets).
        const CREDIT = 1 << 5;
        /// CRC-32C of the whole datagram (8 octets, the last 4 are zero).
        const CHECKSUM = 1 << 6;
        /// [`Open`] (40 bytes).
        const OPEN = 1 << 7;
        /// Selective acknowledgement: a bitmap (8 + 8 × words octets).
        const SACK = 1 << 8;
        /// [`Seal`] (24 bytes): the payload is encrypted, and everything before the tag is authenticated. Only where
        /// [`Features::SEALED`] is agreed.
        const SEAL = 1 << 9;
        /// The payload is a row of records, each a whole message.
        const BUNDLE = 1 << 10;
        /// Acknowledge at once: the sender waits for it.
        const ACK_REQUEST = 1 << 11;
        /// Negative acknowledgement: what the acknowledgement fields show as missing is wanted again, now.
        const NACK = 1 << 12;
        /// Which of two keys in turn has sealed this packet. Only together with [`SEAL`](Self::SEAL).
        const KEY_PHASE = 1 << 13;
    }
}

impl Flags {
    /// The flags that announce an extension.
    pub const EXTENSIONS: Self = Self::from_bits_retain(0x3ff);
    /// The flags that announce none: [`BUNDLE`](Self::BUNDLE), [`ACK_REQUEST`](Self::ACK_REQUEST),
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

/// Names a session to the endpoint that issued it: whoever says it has been told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token {
    /// Place in a table of the endpoint that issued it, from 1. 0: no session yet. [`Token::COOKIE`]: no session yet,
    /// and a challenge is answered.
    pub index: u32,
    /// 64 bits that cannot be guessed. Together with index 0, what the processes of one job know, or 0.
    pub secret: u64,
}

impl Token {
    /// No token: index and secret are 0.
    pub const NONE: Self = Self { index: 0, secret: 0 };
    /// Index of a token that came with a [`Kind::Challenge`]: the secret is what it asks to be told again.
    pub const COOKIE: u32 = 0xffff_ffff;

    /// The sender of a packet with this token has not heard a token of a session yet.
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

/// The base header's values but the flags and the payload's length, which the rest of the packet determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// What the packet is for.
    pub kind: Kind,
    /// Channel: the flow within the session. 0 carries control and small messages.
    pub channel: u8,
    /// Processor that sends.
    pub source: u32,
    /// Processor that is meant, or [`ANY_PROCESSOR`].
    pub destination: u32,
    /// The token that the *receiver* of this packet issued; with index 0 while it has not been heard.
    pub session: Token,
    /// Sequence number in the flow.
    pub sequence: Seq,
    /// Cumulative acknowledgement: the next sequence number that is expected from the other side.
    pub acknowledgement: Seq,
    /// The flow whose numbers these are is (session, rail, channel); the packet itself may take any path. 0 unless
    /// [`Features::RAILS`] is agreed.
    pub rail: u8,
    /// Message number in the ordered pair (source, destination); of a bundle, that of its first record.
    pub message: Seq,
}

/// Where a fragment belongs: every fragment tells its place by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset of the payload in the message, octets.
    pub offset: u32,
    /// Length of the whole message, octets.
    pub total: u32,
}

/// Where payload is to be put in memory that the receiver has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The landing that the receiver granted.
    pub landing: u32,
    /// Offset in it, octets.
    pub offset: u64,
}

/// Timestamp and its echo, in units of 1 ns modulo 2^32 (it wraps every 4.29 s).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// The sender's clock when it sent this packet; 0 means none.
    pub value: u32,
    /// The latest value received, plus the time since then; so the receiver's clock minus `echo` is the round-trip
    /// time without the time that the packet waited to be acknowledged. 0 means none.
    pub echo: u32,
}

/// What the sender of this packet is ready to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// How much the peer may have sent in all in this session, on all channels, modulo 2^32 (as RFC 9000's
    /// MAX_DATA). A message counts with its octets and 64 more, in the order in which messages were queued.
    pub limit: u32,
    /// Octets that may be in flight on this flow at once: what the socket buffer can hold.
    pub window: u32,
}

bitflags! {
    /// What a side says in its opening, beyond version 2. The upper half are [`REQUIRED`](Self::REQUIRED).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Features: u32 {
        /// Every packet of the session carries a checksum, in both directions. In use if either side says so: every
        /// implementation has checksums.
        const CHECKSUM = 1 << 0;
        /// Numbers of a flow can be settled: [`Kind::Settle`]. In use if both sides say so.
        const SETTLE = 1 << 1;
        /// The session has flows on several rails. In use if both sides say so.
        const RAILS = 1 << 2;
        /// Every packet is sealed ([`Flags::SEAL`]). Required.
        const SEALED = 1 << 16;
    }
}

impl Features {
    /// Features that the other side must know: whoever does not refuses the session. Others are ignored by who does
    /// not know them.
    pub const REQUIRED: Self = Self::from_bits_retain(0xffff_0000);

    /// Those that this release knows how to use. (The others that have a name are not in use yet.)
    pub const SUPPORTED: Self = Self::CHECKSUM;

    /// Those that this side does not support.
    #[must_use]
    pub const fn unknown(self) -> Self {
        self.difference(Self::SUPPORTED)
    }

    /// Those because of which this side must refuse the session: required and not supported.
    #[must_use]
    pub const fn refused(self) -> Self {
        Self::from_bits_retain(self.unknown().bits() & Self::REQUIRED.bits())
    }
}

/// Opens a session: present until the other side has been heard to use our token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Random number of this incarnation of the sender.
    pub epoch: u64,
    /// Token that the other side shall put into `session` from now on.
    pub token: Token,
    /// What the sender wants or can do beyond version 2.
    pub features: Features,
    /// Initial [`Credit`] for each flow.
    pub credit: Credit,
    /// Longest time that the sender delays an acknowledgement, ns.
    pub ack_delay: u32,
    /// Largest datagram that the sender can receive, octets of UDP payload.
    pub max_datagram: u16,
    /// UDP port to answer to if it is not the packet's source port, else 0.
    pub port: u16,
}

/// Encryption and authentication of one packet (an AEAD as in RFC 5116). The additional data are all bytes of the packet
/// before the tag; the payload is what is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Number of this transmission: never twice under one key, also when a packet is sent again. It makes the nonce, and
    /// lets a receiver recognise replays.
    pub number: u64,
    /// The authentication tag.
    pub tag: [u8; 16],
}

//! The values that a header carries.

use bitflags::bitflags;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::network_endian::{U16, U32},
};

use super::Seq;

/// Version of the wire format that this code speaks.
pub const VERSION: u8 = 1;
/// Octets of the base header, which every packet begins with.
pub const BASE_LEN: usize = 32;
/// Octets of the longest header: the base and every extension, the largest selective acknowledgement included.
pub const MAX_HEADER_LEN: usize = BASE_LEN + 8 + 8 + 8 + 16 + 8 + 8 + 8 + 32 + 8 + 8 * MAX_SACK_WORDS;
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
    /// "I do not know this session": `message` quotes the session token of the packet that caused it. Or, if `sequence`
    /// is not 0, "I refuse this session": `sequence` says which [`Features`] are in the way.
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
    /// "Answer to the token of this opening, with your own opening: then I believe that you live there." Until it is
    /// answered its sender keeps nothing.
    Challenge = 7,
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
        }
    }
}

bitflags! {
    /// The flags field. The low nine bits say which extensions follow the base header, in the order of the bits.
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
        /// [`Open`] (32 octets).
        const OPEN = 1 << 7;
        /// Selective acknowledgement: a bitmap (8 + 8 × words octets).
        const SACK = 1 << 8;
        /// The payload is a row of records, each a whole message.
        const BUNDLE = 1 << 10;
        /// Acknowledge at once: the sender waits for it.
        const ACK_REQUEST = 1 << 11;
        /// Negative acknowledgement: what the acknowledgement fields show as missing is wanted again, now.
        const NACK = 1 << 12;
    }
}

impl Flags {
    /// The flags that announce an extension.
    pub const EXTENSIONS: Self = Self::from_bits_retain(0x1ff);
    /// The flags that announce none: [`BUNDLE`](Self::BUNDLE), [`ACK_REQUEST`](Self::ACK_REQUEST) and
    /// [`NACK`](Self::NACK).
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
    pub(crate) session: U32,
    pub(crate) sequence: U32,
    pub(crate) acknowledgement: U32,
    pub(crate) payload_len: U16,
    pub(crate) reply_queue: U16,
    pub(crate) message: U32,
}

const _: () = assert!(size_of::<RawBase>() == BASE_LEN && align_of::<RawBase>() == 1);

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
    /// Session token that the *receiver* of this packet issued; 0 while it has not been heard.
    pub session: u32,
    /// Sequence number in the flow.
    pub sequence: Seq,
    /// Cumulative acknowledgement: the next sequence number that is expected from the other side.
    pub acknowledgement: Seq,
    /// Queue at which the sender wants the answer; 0 where there is one queue.
    pub reply_queue: u16,
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
    /// What a side says in its opening, beyond version 1. The upper half are [`REQUIRED`](Self::REQUIRED).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Features: u32 {
        /// Every packet of the session carries a checksum, in both directions. In use if either side says so: every
        /// implementation has checksums.
        const CHECKSUM = 1 << 0;
    }
}

impl Features {
    /// Features that the other side must know: whoever does not refuses the session. Others are ignored by who does
    /// not know them.
    pub const REQUIRED: Self = Self::from_bits_retain(0xffff_0000);

    /// Those that this side does not know.
    #[must_use]
    pub const fn unknown(self) -> Self {
        self.difference(Self::all())
    }

    /// Those because of which this side must refuse the session: required and not known.
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
    pub token: u32,
    /// What the sender wants or can do beyond version 1.
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

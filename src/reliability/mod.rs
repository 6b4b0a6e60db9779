//! Exactly-once delivery of packets between endpoints, in any order, over datagrams that may be lost, doubled,
//! reordered or forged.
//!
//! An [`Endpoint`] is one socket with all its peers. It does no IO, reads no clock and draws no random numbers:
//! datagrams and the time are handed in, bursts to transmit are polled out.

mod beside;
mod burst;
mod credit;
mod endpoint;
mod flow;
mod layer;
mod memory;
mod packet_builder;
mod path;
mod peer;
mod sealing;
mod timers;

use bytes::Bytes;

use crate::{
    error::PeerError,
    span::Span,
    wire::{Head, Packet, Plain, Seq},
};

pub use beside::Beside;
pub use burst::Burst;
pub(crate) use credit::{INITIAL_CREDIT, MESSAGE_COST};
pub(crate) use endpoint::Source;
pub use endpoint::{Endpoint, Inline, LostMessages, RailState, RailStats};
pub(crate) use flow::Sources;
pub use flow::congestion;
pub use layer::{Layer, PacketLayer, Route};
#[cfg(all(feature = "shm", target_os = "linux"))]
pub(crate) use memory::Obstacle;
#[cfg(feature = "mpi")]
pub(crate) use memory::Run;
pub(crate) use memory::{Arriving, Inward, Which};
pub use memory::{CrossMemory, Gate, MemoryLayer};
pub use path::{MAX_RAILS, Path};
pub use sealing::{Forged, Sealer, Transmission};

pub use crate::id::{PeerId, SendToken};
pub(crate) use crate::ring::Pieces;

/// The payload of a message or placement to send.
#[derive(Clone, Debug)]
pub enum Payload<'a> {
    /// Copied once inside the call; complete at once.
    Copy(&'a [u8]),
    /// Referenced until all of it is acknowledged and the backend has released its references.
    Shared(Bytes),
}

impl Payload<'_> {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Copy(data) => data.len(),
            Self::Shared(data) => data.len(),
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The time to transmit a message that is about to be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At once: nothing is in flight.
    Now,
    /// At once, for as long as [a full batch is queued](PacketLayer::has_batch): with this message there is one.
    Batch,
    /// With others, which are still to come or wait for acknowledgements.
    Later,
}

/// A message's header, as the layer above wants it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Processor that sends.
    pub source: u32,
    /// Processor that is meant.
    pub destination: u32,
    /// Number of the message in this ordered pair of processors.
    pub message: Seq,
    /// Match bits to carry.
    pub match_bits: Option<u64>,
    /// Immediate data to carry.
    pub immediate: Option<u64>,
}

/// The place in the peer's memory for a payload: an offset in a memory region that the peer has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Processor that sends.
    pub source: u32,
    /// Processor that is meant.
    pub destination: u32,
    /// The region, as the peer named it.
    pub region: u32,
    /// Its key, as the peer named it.
    pub key: u32,
    /// Offset in the region, bytes.
    pub offset: u64,
}

/// Where a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The peer.
    pub peer: PeerId,
    /// The channel.
    pub channel: u8,
    /// Which session with this peer, counted from 1: when it changes, everything begins anew.
    pub session: u32,
    /// The packet's share of the receive credit, bytes. Return it with `Endpoint::release` once its memory is free.
    pub cost: u32,
    /// The packet is not [doubtful](Verdict::Doubtful): it has come twice, say.
    pub confirmed: bool,
}

/// The verdict of the layer above on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Taken: it is acknowledged and never delivered again.
    Taken,
    /// Its message skips others, or is the first between two processors. It is delivered again, as
    /// [confirmed](Origin::confirmed), if that can be, or when it has been sent again: a bit may have flipped.
    Doubtful,
    /// The processor that it names is not here. The packet is dropped and counted, and its sender gets
    /// [`Event::Returned`]. Other messages of that peer are not affected.
    Misaddressed,
    /// No room for it at the moment: dropped and counted; the peer hears that we live and will send it again.
    NoRoom,
    /// The same because the process cannot get the memory.
    NoMemory,
    /// Impossible (it contradicts earlier packets, or is too large): the session ends with [`PeerError::Misbehaved`].
    Impossible,
}

/// Where packets go: the layer above.
pub trait Sink {
    /// Returns whether [`deliver_apart`](Self::deliver_apart) is to be used where it can be.
    #[inline]
    fn takes_apart(&self) -> bool {
        false
    }

    /// Takes the data packet of `origin`, delivered for the first and only time, in any order within its flow.
    fn deliver(&mut self, origin: Origin, packet: Packet<&[u8]>) -> Verdict;

    /// What is delivered from here on does not lie in the datagram that is handled now, so nothing of it can stay there.
    fn leave_datagram(&mut self) {}

    /// The same for a whole message, by a shorter way, if that is all it takes: then it is [`Verdict::Taken`]. `false`:
    /// nothing was done.
    fn deliver_plain(&mut self, origin: &Origin, message: &Plain<'_>) -> bool {
        let _ = (origin, message);
        false
    }

    /// Like [`deliver`](Self::deliver), for a packet whose payload is in memory that no slice can refer to; the sink
    /// copies it from there straight to its destination. The records of a bundle have not been validated. Called only
    /// if [`takes_apart`](Self::takes_apart) says so; otherwise such a packet is copied first and given to `deliver`.
    fn deliver_apart(&mut self, origin: Origin, head: Head<'_>, payload: Span<'_>) -> Verdict {
        let _ = (origin, head, payload);
        Verdict::NoRoom
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn takes_apart(&self) -> bool {
        (**self).takes_apart()
    }

    fn leave_datagram(&mut self) {
        (**self).leave_datagram();
    }

    fn deliver(&mut self, origin: Origin, packet: Packet<&[u8]>) -> Verdict {
        (**self).deliver(origin, packet)
    }

    fn deliver_plain(&mut self, origin: &Origin, message: &Plain<'_>) -> bool {
        (**self).deliver_plain(origin, message)
    }

    fn deliver_apart(&mut self, origin: Origin, head: Head<'_>, payload: Span<'_>) -> Verdict {
        (**self).deliver_apart(origin, head, payload)
    }
}

/// An event of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A session with this peer has been opened and validated: it has answered with our token.
    Up {
        /// The peer.
        peer: PeerId,
        /// Number of the session, from 1.
        session: u32,
    },
    /// The session with this peer has ended and its queue is discarded. Messages sent by reference get no
    /// [`Event::Sent`]: this event covers them. [`Endpoint::take_lost`] names the messages that may be lost.
    Down {
        /// The peer.
        peer: PeerId,
        /// Number of the session.
        session: u32,
        /// Why.
        error: PeerError,
        /// Something that was sent has not been acknowledged: it may be lost.
        lost: bool,
    },
    /// All of this message is acknowledged and its memory free.
    Sent {
        /// The peer.
        peer: PeerId,
        /// The message.
        token: SendToken,
    },
    /// Messages have arrived at this peer, which has no such processor. It acknowledged them (so [`Event::Sent`] is
    /// reported for them too) and dropped them.
    Returned {
        /// The peer.
        peer: PeerId,
        /// Processor that has sent.
        source: u32,
        /// Processor that was meant.
        destination: u32,
        /// Number of the first of the messages in this ordered pair of processors.
        message: Seq,
        /// How many messages.
        messages: u64,
    },
    /// A rail to this peer works (again): data may go there.
    RailUp {
        /// The peer.
        peer: PeerId,
        /// The rail.
        rail: u8,
    },
    /// A rail to this peer is dead, and others are not: what was under way there goes elsewhere. The rail is probed
    /// until it works again.
    RailDown {
        /// The peer.
        peer: PeerId,
        /// The rail.
        rail: u8,
    },
    /// There is room in the send queue of this peer again, after a `WouldBlock`.
    Writable {
        /// The peer.
        peer: PeerId,
    },
}

/// The properties of a backend that the protocol depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest datagram that the interface takes, bytes of UDP payload; at least 512.
    pub max_datagram: usize,
    /// Most datagrams in one burst (at least 1).
    pub max_segments: usize,
    /// Most bytes in one burst.
    pub max_batch: usize,
    /// Size of the receive buffer, bytes.
    pub receive_buffer: usize,
    /// The backend may refer to the payload of a burst until `Endpoint::handle_released`.
    pub holds_references: bool,
    /// Acknowledge at the latest after this many bytes, if [`Config::ack_bytes`](crate::Config::ack_bytes) is more.
    pub ack_bytes: usize,
    /// UDP port to answer to if it is not the source port of our datagrams, else 0.
    pub receive_port: u16,
}

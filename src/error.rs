//! Errors of the protocol's commands, and why packets are dropped.

use alloc::string::ToString;
use core::{error::Error, fmt, time::Duration};

use crate::id::PeerId;

/// Gives error types a readable `Debug`, because `fn main() -> Result<_, Box<dyn Error>>`, `unwrap` and `expect` print
/// that form.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_display {
    ($error:ty) => {
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                $crate::describe_error(self, f)
            }
        }
    };
}

/// Writes `error` as its `Display` does, followed by those of its sources that it does not quote itself.
///
/// # Errors
/// `f` cannot be written to.
pub fn describe_error(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut said = error.to_string();
    f.write_str(&said)?;
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !said.contains(&text) {
            write!(f, ": {text}")?;
            said = text;
        }
        source = cause.source();
    }
    Ok(())
}

/// Why `add_peer` refused.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddPeerError {
    /// There are [`crate::Config::max_peers`] peers already.
    TooMany(u32),
    /// A peer with this address exists.
    Exists(PeerId),
}

impl fmt::Display for AddPeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(max) => write!(f, "cannot add a peer: there are {max} already (setting `max_peers`)"),
            Self::Exists(peer) => write!(f, "cannot add a peer: {peer} has this address already"),
        }
    }
}

crate::debug_as_display!(AddPeerError);

impl Error for AddPeerError {}

/// Why a rail could not be added to a peer.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddRailError {
    /// There is no such peer.
    UnknownPeer(PeerId),
    /// This rail of the peer has that path already.
    Exists(u8),
    /// The peer has as many rails as a session can have.
    TooMany,
    /// Peers of this packet layer have one path each.
    Unsupported,
}

impl fmt::Display for AddRailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPeer(peer) => write!(f, "cannot add a rail: there is no {peer}"),
            Self::Exists(rail) => write!(f, "cannot add a rail: rail {rail} has this path already"),
            Self::TooMany => write!(f, "cannot add a rail: the peer has as many as a session can have"),
            Self::Unsupported => write!(f, "cannot add a rail: peers that are reached this way have one path"),
        }
    }
}

crate::debug_as_display!(AddRailError);

impl Error for AddRailError {}

/// Why a `send` was refused. No part of the message was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The send queue to this peer is full: make progress and try again, or wait.
    WouldBlock(PeerId),
    /// The message has more than 2^32 − 1 bytes.
    MessageTooLarge {
        /// Bytes of the message.
        len: u64,
        /// Most bytes that can be sent.
        max: u64,
    },
    /// Messages of this many pairs of processors have gone to this peer in this session, and it would accept no further
    /// pair: use fewer processors per endpoint.
    TooManyPairs {
        /// The peer.
        peer: PeerId,
        /// Most pairs of processors.
        max: u32,
    },
    /// This many messages by reference have been acknowledged, and their events wait: take events, then try again.
    EventsWaiting(u32),
    /// There is no such peer.
    UnknownPeer(PeerId),
    /// This side has closed the session.
    Closed(PeerId),
    /// The peer is lost.
    Peer(PeerId, PeerError),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock(peer) => {
                write!(
                    f,
                    "cannot send to {peer} now: its send queue is full (make progress, then try again)"
                )
            }
            Self::MessageTooLarge { len, max } => {
                write!(f, "cannot send {len} bytes: {max} are the most")
            }
            Self::TooManyPairs { peer, max } => write!(
                f,
                "cannot send to {peer}: its messages go between {max} pairs of processors already, which is the most"
            ),
            Self::EventsWaiting(count) => {
                write!(
                    f,
                    "cannot send by reference: {count} events of sent messages wait to be taken"
                )
            }
            Self::UnknownPeer(peer) => write!(f, "cannot send: no {peer} was added"),
            Self::Closed(peer) => write!(f, "cannot send to {peer}: this side has closed the session"),
            Self::Peer(peer, error) => write!(f, "cannot send to {peer}: {error}"),
        }
    }
}

crate::debug_as_display!(SendError);

impl Error for SendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Peer(_, error) => Some(error),
            _ => None,
        }
    }
}

/// Why a peer is lost. Other peers are not affected; everything queued for this one has been given up.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerError {
    /// The peer has answered none of this many resends in this time.
    TimedOut {
        /// Resends without an answer.
        resends: u32,
        /// Time since its last packet arrived (or since the first call).
        silence: Duration,
    },
    /// The network reported that no process listens there, and again 100 ms later, and the peer sent nothing in
    /// between.
    Refused,
    /// The peer does not know our session: it has restarted, or has given up this side.
    Reset,
    /// A new incarnation of the peer has taken its place.
    Restarted,
    /// The peer has said goodbye.
    Closed,
    /// The peer sent packets that a correct peer cannot send.
    Misbehaved,
    /// One side requires features of the protocol that the other does not know: they are of different releases.
    Incompatible {
        /// The features: bits of [`Features`](crate::wire::Features).
        features: u32,
    },
    /// The process belongs to another user, so no memory is shared with it (backend `shm`).
    OtherUser,
    /// The process is of another release, with which no memory can be shared (backend `shm`).
    OtherRelease,
    /// The memory that this side has made does not suit the peer, or the peer cannot map it (backend `shm`).
    NoMemory,
    /// The peer has no room for another peer ([`Config::max_peers`](crate::Config::max_peers)); or it was a stranger
    /// here and has given way to another one.
    NoRoom,
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { resends, silence } => {
                write!(f, "no answer to {resends} resends in {silence:?}: dead or unreachable")
            }
            Self::Refused => f.write_str("no process listens at its address (connection refused)"),
            Self::Reset => f.write_str("it does not know our session: restarted, or it has given us up"),
            Self::Restarted => f.write_str("it has restarted"),
            Self::Closed => f.write_str("it has closed the session"),
            Self::Misbehaved => f.write_str("it broke the protocol"),
            Self::OtherUser => f.write_str("it belongs to another user, so it shares no memory with this process"),
            Self::OtherRelease => f.write_str("it is of another release, so it shares no memory with this process"),
            Self::NoMemory => {
                f.write_str("it does not take the memory that was to be shared: too small, or not mapped")
            }
            Self::NoRoom => f.write_str("there is no room for another peer (setting `max_peers`)"),
            Self::Incompatible { features } => write!(
                f,
                "one side requires protocol features {features:#010x} that the other does not know: different releases"
            ),
        }
    }
}

crate::debug_as_display!(PeerError);

impl Error for PeerError {}

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Why a received packet was dropped. Each reason has a counter in [`crate::Stats`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub enum DropReason {
            $($(#[$doc])* $name,)*
        }

        impl DropReason {
            /// All reasons, in the order of their counters.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

drop_reasons! {
    /// Not a packet ([`crate::wire::Error`]).
    Malformed,
    /// Another version of the wire format.
    Version,
    /// The checksum does not match, or it is missing where it is required.
    Checksum,
    /// It has no seal, and this side has a [sealer](crate::reliability::Sealer).
    Unsealed,
    /// Its seal is not right: it was made with another key, or a byte has changed.
    Forged,
    /// Opens a session with required features that this side does not know.
    Incompatible,
    /// Uses a feature of the protocol ([`crate::wire::Features`]) that was not agreed.
    Unagreed,
    /// The session token is not one that this side issued, or is no longer valid.
    UnknownSession,
    /// Opens a session from an address that is no peer, while strangers are not accepted; or without the secret of this
    /// job ([`Config::contact`](crate::Config::contact)).
    Stranger,
    /// There is no room for another peer.
    TooManyPeers,
    /// Opens a session that is over.
    DeadIncarnation,
    /// Opens a session from an address that must first answer a challenge.
    Unvalidated,
    /// Arrived before (the network or a resend duplicated it).
    Duplicate,
    /// Beyond the receive window.
    BeyondWindow,
    /// Out of order under go-back-N.
    OutOfOrder,
    /// For a processor that this side does not have.
    Misaddressed,
    /// Skips messages, or is the first between two processors, although nothing before it is missing, and there are no
    /// checksums: a bit may have flipped. It is taken if it comes again.
    Doubtful,
    /// Acknowledges a packet that was never sent.
    BadAck,
    /// Exceeds the credit that was given; or there is no room, because messages of former sessions, or fragments with
    /// gaps before them, take it.
    BeyondCredit,
    /// The layer above refused it (a message that is too large, fragments that contradict each other).
    Refused,
    /// A reset or probe answer to a packet that this side did not send.
    Unsolicited,
    /// There is no memory for a message of several packets; the peer sends it again.
    NoMemory,
}

/// Number of reasons in [`DropReason`].
pub(crate) const DROP_REASONS: usize = DropReason::ALL.len();

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    struct Outer {
        quotes: bool,
    }

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("opening the door")?;
            if self.quotes {
                write!(f, ": {}", PeerError::Closed)
            } else {
                Ok(())
            }
        }
    }

    crate::debug_as_display!(Outer);

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&PeerError::Closed)
        }
    }

    #[test]
    fn debug_reads_like_display_and_names_every_source_once() {
        let wanted = format!("opening the door: {}", PeerError::Closed);
        for quotes in [false, true] {
            assert_eq!(format!("{:?}", Outer { quotes }), wanted, "{quotes}");
        }
        assert_eq!(format!("{:?}", PeerError::Closed), PeerError::Closed.to_string());
    }
}

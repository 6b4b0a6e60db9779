//! Errors of the protocol's commands, and why packets are dropped.

use alloc::string::ToString;
use core::{error::Error, fmt, time::Duration};

use crate::id::PeerId;

/// Gives error types a `Debug` that people can read: `fn main() -> Result<_, Box<dyn Error>>`, `unwrap` and `expect`
/// print that form.
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

/// Writes `error` as its `Display` does, and behind it those of its sources that it does not quote itself.
///
/// # Errors
/// If `f` can not be written to.
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
    /// There are [`crate::Config::max_peers`] already.
    TooMany(u32),
    /// A peer with this address exists.
    Exists(PeerId),
}

impl fmt::Display for AddPeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(max) => write!(f, "can not add a peer: there are {max} already (setting `max_peers`)"),
            Self::Exists(peer) => write!(f, "can not add a peer: {peer} has this address already"),
        }
    }
}

crate::debug_as_display!(AddPeerError);

impl Error for AddPeerError {}

/// Why a `send` was refused. Nothing of the message was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The send queue to this peer is full: make progress and try again, or wait.
    WouldBlock(PeerId),
    /// Larger than 2^32 − 1 octets.
    MessageTooLarge {
        /// Octets of the message.
        len: u64,
        /// Most octets that can be sent.
        max: u64,
    },
    /// Messages of so many pairs of processors have gone to this peer in this session that it would not take another
    /// pair's: use fewer processors per endpoint.
    TooManyPairs {
        /// The peer.
        peer: PeerId,
        /// Most pairs of processors.
        max: u32,
    },
    /// So many messages by reference have been acknowledged and nobody has taken the events that say so: take events,
    /// then try again.
    EventsWaiting(u32),
    /// No such peer.
    UnknownPeer(PeerId),
    /// This side has closed the session.
    Closed(PeerId),
    /// The peer is gone.
    Peer(PeerId, PeerError),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock(peer) => {
                write!(
                    f,
                    "can not send to {peer} now: its send queue is full (make progress, then try again)"
                )
            }
            Self::MessageTooLarge { len, max } => {
                write!(f, "can not send {len} octets: {max} are the most")
            }
            Self::TooManyPairs { peer, max } => write!(
                f,
                "can not send to {peer}: its messages go between {max} pairs of processors already, which is the most"
            ),
            Self::EventsWaiting(count) => {
                write!(
                    f,
                    "can not send by reference: {count} events of sent messages wait to be taken"
                )
            }
            Self::UnknownPeer(peer) => write!(f, "can not send: no {peer} was added"),
            Self::Closed(peer) => write!(f, "can not send to {peer}: this side has closed the session"),
            Self::Peer(peer, error) => write!(f, "can not send to {peer}: {error}"),
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

/// Why a peer is gone. Concerns this peer only; everything queued for it has been given up.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerError {
    /// No answer to this many resends in this time.
    TimedOut {
        /// Resends without an answer.
        resends: u32,
        /// Time since it was last heard (or first called).
        silence: Duration,
    },
    /// The network says that nobody listens there, has said it again 100 ms later, and nothing came from the peer in between.
    Refused,
    /// The peer does not know our session: it has restarted, or has given us up.
    Reset,
    /// A new incarnation of the peer has taken its place.
    Restarted,
    /// The peer has said goodbye.
    Closed,
    /// The peer sent what a correct peer can not send.
    Misbehaved,
    /// One side requires features of the protocol that the other does not know: they are of different releases.
    Incompatible {
        /// Which: bits of [`Features`](crate::wire::Features).
        features: u32,
    },
    /// It has no room for another peer ([`Config::max_peers`](crate::Config::max_peers)); or it was a stranger here that
    /// has given way to another.
    NoRoom,
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { resends, silence } => {
                write!(f, "no answer to {resends} resends in {silence:?}: dead or unreachable")
            }
            Self::Refused => f.write_str("nobody listens at its address (connection refused)"),
            Self::Reset => f.write_str("it does not know our session: restarted, or it has given us up"),
            Self::Restarted => f.write_str("it has restarted"),
            Self::Closed => f.write_str("it has closed the session"),
            Self::Misbehaved => f.write_str("it broke the protocol"),
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
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// The checksum does not match, or there is none where there must be one.
    Checksum,
    /// Opens a session with features that are required and not known here.
    Incompatible,
    /// Uses a feature of the protocol ([`crate::wire::Features`]) that was not agreed.
    Unagreed,
    /// The session token is not one that we issued, or no longer.
    UnknownSession,
    /// Opens a session from an address that is no peer, and strangers are not accepted; or without what the processes of
    /// this job know ([`Config::contact`](crate::Config::contact)).
    Stranger,
    /// There is no room for another peer.
    TooManyPeers,
    /// Opens a session that is over.
    DeadIncarnation,
    /// Opens a session from an address that must first answer a challenge.
    Unvalidated,
    /// Arrived before (the network or a resend doubled it).
    Duplicate,
    /// Beyond the receive window.
    BeyondWindow,
    /// Out of order under go-back-N.
    OutOfOrder,
    /// For a processor that is not here.
    Misaddressed,
    /// Acknowledges what was never sent.
    BadAck,
    /// Sent beyond the credit that was given, or there is no room because messages of former sessions, or fragments
    /// with gaps before them, take it.
    BeyondCredit,
    /// The layer above refused it (a message larger than it takes, fragments that contradict each other).
    Refused,
    /// A reset or probe answer that does not belong to anything we sent.
    Unsolicited,
    /// The process could not get memory for a message of several packets; it is sent again.
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

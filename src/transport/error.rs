//! Errors of a transport, one type per call.

use std::{borrow::Cow, error::Error, fmt, io, time::Duration};

use crate::{
    backends::BindError,
    config::ConfigError,
    error::{PeerError, SendError},
    reliability::PeerId,
};

/// Why a transport could not be built.
#[non_exhaustive]
pub enum BuildError {
    /// A setting is out of its range.
    Config(ConfigError),
    /// An environment variable is unknown or has no valid value.
    Environment(EnvironmentError),
    /// The address to bind to could not be resolved.
    Resolve(ResolveError),
    /// The backend could not be opened.
    Bind(BindError),
    /// No processor was named.
    NoProcessor,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("can not build a transport: ")?;
        match self {
            Self::Config(error) => write!(f, "{error}"),
            Self::Environment(error) => write!(f, "{error}"),
            Self::Resolve(error) => write!(f, "{error}"),
            Self::Bind(error) => {
                write!(f, "{error}")?;
                match error {
                    BindError::Io { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                        f.write_str(" (another process has this port: choose another, or port 0 for any free one)")
                    }
                    BindError::Io { source, .. } if source.kind() == io::ErrorKind::AddrNotAvailable => {
                        f.write_str(" (no interface of this machine has this address)")
                    }
                    _ => Ok(()),
                }
            }
            Self::NoProcessor => f.write_str("it needs the number of at least one processor"),
        }
    }
}

crate::debug_as_display!(BuildError);

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Environment(error) => Some(error),
            Self::Resolve(error) => Some(error),
            Self::Bind(error) => Some(error),
            Self::NoProcessor => None,
        }
    }
}

macro_rules! from {
    ($($source:ident => $target:ident::$variant:ident,)*) => {$(
        impl From<$source> for $target {
            fn from(error: $source) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

from! {
    ConfigError => BuildError::Config,
    EnvironmentError => BuildError::Environment,
    ResolveError => BuildError::Resolve,
    BindError => BuildError::Bind,
}

/// A host name has no address that can be used.
pub struct ResolveError {
    pub(super) name: String,
    pub(super) source: Option<io::Error>,
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the address {} can not be resolved: ", self.name)?;
        match &self.source {
            Some(error) => write!(f, "{error} (write it as HOST:PORT, IPv6 as [ADDRESS]:PORT)"),
            None => f.write_str("it has no address of the right kind (IPv4 or IPv6)"),
        }
    }
}

crate::debug_as_display!(ResolveError);

impl Error for ResolveError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.source.as_ref()?)
    }
}

/// Why the environment could not be used.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// There is no setting of this name.
    Unknown {
        /// The variable.
        name: String,
        /// The known variable with the most similar name.
        nearest: &'static str,
    },
    /// The value is not valid.
    Value {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The form that it should have.
        expected: Cow<'static, str>,
    },
    /// The program was built without the feature that the variable needs.
    Feature {
        /// The variable.
        name: &'static str,
        /// The feature of this crate.
        feature: &'static str,
    },
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, nearest } => {
                write!(
                    f,
                    "the environment has {name}, which is no setting; did you mean {nearest}?"
                )
            }
            Self::Value { name, value, expected } => {
                write!(
                    f,
                    "the environment has {name}={value}, which can not be understood; it takes {expected}"
                )
            }
            Self::Feature { name, feature } => {
                write!(
                    f,
                    "the environment has {name}, but this program was built without the feature `{feature}` of hikyaku"
                )
            }
        }
    }
}

crate::debug_as_display!(EnvironmentError);

impl Error for EnvironmentError {}

/// Why tokio can not watch a transport.
#[cfg(feature = "tokio")]
#[non_exhaustive]
pub enum AsyncError {
    /// This backend has no descriptor that becomes readable.
    NoDescriptor(&'static str),
    /// The runtime can not watch the descriptor.
    Watch(io::Error),
}

#[cfg(feature = "tokio")]
impl fmt::Display for AsyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDescriptor(backend) => write!(
                f,
                "the backend {backend} has no descriptor that tokio could watch: use the backend udp, or share a \
                 Transport::assisted with a thread of its own"
            ),
            Self::Watch(error) => write!(f, "tokio can not watch the transport's descriptor: {error}"),
        }
    }
}

#[cfg(feature = "tokio")]
crate::debug_as_display!(AsyncError);

#[cfg(feature = "tokio")]
impl Error for AsyncError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoDescriptor(_) => None,
            Self::Watch(error) => Some(error),
        }
    }
}

/// Why no message was received.
#[non_exhaustive]
pub enum ReceiveError {
    /// No message arrived within this time.
    TimedOut(Duration),
    /// The backend has failed: the transport can not be used any more.
    Backend(io::Error),
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut(timeout) => write!(f, "no message in {timeout:?}"),
            Self::Backend(error) => backend(f, error),
        }
    }
}

crate::debug_as_display!(ReceiveError);

impl Error for ReceiveError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Backend(error) => Some(error),
            Self::TimedOut(_) => None,
        }
    }
}

/// Why [`super::Transport::flush`] or [`super::Transport::close`] could not make sure that everything has arrived.
#[non_exhaustive]
pub enum FlushError {
    /// Some peers did not acknowledge everything in time.
    TimedOut {
        /// The time limit.
        timeout: Duration,
        /// Peers that have not acknowledged everything.
        peers: usize,
    },
    /// A peer was lost before it had acknowledged everything; all others have everything.
    Peer(PeerId, PeerError),
    /// The backend has failed: the transport can not be used any more.
    Backend(io::Error),
}

/// Why [`super::Transport::close`] could not make sure that everything has arrived.
pub type CloseError = FlushError;

impl fmt::Display for FlushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { timeout, peers } => {
                write!(f, "{peers} peers have not acknowledged everything in {timeout:?}")
            }
            Self::Peer(peer, error) => write!(f, "{peer} was lost with what was on its way to it: {error}"),
            Self::Backend(error) => backend(f, error),
        }
    }
}

crate::debug_as_display!(FlushError);

impl Error for FlushError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Backend(error) => Some(error),
            Self::Peer(_, error) => Some(error),
            Self::TimedOut { .. } => None,
        }
    }
}

/// Why a blocking send gave up.
#[non_exhaustive]
pub enum SendBlockingError {
    /// It would never succeed.
    Send(SendError),
    /// The backend has failed: the transport can not be used any more.
    Backend(io::Error),
}

impl fmt::Display for SendBlockingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(error) => write!(f, "{error}"),
            Self::Backend(error) => backend(f, error),
        }
    }
}

crate::debug_as_display!(SendBlockingError);

impl Error for SendBlockingError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Send(error) => Some(error),
            Self::Backend(error) => Some(error),
        }
    }
}

impl From<SendError> for SendBlockingError {
    fn from(error: SendError) -> Self {
        Self::Send(error)
    }
}

fn backend(f: &mut fmt::Formatter<'_>, error: &io::Error) -> fmt::Result {
    write!(f, "the backend has failed and can not be used any more: {error}")
}

//! Errors of a transport, one type per call.

use std::{error::Error, fmt, io, time::Duration};

use crate::{
    backends::BindError,
    config::ConfigError,
    environment::EnvironmentError,
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
    /// A processor of this transport was to have the number [`ANY_PROCESSOR`](crate::wire::ANY_PROCESSOR).
    ReservedProcessor,
    /// The backend of this name carries what a packet layer of its own says
    /// ([`Capabilities::layered`](crate::backends::Capabilities::layered)), and the transport was to be built without
    /// that layer.
    Layered(&'static str),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot build a transport: ")?;
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
            Self::ReservedProcessor => f.write_str("no processor can have the number 0xffffffff, which means any"),
            Self::Layered(name) => write!(
                f,
                "the backend {name} has a packet layer of its own: open it with `Builder::bind`, or give the layer to the \
                 builder (`Builder::behind_poller`)"
            ),
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
            Self::NoProcessor | Self::ReservedProcessor | Self::Layered(_) => None,
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
    BackendError => WaitError::Backend,
    BackendError => FlushError::Backend,
    BackendError => SendBlockingError::Backend,
    SendError => SendBlockingError::Send,
}

/// A host name has no address that can be used.
pub struct ResolveError {
    pub(super) name: String,
    pub(super) source: Option<io::Error>,
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the address {} cannot be resolved: ", self.name)?;
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

/// The backend of this name has no descriptor that becomes readable.
pub struct NoDescriptor(pub &'static str);

impl fmt::Display for NoDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the backend {} has no descriptor to watch: use the backend udp, or share a Transport::with_progress_thread with a \
             thread of its own",
            self.0
        )
    }
}

crate::debug_as_display!(NoDescriptor);

impl Error for NoDescriptor {}

/// Why tokio cannot watch a transport.
#[cfg(feature = "tokio")]
#[non_exhaustive]
pub enum AsyncError {
    /// This backend has no descriptor that becomes readable.
    NoDescriptor(NoDescriptor),
    /// The runtime cannot watch the descriptor.
    Watch(io::Error),
}

#[cfg(feature = "tokio")]
impl fmt::Display for AsyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDescriptor(error) => write!(f, "{error}"),
            Self::Watch(error) => write!(f, "tokio cannot watch the transport's descriptor: {error}"),
        }
    }
}

#[cfg(feature = "tokio")]
crate::debug_as_display!(AsyncError);

#[cfg(feature = "tokio")]
impl Error for AsyncError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoDescriptor(error) => Some(error),
            Self::Watch(error) => Some(error),
        }
    }
}

/// The backend has failed: the transport cannot be used any more.
pub struct BackendError {
    backend: &'static str,
    source: io::Error,
}

impl BackendError {
    pub(super) fn new(backend: &'static str, source: io::Error) -> Self {
        Self { backend, source }
    }

    /// Name of the backend.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// The backend's error.
    #[must_use]
    pub fn io_error(&self) -> &io::Error {
        &self.source
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backend, source } = self;
        write!(
            f,
            "the backend {backend} has failed and cannot be used any more: {source}"
        )
    }
}

crate::debug_as_display!(BackendError);

impl Error for BackendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

impl From<BackendError> for io::Error {
    fn from(error: BackendError) -> Self {
        Self::new(error.source.kind(), error)
    }
}

/// Why the helper of an [`super::SharedTransport`] had to stop.
#[non_exhaustive]
pub enum ProgressThreadError {
    /// Its thread could not be started.
    Thread(io::Error),
    /// The backend has failed: the transport cannot be used any more.
    Backend(BackendError),
}

impl fmt::Display for ProgressThreadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(error) => write!(f, "the helper thread cannot be started: {error}"),
            Self::Backend(error) => write!(f, "{error}"),
        }
    }
}

crate::debug_as_display!(ProgressThreadError);

impl Error for ProgressThreadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Thread(error) => Some(error),
            Self::Backend(error) => Some(error),
        }
    }
}

/// Why a wait ended without a message or event.
#[non_exhaustive]
pub enum WaitError {
    /// Nothing arrived within this time.
    TimedOut(Duration),
    /// [`super::Transport::receive_from`] has met a message of this other peer which is larger than half of
    /// [`Config::unexpected_bytes`](crate::Config::unexpected_bytes), too large to be set aside: receive it first.
    InTheWay(PeerId),
    /// The backend has failed: the transport cannot be used any more.
    Backend(BackendError),
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut(timeout) => write!(f, "nothing arrived in {timeout:?}"),
            Self::InTheWay(peer) => {
                write!(
                    f,
                    "a message of {peer} is in the way, too large to be set aside: receive it first"
                )
            }
            Self::Backend(error) => write!(f, "{error}"),
        }
    }
}

crate::debug_as_display!(WaitError);

impl Error for WaitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Backend(error) => Some(error),
            Self::TimedOut(_) | Self::InTheWay(_) => None,
        }
    }
}

impl From<WaitError> for io::Error {
    fn from(error: WaitError) -> Self {
        let kind = match &error {
            WaitError::TimedOut(_) => io::ErrorKind::TimedOut,
            WaitError::InTheWay(_) => io::ErrorKind::Other,
            WaitError::Backend(error) => error.source.kind(),
        };
        Self::new(kind, error)
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
    /// The backend has failed: the transport cannot be used any more.
    Backend(BackendError),
}

/// Why [`super::Transport::close`] could not make sure that everything has arrived.
pub type CloseError = FlushError;

impl fmt::Display for FlushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { timeout, peers } => {
                write!(f, "{peers} peers have not acknowledged everything in {timeout:?}")
            }
            Self::Peer(peer, error) => write!(f, "{peer} was lost, and the messages in flight to it: {error}"),
            Self::Backend(error) => write!(f, "{error}"),
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
    /// The backend has failed: the transport cannot be used any more.
    Backend(BackendError),
}

impl fmt::Display for SendBlockingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(error) => write!(f, "{error}"),
            Self::Backend(error) => write!(f, "{error}"),
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

//! Errors of the link to a poller.

use std::{error::Error, fmt, io, path::PathBuf};

/// Why the connection to a poller could not be made, or why it ended.
#[non_exhaustive]
pub enum PollerError {
    /// The environment names no socket.
    Unnamed,
    /// No process accepts a connection at the socket.
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The poller refused this process.
    Refused {
        /// The socket.
        path: PathBuf,
        /// The poller's message.
        why: String,
    },
    /// The process that listens at the socket belongs neither to our user nor to root.
    Foreign {
        /// The socket.
        path: PathBuf,
        /// The number of that process's user.
        user: u32,
        /// The number of our user.
        own: u32,
    },
    /// The process that answers is no poller of this release, or its memory cannot be used.
    Strange {
        /// The socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The poller has ended, or has removed this process.
    Gone,
    /// The shared memory holds values that a poller never writes.
    Broken,
}

impl fmt::Display for PollerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unnamed => f.write_str("no poller is named: HIKYAKU_POLLER is the path of its socket"),
            Self::Unreachable { path, source } => write!(
                f,
                "no poller can be reached at {}: {source}. `hikyaku poller --socket {}` starts one, before its processes",
                path.display(),
                path.display()
            ),
            Self::Refused { path, why } => write!(f, "the poller at {} refuses this process: {why}", path.display()),
            Self::Foreign { path, user, own } => write!(
                f,
                "the process that answers at {} runs as user {user}, neither as you ({own}) nor as root, and is not \
                 trusted: name the socket of a poller of your own, in a folder where no other user can make files",
                path.display()
            ),
            Self::Strange { path, source } => {
                write!(f, "the process that answers at {} is no poller of this release: {source}", path.display())
            }
            Self::Gone => f.write_str(
                "the poller is gone, and with it everything under way: it has ended, or has thrown this process out (its \
                 output says so)",
            ),
            Self::Broken => f.write_str("the memory shared with the poller is damaged"),
        }
    }
}

crate::debug_as_display!(PollerError);

impl Error for PollerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreachable { source, .. } | Self::Strange { source, .. } => Some(source),
            Self::Unnamed | Self::Refused { .. } | Self::Foreign { .. } | Self::Gone | Self::Broken => None,
        }
    }
}

impl From<PollerError> for io::Error {
    fn from(error: PollerError) -> Self {
        let kind = match &error {
            PollerError::Unnamed => io::ErrorKind::InvalidInput,
            PollerError::Unreachable { source, .. } | PollerError::Strange { source, .. } => source.kind(),
            PollerError::Refused { .. } => io::ErrorKind::ConnectionRefused,
            PollerError::Foreign { .. } => io::ErrorKind::PermissionDenied,
            PollerError::Gone => io::ErrorKind::ConnectionAborted,
            PollerError::Broken => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

//! Why a poller does not start.

use std::{error::Error, fmt, io, path::PathBuf};

use crate::{backends::dpdk::DpdkError, config::ConfigError};

/// Why a poller does not start.
#[non_exhaustive]
pub enum StartError {
    /// Another poller has the socket.
    Running {
        /// The socket.
        path: PathBuf,
    },
    /// Another poller has the device.
    DeviceTaken {
        /// The device.
        device: String,
    },
    /// The socket can not be made.
    Socket {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The folder for the socket is not one's own.
    Folder {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// So many buffers are not possible.
    Buffers {
        /// As many were asked for.
        buffers: u32,
        /// As many it takes.
        least: u32,
    },
    /// The port can not be opened.
    Port(DpdkError),
    /// The port takes only datagrams that are too small.
    Config(ConfigError),
    /// The system refuses something else.
    System {
        /// What was being done.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { path } => write!(
                f,
                "another poller serves {}: end it, or choose another socket (--socket)",
                path.display()
            ),
            Self::DeviceTaken { device } => write!(
                f,
                "another poller has the device {device}: its processes come by that one's socket"
            ),
            Self::Socket { path, source } => write!(
                f,
                "the socket {} can not be made: {source}. It needs a folder in which files may be made (--socket)",
                path.display()
            ),
            Self::Folder { path, source } => write!(
                f,
                "the folder {} for the socket can not be used: {source}. --socket names a place of your choice",
                path.display()
            ),
            Self::Buffers { buffers, least } => write!(
                f,
                "{buffers} buffers: it takes from {least} (for the queues, and as many for processes) to {}",
                1 << 20
            ),
            Self::Port(error) => write!(f, "{error}"),
            Self::Config(error) => write!(f, "{error}"),
            Self::System { doing, source } => write!(f, "{doing}: {source}"),
        }
    }
}

crate::debug_as_display!(StartError);

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Running { .. } | Self::DeviceTaken { .. } | Self::Buffers { .. } => None,
            Self::Socket { source, .. } | Self::Folder { source, .. } | Self::System { source, .. } => Some(source),
            Self::Port(error) => Some(error),
            Self::Config(error) => Some(error),
        }
    }
}

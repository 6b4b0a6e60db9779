//! Why a poller does not start.

use std::{error::Error, fmt, io, path::PathBuf};

use crate::{backends::dpdk::DpdkError, config::ConfigError};

/// Why a poller does not start.
#[non_exhaustive]
pub enum StartError {
    /// Another poller listens on the socket.
    Running {
        /// The socket.
        path: PathBuf,
    },
    /// Another poller has the device.
    DeviceTaken {
        /// The device.
        device: String,
    },
    /// The socket cannot be created.
    Socket {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Other users can use the folder for the socket.
    Folder {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There are more ports than a poller can have.
    Ports {
        /// The requested number.
        ports: usize,
        /// The most.
        most: usize,
    },
    /// Two ports have the same device, or the same address.
    Twice {
        /// The device or address.
        what: String,
    },
    /// The number of buffers is too small.
    Buffers {
        /// The requested number.
        buffers: u32,
        /// The least number.
        least: u32,
    },
    /// The port cannot be opened.
    Port(DpdkError),
    /// The port's datagrams are too small for the protocol.
    Config(ConfigError),
    /// Another system call has failed.
    System {
        /// The step that has failed.
        doing: &'static str,
        /// The cause.
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
                "the socket {} cannot be made: {source}. It needs a folder in which files may be made (--socket)",
                path.display()
            ),
            Self::Folder { path, source } => write!(
                f,
                "the folder {} for the socket cannot be used: {source}. --socket names a place of your choice",
                path.display()
            ),
            Self::Ports { ports, most } => write!(
                f,
                "{ports} ports: a poller has {most} at most, as its processes can have no more addresses"
            ),
            Self::Twice { what } => write!(
                f,
                "{what} is named twice: each port has a device and an address of its own"
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
            Self::Running { .. }
            | Self::DeviceTaken { .. }
            | Self::Ports { .. }
            | Self::Twice { .. }
            | Self::Buffers { .. } => None,
            Self::Socket { source, .. } | Self::Folder { source, .. } | Self::System { source, .. } => Some(source),
            Self::Port(error) => Some(error),
            Self::Config(error) => Some(error),
        }
    }
}

//! Why a process could not join its job, or not leave it as it should.

use std::{fmt, io, net::SocketAddr, string::String};

use crate::{
    bootstrap::BootstrapError,
    environment::EnvironmentError,
    mpi::{engine::ConnectError, error::Error, trace::TraceError},
    transport::BuildError,
};

/// Why MPI could not begin. `Debug` prints the same sentence as `Display`, since programs unwrap it.
#[non_exhaustive]
pub enum InitError {
    /// MPI has begun before in this process.
    Twice {
        /// A likely cause beyond the obvious one; may be empty.
        hint: &'static str,
    },
    /// The launcher or the other processes could not be reached.
    Bootstrap(BootstrapError),
    /// A variable of the environment has no valid value.
    Environment(EnvironmentError),
    /// The network could not be opened.
    Bind {
        /// The address that it was to have.
        address: SocketAddr,
        /// The reason.
        source: BuildError,
    },
    /// The backend does not connect processes, and there are several.
    Backend {
        /// Its name.
        name: &'static str,
    },
    /// A process has published a text that is no address.
    Address {
        /// Its number.
        process: u32,
        /// The text.
        text: String,
    },
    /// A process has addresses of the other family only: IPv6, where this one has IPv4, or the reverse.
    Family {
        /// Its number.
        process: u32,
        /// Its first address.
        address: SocketAddr,
    },
    /// A process cannot be reached by the information that it has published.
    Introduce {
        /// Its number.
        process: u32,
        /// The reason.
        source: io::Error,
    },
    /// Processes of this host could not be reached through memory, as `HIKYAKU_ROUTES=memory` asks for.
    Meet(io::Error),
    /// The processes could not be connected.
    Connect(ConnectError),
    /// The launcher says of the processes that have spawned this world what cannot be understood.
    SpawnedBy(String),
    /// The processes that have spawned this world do not answer.
    Parents(Error),
    /// There is no thread or descriptor for the launcher's reports of failed processes.
    Watcher(io::Error),
    /// The trace that the environment asks for cannot be written.
    Trace(TraceError),
    /// Another process has a different `HIKYAKU_CHECK`.
    Check {
        /// The number of that process.
        process: u32,
        /// The setting of this process.
        here: bool,
    },
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("beginning MPI: ")?;
        match self {
            Self::Twice { hint } => {
                write!(f, "it has begun before in this process, which it can only once{hint}")
            }
            Self::Bootstrap(error) => error.fmt(f),
            Self::Environment(error) => error.fmt(f),
            Self::Bind { address, source } => write!(f, "opening the network at {address}: {source}"),
            Self::Backend { name } => write!(
                f,
                "the backend {name} carries nothing between processes; with HIKYAKU_BACKEND=udp they reach each other"
            ),
            Self::Address { process, text } => {
                write!(f, "process {process} says its address is '{}'", text.escape_default())
            }
            Self::Family { process, address } => {
                let (theirs, ours) = if address.is_ipv4() {
                    ("IPv4", "IPv6")
                } else {
                    ("IPv6", "IPv4")
                };
                write!(
                    f,
                    "process {process} is at {}: it has {theirs} addresses only, and this one has {ours} addresses only; \
                     a host with both reaches both, unless HIKYAKU_IFACE names one family only",
                    address.ip()
                )
            }
            Self::Introduce { process, source } => write!(f, "reaching process {process}: {source}"),
            Self::Meet(error) => write!(f, "HIKYAKU_ROUTES=memory: {error}"),
            Self::Connect(error) => error.fmt(f),
            Self::SpawnedBy(word) => write!(
                f,
                "HIKYAKU_SPAWNED_BY={}: expected what hikyaku run of the same version sets",
                word.escape_default()
            ),
            Self::Parents(error) => write!(f, "waiting for the processes that have spawned this one: {error}"),
            Self::Watcher(error) => write!(f, "listening for processes that fail: {error}"),
            Self::Trace(error) => error.fmt(f),
            Self::Check { process, here } => {
                let say = |on| if on { "on" } else { "off" };
                let (here, there) = (say(*here), say(!here));
                write!(
                    f,
                    "HIKYAKU_CHECK is {here} here and {there} at process {process}; it must be the same everywhere"
                )
            }
        }
    }
}

crate::debug_as_display!(InitError);

impl std::error::Error for InitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::SpawnedBy(_)
            | Self::Twice { .. }
            | Self::Backend { .. }
            | Self::Address { .. }
            | Self::Family { .. }
            | Self::Check { .. } => None,
            Self::Bootstrap(error) => Some(error),
            Self::Environment(error) => Some(error),
            Self::Bind { source, .. } => Some(source),
            Self::Introduce { source, .. } => Some(source),
            Self::Meet(error) => Some(error),
            Self::Connect(error) => Some(error),
            Self::Parents(error) => Some(error),
            Self::Watcher(error) => Some(error),
            Self::Trace(error) => Some(error),
        }
    }
}

/// Why processes could not be spawned.
#[non_exhaustive]
pub enum SpawnError {
    /// The ranks could not agree, or the root among them has failed to start the processes.
    Mpi(Error),
    /// The launcher did not start them, or they did not come.
    Launcher(BootstrapError),
    /// A process that was started cannot be reached.
    Address(InitError),
}

impl From<Error> for SpawnError {
    fn from(error: Error) -> Self {
        Self::Mpi(error)
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mpi(error) => error.fmt(f),
            Self::Launcher(error) => write!(f, "MPI_Comm_spawn: {error}"),
            Self::Address(error) => write!(f, "MPI_Comm_spawn: {error}"),
        }
    }
}

crate::debug_as_display!(SpawnError);

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Self::Mpi(error) => error,
            Self::Launcher(error) => error,
            Self::Address(error) => error,
        })
    }
}

/// Why MPI did not end as it should.
#[non_exhaustive]
pub enum FinalizeError {
    /// Not all other processes reached the end, or the network has failed.
    Barrier(Error),
    /// The launcher did not accept the goodbye.
    Launcher(BootstrapError),
}

impl fmt::Display for FinalizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ending MPI: ")?;
        match self {
            Self::Barrier(error) => error.fmt(f),
            Self::Launcher(error) => error.fmt(f),
        }
    }
}

crate::debug_as_display!(FinalizeError);

impl std::error::Error for FinalizeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Self::Barrier(error) => error,
            Self::Launcher(error) => error,
        })
    }
}

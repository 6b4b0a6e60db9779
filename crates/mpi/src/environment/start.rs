//! How a process becomes one of a job.

use std::{fmt, net::SocketAddr, str, sync::Arc};

use hikyaku::{
    bootstrap::{self, BootstrapError, Environment, World},
    mpi::engine::{self, Communicator, ConnectError, Engine},
    transport::{BuildError, EnvironmentError, Transport},
};

use crate::topology::{Handle, Local};

/// Where a process tells the others its address.
const KEY: &str = "hikyaku-mpi";
/// Why MPI could not begin.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitError {
    /// It has begun before in this process.
    Twice,
    /// The launcher or the other processes could not be reached.
    Bootstrap(BootstrapError),
    /// The environment says what can not be.
    Environment(EnvironmentError),
    /// The network could not be opened.
    Bind {
        /// At this address.
        address: SocketAddr,
        /// Why.
        source: BuildError,
    },
    /// What a process said is no address.
    Address {
        /// Its number.
        process: u32,
        /// What it said.
        text: String,
    },
    /// The processes could not be connected.
    Connect(ConnectError),
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("beginning MPI: ")?;
        match self {
            Self::Twice => f.write_str("it has begun before in this process, which it can only once"),
            Self::Bootstrap(error) => error.fmt(f),
            Self::Environment(error) => error.fmt(f),
            Self::Bind { address, source } => write!(f, "opening the network at {address}: {source}"),
            Self::Address { process, text } => {
                write!(f, "process {process} says its address is '{}'", text.escape_default())
            }
            Self::Connect(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for InitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Twice | Self::Address { .. } => None,
            Self::Bootstrap(error) => Some(error),
            Self::Environment(error) => Some(error),
            Self::Bind { source, .. } => Some(source),
            Self::Connect(error) => Some(error),
        }
    }
}

/// Joins the job. Gives the world, this process alone, and the way back to the launcher.
pub(super) fn start() -> Result<(Handle, Handle, World), InitError> {
    let mut job = bootstrap::discover(&Environment::of_process()).map_err(InitError::Bootstrap)?;
    let address = job.bind_address().map_err(InitError::Bootstrap)?;
    let (config, mut options) = engine::for_job(job.size(), job.is_oversubscribed());
    options.environment().map_err(InitError::Environment)?;
    let builder = Transport::builder().config(config).environment();
    let bound = Engine::bind(builder, "udp", address, job.rank());
    let bound = bound.map_err(|source| InitError::Bind { address, source })?;
    let addresses = exchange(&mut job, bound.local_addr())?;
    let engine = bound.connect(&addresses, options).map_err(InitError::Connect)?;
    let local = Arc::<Local>::default();
    let world = Handle::new(Communicator::world(&engine), &local, "MPI_COMM_WORLD");
    let own = Handle::new(Communicator::own(&engine), &local, "MPI_COMM_SELF");
    Ok((world, own, job))
}

/// Tells the others where this process is, and learns where they are.
fn exchange(job: &mut World, own: SocketAddr) -> Result<Vec<SocketAddr>, InitError> {
    job.put(KEY, own.to_string().as_bytes()).map_err(InitError::Bootstrap)?;
    job.fence().map_err(InitError::Bootstrap)?;
    let all = job.get_all(KEY).map_err(InitError::Bootstrap)?;
    let parse = |(process, octets): (u32, &Vec<u8>)| {
        let parsed = str::from_utf8(octets).ok().and_then(|text| text.parse().ok());
        parsed.ok_or_else(|| InitError::Address {
            process,
            text: String::from_utf8_lossy(octets).into_owned(),
        })
    };
    (0..).zip(&all).map(parse).collect()
}

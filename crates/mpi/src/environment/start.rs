//! How a process becomes one of a job.

use std::{fmt, io, net::SocketAddr, path::PathBuf, str, sync::Arc};

use hikyaku::{
    bootstrap::{self, BootstrapError, Environment, World},
    mpi::{
        engine::{self, Communicator, ConnectError, Engine, Profiler},
        trace::Tracer,
    },
    transport::{BuildError, EnvironmentError, Transport, environment},
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
    /// The trace that the environment asks for can not be written.
    Trace {
        /// To this directory.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
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
            Self::Trace { directory, source } => {
                write!(
                    f,
                    "writing a trace to {} (HIKYAKU_TRACE): {source}",
                    directory.display()
                )
            }
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
            Self::Trace { source, .. } => Some(source),
        }
    }
}

/// Joins the job. Gives the world, this process alone, and the way back to the launcher.
pub(super) fn start() -> Result<(Handle, Handle, World), InitError> {
    let mut job = bootstrap::discover(&Environment::of_process()).map_err(InitError::Bootstrap)?;
    let address = job.bind_address().map_err(InitError::Bootstrap)?;
    let one_host = job.local_size() == job.size();
    let (config, mut options) = engine::for_job(job.size(), job.sharing(), one_host);
    options.environment().map_err(InitError::Environment)?;
    let builder = Transport::builder().config(config).environment();
    let bound = Engine::bind(builder, "udp", address, job.rank());
    let bound = bound.map_err(|source| InitError::Bind { address, source })?;
    let (addresses, sharing) = exchange(&mut job, bound.local_addr())?;
    options.policy.model.sharing = sharing;
    options.profiler = tracer(job.rank())?;
    let engine = bound.connect(&addresses, options).map_err(InitError::Connect)?;
    let local = Arc::<Local>::default();
    let world = Handle::new(Communicator::world(&engine), &local, "MPI_COMM_WORLD");
    let own = Handle::new(Communicator::own(&engine), &local, "MPI_COMM_SELF");
    Ok((world, own, job))
}

/// Who writes a trace, if the environment asks for one.
fn tracer(process: u32) -> Result<Option<Arc<dyn Profiler>>, InitError> {
    let Some(directory) = environment::trace() else {
        return Ok(None);
    };
    match Tracer::create(&directory, process) {
        Ok(tracer) => Ok(Some(tracer)),
        Err(source) => Err(InitError::Trace { directory, source }),
    }
}

/// Tells the others where this process is and how many share a processor there; learns where they are, and the most that
/// share one anywhere: all must choose the same algorithms.
fn exchange(job: &mut World, own: SocketAddr) -> Result<(Vec<SocketAddr>, f64), InitError> {
    let text = format!("{own} {}", job.sharing());
    job.put(KEY, text.as_bytes()).map_err(InitError::Bootstrap)?;
    job.fence().map_err(InitError::Bootstrap)?;
    let all = job.get_all(KEY).map_err(InitError::Bootstrap)?;
    let mut most = 1.0_f64;
    let mut addresses = Vec::with_capacity(all.len());
    for (process, octets) in (0..).zip(&all) {
        let (address, sharing) = parse(octets).ok_or_else(|| InitError::Address {
            process,
            text: String::from_utf8_lossy(octets).into_owned(),
        })?;
        addresses.push(address);
        most = most.max(sharing);
    }
    Ok((addresses, most))
}

fn parse(octets: &[u8]) -> Option<(SocketAddr, f64)> {
    let (address, sharing) = str::from_utf8(octets).ok()?.split_once(' ')?;
    Some((address.parse().ok()?, sharing.parse().ok()?))
}

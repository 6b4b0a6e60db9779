//! How a process becomes one of a job.

use std::{fmt, net::SocketAddr, str, sync::Arc};

use hikyaku::{
    bootstrap::{self, BootstrapError, Environment, World},
    mpi::{
        engine::{self, Communicator, ConnectError, Engine, Profiler},
        trace::{TraceError, Tracer},
    },
    transport::{BuildError, EnvironmentError, Transport},
};

use crate::topology::{Handle, Local};

/// Where a process tells the others its address.
const KEY: &str = "hikyaku-mpi";

/// Why MPI could not begin. It is printed as a sentence also for debugging, since programs unwrap it.
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
    /// The backend carries nothing between processes, and there are several.
    Backend {
        /// Its name.
        name: &'static str,
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
    Trace(TraceError),
    /// `HIKYAKU_CHECK` is not the same there as here.
    Check {
        /// At this process.
        process: u32,
        /// What it says here.
        here: bool,
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
            Self::Backend { name } => write!(
                f,
                "the backend {name} carries nothing between processes; with HIKYAKU_BACKEND=udp they reach each other"
            ),
            Self::Address { process, text } => {
                write!(f, "process {process} says its address is '{}'", text.escape_default())
            }
            Self::Connect(error) => error.fmt(f),
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

impl fmt::Debug for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for InitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Twice | Self::Backend { .. } | Self::Address { .. } | Self::Check { .. } => None,
            Self::Bootstrap(error) => Some(error),
            Self::Environment(error) => Some(error),
            Self::Bind { source, .. } => Some(source),
            Self::Connect(error) => Some(error),
            Self::Trace(error) => Some(error),
        }
    }
}

/// Joins the job. Gives the world, this process alone, and the way back to the launcher.
pub(super) fn start() -> Result<(Handle, Handle, Option<World>), InitError> {
    #[cfg(feature = "sim")]
    if let Some(rank) = hikyaku::sim::Rank::current() {
        let (world, own) = handles(rank.engine());
        return Ok((world, own, None));
    }
    let mut job = bootstrap::discover(&Environment::of_process()).map_err(InitError::Bootstrap)?;
    let address = job.bind_address().map_err(InitError::Bootstrap)?;
    let one_host = job.local_size() == job.size();
    let (config, mut options) = engine::for_job(job.size(), job.sharing(), one_host);
    options.environment().map_err(InitError::Environment)?;
    let builder = Transport::builder().config(config).environment();
    let bound = Engine::bind(builder, "udp", address, job.rank());
    let bound = bound.map_err(|source| InitError::Bind { address, source })?;
    if job.size() > 1 && bound.backend_name() == "loopback" {
        let name = bound.backend_name();
        return Err(InitError::Backend { name });
    }
    let (addresses, sharing) = exchange(&mut job, bound.local_addr(), options.check)?;
    options.policy.model.sharing = sharing;
    let tracer = Tracer::of_environment(job.rank()).map_err(InitError::Trace)?;
    options.profiler = tracer.map(|tracer| tracer as Arc<dyn Profiler>);
    let engine = bound.connect(&addresses, options).map_err(InitError::Connect)?;
    let (world, own) = handles(&engine);
    Ok((world, own, Some(job)))
}

/// The world, and this process alone.
fn handles(engine: &Arc<Engine>) -> (Handle, Handle) {
    let local = Arc::<Local>::default();
    let world = Handle::new(Communicator::world(engine), &local, "MPI_COMM_WORLD");
    let own = Handle::new(Communicator::own(engine), &local, "MPI_COMM_SELF");
    (world, own)
}

/// Tells the others where this process is and how many share a processor there; learns where they are, and the most that
/// share one anywhere: all must choose the same algorithms, and check what they call or not.
fn exchange(job: &mut World, own: SocketAddr, check: bool) -> Result<(Vec<SocketAddr>, f64), InitError> {
    let text = format!("{own} {} {check}", job.sharing());
    job.put(KEY, text.as_bytes()).map_err(InitError::Bootstrap)?;
    job.fence().map_err(InitError::Bootstrap)?;
    let all = job.get_all(KEY).map_err(InitError::Bootstrap)?;
    let mut most = 1.0_f64;
    let mut addresses = Vec::with_capacity(all.len());
    for (process, octets) in (0..).zip(&all) {
        let (address, sharing, checked) = parse(octets).ok_or_else(|| InitError::Address {
            process,
            text: String::from_utf8_lossy(octets).into_owned(),
        })?;
        if checked != check {
            return Err(InitError::Check { process, here: check });
        }
        addresses.push(address);
        most = most.max(sharing);
    }
    Ok((addresses, most))
}

fn parse(octets: &[u8]) -> Option<(SocketAddr, f64, bool)> {
    let (address, rest) = str::from_utf8(octets).ok()?.split_once(' ')?;
    let (sharing, check) = rest.split_once(' ')?;
    Some((address.parse().ok()?, sharing.parse().ok()?, check.parse().ok()?))
}

//! How a process joins its job.

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    str,
    sync::Arc,
    thread::{self, JoinHandle},
};

use hikyaku::{
    Contact,
    backends::{BindOptions, Place, has_own_addresses},
    bootstrap::{self, BootstrapError, Environment, Failures, FailuresEnd, World},
    mpi::{
        engine::{self, Communicator, ConnectError, Engine, Profiler, Unconnected},
        trace::{TraceError, Tracer},
    },
    transport::{BuildError, Builder, EnvironmentError, Transport, environment::print_events},
};

use nix::sys::signal::SigSet;

use crate::topology::{Handle, Local};

/// The backend, unless `HIKYAKU_BACKEND` names another.
const BACKEND: &str = "udp";
/// The key under which a process publishes its address.
const KEY: &str = "hikyaku-mpi";

/// Why MPI could not begin. `Debug` prints the same sentence as `Display`, since programs unwrap it.
#[non_exhaustive]
pub enum InitError {
    /// MPI has begun before in this process.
    Twice,
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
            Self::Twice => {
                f.write_str("it has begun before in this process, which it can only once")?;
                if cfg!(feature = "sim") {
                    return Ok(());
                }
                f.write_str(" (for simulated ranks hikyaku-mpi needs its feature `sim`)")
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
            Self::Introduce { process, source } => write!(f, "reaching process {process}: {source}"),
            Self::Meet(error) => write!(f, "HIKYAKU_ROUTES=memory: {error}"),
            Self::Connect(error) => error.fmt(f),
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

hikyaku::debug_as_display!(InitError);

impl std::error::Error for InitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Twice | Self::Backend { .. } | Self::Address { .. } | Self::Check { .. } => None,
            Self::Bootstrap(error) => Some(error),
            Self::Environment(error) => Some(error),
            Self::Bind { source, .. } => Some(source),
            Self::Introduce { source, .. } => Some(source),
            Self::Meet(error) => Some(error),
            Self::Connect(error) => Some(error),
            Self::Watcher(error) => Some(error),
            Self::Trace(error) => Some(error),
        }
    }
}

/// The connection to the launcher.
#[derive(Debug)]
pub(super) struct Launched {
    /// Receives the launcher's reports of failed processes; ends first.
    watcher: Option<Watcher>,
    pub(super) job: World,
}

impl Launched {
    /// Stops listening to the launcher's reports.
    pub(super) fn into_job(self) -> World {
        drop(self.watcher);
        self.job
    }
}

/// A thread that tells the engine which processes have failed, according to the launcher.
#[derive(Debug)]
struct Watcher {
    end: FailuresEnd,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    fn start(failures: Failures, engine: &Arc<Engine>) -> io::Result<Self> {
        let (end, engine) = (failures.ender()?, Arc::downgrade(engine));
        // Signals are for the program's own threads.
        let before = SigSet::thread_get_mask()?;
        SigSet::all().thread_block()?;
        let thread = thread::Builder::new().name("hikyaku-losses".into()).spawn(move || {
            for process in failures {
                let Some(engine) = engine.upgrade() else { return };
                engine.peer_lost(process);
            }
        });
        before.thread_set_mask()?;
        Ok(Self {
            end,
            thread: Some(thread?),
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.end.end();
        if let Some(thread) = self.thread.take() {
            // It does not panic, and if it did there would be nothing to do about it here.
            let _ = thread.join();
        }
    }
}

/// Joins the job. Returns the world, this process alone, and the connection to the launcher.
pub(super) fn start() -> Result<(Handle, Handle, Option<Launched>), InitError> {
    #[cfg(feature = "sim")]
    if let Some(rank) = hikyaku::sim::Rank::current() {
        let (world, own) = handles(rank.engine());
        return Ok((world, own, None));
    }
    let environment = Environment::of_process();
    print_events(&environment).map_err(InitError::Environment)?;
    let mut job = bootstrap::discover(&environment).map_err(InitError::Bootstrap)?;
    let one_host = job.local_size() == job.size();
    let (mut config, mut options) = engine::for_job(job.size(), job.sharing(), one_host);
    config.contact = Contact::of_job(job.job_key().bytes());
    options.environment(&environment).map_err(InitError::Environment)?;
    let builder = Transport::builder()
        .config(config)
        .routes(options.routes)
        .environment_of(environment.clone());
    let (builder, address) = place(builder, &job, &environment)?;
    let bound = Engine::bind(builder, BACKEND, address, job.rank());
    let mut bound = bound.map_err(|source| InitError::Bind { address, source })?;
    if job.size() > 1 && bound.backend_name() == "loopback" {
        let name = bound.backend_name();
        return Err(InitError::Backend { name });
    }
    let (addresses, sharing) = exchange(&mut job, &mut bound, options.check)?;
    options.policy.model.sharing = sharing;
    let tracer = Tracer::of_environment(&environment, job.rank()).map_err(InitError::Trace)?;
    options.profiler = tracer.map(|tracer| tracer as Arc<dyn Profiler>);
    let engine = bound.connect(&addresses, options).map_err(InitError::Connect)?;
    let watcher = match job.failures().map_err(InitError::Bootstrap)? {
        Some(failures) => Some(Watcher::start(failures, &engine).map_err(InitError::Watcher)?),
        None => None,
    };
    let (world, own) = handles(&engine);
    Ok((world, own, Some(Launched { watcher, job })))
}

/// The address at which to open the network, and this process's part of the settings that all processes share.
fn place(builder: Builder, job: &World, environment: &Environment) -> Result<(Builder, SocketAddr), InitError> {
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let name = builder.backend_name(BACKEND);
    let name = name.map_err(|source| InitError::Bind { address: any, source })?;
    let address = if has_own_addresses(&name) {
        any
    } else {
        job.bind_address().map_err(InitError::Bootstrap)?
    };
    let mut options = BindOptions::default();
    options.place = Place {
        process: job.rank(),
        processes: job.size(),
    };
    options.environment = environment.clone();
    Ok((builder.bind_options(options), address))
}

/// The world, and this process alone.
fn handles(engine: &Arc<Engine>) -> (Handle, Handle) {
    let local = Arc::<Local>::default();
    let world = Handle::new(Communicator::world(engine), &local, "MPI_COMM_WORLD");
    let own = Handle::new(Communicator::own(engine), &local, "MPI_COMM_SELF");
    (world, own)
}

/// Publishes the address of this process and the number of processes that share a core here. Returns the addresses
/// of the others, and the largest such number anywhere: all must choose the same algorithms, and agree on whether to
/// check calls.
fn exchange(job: &mut World, bound: &mut Unconnected, check: bool) -> Result<(Vec<SocketAddr>, f64), InitError> {
    let own = Said {
        address: bound.local_addr(),
        sharing: job.sharing(),
        check,
        link: bound.link_address(),
    };
    let text = own.to_string();
    job.put(KEY, text.as_bytes()).map_err(InitError::Bootstrap)?;
    job.fence().map_err(InitError::Bootstrap)?;
    let all = job.get_all(KEY).map_err(InitError::Bootstrap)?;
    let mut most = 1.0_f64;
    let mut addresses = Vec::with_capacity(all.len());
    for (process, bytes) in (0..).zip(&all) {
        let said = Said::parse(bytes).ok_or_else(|| InitError::Address {
            process,
            text: String::from_utf8_lossy(bytes).into_owned(),
        })?;
        if said.check != check {
            return Err(InitError::Check { process, here: check });
        }
        if process != job.rank() {
            bound
                .introduce(said.address, &said.link)
                .map_err(|source| InitError::Introduce { process, source })?;
        }
        addresses.push(said.address);
        most = most.max(said.sharing);
    }
    let met = bound.meet().map_err(InitError::Meet)?;
    if let Some(obstacle) = met.obstacle {
        // A user who has asked for memory expects its speed.
        eprintln!(
            "hikyaku: rank {}: over the network instead of through memory: {obstacle}",
            job.rank()
        );
    }
    Ok((addresses, most))
}

/// The information that a process publishes.
#[derive(Debug, PartialEq)]
struct Said {
    address: SocketAddr,
    /// Processes that share a core there.
    sharing: f64,
    /// Set if the calls of ranks are compared.
    check: bool,
    /// The link address of its backend.
    link: Vec<u8>,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.address, self.sharing, self.check)?;
        self.link.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Said {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = str::from_utf8(bytes).ok()?.split(' ');
        let address = words.next()?.parse().ok()?;
        let sharing = words.next()?.parse().ok()?;
        let check = words.next()?.parse().ok()?;
        let digits = words.next()?.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let link = digits.map(byte).collect::<Option<_>>()?;
        words.next().is_none().then_some(Self {
            address,
            sharing,
            check,
            link,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        for link in [vec![], vec![2, 0, 0xff, 0x10]] {
            let said = Said {
                address: "10.0.0.1:7".parse().unwrap(),
                sharing: 1.5,
                check: true,
                link,
            };
            assert_eq!(Said::parse(said.to_string().as_bytes()), Some(said));
        }
        for wrong in [
            "",
            "10.0.0.1:7 1 true",
            "10.0.0.1:7 1 true 0x",
            "10.0.0.1:7 1 true 00 00",
        ] {
            assert_eq!(Said::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}

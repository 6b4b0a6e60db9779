//! The part of a process in its job: how it joins, and how it leaves.
//!
//! [`Job::join`] is all of `MPI_Init` that the launcher, the network and the engine have to do with, and
//! [`Job::finalize`] of `MPI_Finalize`. How often a process may begin, and where it keeps its job, is up to the
//! interface that stands on this.
//!
//! ```
//! use hikyaku::{
//!     environment::Environment,
//!     mpi::{engine::Communicator, job::{Job, LINGER}},
//! };
//!
//! // Started alone: a world of one.
//! let job = Job::join(&Environment::of_process())?;
//! let world = Communicator::world(job.engine());
//! assert_eq!((world.rank(), world.size()), (0, 1));
//! Job::finalize(&world, LINGER, || Some(job))?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod error;
mod own;
mod said;
mod watcher;

use core::time::Duration;
use std::{
    eprintln,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

pub use self::error::{FinalizeError, InitError, SpawnError};
use self::{own::Own, said::Said, watcher::Watcher};
use super::{
    Rank,
    class::ErrorClass,
    engine::{self, Communicator, Engine, NETWORK_INSTEAD, Parents, Profiler, Started, Unconnected},
    error::Error,
    trace::Tracer,
};
pub use crate::bootstrap::Program;
use crate::{
    backends::{BindOptions, Place, has_own_addresses, has_ports},
    bootstrap::{
        self, World,
        address::{Chosen, Why},
    },
    config::Contact,
    environment::Environment,
    events::event,
    reliability::Path,
    transport::{Builder, Transport, environment::print_events},
};

/// How long the end of MPI usually waits until the others have heard the goodbye.
pub const LINGER: Duration = Duration::from_secs(2);

/// The backend, unless `HIKYAKU_BACKEND` names another.
const BACKEND: &str = "udp";
/// The backend of a process behind a poller.
const POLLER: &str = "poller";
/// The key under which a process publishes its address.
const KEY: &str = "hikyaku-mpi";

/// The part of this process in a running job: its engine, and the connection to the launcher.
///
/// A process that drops it without [`finalize`](Self::finalize) has failed, for the launcher.
#[derive(Debug)]
pub struct Job {
    /// Receives the launcher's reports of failed processes; ends first.
    watcher: Option<Watcher>,
    launched: World,
    engine: Arc<Engine>,
    /// Between this world and the processes that have spawned it.
    parent: Option<Communicator>,
    own: Own,
}

impl Job {
    /// Joins the job that the launcher has started, or a world of one process ([`crate::bootstrap`]), and connects the
    /// processes. Settings are those of `environment` ([`crate::environment::VARIABLES`]), else those that suit the job
    /// ([`engine::for_job`]). Collective over all processes of the job.
    ///
    /// # Errors
    /// The launcher, the other processes or the network could not be reached; a variable has no valid value.
    pub fn join(environment: &Environment) -> Result<Self, InitError> {
        print_events(environment).map_err(InitError::Environment)?;
        let mut job = bootstrap::discover(environment).map_err(InitError::Bootstrap)?;
        let one_host = job.local_size() == job.size();
        let (mut config, mut options) = engine::for_job(job.size(), job.sharing(), one_host);
        config.contact = Contact::of_job(job.job_key().bytes());
        options.environment(environment).map_err(InitError::Environment)?;
        let parents = parents(&job)?;
        let builder = Transport::builder()
            .config(config)
            .routes(options.routes)
            .environment_of(environment.clone());
        let (builder, address, chosen) = place(builder, &job, environment)?;
        let first = job.first_process();
        let bound = Engine::bind(builder, BACKEND, address, first + job.rank());
        let mut bound = bound.map_err(|source| InitError::Bind { address, source })?;
        if job.size() > 1 && bound.backend_name() == "loopback" {
            let name = bound.backend_name();
            return Err(InitError::Backend { name });
        }
        let own = Own::new(chosen, &bound);
        let mut others = Vec::new();
        for process in parents.iter().flat_map(Parents::processes) {
            let said = said_by(&job, process)?;
            let paths = paths(&own, process, &said)?;
            others.push((process, reach(&mut bound, (process, process), &paths, &said.link)?));
        }
        let (addresses, sharing) = exchange(&mut job, &mut bound, options.check, &own)?;
        options.policy.model.sharing = sharing;
        if let Some(parents) = &parents {
            options.policy.model = parents.model;
        } else {
            // A trace is of one world.
            let tracer = Tracer::of_environment(environment, job.rank()).map_err(InitError::Trace)?;
            options.profiler = tracer.map(|tracer| tracer as Arc<dyn Profiler>);
        }
        let engine = bound.connect_from(first, &addresses, &others, options);
        let engine = engine.map_err(InitError::Connect)?;
        let watcher = match job.failures().map_err(InitError::Bootstrap)? {
            Some(failures) => Some(Watcher::start(failures, &engine).map_err(InitError::Watcher)?),
            None => None,
        };
        let parent = parents.map(|parents| Communicator::with_parents(&engine, &parents));
        let parent = parent.transpose().map_err(InitError::Parents)?;
        parent.iter().for_each(|parent| parent.set_name("MPI_COMM_PARENT"));
        Ok(Self {
            watcher,
            launched: job,
            engine,
            parent,
            own,
        })
    }

    /// The communicator between this world and the processes that have spawned it (`MPI_Comm_get_parent`); `None`: the
    /// launcher has started it.
    #[must_use]
    pub fn parent(&self) -> Option<&Communicator> {
        self.parent.as_ref()
    }

    /// Starts `programs` as a world of their own, and gives the communicator between it and the ranks of `among`
    /// (`MPI_Comm_spawn`, `MPI_Comm_spawn_multiple`). Collective over `among`; only the arguments of the rank `root` count.
    /// The new processes run on the hosts of the job, in turn.
    ///
    /// # Errors
    /// [`SpawnError::Launcher`] at `root`, if the processes could not be started; the others then get an error of class
    /// [`ErrorClass::Spawn`]. A rank of `among` is lost, or the communicator is revoked.
    pub fn spawn(&self, among: &Communicator, root: Rank, programs: &[Program]) -> Result<Communicator, SpawnError> {
        let start = |by: &str| {
            let first = self.launched.spawn(programs, by).map_err(SpawnError::Launcher)?;
            let count: u32 = programs.iter().map(|program| program.processes).sum();
            let said = (first..first + count).map(|process| {
                let said = said_by(&self.launched, process)?;
                Ok((said.addresses, said.link))
            });
            let said: Result<Vec<_>, _> = said.collect();
            Ok(Started {
                first,
                processes: said.map_err(SpawnError::Address)?,
            })
        };
        among.spawn_with(root, start, &|theirs| self.own.paths(theirs))
    }

    /// The engine of this process.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// What the launcher knows: hosts, numbers, the key-value store.
    #[must_use]
    pub fn launched(&self) -> &World {
        &self.launched
    }

    /// Ends the job through the launcher (`MPI_Abort`), with an exit code that is an error: `code` if it is 1 to 255,
    /// else 1. `reason` is for the user of the launcher.
    pub fn abort(self, code: i32, reason: &str) -> ! {
        let Self {
            watcher,
            launched,
            engine,
            ..
        } = self;
        drop(watcher);
        // Goodbye would look as if all were well.
        core::mem::forget(engine);
        launched.abort(u8::try_from(code).unwrap_or(1).max(1), reason)
    }

    /// Leaves the job of `world`, all of whose processes call this (`MPI_Finalize`): meets them, says goodbye to the
    /// peers for at most `linger` and then to the launcher. `leave` is called when all have met, and gives the job; its
    /// handles can be used until then. `None` stands for a rank without a launcher, in a simulation.
    ///
    /// # Errors
    /// A process is lost, the network has failed, or the launcher does not answer.
    pub fn finalize(
        world: &Communicator,
        linger: Duration,
        leave: impl FnOnce() -> Option<Self>,
    ) -> Result<(), FinalizeError> {
        let (mut job, mut fenced) = (None, Ok(()));
        let ended = world.finalize_with(linger, |met| {
            job = leave();
            match job.as_mut().filter(|job| job.launched.goes_on_after_failures()) {
                // A barrier cannot be complete without those that have failed; the launcher's is, and no rank says
                // goodbye before all others have come. Some may have left the barrier before one failed, so all take
                // this way.
                Some(job) if met.as_ref().err().is_none_or(has_failed) => {
                    fenced = job.launched.fence();
                    Ok(())
                }
                _ => met,
            }
        });
        fenced.map_err(FinalizeError::Launcher)?;
        ended.map_err(FinalizeError::Barrier)?;
        let Some(Self {
            watcher, mut launched, ..
        }) = job
        else {
            return Ok(());
        };
        drop(watcher);
        // A process that exits takes away memory that a neighbour may be reading (memif): first all stop reading.
        let met = launched.fence();
        let gone = launched.finalize();
        met.and(gone).map_err(FinalizeError::Launcher)
    }
}

/// Another process has failed.
fn has_failed(error: &Error) -> bool {
    error.class() == ErrorClass::ProcFailed
}

/// The address at which to open the network, and this process's part of the settings that all processes share. Also the
/// addresses of the network's ports, if it has several.
fn place(
    builder: Builder,
    job: &World,
    environment: &Environment,
) -> Result<(Builder, SocketAddr, Vec<Chosen>), InitError> {
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let name = builder.backend_name(BACKEND);
    let name = name.map_err(|source| InitError::Bind { address: any, source })?;
    let (mut address, mut ports, mut chosen) = (any, Vec::new(), Vec::new());
    if !has_own_addresses(&name) {
        let port = job.port().map_err(InitError::Bootstrap)?;
        chosen = job.choose().map_err(InitError::Bootstrap)?.chosen;
        if !has_ports(&name) {
            chosen.truncate(1);
        }
        chosen.retain(|chosen| is_bindable(chosen, port));
        let mut all = chosen.iter().map(|chosen| SocketAddr::new(chosen.address, port));
        address = all.next().unwrap_or(any);
        ports = all.collect();
    }
    if name == POLLER {
        // Peers find the process at the addresses of its poller, and not at this one, where it may have a socket beside.
        chosen.clear();
    }
    let options = BindOptions {
        place: Place {
            process: job.first_process() + job.rank(),
            processes: job.first_process() + job.size(),
        },
        environment: environment.clone(),
        ports,
        ..BindOptions::default()
    };
    Ok((builder.bind_options(options), address, chosen))
}

/// The user has not named this address, so the job does without it if no socket can be opened there: it has vanished
/// meanwhile, the kernel still looks for others that have it (IPv6), or the port is taken.
fn is_bindable(chosen: &Chosen, port: u16) -> bool {
    if !matches!(chosen.why, Why::Further | Why::OtherFamily) {
        return true;
    }
    let bound = UdpSocket::bind(SocketAddr::new(chosen.address, port));
    if let Err(_why) = &bound {
        event!(WARN, interface = chosen.interface, address = %chosen.address, why = %_why, "address left out");
    }
    bound.is_ok()
}

/// The processes that have spawned this world.
fn parents(job: &World) -> Result<Option<Parents>, InitError> {
    let word = job.spawned_by();
    let parse = |word: &str| Parents::of_word(word).ok_or_else(|| InitError::SpawnedBy(word.into()));
    word.map(parse).transpose()
}

/// What a process of any world has said about itself.
fn said_by(job: &World, process: u32) -> Result<Said, InitError> {
    let bytes = job.get_of(process, KEY).map_err(InitError::Bootstrap)?;
    understand(process, &bytes)
}

/// What a process has said about itself.
fn understand(process: u32, bytes: &[u8]) -> Result<Said, InitError> {
    Said::parse(bytes).ok_or_else(|| InitError::Address {
        process,
        text: String::from_utf8_lossy(bytes).into_owned(),
    })
}

/// The paths to a process, of which there is at least one.
fn paths(own: &Own, process: u32, said: &Said) -> Result<Vec<Path>, InitError> {
    let paths = own.paths(&said.addresses);
    match said.addresses.usual.first() {
        Some(&address) if paths.is_empty() => Err(InitError::Family { process, address }),
        _ => Ok(paths),
    }
}

/// The address of another process is one of our own, or that of several processes: so it is with virtual machines, each of
/// which has the same address behind its own translation. (Of a process on this host, all addresses are our own, and then
/// there is no other one to take.)
fn is_ambiguous(address: SocketAddr, own: &Said, all: &[Said]) -> bool {
    let is_own = own.addresses.all().any(|other| other.ip() == address.ip());
    let begins = |said: &&Said| said.addresses.usual.first() == Some(&address);
    is_own || all.iter().filter(begins).nth(1).is_some()
}

/// The second path comes first. The port of the first one leads to the address of the second one as well, if it can.
fn begin_with_second(paths: &mut Vec<Path>) {
    let Some(&second) = paths.get(1) else { return };
    let first = paths.remove(0);
    let beside = Path::new(second.address, first.port);
    if first.address.is_ipv4() == second.address.is_ipv4() && !paths.contains(&beside) {
        paths.push(beside);
    }
}

/// A process is reached by these paths, of which the first is its first rail. Gives the address there. `process`: its
/// number for a user, and that in the job.
fn reach(
    bound: &mut Unconnected,
    (process, in_job): (u32, u32),
    paths: &[Path],
    link: &[u8],
) -> Result<SocketAddr, InitError> {
    let Some((first, further)) = paths.split_first() else {
        return Err(InitError::Address {
            process,
            text: String::new(),
        });
    };
    let introduced = bound.introduce(first.address, link);
    introduced.map_err(|source| InitError::Introduce { process, source })?;
    if first.port != 0 {
        bound.leave_by(in_job, first.port);
    }
    for path in further {
        bound.add_rail(in_job, path.port, path.address);
    }
    Ok(first.address)
}

/// Publishes the addresses of this process and the number of processes that share a core here. Returns the addresses
/// of the others, and the largest such number anywhere: all must choose the same algorithms, and agree on whether to
/// check calls.
fn exchange(
    job: &mut World,
    bound: &mut Unconnected,
    check: bool,
    ports: &Own,
) -> Result<(Vec<SocketAddr>, f64), InitError> {
    let own = Said {
        addresses: ports.addresses(),
        sharing: job.sharing(),
        check,
        link: bound.link_address(),
    };
    let text = own.to_string();
    job.put(KEY, text.as_bytes()).map_err(InitError::Bootstrap)?;
    job.fence().map_err(InitError::Bootstrap)?;
    let all = job.get_all(KEY).map_err(InitError::Bootstrap)?;
    let all: Result<Vec<Said>, _> = (0..)
        .zip(&all)
        .map(|(process, bytes)| understand(process, bytes))
        .collect();
    let all = all?;
    let mut most = 1.0_f64;
    let mut addresses = Vec::with_capacity(all.len());
    for (process, said) in (0..).zip(&all) {
        if said.check != check {
            return Err(InitError::Check { process, here: check });
        }
        addresses.push(if process == job.rank() {
            bound.local_addr()
        } else {
            let mut paths = paths(ports, process, said)?;
            if { paths.first() }.is_some_and(|first| is_ambiguous(first.address, &own, &all)) {
                begin_with_second(&mut paths);
            }
            reach(bound, (process, job.first_process() + process), &paths, &said.link)?
        });
        most = most.max(said.sharing);
    }
    let met = bound.meet().map_err(InitError::Meet)?;
    if let Some(obstacle) = met.obstacle {
        // A user expects its speed.
        eprintln!("hikyaku: {NETWORK_INSTEAD}: {obstacle}");
    }
    Ok((addresses, most))
}

//! A job of simulated processes, from beginning to end.

use std::{
    cell::RefCell,
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    rc::Rc,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use super::{
    circuits::Circuits,
    coroutine::{Computes, Place, Program, Rank},
    cpu::Cpu,
    fabric::{Shared, Simulated},
    faults::{FaultStats, Faults, Trouble},
    heap::{self, Regions},
    network::{Network, NetworkStats, RangeError},
    node::{Doing, Node, address_on},
    optics::{Optics, OpticsStats},
    polling::{Polling, Queues},
    scheduler::{Next, Scheduler},
    tcp::{Streams, Tcp},
    wires::{LATEST, Wires},
};
use crate::{
    config::{Config, ConfigError},
    messaging::Messenger,
    mpi::{
        collectives::Levels,
        engine::{
            ANY_SOURCE, ANY_TAG, ConnectionPlan, Engine, Entry, Fabric, FabricError, Options, Peers, Process, Profiler,
            simulated::Met,
        },
        trace::Tracer,
    },
    prng::{Prng, mix},
    reliability::{Beside, Endpoint, Layer, Limits, MemoryLayer},
    time::nanos,
};

/// Most processes: each has an address in a private network.
const MAX_PROCESSES: u32 = 1 << 20;

/// A job of simulated processes. A run is determined by these values, including the seed, and by the program: it can be
/// repeated on any machine.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// Number of processes; the network says how many share a host. 1 to 1,048,576.
    pub processes: u32,
    /// Seed of all random decisions.
    pub seed: u64,
    /// The network between the hosts.
    pub network: Network,
    /// Optical circuit switches, if packets need circuits; then with one process on each host. Default: none.
    pub optics: Option<Optics>,
    /// The cost of packets at the hosts.
    pub cpu: Cpu,
    /// Which process takes packets from a host's receive queues. Default: helpers.
    pub polling: Polling,
    /// The receive queues of processes that compute, and of pollers.
    pub queues: Queues,
    /// Processes of the same host reach each other through memory, which loses nothing and keeps the order
    /// ([`MemoryLayer`]); [`faults`](Self::faults) concern the network only, and there are no crashes. Default: no, as
    /// over the network.
    pub shared_memory: bool,
    /// Processes talk by TCP of the 1990s instead of this project's protocol, to compare with. Then
    /// [`Network::routing`] says between which processes there are connections: whole messages are passed on, not
    /// packets. Without circuits, shared memory, watched peers and crashes. Default: none.
    pub tcp: Option<Tcp>,
    /// Settings of the protocol. Datagram sizes are set by the network.
    pub config: Config,
    /// Settings of MPI. Collectives go within hosts and between them where
    /// [`Policy::levels`](crate::mpi::collectives::Policy::levels) says leaders. The wait policy and the helper thread
    /// have no effect: the protocol goes on while a program [computes](compute).
    pub options: Options,
    /// Bytes that may wait at a host while its core is busy with earlier packets. At least 1,500; default 1 MiB. (The
    /// limits for programs that compute, and for pollers, are in [`queues`](Self::queues).)
    pub receive_buffer: u32,
    /// Bytes of each program's stack, of which only the used ones take memory. At least 64 KiB; default 1 MiB.
    /// (Natively `main` has 8 MiB on most systems.) A program that needs more ends the process with SIGSEGV, without a
    /// message.
    pub stack: usize,
    /// The simulation ends at this time in any case. Default, and most: 2^53 ns, 104 days.
    pub limit: Option<Duration>,
    /// Faults. Default: none.
    pub faults: Faults,
    /// Writes all datagrams to this file (pcapng), as hosts send them, with the effects of [`Faults`]. After a write
    /// error nothing more is written, and [`run`](Self::run) gives the error when all programs are over. Default: none.
    pub capture: Option<PathBuf>,
    /// Writes the calls of each process to a file in this directory ([`Tracer`]), with virtual times; the files of
    /// restarted processes are in subdirectories. Then [`Options::profiler`] is not called. Default: none.
    pub trace: Option<PathBuf>,
}

impl Simulation {
    /// `processes` on the default network.
    #[must_use]
    pub fn new(processes: u32, seed: u64) -> Self {
        Self {
            processes,
            seed,
            network: Network::default(),
            optics: None,
            cpu: Cpu::default(),
            polling: Polling::Helper,
            queues: Queues::default(),
            shared_memory: false,
            tcp: None,
            config: Config {
                path_mtu_discovery: false,
                ..Config::default()
            },
            options: Options {
                helper: None,
                ..Options::default()
            },
            receive_buffer: 1 << 20,
            stack: 1 << 20,
            limit: None,
            faults: Faults::default(),
            capture: None,
            trace: None,
        }
    }

    fn validate(&self) -> Result<(), RangeError> {
        let count = (1..=MAX_PROCESSES).contains(&self.processes);
        RangeError::first(&[(count, "processes", "from 1 to 1048576")])?;
        self.network.validate_for(self.processes)?;
        self.cpu.validate()?;
        self.queues.validate()?;
        self.optics
            .iter()
            .try_for_each(|optics| optics.validate(self.processes))?;
        self.faults.validate(self.processes)?;
        self.tcp.iter().try_for_each(Tcp::validate)?;
        let checks = [
            (
                self.tcp.is_none()
                    || self.optics.is_none() && !self.shared_memory && !self.faults.watch && !self.faults.has_crashes(),
                "tcp",
                "without circuits, shared memory, watched peers and crashes",
            ),
            (self.tcp.is_none() || self.network.rails == 1, "rails", "1 with `tcp`"),
            (
                self.optics.is_none() || self.network.per_host == 1,
                "per_host",
                "1 where there are circuits",
            ),
            (
                !self.shared_memory || self.polling == Polling::Helper && !self.faults.has_crashes(),
                "shared_memory",
                "only where helpers poll and no process crashes",
            ),
            (self.receive_buffer >= 1_500, "receive_buffer", "at least 1500 bytes"),
            (
                (64 << 10..=isize::MAX as usize).contains(&self.stack),
                "stack",
                "at least 64 KiB, and less than half of all addresses",
            ),
            (
                !self.faults.watch || self.limit.is_some(),
                "limit",
                "given where silence is noticed",
            ),
        ];
        RangeError::first(&checks)
    }

    /// Runs `program` at each process until all are over, all in the calling thread.
    ///
    /// A program that crashes, or that is stopped while it waits, is never resumed and never unwound. Therefore it can
    /// not borrow from the caller: it owns what it uses (`move`, [`Arc`]), and returns its findings as its result.
    ///
    /// ```compile_fail
    /// # use hikyaku::{mpi::engine::Communicator, sim::Simulation};
    /// let numbers = vec![1_u64; 1_000];
    /// // A program that waits for ever would leave the thread with a reference to numbers that are gone.
    /// let outcome = Simulation::new(2, 1).run(|engine| {
    ///     std::thread::scope(|scope| {
    ///         scope.spawn(|| numbers.iter().sum::<u64>());
    ///         Communicator::world(engine).barrier().unwrap();
    ///     });
    /// });
    /// ```
    ///
    /// # Errors
    /// A parameter is out of its range; all programs wait for each other; the time limit is reached. Programs that are
    /// not over then are never resumed, and keep what they hold. If all are over: the capture or a trace is not
    /// complete.
    ///
    /// # Panics
    /// If the program panics, with its panic; the other programs are treated as above. A program that lets another
    /// thread call MPI panics there: threads take no virtual time.
    pub fn run<R: 'static>(
        &self,
        program: impl Fn(&Arc<Engine>) -> R + 'static,
    ) -> Result<Outcome<R>, SimulationError> {
        self.validate().map_err(SimulationError::Range)?;
        let mut job = Job::new(self)?;
        let results = (0..self.processes).map(|_| None).collect::<Vec<_>>();
        let shared = Rc::new((program, RefCell::new(results)));
        let home = job.shared.home();
        let spawn = |process: u32, (engine, computes): Started, incarnation| {
            let shared = Rc::clone(&shared);
            let body = move |engine: &Arc<Engine>| {
                let (program, results) = &*shared;
                let result = program(engine);
                results.borrow_mut()[process as usize] = Some(result);
            };
            let host = process / self.network.per_host;
            let place = Place {
                home,
                host,
                incarnation,
            };
            Program::new(self.stack, (engine, computes), place, body).map_err(SimulationError::Stack)
        };
        let mut programs = Vec::with_capacity(self.processes as usize);
        let ran = job.run(&mut programs, &spawn);
        // Before the engines, which own what programs still hold.
        drop(programs);
        let time = ran?;
        if let Some((path, source)) = job.trace_error.take() {
            return Err(SimulationError::File { path, source });
        }
        let mut world = job.shared.lock();
        if let Some(source) = world.trouble.capture_error.take() {
            let path = self.capture.clone().unwrap_or_default();
            return Err(SimulationError::File { path, source });
        }
        // Programs that are never resumed refer to them, too.
        let results = shared.1.take().into_iter().flatten().collect();
        Ok(Outcome {
            results,
            time,
            network: world.wires.stats,
            optics: world
                .circuits
                .as_ref()
                .map(|circuits| circuits.stats)
                .unwrap_or_default(),
            faults: world.trouble.stats,
            events: world.queue.entered(),
            digest: world.digest,
        })
    }
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome<R> {
    /// Results of the programs, by rank. Processes that have crashed for good have none, so where processes may crash
    /// the program should return its rank, too.
    pub results: Vec<R>,
    /// When the last program was over.
    pub time: Duration,
    /// Fates of packets.
    pub network: NetworkStats,
    /// Fates of circuits.
    pub optics: OpticsStats,
    /// Effects of faults.
    pub faults: FaultStats,
    /// Number of events.
    pub events: u64,
    /// A hash of all arrivals with their times and places: equal for equal runs.
    pub digest: u64,
}

/// Why a simulation has no outcome. `Debug` prints the same as `Display`, since that is what a program prints whose
/// `main` returns it.
#[non_exhaustive]
pub enum SimulationError {
    /// A parameter is out of its range.
    Range(RangeError),
    /// A setting of the protocol is out of its range.
    Config(ConfigError),
    /// There was no memory for the programs' stacks.
    Stack(io::Error),
    /// [`Simulation::capture`] or [`Simulation::trace`] cannot be written.
    File {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Nothing will happen any more, and some programs are not over.
    Deadlock {
        /// Time of the last event.
        time: Duration,
        /// Packets wait for circuits, and none can ever be set up.
        dark: bool,
        /// The processes that wait, and in which call.
        waiting: Vec<Waiting>,
    },
    /// A process was waited for in the program of another one, or in code that is called between programs (a waker):
    /// its engine, communicators and requests must only be used by its own program.
    Misplaced {
        /// The process that was waited for.
        process: u32,
    },
    /// [`Simulation::limit`] is reached.
    TimeLimit {
        /// The limit.
        limit: Duration,
        /// The processes whose programs are not over, and in which call.
        waiting: Vec<Waiting>,
    },
}

/// A process that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its number.
    pub process: u32,
    /// The MPI call that it is in, without its lists; `None`: none.
    pub call: Option<Entry>,
    /// Since when.
    pub since: Duration,
    /// The processes from which it needs messages, or which must take its messages.
    pub on: Vec<u32>,
}

/// Whether the rank that a call names is the root of a collective.
fn is_rooted(call: &str) -> bool {
    let call = call.trim_end_matches('v');
    ["MPI_Bcast", "MPI_Gather", "MPI_Reduce", "MPI_Scatter"].contains(&call)
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.process)?;
        match &self.call {
            None => f.write_str(" is outside of MPI")?,
            Some(entry) => {
                write!(f, " is in {}", entry.call)?;
                match entry.peer {
                    None => {}
                    Some(ANY_SOURCE) => f.write_str(", any rank")?,
                    Some(root) if is_rooted(entry.call) => write!(f, ", root {root}")?,
                    Some(peer) => write!(f, ", rank {peer}")?,
                }
                match entry.tag {
                    None => {}
                    Some(ANY_TAG) => f.write_str(", any tag")?,
                    Some(tag) => write!(f, ", tag {tag}")?,
                }
                write!(f, " (context {}, since {:?})", entry.context, self.since)?;
            }
        }
        for (index, process) in self.on.iter().enumerate() {
            f.write_str(if index == 0 { ", waiting for process " } else { ", " })?;
            write!(f, "{process}")?;
        }
        Ok(())
    }
}

impl fmt::Display for SimulationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Most lines, for readability.
        const MOST: usize = 20;
        let list = |f: &mut fmt::Formatter<'_>, waiting: &[Waiting]| {
            for one in waiting.iter().take(MOST) {
                write!(f, "\n  {one}")?;
            }
            match waiting.len().saturating_sub(MOST) {
                0 => Ok(()),
                more => write!(f, "\n  and {more} more"),
            }
        };
        match self {
            Self::Range(error) => error.fmt(f),
            Self::Config(error) => error.fmt(f),
            Self::Stack(error) => write!(
                f,
                "making the stacks of simulated processes: {error} (each is two mappings; sysctl vm.max_map_count says how \
                 many there may be)"
            ),
            Self::File { path, source } => write!(f, "writing the simulation's output to {}: {source}", path.display()),
            Self::Deadlock { time, dark, waiting } => {
                let why = if *dark { ", as no circuit can be set up" } else { "" };
                match waiting.len() {
                    1 => write!(f, "deadlock at {time:?}: 1 process waits for ever{why}")?,
                    more => write!(f, "deadlock at {time:?}: {more} processes wait for ever{why}")?,
                }
                list(f, waiting)
            }
            Self::Misplaced { process } => write!(
                f,
                "process {process} was to wait outside of its own program: communicators and requests are for the program \
                 of their own process alone"
            ),
            Self::TimeLimit { limit, waiting } => {
                match waiting.len() {
                    1 => write!(f, "not over after {limit:?}: 1 process goes on")?,
                    more => write!(f, "not over after {limit:?}: {more} processes go on")?,
                }
                list(f, waiting)
            }
        }
    }
}

crate::debug_as_display!(SimulationError);

impl std::error::Error for SimulationError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Range(error) => Some(error),
            Self::Config(error) => Some(error),
            Self::Stack(error) => Some(error),
            Self::File { source, .. } => Some(source),
            Self::Deadlock { .. } | Self::Misplaced { .. } | Self::TimeLimit { .. } => None,
        }
    }
}

struct Job<'a> {
    simulation: &'a Simulation,
    config: Config,
    limits: Limits,
    rng: Prng,
    shared: Shared,
    /// Tracers of the latest incarnation of each process, if traces are written.
    tracers: Vec<Option<Arc<Tracer>>>,
    /// The first error of a tracer.
    trace_error: Option<(PathBuf, io::Error)>,
    incarnations: Vec<u32>,
    /// Dropped last, after everything that is allocated in them.
    _regions: Regions,
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A program has panicked (and has reported it), or a waker, or this code: memory lent by programs is not
            // valid any more.
            let why = FabricError("the simulation has panicked".into());
            self.shared.lock().fail(why);
        }
        self.shared.end();
    }
}

/// An engine, and what lets its program compute.
type Started = (Arc<Engine>, Arc<dyn Computes>);

/// Makes the program of an incarnation of a process.
type Spawn<'a> = dyn Fn(u32, Started, u32) -> Result<Program, SimulationError> + 'a;

impl<'a> Job<'a> {
    fn new(simulation: &'a Simulation) -> Result<Self, SimulationError> {
        let regions = Regions::new(simulation.processes);
        let mut rng = Prng::new(simulation.seed);
        let datagram = simulation.network.datagram();
        let limits = Limits {
            max_datagram: datagram,
            max_segments: 1,
            max_batch: datagram,
            receive_buffer: simulation.receive_buffer as usize,
            holds_references: false,
            ack_bytes: usize::MAX,
            receive_port: 0,
        };
        let mut config = simulation.config.clone();
        config.max_datagram = config.max_datagram.min(datagram as u16);
        config.safe_datagram = config.max_datagram;
        config.late_peers = false;
        config.reconnect = false;
        let routing = simulation.network.routing.filter(|_| simulation.tcp.is_none());
        let network = Network {
            routing,
            ..simulation.network
        };
        let wires = Wires::new(network, simulation.processes, rng.next_u64());
        let (faults, capture) = (&simulation.faults, simulation.capture.as_deref());
        let trouble = Trouble::new(faults, capture, simulation.network.rails, mix(simulation.seed));
        let trouble = trouble.map_err(|source| SimulationError::File {
            path: capture.map(PathBuf::from).unwrap_or_default(),
            source,
        })?;
        let polls = (simulation.polling, simulation.queues);
        let mut scheduler = Scheduler::new(
            wires,
            simulation.cpu,
            simulation.receive_buffer,
            polls,
            (trouble, &faults.plan),
        );
        scheduler.shared_memory = simulation.shared_memory;
        Ok(Self {
            simulation,
            config,
            limits,
            rng,
            shared: Shared::new(scheduler),
            tracers: vec![None; simulation.processes as usize],
            trace_error: None,
            incarnations: vec![0; simulation.processes as usize],
            _regions: regions,
        })
    }

    /// Messenger and core of a new incarnation.
    fn node(&mut self, process: u32) -> Result<(Messenger, Process), SimulationError> {
        let (epoch, seed) = (self.rng.next_u64() | 1, self.rng.next_u64());
        let endpoint = Endpoint::new(self.config.clone(), self.limits, epoch, seed.into());
        let mut layer = Layer::from(endpoint.map_err(SimulationError::Config)?);
        if self.simulation.shared_memory {
            let memory = MemoryLayer::new(self.config.clone(), self.limits, epoch).map_err(SimulationError::Config)?;
            let per_host = self.simulation.network.per_host;
            let is_near = move |_, other: u32| other / per_host == process / per_host;
            layer = Layer::from(Box::new(Beside::new(layer, memory, is_near)));
        }
        if let Some(tcp) = self.simulation.tcp {
            let limits = Streams::limits(self.limits);
            // TCP has a window of its own: no message is to say how much room there is.
            let config = Config {
                unexpected_bytes: 1 << 30,
                ..self.config.clone()
            };
            let memory = MemoryLayer::new(config, limits, epoch).map_err(SimulationError::Config)?;
            let ends = (process, self.simulation.processes);
            let routing = self.simulation.network.routing;
            layer = Layer::from(Box::new(Streams::new(
                memory,
                tcp,
                routing,
                ends,
                self.limits.max_datagram,
            )));
        }
        let mut messenger = Messenger::new(layer, &[process]);
        let met = Met::new(process, self.simulation.processes, address_on);
        let peers = Peers::from(met.by_rails(self.simulation.network.rails as u8));
        let mut core = Process::new(&messenger, peers, self.simulation.options.eager_limit);
        if self.simulation.tcp.is_some() {
            // All connections are open.
            (0..self.simulation.processes).for_each(|peer| _ = core.peers.meet(&mut messenger, peer));
        }
        core.set_connection_plan(ConnectionPlan::ahead(self.simulation.options.connect_ahead));
        Ok((messenger, core))
    }

    /// An engine on the node of a process.
    fn engine(&mut self, process: u32) -> Result<Started, SimulationError> {
        let (simulation, index) = (self.simulation, process as usize);
        let mut options = simulation.options.clone();
        if options.policy.levels == Levels::Auto {
            // Ranks of a simulated host talk by messages, and not by memory as the model has it.
            options.policy.levels = Levels::Off;
        }
        if let Some(path) = &simulation.trace {
            let tracer = Tracer::begin(&trace_directory(path, self.incarnations[index]), process, true);
            let tracer = tracer.map_err(|source| SimulationError::File {
                path: path.clone(),
                source,
            })?;
            options.profiler = Some(Arc::clone(&tracer) as Arc<dyn Profiler>);
            self.tracers[index] = Some(tracer);
        }
        let fabric = Arc::new(Simulated {
            shared: self.shared.clone(),
            index: process,
            polls: self.simulation.polling == Polling::Process,
            per_host: simulation.network.per_host,
            stays: AtomicU64::new(0),
        });
        let engine = Engine::on_fabric(
            Arc::clone(&fabric) as Arc<dyn Fabric>,
            process,
            simulation.processes,
            options,
        );
        Ok((Arc::new(engine), fabric))
    }

    /// Runs all programs until they are over. Gives the time when the last one was.
    fn run(&mut self, programs: &mut Vec<Program>, spawn: &Spawn<'_>) -> Result<Duration, SimulationError> {
        for process in 0..self.simulation.processes {
            heap::turn(Some(process));
            let (messenger, core) = self.node(process)?;
            self.shared.lock().add(Node::new(messenger, core));
        }
        if let Some(optics) = &self.simulation.optics {
            let (seed, mut world) = (self.rng.next_u64(), self.shared.lock());
            let world = &mut *world;
            world.circuits = Some(Circuits::new(optics.clone(), &mut world.queue, &mut world.nodes, seed));
        }
        for process in 0..self.simulation.processes {
            heap::turn(Some(process));
            let engine = self.engine(process)?;
            programs.push(spawn(process, engine, 0)?);
        }
        let ran = self.go_on(programs, spawn);
        heap::turn(None);
        self.shared.lock().trouble.flush();
        self.close_traces();
        if ran.is_err() || self.shared.lock().trouble.stats.crashes > 0 {
            self.empty()?;
        }
        ran
    }

    /// Programs that are not over keep their engines for ever, and through them the world: makes it small.
    fn empty(&mut self) -> Result<(), SimulationError> {
        for process in 0..self.simulation.processes {
            let (messenger, core) = self.node(process)?;
            self.shared.lock().replace(process, messenger, core);
        }
        self.shared.lock().empty();
        Ok(())
    }

    fn go_on(&mut self, programs: &mut [Program], spawn: &Spawn<'_>) -> Result<Duration, SimulationError> {
        let mut left = programs.len();
        let mut end = 0;
        for index in 0..programs.len() {
            left -= usize::from(self.resume(programs, index, &mut end));
        }
        let last = self.simulation.limit.map_or(LATEST, nanos).min(LATEST);
        loop {
            let mut world = self.shared.lock();
            if let Some(process) = world.misplaced {
                return Err(SimulationError::Misplaced { process });
            }
            if left == 0 {
                break;
            }
            let next = world.run(last);
            let (now, wakers) = (world.now, std::mem::take(&mut world.wakers));
            drop(world);
            for waker in wakers {
                waker.wake();
            }
            match next {
                Next::Resume(index) => left -= usize::from(self.resume(programs, index as usize, &mut end)),
                Next::Tasks => {}
                Next::Crashed => {
                    left -= 1;
                    end = now.max(end);
                }
                Next::Restart(process) => {
                    programs[process as usize] = self.restart(process, spawn)?;
                    left += 1;
                    left -= usize::from(self.resume(programs, process as usize, &mut end));
                }
                Next::Late => {
                    return Err(self.stop(|waiting| SimulationError::TimeLimit {
                        limit: Duration::from_nanos(last),
                        waiting,
                    }));
                }
                Next::Nothing => {
                    let (time, dark) = (Duration::from_nanos(now), self.shared.lock().stuck);
                    return Err(self.stop(|waiting| SimulationError::Deadlock { time, dark, waiting }));
                }
            }
        }
        Ok(Duration::from_nanos(end))
    }

    /// A new incarnation of a process. The program of the old one stays suspended for ever.
    fn restart(&mut self, process: u32, spawn: &Spawn<'_>) -> Result<Program, SimulationError> {
        heap::turn(Some(process));
        let index = process as usize;
        self.close_trace(index);
        self.incarnations[index] += 1;
        let (messenger, core) = self.node(process)?;
        self.shared.lock().replace(process, messenger, core);
        let engine = self.engine(process)?;
        spawn(process, engine, self.incarnations[index])
    }

    /// Completes a trace now: programs that are not over keep their engines, and so their tracers, for ever.
    fn close_trace(&mut self, index: usize) {
        if let Some(tracer) = &self.tracers[index] {
            let now = self.shared.lock().nodes[index].now();
            tracer.close(now);
            let error = tracer.take_error();
            self.trace_error = self.trace_error.take().or(error);
        }
    }

    fn close_traces(&mut self) {
        (0..self.tracers.len()).for_each(|index| self.close_trace(index));
    }

    /// Resumes a program. Gives whether it is over then.
    fn resume(&mut self, programs: &mut [Program], index: usize, end: &mut u64) -> bool {
        heap::turn(Some(index as u32));
        let over = match catch_unwind(AssertUnwindSafe(|| programs[index].resume())) {
            Ok(over) => over,
            Err(panic) => {
                // The other programs are never resumed; nothing may refer to their memory.
                self.shared
                    .lock()
                    .fail(FabricError(format!("the program of process {index} has panicked")));
                self.close_traces();
                resume_unwind(panic);
            }
        };
        if over {
            let mut world = self.shared.lock();
            let node = &mut world.nodes[index];
            node.doing = Doing::Over;
            *end = node.local.max(*end);
            world.transmit(index as u32);
        }
        over
    }

    /// Nothing goes on any more: makes the error, which lists the processes that wait.
    fn stop(&self, error: impl FnOnce(Vec<Waiting>) -> SimulationError) -> SimulationError {
        let mut world = self.shared.lock();
        let mut waiting = Vec::new();
        for (process, node) in (0..).zip(&mut world.nodes) {
            if matches!(node.doing, Doing::Over | Doing::Crashed { .. }) {
                continue;
            }
            let peers = node.core.awaited();
            let mut on: Vec<u32> = peers
                .filter_map(|peer| node.messenger.layer().processor(peer))
                .collect();
            on.sort_unstable();
            on.dedup();
            waiting.push(Waiting {
                process,
                since: Duration::from_nanos(node.call.map_or(node.local, |(since, _)| since)),
                call: node.call.map(|(_, called)| called.into()),
                on,
            });
        }
        let error = error(waiting);
        world.fail(FabricError(error.to_string()));
        error
    }
}

/// Where incarnation `incarnation` (from 0) of a process writes its trace: each after the first has a directory of its
/// own.
fn trace_directory(path: &Path, incarnation: u32) -> PathBuf {
    match incarnation {
        0 => path.to_owned(),
        _ => path.join(format!("again-{incarnation}")),
    }
}

/// The calling process computes for this time: its program does not go on, but the protocol answers for it, as if by
/// another core. Outside of a simulation it does nothing: real programs take their time by themselves.
///
/// # Errors
/// The simulation has failed.
pub fn compute(time: Duration) -> Result<(), FabricError> {
    match Rank::current() {
        None => Ok(()),
        Some(rank) => rank.compute(time),
    }
}

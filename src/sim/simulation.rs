#![expect(unsafe_code, reason = "programs may borrow, since they are over before `run` is")]
//! A job of simulated processes, from beginning to end.

use std::{
    cell::RefCell,
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    coroutine::{Program, Rank},
    fabric::{Shared, Simulated},
    network::{Network, NetworkStats, RangeError},
    optics::{Optics, OpticsStats},
    paths::Paths,
    polling::{Polling, Queues},
    wires::Wires,
    world::{Cpu, Doing, Next, Node, World, address_of},
};
use crate::{
    config::{Config, ConfigError},
    messaging::Messenger,
    mpi::{
        self,
        engine::{Core, Engine, Entry, Exit, FabricError, Options, Peers, Profiler},
    },
    prng::Prng,
    reliability::{Endpoint, Limits},
    time::{Instant, nanos},
};

/// Most processes: they are numbered in a private network.
const MAX_PROCESSES: u32 = 1 << 20;

/// A job of simulated processes. Everything that happens follows from these values, the seed among them, and from the
/// program: a run can be repeated on any machine.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// Processes; how many are on each host is a matter of the network. 1 to 1,048,576.
    pub processes: u32,
    /// Everything that is left to chance follows from this.
    pub seed: u64,
    /// The network between the hosts.
    pub network: Network,
    /// Light paths that packets need first, if they do. Default: none.
    pub optics: Option<Optics>,
    /// What packets cost the hosts.
    pub cpu: Cpu,
    /// Who takes packets from a host's receive queues. Default: helpers.
    pub polling: Polling,
    /// The receive queues of processes and pollers; helpers have [`receive_buffer`](Self::receive_buffer) instead.
    pub queues: Queues,
    /// Settings of the protocol. What concerns datagrams' sizes is set by the network.
    pub config: Config,
    /// Settings of MPI. How to wait, and the helper thread, have no meaning here: the protocol goes on while a program is
    /// [away](compute).
    pub options: Options,
    /// Octets that may wait at a host while its processor is busy. At least 1,500; default 1 MiB.
    pub receive_buffer: u32,
    /// Octets of each program's stack, of which only those used take memory. At least 16 KiB; default 1 MiB.
    pub stack: usize,
    /// The simulation is over at this time, whatever happens. Default: never.
    pub limit: Option<Duration>,
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
        }
    }

    fn validate(&self) -> Result<(), RangeError> {
        self.network.validate_for(self.processes)?;
        self.cpu.validate()?;
        self.queues.validate()?;
        self.optics
            .iter()
            .try_for_each(|optics| optics.validate(self.processes))?;
        let checks = [
            (
                (1..=MAX_PROCESSES).contains(&self.processes),
                "processes",
                "from 1 to 1048576",
            ),
            (self.receive_buffer >= 1_500, "receive_buffer", "at least 1500 octets"),
            (self.stack >= 16 << 10, "stack", "at least 16 KiB"),
        ];
        match checks.iter().find(|(valid, ..)| !valid) {
            Some(&(_, name, range)) => Err(RangeError { name, range }),
            None => Ok(()),
        }
    }

    /// Runs `program` at each process until all are over, all in the calling thread.
    ///
    /// # Errors
    /// A parameter out of its range; all wait for each other; the time limit. Programs that are not over then never go on,
    /// and what they hold is not given back.
    ///
    /// # Panics
    /// If the program panics, with its panic; for the others as above.
    pub fn run<R>(&self, program: impl Fn(&Arc<Engine>) -> R) -> Result<Outcome<R>, SimulationError> {
        self.validate().map_err(SimulationError::Range)?;
        let job = Job::new(self)?;
        let results = RefCell::new((0..self.processes).map(|_| None).collect::<Vec<_>>());
        let mut programs = Vec::with_capacity(self.processes as usize);
        for (index, engine) in job.engines.iter().enumerate() {
            let (program, results) = (&program, &results);
            let body = move |engine: &Arc<Engine>| {
                let result = program(engine);
                results.borrow_mut()[index] = Some(result);
            };
            // SAFETY: it borrows `program` and `results`, which are older than `programs` and so outlive them, in a panic too.
            let one = unsafe { Program::new(self.stack, Arc::clone(engine), body) };
            programs.push(one.map_err(SimulationError::Stack)?);
        }
        let ran = job.run(&mut programs, self.limit);
        // Before the engines: what programs still hold is theirs.
        drop(programs);
        let time = ran?;
        let world = job.shared.lock();
        let results = results.into_inner().into_iter().flatten().collect();
        Ok(Outcome {
            results,
            time,
            network: world.stats(),
            optics: world.paths.as_ref().map(|paths| paths.stats).unwrap_or_default(),
            events: world.queue.entered(),
            digest: world.digest,
        })
    }
}

/// What has come out of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome<R> {
    /// What the program has returned, at each process.
    pub results: Vec<R>,
    /// When the last program was over.
    pub time: Duration,
    /// What became of packets.
    pub network: NetworkStats,
    /// What became of light paths.
    pub optics: OpticsStats,
    /// Things that have happened.
    pub events: u64,
    /// A number that follows from what arrived where and when: the same if nothing has changed.
    pub digest: u64,
}

/// Why a simulation has no outcome.
#[derive(Debug)]
#[non_exhaustive]
pub enum SimulationError {
    /// A parameter is out of its range.
    Range(RangeError),
    /// A setting of the protocol is.
    Config(ConfigError),
    /// There was no memory for the programs' stacks.
    Stack(io::Error),
    /// Nothing will happen any more, and not all programs are over.
    Deadlock {
        /// Since when.
        time: Duration,
        /// Who waits, and in which call.
        waiting: Vec<Waiting>,
    },
    /// [`Simulation::limit`] is reached.
    TimeLimit {
        /// That.
        limit: Duration,
        /// Whose programs are not over, and in which call they are.
        waiting: Vec<Waiting>,
    },
}

/// A process that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its number.
    pub process: u32,
    /// The call of MPI that it is in, without its lists; `None`: in none.
    pub call: Option<Entry>,
    /// Since when.
    pub since: Duration,
    /// The processes that it needs messages from, or that must take its own.
    pub on: Vec<u32>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.process)?;
        match &self.call {
            None => f.write_str(" is outside of MPI")?,
            Some(entry) => {
                write!(f, " is in {}", entry.call)?;
                if let Some(peer) = entry.peer {
                    write!(f, ", rank {peer}")?;
                }
                if let Some(tag) = entry.tag {
                    write!(f, ", tag {tag}")?;
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
        /// Lines are for people.
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
            Self::Stack(error) => write!(f, "making the stacks of simulated processes: {error}"),
            Self::Deadlock { time, waiting } => {
                write!(f, "deadlock at {time:?}: {} processes wait for ever", waiting.len())?;
                list(f, waiting)
            }
            Self::TimeLimit { limit, waiting } => {
                write!(f, "not over after {limit:?}: {} processes go on", waiting.len())?;
                list(f, waiting)
            }
        }
    }
}

impl std::error::Error for SimulationError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Range(error) => Some(error),
            Self::Config(error) => Some(error),
            Self::Stack(error) => Some(error),
            Self::Deadlock { .. } | Self::TimeLimit { .. } => None,
        }
    }
}

/// Remembers the call that a process is in, to tell in case it waits there for ever; and tells another one.
#[derive(Debug)]
struct Observer {
    call: Mutex<Option<Entered>>,
    other: Option<Arc<dyn Profiler>>,
}

/// What of a call is told: lists are long, and this is for one line of text.
#[derive(Clone, Copy, Debug)]
struct Entered {
    since: Instant,
    call: &'static str,
    context: u32,
    peer: Option<mpi::Rank>,
    tag: Option<i32>,
}

impl Entered {
    fn entry(&self) -> Entry {
        Entry {
            call: self.call,
            context: self.context,
            peer: self.peer,
            tag: self.tag,
            ..Entry::default()
        }
    }
}

impl Observer {
    fn set(&self, call: Option<Entered>) {
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }
}

impl Profiler for Observer {
    fn open(&self, now: Instant, process: u32, size: u32) {
        if let Some(other) = &self.other {
            other.open(now, process, size);
        }
    }

    fn enter(&self, now: Instant, entry: &Entry) {
        self.set(Some(Entered {
            since: now,
            call: entry.call,
            context: entry.context,
            peer: entry.peer,
            tag: entry.tag,
        }));
        if let Some(other) = &self.other {
            other.enter(now, entry);
        }
    }

    fn leave(&self, begun: Instant, now: Instant, entry: &Entry, exit: &Exit<'_>) {
        self.set(None);
        if let Some(other) = &self.other {
            other.leave(begun, now, entry, exit);
        }
    }

    fn close(&self, now: Instant) {
        if let Some(other) = &self.other {
            other.close(now);
        }
    }
}

struct Job {
    shared: Shared,
    engines: Vec<Arc<Engine>>,
    observers: Vec<Arc<Observer>>,
}

impl Job {
    fn new(simulation: &Simulation) -> Result<Self, SimulationError> {
        let mut rng = Prng::new(simulation.seed);
        let size = simulation.processes;
        let datagram = simulation.network.datagram();
        let limits = Limits {
            max_datagram: datagram,
            max_segments: 1,
            max_batch: datagram,
            receive_buffer: simulation.receive_buffer as usize,
            holds_references: false,
            receive_port: 0,
        };
        let mut config = simulation.config.clone();
        config.max_datagram = config.max_datagram.min(datagram as u16);
        config.safe_datagram = config.max_datagram;
        let wires = Wires::new(simulation.network, size, rng.next_u64());
        let polls = (simulation.polling, simulation.queues);
        let mut world = World::new(wires, simulation.cpu, simulation.receive_buffer, polls);
        for process in 0..size {
            let endpoint = Endpoint::new(config.clone(), limits, rng.next_u64() | 1, rng.next_u64());
            let endpoint = endpoint.map_err(SimulationError::Config)?;
            let messenger = Messenger::new(endpoint, &[process]);
            let peers = Peers::met(process, size, address_of);
            let core = Core::new(&messenger, peers, simulation.options.eager_limit);
            world.add(Node::new(messenger, core));
        }
        if let Some(optics) = &simulation.optics {
            let seed = rng.next_u64();
            world.paths = Some(Paths::new(optics.clone(), &mut world.queue, &mut world.nodes, seed));
        }
        let shared = Shared::new(world);
        let mut engines = Vec::with_capacity(size as usize);
        let mut observers = Vec::with_capacity(size as usize);
        for index in 0..size {
            let observer = Arc::new(Observer {
                call: Mutex::new(None),
                other: simulation.options.profiler.clone(),
            });
            let fabric = Simulated {
                shared: shared.clone(),
                index,
            };
            let options = Options {
                profiler: Some(Arc::clone(&observer) as Arc<dyn Profiler>),
                ..simulation.options.clone()
            };
            engines.push(Arc::new(Engine::on_fabric(Arc::new(fabric), index, size, options)));
            observers.push(observer);
        }
        Ok(Self {
            shared,
            engines,
            observers,
        })
    }

    /// Runs all programs until they are over. Gives the time when the last one was.
    fn run(&self, programs: &mut [Program], limit: Option<Duration>) -> Result<Duration, SimulationError> {
        let mut left = programs.len();
        let mut end = 0;
        for index in 0..programs.len() {
            left -= usize::from(self.resume(programs, index, &mut end));
        }
        let last = limit.map_or(u64::MAX, nanos);
        while left > 0 {
            let mut world = self.shared.lock();
            let next = world.run(last);
            let (now, wakers) = (world.now, std::mem::take(&mut world.wakers));
            drop(world);
            for waker in wakers {
                waker.wake();
            }
            match next {
                Next::Resume(index) => left -= usize::from(self.resume(programs, index as usize, &mut end)),
                Next::Tasks => {}
                Next::Late => {
                    return Err(self.stop(|waiting| SimulationError::TimeLimit {
                        limit: Duration::from_nanos(last),
                        waiting,
                    }));
                }
                Next::Nothing => {
                    let time = Duration::from_nanos(now);
                    return Err(self.stop(|waiting| SimulationError::Deadlock { time, waiting }));
                }
            }
        }
        Ok(Duration::from_nanos(end))
    }

    /// Lets a program go on. Gives whether it is over then.
    fn resume(&self, programs: &mut [Program], index: usize, end: &mut u64) -> bool {
        let over = match catch_unwind(AssertUnwindSafe(|| programs[index].resume())) {
            Ok(over) => over,
            Err(panic) => {
                // The other programs do not go on; nobody shall refer to their memory.
                self.shared
                    .lock()
                    .fail(FabricError(format!("the program of process {index} has panicked")));
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

    /// Nothing goes on any more: `error` is told who waits.
    fn stop(&self, error: impl FnOnce(Vec<Waiting>) -> SimulationError) -> SimulationError {
        let mut world = self.shared.lock();
        let mut waiting = Vec::new();
        for (process, (node, observer)) in (0..).zip(world.nodes.iter_mut().zip(&self.observers)) {
            if node.doing == Doing::Over {
                continue;
            }
            let call = *observer.call.lock().unwrap_or_else(PoisonError::into_inner);
            let peers = node.core.awaited();
            let mut on: Vec<u32> = peers
                .filter_map(|peer| node.messenger.endpoint().processor(peer))
                .collect();
            on.sort_unstable();
            on.dedup();
            waiting.push(Waiting {
                process,
                since: Duration::from_nanos(call.map_or(node.local, |call| call.since.as_nanos())),
                call: call.map(|call| call.entry()),
                on,
            });
        }
        let error = error(waiting);
        world.fail(FabricError(error.to_string()));
        error
    }
}

/// The calling process computes for so long: nothing else goes on in its program, but the protocol answers for it, as if
/// by another processor. Outside of a simulation it does nothing: real programs take their time by themselves.
///
/// # Errors
/// The simulation has failed.
pub fn compute(time: Duration) -> Result<(), FabricError> {
    match Rank::current() {
        None => Ok(()),
        Some(rank) => rank.engine().away(time),
    }
}

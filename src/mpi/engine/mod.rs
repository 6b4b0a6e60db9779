//! The untyped engine: everything by pointer, count, datatype and communicator.
//!
//! A typed façade, or a C library with MPI's ABI, stands on it. An [`Engine`] is one process of a job; its world is a
//! [`Communicator`], on which messages and collectives are called; an operation that does not end at once is a
//! [`Request`]. A [`Window`] is memory that the processes of a communicator read and write without the help of its
//! owner's program.
//!
//! # Threads
//!
//! Everything is `Send + Sync` (`MPI_THREAD_MULTIPLE`). One lock guards the state of a process; no thread holds it
//! while it waits for something to happen.
//!
//! # Failures
//!
//! When a process is lost, every pending operation with it ends with `MPI_ERR_PROC_FAILED`. The process that notices
//! the loss tells the others, so that collectives in which the lost process takes part end, too.
//! [`Communicator::revoke`] ends every operation that is pending on a communicator at this process.

mod any_request;
mod array;
mod attached;
mod buffer;
mod check;
mod class;
mod collective;
mod communicator;
mod connection_plan;
mod core;
mod fabric;
mod generalized;
mod groups;
mod home;
#[cfg(feature = "sim")]
mod met;
#[cfg(not(feature = "sim"))]
#[path = "native_only.rs"]
mod met;
mod native;
mod on_host;
mod packed;
mod partitioned;
mod peers;
mod pool;
mod ports;
mod process;
mod process_set;
mod profile;
mod regions;
mod request;
mod rma;
mod settings;
#[cfg(feature = "sim")]
pub(crate) mod simulated;
mod spawned;
mod start;
mod status;
mod uninterrupted;
mod window;

use ::core::{
    fmt,
    future::Future,
    ops::Range,
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};
use alloc::{string::String, sync::Arc, task::Wake, vec::Vec};

#[cfg(fuzzing)]
#[doc(hidden)]
pub use self::rma::drive as window_messages;
pub(in crate::mpi) use self::spawned::{Addresses, Parents, Started};

/// What a user is told who may expect memory's speed; the reason follows.
pub(in crate::mpi) const NETWORK_INSTEAD: &str = "ranks of this host talk over the network instead of through memory";

pub use self::{
    any_request::AnyRequest,
    array::Array,
    attached::AttachedBuffer,
    communicator::{
        Arriving, Communicator, Duplicating, MatchedMessage, Mode, PartitionedReceive, PartitionedSend,
        PersistentCollective, PersistentMessage,
    },
    fabric::FabricError,
    generalized::{Completer, Generalized},
    ports::{NoPort, Port},
    profile::{Entry, Exit, Made, Profiler},
    regions::{Buffers, Region},
    request::Request,
    rma::WindowStats,
    settings::for_job,
    start::{ConnectError, Unconnected},
    status::{ANY_SOURCE, ANY_TAG, PROC_NULL, Status, TAG_UB},
    uninterrupted::uninterrupted,
    window::{LockKind, Operands, Target, Window},
};
pub(crate) use self::{
    connection_plan::ConnectionPlan,
    fabric::{CallNote, Fabric},
    peers::Peers,
    process::Process,
};
use self::{native::Native, profile::Profile};
use super::{Rank, collectives::Policy, group::Group};
use crate::{
    messaging::tagged::TaggedStats,
    progress::{Driver, WaitPolicy},
    reliability::PeerId,
    stats::Stats,
    time::Instant,
    transport::Routes,
};

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Messages of up to this many bytes are sent eagerly, longer ones by rendezvous. 0 to 1 MiB; default 128 KiB: for
    /// longer ones the request and the grant cost about as much as copying twice. To processes of the same host, which
    /// are reached through memory, no more than 64 KiB are sent eagerly.
    pub eager_limit: u32,
    /// Longer messages to processes of the same host are copied by the kernel, from one process straight to the other
    /// (cross-memory attach), if it does that for them; sender and receiver copy a part each. Default `None`: 64 KiB, and
    /// 32 KiB between cores that are far from each other, as copies show while they run. `u32::MAX`: none are. The
    /// receiver's limit holds, and the sender's for messages of up to 64 KiB.
    pub cma_limit: Option<u32>,
    /// How to wait.
    pub wait: WaitPolicy,
    /// A helper thread makes progress when no other thread does, so that other processes get their answers while the
    /// program computes or sleeps. At least this often it checks whether the program makes progress, and if not, it
    /// listens to the network. `None`: no helper thread. Default 10 ms.
    pub helper: Option<Duration>,
    /// How algorithms of collectives are chosen. The eager limit of its cost model is replaced by
    /// [`eager_limit`](Self::eager_limit).
    pub policy: Policy,
    /// Compares what ranks call: collectives that do not match fail with `MPI_ERR_NOT_SAME`, and messages whose types
    /// differ from those of their receives with `MPI_ERR_TYPE` (`MPI_BYTE` and `MPI_PACKED` match everything). This is
    /// for debugging: messages get longer, and no collective ends before all ranks have entered it. All processes must
    /// set it alike. Default off.
    pub check: bool,
    /// Sessions with all peers of a collective are opened when it is planned (`MPI_Barrier_init` and the other `_init`
    /// calls) or begins, not by its first message to each peer: their addresses are then resolved, and the sessions
    /// agreed, before they are needed. Default off: a session that opens with its first message costs no time of its
    /// own.
    pub connect_ahead: bool,
    /// How processes of one host reach each other. It holds if [`Builder::routes`](crate::transport::Builder::routes) gets
    /// it, too. Default: over the network.
    pub routes: Routes,
    /// Is told of all calls. Default `None`; even then each call pays one branch for it.
    pub profiler: Option<Arc<dyn Profiler>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            eager_limit: 128 << 10,
            cma_limit: None,
            wait: WaitPolicy::RANK,
            helper: Some(Duration::from_millis(10)),
            policy: Policy::default(),
            check: false,
            connect_ahead: false,
            routes: Routes::default(),
            profiler: None,
        }
    }
}

/// One process of a job.
#[repr(C)]
pub struct Engine {
    // What every message needs lies together.
    fabric: Arc<dyn Fabric>,
    /// The same, if short messages may go by its rings in memory: calls are neither profiled nor checked.
    rings: Option<Arc<Native>>,
    process: u32,
    /// The first process of the world, which has `size` of them.
    first: u32,
    size: u32,
    finalized: AtomicBool,
    check: bool,
    /// Contexts that this process has given out.
    contexts: AtomicU32,
    /// Ports that this process has opened.
    ports: AtomicU32,
    profile: Profile,
    policy: Policy,
    arrays: Arc<pool::Pool>,
    helper: Option<native::Helper>,
    /// Some peers may be reached through memory. Whether a thread that waits yields its core to others.
    memory: Option<Yields>,
}

/// Whether a thread that waits yields its core to others.
type Yields = bool;

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("process", &self.process)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Process `process` of `peers.len()` processes (`None` stands for this one), on a driver that knows them as peers.
    pub(crate) fn native(
        driver: Driver,
        process: u32,
        world: Range<u32>,
        peers: Vec<Option<PeerId>>,
        options: Options,
    ) -> Self {
        let in_memory = native::takes_short(&driver);
        let short = in_memory && options.profiler.is_none() && !options.check;
        let mut core = Process::new(driver.messenger(), Peers::all(peers), options.eager_limit);
        core.tagged.set_cma_limit(options.cma_limit);
        core.set_connection_plan(ConnectionPlan::ahead(options.connect_ahead));
        let native = Arc::new(Native::new(driver, core, options.wait));
        // Without the thread, the program must make an MPI call now and then for others to make progress.
        let helper = options.helper.and_then(|interval| native.assist(interval).ok());
        Self {
            helper,
            first: world.start,
            rings: short.then(|| Arc::clone(&native)),
            memory: in_memory.then(|| native.yields()),
            ..Self::on_fabric(native, process, world.len() as u32, options)
        }
    }

    /// Process `process` of `size`.
    pub(crate) fn on_fabric(fabric: Arc<dyn Fabric>, process: u32, size: u32, options: Options) -> Self {
        let mut policy = options.policy;
        policy.model.eager_limit = options.eager_limit.into();
        if let Some(profiler) = &options.profiler {
            profiler.open(fabric.now(), process, size);
        }
        let noted = fabric.takes_notes();
        Self {
            fabric,
            process,
            first: 0,
            size,
            contexts: AtomicU32::new(0),
            ports: AtomicU32::new(0),
            finalized: AtomicBool::new(false),
            policy,
            check: options.check,
            profile: Profile::new(options.profiler, noted),
            arrays: Arc::default(),
            helper: None,
            rings: None,
            memory: None,
        }
    }

    /// The current time by the network's clock, which has an origin of its own.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.fabric.now()
    }

    /// Number of this process in the job.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.process
    }

    /// A text that is the same for all processes that can have memory in common with this one
    /// ([`Window::allocate_shared`]), and for no other: what `MPI_COMM_TYPE_SHARED` splits by. `None`: it can have none.
    #[must_use]
    pub fn memory_domain(&self) -> Option<String> {
        #[cfg(all(feature = "shm", target_os = "linux"))]
        if self.fabric.is_native() {
            return crate::routes::domain(self.process);
        }
        None
    }

    /// Number of processes of the job.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Counters of messages.
    #[must_use]
    pub fn stats(&self) -> TaggedStats {
        self.read(|core| core.stats())
    }

    /// Counters of what other processes do to the windows of this one.
    #[must_use]
    pub fn window_stats(&self) -> WindowStats {
        self.read(|core| core.rma.stats())
    }

    /// Counters of packets to and from other processes, by the network and by memory.
    #[must_use]
    pub fn packet_stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.fabric
            .access(&mut |_, messenger, _| stats = messenger.layer().stats());
        self.fabric.stayed();
        stats
    }

    /// Number of requests that have neither ended nor been given up.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.read(|core| core.requests())
    }

    /// Sets [`Options::eager_limit`] for messages that are sent from now on.
    pub fn set_eager_limit(&self, bytes: u32) {
        let bytes = bytes.min(Options::MAX_EAGER_LIMIT);
        self.fabric.access(&mut |core, _, _| core.tagged.set_eager_limit(bytes));
    }

    /// Sets [`Options::cma_limit`] for messages that are sent or received from now on.
    pub fn set_cma_limit(&self, bytes: Option<u32>) {
        self.fabric.access(&mut |core, _, _| core.tagged.set_cma_limit(bytes));
    }

    /// Makes progress without waiting.
    ///
    /// # Errors
    /// The network has failed.
    pub fn progress(&self) -> Result<(), FabricError> {
        self.fabric.note(None);
        self.fabric.progress()
    }

    /// Waits for a future, of requests of this process for example: polls it, and makes progress until one of its
    /// requests has ended. (A wake-up that comes from elsewhere is noticed within 50 ms, and in a simulation not at
    /// all.)
    ///
    /// # Errors
    /// The network has failed.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, FabricError> {
        /// Set by the waker.
        struct Woken(AtomicBool);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Release);
            }
        }
        let mut future = pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(output);
            }
            self.fabric
                .wait(&mut |core, _, _| woken.0.swap(false, Ordering::Acquire) || core.find_woken())?;
        }
    }

    /// The launcher of the job reports that `process` has ended without a goodbye: operations that wait for it end at
    /// once with `ProcFailed`, instead of when its silence is noticed. Numbers that belong to no other process are
    /// ignored.
    pub fn peer_lost(&self, process: u32) {
        self.fabric
            .access(&mut |core, messenger, now| core.declare_lost(messenger, now, process));
    }

    /// Processes that are lost.
    #[must_use]
    pub fn lost(&self) -> Vec<u32> {
        self.read(|core| core.all_lost().collect())
    }

    /// Looks at the state. A program that polls it serves the other processes, too.
    /// The processes of the world.
    fn world(&self) -> Group {
        Group::range(self.first, self.size as Rank)
    }

    fn read<T: Default>(&self, look: impl Fn(&Process) -> T) -> T {
        let mut seen = T::default();
        self.fabric.access(&mut |core, _, _| seen = look(core));
        self.fabric.stayed();
        seen
    }

    /// [`finalize`](Self::finalize) has been called.
    #[must_use]
    pub fn is_finalized(&self) -> bool {
        self.finalized.load(Ordering::Relaxed)
    }

    /// Says goodbye to all other processes, for at most `linger`. (It does not synchronise with them first: a process
    /// that still needs this one is cut off. [`Communicator::finalize`] synchronises.)
    ///
    /// # Errors
    /// The network has failed.
    pub fn finalize(&self, linger: Duration) -> Result<(), FabricError> {
        let (begun, entry) = (self.fabric.now(), Entry::named("MPI_Finalize"));
        if self.is_finalized() {
            return Ok(());
        }
        if let Some(profiler) = self.profile.profiler() {
            profiler.enter(begun, &entry);
        }
        self.fabric.note(Some(CallNote {
            call: entry.call,
            context: 0,
            peer: None,
            tag: None,
        }));
        let closed = self.close(linger);
        self.fabric.note(None);
        if let Some(profiler) = self.profile.profiler() {
            profiler.leave(begun, self.fabric.now(), &entry, &Exit::default());
        }
        self.close_profile();
        closed
    }

    /// Says goodbye, and forbids new operations.
    fn close(&self, linger: Duration) -> Result<(), FabricError> {
        match self.finalized.swap(true, Ordering::Relaxed) {
            true => Ok(()),
            false => self.fabric.close(linger),
        }
    }

    /// Tells the profiler that no call follows.
    fn close_profile(&self) {
        if let Some(profiler) = self.profile.profiler() {
            profiler.close(self.fabric.now());
        }
    }

    /// Asked first for short messages, if these may go by rings in memory.
    #[inline(always)]
    fn rings(&self) -> Option<&Native> {
        self.rings.as_deref()
    }

    /// Returns whether this process may reach some peers through memory.
    fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Returns whether a rank that waits yields its core to others.
    fn yields(&self) -> bool {
        self.memory.unwrap_or_default()
    }

    /// Whether a helper thread makes progress.
    #[must_use]
    pub fn has_helper(&self) -> bool {
        self.helper.is_some()
    }
}

//! The untyped engine: everything by pointer, count, datatype and communicator.
//!
//! A typed façade, or a C library with MPI's ABI, stands on it. An [`Engine`] is one process of a job; its world is a
//! [`Communicator`], on which messages and collectives are called; what does not end at once is a [`Request`]. A
//! [`Window`] is memory that the processes of a communicator read and write without the help of its owner's program.
//!
//! # Threads
//!
//! Everything is `Send + Sync` (`MPI_THREAD_MULTIPLE`). One lock guards the state of a process; it is not held while
//! somebody waits for something to happen.
//!
//! # Failures
//!
//! A process that is lost ends everything that is pending with it, with `MPI_ERR_PROC_FAILED`; whoever notices it tells
//! the others, so that collectives that it takes part in end, too. [`Communicator::revoke`] ends all that is pending on a
//! communicator, here.

mod array;
mod buffer;
mod channel;
mod check;
mod collective;
mod communicator;
mod core;
mod fabric;
mod groups;
mod links;
mod native;
mod peers;
mod profile;
mod remote;
mod request;
mod settings;
mod start;
mod window;

use ::core::{
    fmt,
    future::Future,
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};
use alloc::{sync::Arc, task::Wake, vec::Vec};

#[cfg(feature = "sim")]
pub(crate) use self::links::Wish;
#[cfg(fuzzing)]
#[doc(hidden)]
pub use self::remote::drive as window_messages;
pub use self::{
    array::{Array, Arriving},
    communicator::{
        ANY_SOURCE, ANY_TAG, Buffers, Communicator, MatchedMessage, Mode, PROC_NULL, PartitionedReceive,
        PartitionedSend, PersistentCollective, Region, TAG_UB,
    },
    fabric::FabricError,
    profile::{Entry, Exit, Profiler},
    remote::WindowStats,
    request::{Request, Status, uninterrupted},
    settings::for_job,
    start::{ConnectError, Unconnected},
    window::{LockKind, Operands, Target, Window},
};
pub(crate) use self::{
    core::Core,
    fabric::{Called, Fabric},
    links::Links,
    peers::Peers,
};
use self::{native::Native, profile::Profile};
use super::collectives::Policy;
use crate::{
    messaging::tagged::TaggedStats,
    progress::{Driver, WaitPolicy},
    reliability::PeerId,
    time::Instant,
};

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Messages of up to this many bytes are sent eagerly, longer ones by rendezvous. 0 to 1 MiB; default 128 KiB:
    /// for longer ones the request and grant cost about as much as copying twice.
    pub eager_limit: u32,
    /// How to wait.
    pub wait: WaitPolicy,
    /// A helper thread makes progress when nobody else does, so that others get their answers while the program computes or
    /// sleeps: it looks whether somebody does at least this often, and if not, it listens to the network. `None`: there is
    /// none. Default 10 ms.
    pub helper: Option<Duration>,
    /// How algorithms of collectives are chosen; the limit of eager messages in its model is the one here.
    pub policy: Policy,
    /// What ranks call is compared: collectives that do not go together are `MPI_ERR_NOT_SAME`, and messages of other types
    /// than their receives `MPI_ERR_TYPE` (`MPI_BYTE` and `MPI_PACKED` go with everything). To find mistakes: messages get
    /// longer, and no collective ends before all ranks have come to it. All processes must say the same. Default off.
    pub check: bool,
    /// Sessions with all peers of a collective are opened when it is planned (`MPI_Barrier_init` and its sisters) or begins,
    /// not by its first messages to each: their addresses are resolved, and what both sides must know is agreed, before it
    /// is needed. Default off: a session that opens with its first message costs no time of its own.
    pub connect_ahead: bool,
    /// Is told of all calls. Default `None`, which costs a branch in each.
    pub profiler: Option<Arc<dyn Profiler>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            eager_limit: 128 << 10,
            wait: WaitPolicy::default(),
            helper: Some(Duration::from_millis(10)),
            policy: Policy::default(),
            check: false,
            connect_ahead: false,
            profiler: None,
        }
    }
}

/// One process of a job.
#[repr(C)]
pub struct Engine {
    // What each message needs lies together.
    fabric: Arc<dyn Fabric>,
    process: u32,
    size: u32,
    finalized: AtomicBool,
    check: bool,
    /// Contexts that this process has given out.
    contexts: AtomicU32,
    profile: Profile,
    policy: Policy,
    arrays: Arc<array::Pool>,
    helper: Option<native::Helper>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("process", &self.process)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Process `process` of as many as there are `peers` (`None` stands for ourselves), on a driver that knows them.
    pub(crate) fn native(driver: Driver, process: u32, peers: Vec<Option<PeerId>>, options: Options) -> Self {
        let size = peers.len() as u32;
        let mut core = Core::new(driver.messenger(), Peers::all(peers), options.eager_limit);
        core.links = Links::of(&options);
        let native = Arc::new(Native::new(driver, core, options.wait));
        // Without the thread the program must call something now and then.
        let helper = options.helper.and_then(|interval| native.assist(interval).ok());
        Self {
            helper,
            ..Self::on_fabric(native, process, size, options)
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
            size,
            contexts: AtomicU32::new(0),
            finalized: AtomicBool::new(false),
            policy,
            check: options.check,
            profile: Profile::new(options.profiler, noted),
            arrays: Arc::default(),
            helper: None,
        }
    }

    /// The program does nothing for a while.
    #[cfg(feature = "sim")]
    pub(crate) fn away(&self, time: Duration) -> Result<(), FabricError> {
        self.fabric.note(None);
        self.fabric.away(time)
    }

    /// What time it is: that of its network, from an origin of its own.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.fabric.now()
    }

    /// Number of this process in the job.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Processes of the job.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Counters of messages.
    #[must_use]
    pub fn stats(&self) -> TaggedStats {
        let mut stats = TaggedStats::default();
        self.fabric.access(&mut |core, _, _| stats = core.stats());
        stats
    }

    /// Counters of what others do to the windows of this process.
    #[must_use]
    pub fn window_stats(&self) -> WindowStats {
        let mut stats = WindowStats::default();
        self.fabric.access(&mut |core, _, _| stats = core.remote.stats());
        stats
    }

    /// Requests that have neither ended nor been given up.
    #[must_use]
    pub fn requests(&self) -> usize {
        let mut requests = 0;
        self.fabric.access(&mut |core, _, _| requests = core.requests());
        requests
    }

    /// Sets [`Options::eager_limit`] for messages that are sent from now on.
    pub fn set_eager_limit(&self, octets: u32) {
        let octets = octets.min(Options::MAX_EAGER_LIMIT);
        self.fabric
            .access(&mut |core, _, _| core.tagged.set_eager_limit(octets));
    }

    /// Makes progress without waiting.
    ///
    /// # Errors
    /// The network has failed.
    pub fn progress(&self) -> Result<(), FabricError> {
        self.fabric.note(None);
        self.fabric.progress()
    }

    /// Waits for a future, of requests of this process for example: polls it, and makes progress until one of its requests
    /// has ended. (What wakes it from elsewhere is noticed within 50 ms, and in a simulation not at all.)
    ///
    /// # Errors
    /// The network has failed.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, FabricError> {
        /// It has been woken.
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

    /// Whoever has started the processes of the job says that `process` has ended without a goodbye: what waits for it ends
    /// at once with `ProcFailed`, instead of when its silence has been noticed. Numbers of no other process do nothing.
    pub fn peer_lost(&self, process: u32) {
        self.fabric
            .access(&mut |core, messenger, now| core.declare_lost(messenger, now, process));
    }

    /// Processes that are lost.
    #[must_use]
    pub fn lost(&self) -> Vec<u32> {
        let mut lost = Vec::new();
        self.fabric.access(&mut |core, _, _| lost = core.all_lost().collect());
        lost
    }

    /// [`finalize`](Self::finalize) was called.
    #[must_use]
    pub fn is_finalized(&self) -> bool {
        self.finalized.load(Ordering::Relaxed)
    }

    /// Says goodbye to all other processes; not longer than `linger`. (Meets nobody first, and whoever still needs this
    /// process is cut off: [`Communicator::finalize`] does that.)
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
        self.fabric.note(Some(Called {
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

    /// Says goodbye, and lets nothing begin any more.
    fn close(&self, linger: Duration) -> Result<(), FabricError> {
        match self.finalized.swap(true, Ordering::Relaxed) {
            true => Ok(()),
            false => self.fabric.close(linger),
        }
    }

    /// No call follows.
    fn close_profile(&self) {
        if let Some(profiler) = self.profile.profiler() {
            profiler.close(self.fabric.now());
        }
    }

    /// Whether a helper thread makes progress.
    #[must_use]
    pub fn has_helper(&self) -> bool {
        self.helper.is_some()
    }
}

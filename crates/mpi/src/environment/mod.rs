//! The process and its job: beginning, end, and surroundings.

mod state;

use std::{string::FromUtf8Error, sync::OnceLock, thread, time::Instant};

pub use hikyaku::mpi::job::{FinalizeError, InitError, SpawnError};
use hikyaku::mpi::job::{Job, LINGER};

pub(crate) use self::state::{abort, host_name, job, number, own, parent, world};
use self::state::{begin, current, forget_parent, leave};
use crate::{
    lock::lock,
    topology::{InterCommunicator, SimpleCommunicator},
};

/// MPI in this process, after [`initialize`]. Dropping it ends MPI: the process then meets all other processes, so all
/// must drop theirs.
///
/// While a panic unwinds, it meets none: the launcher notices that the process ends without a goodbye, and ends the
/// others.
#[derive(Debug)]
#[must_use = "MPI ends when this is dropped"]
pub struct Universe {
    /// Only `initialize` makes one.
    _private: (),
}

impl Universe {
    /// All processes (`MPI_COMM_WORLD`).
    #[must_use]
    pub fn world(&self) -> SimpleCommunicator {
        SimpleCommunicator::new(world())
    }

    /// The number of processes that there should be (`MPI_UNIVERSE_SIZE`): those that there are. More can be
    /// [spawned](crate::traits::Root::spawn).
    #[must_use]
    pub fn size(&self) -> Option<usize> {
        Some(world().comm.size() as usize)
    }

    /// Number of this process's program among the programs of the job, from 0 (`MPI_APPNUM`).
    #[must_use]
    pub fn appnum(&self) -> Option<isize> {
        Some(current(|part| part.job.as_ref().map_or(0, |job| job.launched().app_number())) as isize)
    }

    /// Size of the buffer for buffered sends, bytes.
    #[must_use]
    pub fn buffer_size(&self) -> usize {
        lock(&world().local.attached).size()
    }

    /// Attaches a buffer for buffered sends, in place of an earlier one (`MPI_Buffer_attach`). Each message takes as
    /// many bytes as it has.
    ///
    /// ```
    /// use mpi::traits::*;
    ///
    /// let mut universe = mpi::initialize().unwrap();
    /// universe.set_buffer_size(1 << 20);
    /// let world = universe.world();
    /// let myself = world.this_process();
    /// let letter = vec![0.5; 100_000];
    /// myself.buffered_send(&letter)?;
    /// assert!(myself.buffered_send(&letter).is_err(), "it is full");
    /// assert_eq!(myself.receive_vec::<f64>()?.0, letter);
    /// universe.detach_buffer();
    /// # Ok::<_, mpi::Error>(())
    /// ```
    pub fn set_buffer_size(&mut self, size: usize) {
        lock(&world().local.attached).resize(size);
    }

    /// Waits until that buffer is free, and detaches it (`MPI_Buffer_detach`).
    pub fn detach_buffer(&mut self) {
        self.set_buffer_size(0);
    }

    /// Leaves the communicator with the processes that have spawned this world, if any have
    /// ([`Communicator::parent`](crate::traits::Communicator::parent)): waits until they leave it, too
    /// ([`InterCommunicator::disconnect`](crate::topology::InterCommunicator::disconnect)). Collective.
    pub fn disconnect_parent(&mut self) {
        if let Some(parent) = forget_parent()
            && let Err(error) = InterCommunicator::new(parent).disconnect()
        {
            eprintln!("hikyaku-mpi: {error}");
        }
    }

    /// Ends MPI like a drop (`MPI_Finalize`), and returns the errors that a drop can only print. Not in rsmpi.
    ///
    /// # Errors
    /// A process is lost, the network has failed, or the launcher does not answer.
    pub fn finalize(self) -> Result<(), FinalizeError> {
        std::mem::forget(self);
        finalize()
    }
}

impl Drop for Universe {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        if let Err(error) = finalize() {
            eprintln!("hikyaku-mpi: {error}");
        }
    }
}

fn finalize() -> Result<(), FinalizeError> {
    // The handles stay in place while others may use them.
    let world = world();
    lock(&world.local.attached).resize(0);
    // Until all have met, handles can still be asked for.
    Job::finalize(&world.comm, LINGER, leave)
}

/// Begins MPI in this process: joins the job that the launcher has started, or a world of one process
/// ([`hikyaku::bootstrap`]), and connects the processes.
///
/// [`hikyaku::environment::VARIABLES`] lists the variables of the environment: `HIKYAKU_BACKEND` (default `udp`),
/// `HIKYAKU_WAIT`, and all settings of the protocol. Unless they say otherwise, each peer may have 64 MiB divided by
/// the number of processes of unreceived messages here (64 KiB to 8 MiB), and processes do not spin on a host that has
/// fewer cores than processes.
///
/// In the program of a simulated rank (feature `sim`, `hikyaku::sim`) that rank begins MPI, and the environment is not
/// read: `Simulation::options` has the settings, `Simulation::trace` the place for traces.
///
/// With `HIKYAKU_TRACE=DIRECTORY` each process writes a trace of its calls. With `HIKYAKU_CHECK=on` (at all processes)
/// collectives that do not match each other, and messages whose type differs from that of their receive, are errors
/// that name both sides.
///
/// # Errors
/// MPI was begun before; the launcher, the other processes or the network could not be reached; a variable has no valid
/// value.
///
/// ```
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// assert_eq!(universe.world().size(), 1, "started alone");
/// assert!(mpi::initialize().is_err(), "only once");
/// ```
pub fn initialize() -> Result<Universe, InitError> {
    initialize_with_threading(Threading::Multiple).map(|(universe, _)| universe)
}

/// Like [`initialize`]; also returns the level of thread support, which is always [`Threading::Multiple`].
///
/// # Errors
/// As [`initialize`].
pub fn initialize_with_threading(threading: Threading) -> Result<(Universe, Threading), InitError> {
    // Nothing is cheaper with less.
    let _ = threading;
    begin()?;
    origin();
    Ok((Universe { _private: () }, Threading::Multiple))
}

/// Levels of thread support (MPI 11.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Threading {
    /// There is only one thread.
    Single,
    /// Only the thread that began MPI uses it.
    Funneled,
    /// One thread at a time uses it.
    Serialized,
    /// All threads use it without restriction.
    Multiple,
}

/// The level of thread support: always [`Threading::Multiple`].
///
/// # Panics
/// MPI has not begun, or is over.
#[must_use]
pub fn threading_support() -> Threading {
    current(|_| Threading::Multiple)
}

/// The version of the MPI standard: 4.1. (The documentation lists what is missing.)
#[must_use]
pub fn version() -> (i32, i32) {
    (4, 1)
}

/// The name and version of this library.
///
/// # Errors
/// None. (A result as in rsmpi.)
pub fn library_version() -> Result<String, FromUtf8Error> {
    Ok(concat!("hikyaku-mpi ", env!("CARGO_PKG_VERSION")).to_owned())
}

/// The name of this host; `host 3` for a simulated one.
///
/// # Errors
/// None. (A result as in rsmpi.)
pub fn processor_name() -> Result<String, FromUtf8Error> {
    Ok(host_name())
}

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// Seconds since some time in the past, which stays the same while the process lives (`MPI_Wtime`). For a simulated
/// rank, seconds of virtual time since the simulation began.
///
/// ```
/// let start = mpi::time();
/// assert!(mpi::time() - start >= 0.0);
/// ```
#[must_use]
pub fn time() -> f64 {
    #[cfg(feature = "sim")]
    if let Some(rank) = hikyaku::sim::Rank::current() {
        return rank.engine().now().as_nanos() as f64 * 1e-9;
    }
    origin().elapsed().as_secs_f64()
}

/// The smallest difference that [`time`] can measure, in seconds (`MPI_Wtick`): 1e-9.
#[must_use]
pub fn time_resolution() -> f64 {
    1e-9
}

#![expect(unsafe_code, reason = "registers a function for the end of the process")]
//! The part of this process in its job: how MPI begins and ends.

use std::{
    process,
    sync::{
        Arc, Mutex, Once, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering},
    },
    thread::{self, ThreadId},
};

use hikyaku::{
    environment::Environment,
    mpi::{
        engine::{self, Engine},
        error::ErrorClass,
        job::{Job, LINGER},
    },
};

use crate::{
    abi::Handle,
    border::Failure,
    objects::{Communicator, Topology, lock},
};

/// The part of this process in its job, from when it joins to when the process ends.
#[derive(Debug)]
pub(crate) struct Joined {
    /// `None` after the end.
    job: Mutex<Option<Arc<Job>>>,
    pub(crate) engine: Arc<Engine>,
    world: Arc<Communicator>,
    own: Arc<Communicator>,
    /// Number of the program among those of the job.
    pub(crate) app_number: u32,
}

static JOINED: OnceLock<Joined> = OnceLock::new();
static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
static MAIN: OnceLock<(ThreadId, i32)> = OnceLock::new();

const BEFORE: u8 = 0;
const RUNNING: u8 = 1;
const AFTER: u8 = 2;

/// `MPI_Init` has been called, and `MPI_Finalize` has not.
pub(crate) fn is_running() -> bool {
    PHASE.load(Ordering::Acquire) == RUNNING
}

/// `MPI_Init` has been called, if `MPI_Finalize` has been or not.
pub(crate) fn has_begun() -> bool {
    PHASE.load(Ordering::Acquire) != BEFORE
}

/// `MPI_Finalize` has been called.
pub(crate) fn is_over() -> bool {
    PHASE.load(Ordering::Acquire) == AFTER
}

/// Joins the job, unless this process has done so: by `MPI_Init`, or for a session.
pub(crate) fn join() -> Result<&'static Joined, Failure> {
    static JOINING: Mutex<()> = Mutex::new(());
    let _joining = lock(&JOINING);
    if let Some(joined) = JOINED.get() {
        return Ok(joined);
    }
    watch_forks();
    let job = Job::join(&Environment::of_process()).map_err(|error| {
        eprintln!("hikyaku: {error}");
        Failure::text(ErrorClass::Other, "the job could not be joined, as printed")
    })?;
    let engine = Arc::clone(job.engine());
    let named = |comm, name: &str| {
        let communicator = Communicator::new(comm, Topology::None, None);
        name.clone_into(&mut lock(&communicator.name));
        Arc::new(communicator)
    };
    let joined = Joined {
        app_number: job.launched().app_number(),
        job: Mutex::new(Some(Arc::new(job))),
        world: named(engine::Communicator::world(&engine), "MPI_COMM_WORLD"),
        own: named(engine::Communicator::own(&engine), "MPI_COMM_SELF"),
        engine,
    };
    Ok(JOINED.get_or_init(|| joined))
}

/// This process is a child of `fork`: the job is its parent's.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Has MPI be over in children of `fork`.
fn watch_forks() {
    extern "C" fn in_child() {
        IS_CHILD.store(true, Ordering::Release);
        if is_running() {
            PHASE.store(AFTER, Ordering::Release);
        }
    }
    // SAFETY: the function stays, since the library is never unloaded, and only writes to atomics. Registering fails only
    // without memory.
    let _ = unsafe { nix::libc::pthread_atfork(None, None, Some(in_child)) };
}

/// The part of this process, if it has joined.
pub(crate) fn joined() -> Option<&'static Joined> {
    JOINED.get()
}

/// The part of this process in its job, until it leaves.
pub(crate) fn job() -> Option<Arc<Job>> {
    JOINED.get().and_then(|joined| lock(&joined.job).clone())
}

/// Begins MPI (`MPI_Init_thread`), with this level of threads.
pub(crate) fn begin(level: i32) -> Result<(), Failure> {
    join()?;
    let begun = PHASE.compare_exchange(BEFORE, RUNNING, Ordering::AcqRel, Ordering::Acquire);
    if begun.is_err() {
        return Err(Failure::text(
            ErrorClass::Other,
            "MPI has begun before, which it can only once",
        ));
    }
    let _ = MAIN.set((thread::current().id(), level));
    Ok(())
}

/// The thread that began MPI, and the level of threads.
pub(crate) fn main_thread() -> Option<(ThreadId, i32)> {
    MAIN.get().copied()
}

/// Ends MPI (`MPI_Finalize`).
pub(crate) fn end() -> Result<(), Failure> {
    let joined = JOINED.get().filter(|_| is_running());
    let Some(joined) = joined else {
        return Err(Failure::text(ErrorClass::Other, "MPI has not begun, or is over"));
    };
    // A failed callback does not keep MPI from ending.
    let _ = joined.own.attributes.clear(&Handle(0x102));
    for communicator in [&joined.world, &joined.own] {
        lock(&communicator.buffered.messages).resize(0);
    }
    // A session that goes on keeps the job.
    let ended = if SESSIONS.load(Ordering::Acquire) == 0 {
        leave(joined)
    } else {
        Ok(())
    };
    PHASE.store(AFTER, Ordering::Release);
    ended
}

/// Sessions that have begun and not ended.
static SESSIONS: AtomicU32 = AtomicU32::new(0);

/// A session begins: the process joins its job, unless it has done so.
pub(crate) fn begin_session() -> Result<(), Failure> {
    let joined = join()?;
    if lock(&joined.job).is_none() {
        return Err(Failure::text(ErrorClass::Session, "this process has left its job"));
    }
    SESSIONS.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// A session ends. The last one leaves the job if `MPI_Finalize` has been called; if `MPI_Init` has not been, the end of
/// the process does, since there may be further sessions.
pub(crate) fn end_session() -> Result<(), Failure> {
    let is_last = SESSIONS.fetch_sub(1, Ordering::AcqRel) == 1;
    match JOINED.get() {
        Some(joined) if is_last && is_over() => leave(joined),
        Some(_) if is_last && !has_begun() => {
            static AT_EXIT: Once = Once::new();
            AT_EXIT.call_once(leave_at_exit);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Leaves the job when the process ends in order, unless MPI or a session goes on then.
fn leave_at_exit() {
    extern "C" fn at_exit() {
        if let Some(joined) = JOINED.get()
            && !is_running()
            && SESSIONS.load(Ordering::Acquire) == 0
        {
            let _ = leave(joined);
        }
    }
    // SAFETY: the function stays, since the library is never unloaded. It fails only without memory, and then the
    // launcher sees a process that has not said goodbye.
    let _ = unsafe { nix::libc::atexit(at_exit) };
}

/// Says goodbye to the job, unless this process has done so.
fn leave(joined: &Joined) -> Result<(), Failure> {
    if IS_CHILD.load(Ordering::Acquire) || lock(&joined.job).is_none() {
        return Ok(());
    }
    let ended = Job::finalize(&joined.world.comm, LINGER, || {
        // A thread that spawns processes meanwhile breaks the rules of the end, and has it.
        lock(&joined.job).take().and_then(Arc::into_inner)
    });
    ended.map_err(|error| {
        eprintln!("hikyaku: {error}");
        Failure::text(ErrorClass::Other, "the end has failed, as printed")
    })
}

/// Ends the job at once (`MPI_Abort`).
pub(crate) fn abort(code: i32, reason: &str) -> ! {
    let is_child = IS_CHILD.load(Ordering::Acquire);
    let joined = JOINED.get().filter(|_| !is_child);
    let job = joined.and_then(|joined| lock(&joined.job).take());
    if let Some(job) = job.and_then(Arc::into_inner) {
        job.abort(code, reason);
    }
    process::exit(i32::from(u8::try_from(code).unwrap_or(1).max(1)))
}

/// `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
#[inline(always)]
pub(crate) fn predefined(number: u32) -> Option<&'static Arc<Communicator>> {
    let joined = JOINED.get()?;
    match number {
        0x101 => Some(&joined.world),
        0x102 => Some(&joined.own),
        _ => None,
    }
}

/// Makes progress once, in a loop that waits for something that the engine does not know.
pub(crate) fn pause() -> Result<(), Failure> {
    if let Some(joined) = JOINED.get() {
        let failed = |_| Failure::text(ErrorClass::Other, "the network of this process has failed");
        joined.engine.progress().map_err(failed)?;
    }
    thread::yield_now();
    Ok(())
}

/// A number that those processes have in common that can have memory in common; those of one host, if none can.
pub(crate) fn host_color(engine: &Engine) -> i32 {
    let name = engine.memory_domain().unwrap_or_else(host_name);
    // FNV-1a, of which no two hosts of a job should have the same 31 bits.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    (hash >> 1) as i32
}

/// The name of this host, as the system knows it.
fn host_name() -> String {
    nix::unistd::gethostname()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

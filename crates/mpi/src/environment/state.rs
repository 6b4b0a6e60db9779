//! The state of MPI in this process: its part in the running job, and how that ends at once.

use std::{
    process,
    sync::{Arc, Mutex},
};

use hikyaku::{
    environment::Environment,
    mpi::{
        engine::{Communicator, Engine},
        job::{InitError, Job},
    },
};

use crate::{
    lock::lock,
    topology::{Handle, Local},
};

/// The part of this process in the running job.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) world: Handle,
    pub(super) own: Handle,
    /// `None` without a launcher: in a simulation.
    pub(super) job: Option<Arc<Job>>,
    /// Between the world and the processes that have spawned it, until it is left.
    pub(super) parent: Option<Handle>,
}

/// The state of MPI in this process.
#[derive(Debug, Default)]
enum State {
    #[default]
    Before,
    Now(Box<Part>),
    After,
}

static STATE: Mutex<State> = Mutex::new(State::Before);

/// Each simulated rank has a state of its own.
#[cfg(feature = "sim")]
#[derive(Default)]
struct Own(Mutex<State>);

fn with_state<R>(f: impl FnOnce(&mut State) -> R) -> R {
    #[cfg(feature = "sim")]
    if let Some(rank) = hikyaku::sim::Rank::current() {
        return f(&mut lock(&rank.own::<Own>().0));
    }
    f(&mut lock(&STATE))
}

fn part<R>(f: impl FnOnce(&Part) -> R) -> Option<R> {
    with_state(|state| match state {
        State::Now(part) => Some(f(part)),
        State::Before | State::After => None,
    })
}

/// Joins the job, once.
pub(super) fn begin() -> Result<(), InitError> {
    let hint = match cfg!(feature = "sim") {
        true => "",
        false => " (for simulated ranks hikyaku-mpi needs its feature `sim`)",
    };
    with_state(|state| {
        if !matches!(state, State::Before) {
            return Err(InitError::Twice { hint });
        }
        *state = State::Now(Box::new(join()?));
        Ok(())
    })
}

fn join() -> Result<Part, InitError> {
    #[cfg(feature = "sim")]
    if let Some(rank) = hikyaku::sim::Rank::current() {
        return Ok(Part::new(rank.engine(), None));
    }
    let job = Job::join(&Environment::of_process())?;
    let engine = Arc::clone(job.engine());
    Ok(Part::new(&engine, Some(job)))
}

impl Part {
    /// The world, and this process alone.
    fn new(engine: &Arc<Engine>, job: Option<Job>) -> Self {
        let local = Arc::<Local>::default();
        let parent = job.as_ref().and_then(Job::parent);
        Self {
            parent: parent.map(|parent| Handle::new(parent.clone(), &local)),
            world: Handle::new(Communicator::world(engine), &local),
            own: Handle::new(Communicator::own(engine), &local),
            job: job.map(Arc::new),
        }
    }
}

/// Ends the part of this process, and returns the job if there is a launcher.
pub(super) fn leave() -> Option<Job> {
    // A thread that spawns processes meanwhile breaks the rules of the end, and has it.
    leave_with().and_then(|part| part.job).and_then(Arc::into_inner)
}

fn leave_with() -> Option<Box<Part>> {
    match with_state(|state| std::mem::replace(state, State::After)) {
        State::Now(part) => Some(part),
        State::Before | State::After => None,
    }
}

pub(super) fn current<R>(f: impl FnOnce(&Part) -> R) -> R {
    part(f).expect("MPI is used before `mpi::initialize` or after the end of its universe")
}

pub(crate) fn world() -> Handle {
    current(|part| part.world.clone())
}

pub(crate) fn own() -> Handle {
    current(|part| part.own.clone())
}

/// The communicator between the world and the processes that have spawned it.
pub(crate) fn parent() -> Option<Handle> {
    current(|part| part.parent.clone())
}

/// Forgets that communicator.
pub(super) fn forget_parent() -> Option<Handle> {
    with_state(|state| match state {
        State::Now(part) => part.parent.take(),
        State::Before | State::After => None,
    })
}

/// The part of this process in the job that a launcher has started.
pub(crate) fn job() -> Option<Arc<Job>> {
    current(|part| part.job.clone())
}

/// The number of this process in the job; 0 without one.
pub(crate) fn number() -> u32 {
    part(|part| part.world.comm.engine().process()).unwrap_or(0)
}

/// Ends the job, through the launcher if there is one.
pub(crate) fn abort(code: i32) -> ! {
    if let Some(part) = leave_with() {
        let Part {
            world,
            own,
            job,
            parent,
        } = *part;
        // Goodbye would look as if all were well.
        std::mem::forget((world, own, parent));
        match job.and_then(Arc::into_inner) {
            Some(job) => job.abort(code, "MPI_Abort"),
            None => panic!("MPI_Abort with code {code} in a simulation"),
        }
    }
    exit(code)
}

/// Ends this process with an exit code that is an error.
pub(crate) fn exit(code: i32) -> ! {
    process::exit(i32::from(u8::try_from(code).unwrap_or(1).max(1)))
}

/// The name of this host, as the system knows it. Simulated hosts have numbers.
pub(crate) fn host_name() -> String {
    #[cfg(feature = "sim")]
    if let Some(rank) = hikyaku::sim::Rank::current() {
        return format!("host {}", rank.host());
    }
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

//! The state of MPI in this process: its part in the running job, and how that ends at once.

use std::{process, sync::Mutex};

use super::start::Launched;
use crate::{lock::lock, topology::Handle};

/// The part of this process in the running job.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) world: Handle,
    pub(super) own: Handle,
    /// `None` without a launcher: in a simulation.
    pub(super) bootstrap: Option<Launched>,
}

/// The state of MPI in this process.
#[derive(Debug, Default)]
pub(super) enum State {
    #[default]
    Before,
    Now(Box<Job>),
    After,
}

static STATE: Mutex<State> = Mutex::new(State::Before);

/// Each simulated rank has a state of its own.
#[cfg(feature = "sim")]
#[derive(Default)]
struct Own(Mutex<State>);

pub(super) fn with_state<R>(f: impl FnOnce(&mut State) -> R) -> R {
    #[cfg(feature = "sim")]
    if let Some(rank) = hikyaku::sim::Rank::current() {
        return f(&mut lock(&rank.own::<Own>().0));
    }
    f(&mut lock(&STATE))
}

pub(super) fn job<R>(f: impl FnOnce(&Job) -> R) -> Option<R> {
    with_state(|state| match state {
        State::Now(job) => Some(f(job)),
        State::Before | State::After => None,
    })
}

/// Ends the part of this process, and returns it.
pub(super) fn leave() -> Option<Box<Job>> {
    match with_state(|state| std::mem::replace(state, State::After)) {
        State::Now(job) => Some(job),
        State::Before | State::After => None,
    }
}

pub(super) fn current<R>(f: impl FnOnce(&Job) -> R) -> R {
    job(f).expect("MPI is used before `mpi::initialize` or after the end of its universe")
}

pub(crate) fn world() -> Handle {
    current(|job| job.world.clone())
}

pub(crate) fn own() -> Handle {
    current(|job| job.own.clone())
}

/// The number of this process in the job; 0 without one.
pub(crate) fn number() -> u32 {
    job(|job| job.world.comm.engine().process()).unwrap_or(0)
}

/// Ends the job, through the launcher if there is one.
pub(crate) fn abort(code: i32) -> ! {
    if let Some(job) = leave() {
        let Job { bootstrap, world, own } = *job;
        // Goodbye would look as if all were well.
        std::mem::forget((world, own));
        match bootstrap {
            Some(launched) => launched
                .into_job()
                .abort(u8::try_from(code).unwrap_or(1).max(1), "MPI_Abort"),
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

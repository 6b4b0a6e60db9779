//! Jobs of several ranks, each a thread, over a backend that the test names.

use hikyaku::{
    mpi::engine::{Communicator, Engine, Options},
    transport::Transport,
};

pub(crate) use self::ranks::{THREADS, byte, options, pattern};

#[path = "../support/ranks.rs"]
mod ranks;

/// Runs `program` as each of `size` ranks over `backend`, and gives what they gave.
pub(crate) fn job_on<T: Send>(
    backend: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    processes(backend, size, options, |world| ranks::finalizing(&world, &program))
}

/// The same; `program` finalises.
pub(crate) fn processes<T: Send>(
    backend: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let open = |process| Engine::bind(Transport::builder(), backend, "127.0.0.1:0", process).unwrap();
    ranks::run(size, options, open, |_, _| {}, program)
}

pub(crate) fn job<T: Send>(size: u32, program: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    job_on("loopback", size, &options(), program)
}

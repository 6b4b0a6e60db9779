//! Jobs of several ranks, each a thread, which talk through memory, but for every third one.

use hikyaku::mpi::engine::{Communicator, Options};

pub(crate) use self::ranks::{THREADS, byte, options, pattern};

#[path = "../support/in_memory.rs"]
mod in_memory;
#[path = "../support/ranks.rs"]
mod ranks;

/// Runs `program` as each of `size` ranks, whatever backend is named, and gives what they gave.
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
    _: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    in_memory::run(size, options, |process| process % 3 != 2, program)
}

pub(crate) fn job<T: Send>(size: u32, program: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    job_on("udp", size, &options(), program)
}

//! Jobs of several ranks, each a thread, which all talk through memory. Before the program begins, they have called enough
//! collectives on the world that it has memory of its own.

use hikyaku::mpi::engine::{Communicator, Options};

pub(crate) use self::ranks::{THREADS, byte, options, pattern};

#[path = "../support/in_memory.rs"]
mod in_memory;
#[path = "../support/ranks.rs"]
mod ranks;

/// Collectives after which the memory is there.
pub(crate) const EARLY: u32 = 8;

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
    in_memory::run(
        size,
        options,
        |_| true,
        |world| {
            (0..EARLY).for_each(|_| world.barrier().unwrap());
            program(world)
        },
    )
}

pub(crate) fn job<T: Send>(size: u32, program: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    job_on("udp", size, &options(), program)
}

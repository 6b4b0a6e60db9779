//! Jobs of several ranks, each a thread, which all talk through memory. Before the program begins, they have called enough
//! collectives on the world that it has memory of its own.

use hikyaku::{
    backends::BindOptions,
    mpi::engine::{Communicator, Engine, Options, Unconnected},
    transport::{Routes, Transport},
};

pub(crate) use self::ranks::{THREADS, byte, options, pattern};

#[path = "../support/ranks.rs"]
mod ranks;

/// Collectives after which the memory is there.
const EARLY: u32 = 8;

/// Runs `program` as each of `size` ranks, whatever backend is named, and gives what they gave.
pub(crate) fn job_on<T: Send>(
    backend: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    processes(backend, size, options, |world| ranks::finalizing(&world, &program))
}

fn open(process: u32) -> Unconnected {
    let mut place = BindOptions::default();
    place.place.process = process;
    let builder = Transport::builder().bind_options(place).routes(Routes::Memory);
    Engine::bind(builder, "udp", "127.0.0.1:0", process).unwrap()
}

/// The same; `program` finalises.
pub(crate) fn processes<T: Send>(
    _: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let meet = |_, engine: &mut Unconnected| {
        assert_eq!(engine.meet().unwrap().memory, size as usize - 1);
    };
    ranks::run(size, options, open, meet, |world| {
        for _ in 0..EARLY {
            world.barrier().unwrap();
        }
        program(world)
    })
}

pub(crate) fn job<T: Send>(size: u32, program: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    job_on("udp", size, &options(), program)
}

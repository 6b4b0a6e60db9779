//! Jobs of several ranks, each a thread, which talk through memory, but for every third one.

use hikyaku::{
    backends::BindOptions,
    mpi::engine::{Communicator, Engine, Options, Unconnected},
    transport::{Routes, Transport},
};

pub(crate) use self::ranks::{THREADS, byte, options, pattern};

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

/// This rank takes part in the memory.
fn is_near(process: u32) -> bool {
    process % 3 != 2
}

fn open(process: u32) -> Unconnected {
    let mut place = BindOptions::default();
    place.place.process = process;
    let routes = if is_near(process) {
        Routes::Memory
    } else {
        Routes::Network
    };
    let builder = Transport::builder().bind_options(place).routes(routes);
    Engine::bind(builder, "udp", "127.0.0.1:0", process).unwrap()
}

/// The same; `program` finalises.
pub(crate) fn processes<T: Send>(
    _: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let meet = |process, engine: &mut Unconnected| {
        let others = (0..size).filter(|other| *other != process && is_near(*other)).count();
        let met = engine.meet().unwrap();
        assert_eq!(met.memory, if is_near(process) { others } else { 0 });
    };
    ranks::run(size, options, open, meet, program)
}

pub(crate) fn job<T: Send>(size: u32, program: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    job_on("udp", size, &options(), program)
}

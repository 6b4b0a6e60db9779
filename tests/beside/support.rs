//! Jobs of several ranks, each a thread, of which an even and an odd one talk through memory.

use hikyaku::{
    backends::loopback::{LoopbackBackend, LoopbackOptions},
    mpi::engine::{Communicator, Engine, Options, Unconnected},
    reliability::{Beside, MemoryLayer},
    ring::Exchange,
    transport::Transport,
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

/// Loopback carries the packets of both layers: it drops nothing and keeps the order, which the layer in memory needs.
/// Short messages go by rings, which the ranks find in `rings`.
fn open(process: u32, rings: &Exchange) -> Unconnected {
    let rings = rings.clone();
    let options = LoopbackOptions {
        busy_when_full: true,
        ..LoopbackOptions::default()
    };
    let backend = Box::new(LoopbackBackend::bind_with(([127, 0, 0, 1], 0).into(), options).unwrap());
    let builder = Transport::builder().layer(move |endpoint, limits| {
        let memory = MemoryLayer::new(endpoint.config().clone(), limits, u64::from(process) + 1);
        let memory = memory.unwrap().with_rings(rings.clone());
        Box::new(Beside::new(endpoint, memory, move |_, peer| peer % 2 != process % 2))
    });
    Engine::on(builder, backend, process).unwrap()
}

/// The same; `program` finalises.
pub(crate) fn processes<T: Send>(
    _: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let rings = Exchange::default();
    ranks::run(size, options, |process| open(process, &rings), |_, _| {}, program)
}

pub(crate) fn job<T: Send>(size: u32, program: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    job_on("loopback", size, &options(), program)
}

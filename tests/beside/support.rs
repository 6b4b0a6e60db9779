//! Jobs of several ranks, each a thread, of which an even and an odd one talk through memory.

use std::{
    net::SocketAddr,
    sync::{Arc, Barrier, Mutex},
    thread,
    time::Duration,
};

use hikyaku::{
    backends::{
        Backend as _,
        loopback::{LoopbackBackend, LoopbackOptions},
    },
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator, Engine, Options, Unconnected},
    },
    reliability::{Beside, MemoryLayer},
    ring::Exchange,
    transport::{Transport, WaitPolicy},
};

/// Ranks may wait in threads of their own. (Where these tests are simulated they may not.)
pub(crate) const THREADS: bool = true;

/// Spins so little that many ranks can share few cores.
pub(crate) fn options() -> Options {
    Options {
        wait: WaitPolicy::Adaptive {
            spin: Duration::from_micros(2),
        },
        ..Options::default()
    }
}

/// Runs `program` as each of `size` ranks over `backend`, and gives what they gave.
pub(crate) fn job_on<T: Send>(
    backend: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    processes(backend, size, options, |world| {
        let engine = Arc::clone(world.engine());
        let result = program(world.clone());
        world.barrier().unwrap();
        engine.finalize(Duration::from_secs(2)).unwrap();
        result
    })
}

/// Loopback carries the packets of both layers: it drops nothing and keeps the order, which the layer in memory needs.
/// Short messages go by rings, which the ranks find in `rings`.
fn rank_of(process: u32, rings: &Exchange) -> (Unconnected, SocketAddr) {
    let rings = rings.clone();
    let options = LoopbackOptions {
        busy_when_full: true,
        ..LoopbackOptions::default()
    };
    let backend = Box::new(LoopbackBackend::bind_with(([127, 0, 0, 1], 0).into(), options).unwrap());
    let address = backend.local_addr();
    let builder = Transport::builder().layer(move |endpoint, limits| {
        let memory = MemoryLayer::new(endpoint.config().clone(), limits, u64::from(process) + 1);
        let memory = memory.unwrap().with_rings(rings.clone());
        Box::new(Beside::new(endpoint, memory, move |_, peer| peer % 2 != process % 2))
    });
    (Engine::on(builder, backend, process).unwrap(), address)
}

/// The same; `program` finalises.
pub(crate) fn processes<T: Send>(
    _: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let addresses: Mutex<Vec<SocketAddr>> = Mutex::new(vec![([0, 0, 0, 0], 0).into(); size as usize]);
    let (bound, rings) = (Barrier::new(size as usize), Exchange::default());
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|process| {
                let (addresses, bound, rings, program) = (&addresses, &bound, &rings, &program);
                scope.spawn(move || {
                    let (engine, address) = rank_of(process, rings);
                    addresses.lock().unwrap()[process as usize] = address;
                    bound.wait();
                    let all = addresses.lock().unwrap().clone();
                    let engine: Arc<Engine> = engine.connect(&all, options.clone()).unwrap();
                    program(Communicator::world(&engine))
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

pub(crate) fn job<T: Send>(size: u32, program: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    job_on("loopback", size, &options(), program)
}

pub(crate) fn byte() -> Datatype {
    Datatype::predefined(Kind::Byte)
}

pub(crate) fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + salt * 13) as u8).collect()
}

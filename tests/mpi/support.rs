//! Jobs of several ranks, each a thread.

use std::{
    net::SocketAddr,
    sync::{Arc, Barrier, Mutex},
    thread,
    time::Duration,
};

use hikyaku::{
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator, Engine, Options},
    },
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

/// The same; `program` finalises.
pub(crate) fn processes<T: Send>(
    backend: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let addresses: Mutex<Vec<SocketAddr>> = Mutex::new(vec![([0, 0, 0, 0], 0).into(); size as usize]);
    let bound = Barrier::new(size as usize);
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|process| {
                let (addresses, bound, program) = (&addresses, &bound, &program);
                scope.spawn(move || {
                    let engine = Engine::bind(Transport::builder(), backend, "127.0.0.1:0", process).unwrap();
                    addresses.lock().unwrap()[process as usize] = engine.local_addr();
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

//! A job whose processes are threads of this one, which talk over UDP.

use std::{
    net::SocketAddr,
    sync::{Barrier, Mutex},
    thread,
    time::Duration,
};

use hikyaku::{
    mpi::engine::{Communicator, Engine, Options},
    transport::{Transport, WaitPolicy},
};

/// There may be more ranks than cores.
pub(crate) fn options() -> Options {
    Options {
        wait: WaitPolicy::Adaptive {
            spin: Duration::from_micros(20),
            turns: Duration::ZERO,
        },
        ..Options::default()
    }
}

/// Runs `program` as each of `size` ranks, and gives what they gave.
pub(crate) fn job<T: Send>(size: u32, program: impl Fn(&Communicator) -> T + Sync) -> Vec<T> {
    let options = options();
    let addresses = Mutex::new(vec![SocketAddr::from(([0; 4], 0)); size as usize]);
    let bound = Barrier::new(size as usize);
    thread::scope(|scope| {
        let (program, addresses, bound, options) = (&program, &addresses, &bound, &options);
        let rank = |process: u32| {
            let engine = Engine::bind(Transport::builder(), "udp", "127.0.0.1:0", process).expect("a UDP port");
            addresses.lock().expect("nobody panics")[process as usize] = engine.local_addr();
            bound.wait();
            let all = addresses.lock().expect("nobody panics").clone();
            let engine = engine.connect(&all, options.clone()).expect("addresses differ");
            let world = Communicator::world(&engine);
            let result = program(&world);
            world.barrier().expect("everybody comes here");
            engine.finalize(Duration::from_secs(2)).expect("the network works");
            result
        };
        let ranks: Vec<_> = (0..size).map(|process| scope.spawn(move || rank(process))).collect();
        ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
    })
}

//! Jobs of several ranks, each a thread.

use std::{
    net::SocketAddr,
    sync::{Barrier, Mutex},
    thread,
    time::Duration,
};

use hikyaku::{
    Config,
    mpi::engine::{Communicator as RawCommunicator, Engine, Options},
    transport::{Transport, WaitPolicy},
};
use mpi::{topology::SimpleCommunicator, traits::*};

/// Deaths are noticed soon.
fn config() -> Config {
    Config {
        death_timeout: Duration::from_millis(300),
        open_timeout: Duration::from_millis(300),
        keepalive: Duration::from_millis(50),
        retry_limit: 3,
        ..Config::default()
    }
}

/// Runs `program` as each of `size` ranks over `backend`. Whom it gives `false` for leaves without a goodbye.
pub(crate) fn job_on(backend: &str, size: u32, program: impl Fn(&SimpleCommunicator) -> bool + Sync) {
    let addresses: Mutex<Vec<SocketAddr>> = Mutex::new(vec![([0, 0, 0, 0], 0).into(); size as usize]);
    let bound = Barrier::new(size as usize);
    let options = Options {
        wait: WaitPolicy::Adaptive {
            spin: Duration::from_micros(2),
            turns: Duration::ZERO,
        },
        ..Options::default()
    };
    thread::scope(|scope| {
        for process in 0..size {
            let (addresses, bound, program, options) = (&addresses, &bound, &program, &options);
            scope.spawn(move || {
                let builder = Transport::builder().config(config());
                let engine = Engine::bind(builder, backend, "127.0.0.1:0", process).unwrap();
                addresses.lock().unwrap()[process as usize] = engine.local_addr();
                bound.wait();
                let all = addresses.lock().unwrap().clone();
                let engine = engine.connect(&all, options.clone()).unwrap();
                let world = RawCommunicator::world(&engine);
                if program(&SimpleCommunicator::from_raw(world.clone())) {
                    assert_eq!(engine.requests(), 0, "rank {process} has left requests");
                    // Those that are left meet; who is lost is missed.
                    let _ = world.barrier();
                    let _ = engine.finalize(Duration::from_secs(1));
                }
            });
        }
    });
}

pub(crate) fn job(size: u32, program: impl Fn(&SimpleCommunicator) + Sync) {
    job_on("loopback", size, |world| {
        program(world);
        true
    });
}

/// Meets the others, and meanwhile takes what they may still be sending: a scope that ends in the middle cancels its
/// receives, but not the sends of others.
pub(crate) fn meet(world: &SimpleCommunicator) {
    let take = || {
        while let Some(found) = world.any_process().immediate_matched_probe().unwrap() {
            found.matched_receive_vec::<u8>().unwrap();
        }
    };
    let mut barrier = world.immediate_barrier();
    while let Err(pending) = barrier.test() {
        barrier = pending;
        take();
    }
    take();
}

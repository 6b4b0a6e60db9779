//! Ranks of one job, each a thread of the test.

use std::{
    net::SocketAddr,
    sync::{Arc, Barrier, Mutex},
    thread,
    time::Duration,
};

use hikyaku::{
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator, Engine, Options, Unconnected},
    },
    transport::WaitPolicy,
};

/// An address, and the link address.
type Contact = (SocketAddr, Vec<u8>);

/// Ranks may wait in threads of their own. (Where these tests are simulated they may not.)
pub(crate) const THREADS: bool = true;

/// Spins so little that many ranks can share few cores.
pub(crate) fn options() -> Options {
    Options {
        wait: WaitPolicy::Adaptive {
            spin: Duration::from_micros(2),
            turns: Duration::ZERO,
        },
        ..Options::default()
    }
}

/// Runs `program` as each of `size` ranks, and gives what they gave. `open` binds a rank; `introduced` is called when it
/// knows the others. `program` finalises.
pub(crate) fn run<T: Send>(
    size: u32,
    options: &Options,
    open: impl Fn(u32) -> Unconnected + Sync,
    introduced: impl Fn(u32, &mut Unconnected) + Sync,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let contacts: Mutex<Vec<Option<Contact>>> = Mutex::new(vec![None; size as usize]);
    let bound = Barrier::new(size as usize);
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|process| {
                let (contacts, bound) = (&contacts, &bound);
                let (open, introduced, program) = (&open, &introduced, &program);
                scope.spawn(move || {
                    let mut engine = open(process);
                    let own = (engine.local_addr(), engine.link_address());
                    contacts.lock().unwrap()[process as usize] = Some(own);
                    bound.wait();
                    let all: Vec<Contact> = contacts.lock().unwrap().iter().flatten().cloned().collect();
                    for (other, (address, link)) in (0..).zip(&all) {
                        if other != process {
                            engine.introduce(*address, link).unwrap();
                        }
                    }
                    introduced(process, &mut engine);
                    let addresses: Vec<SocketAddr> = all.iter().map(|(address, _)| *address).collect();
                    let engine: Arc<Engine> = engine.connect(&addresses, options.clone()).unwrap();
                    program(Communicator::world(&engine))
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Runs `program` as a rank that finalises when all have come to the end.
pub(crate) fn finalizing<T>(world: &Communicator, program: impl Fn(Communicator) -> T) -> T {
    let engine = Arc::clone(world.engine());
    let result = program(world.clone());
    world.barrier().unwrap();
    engine.finalize(Duration::from_secs(2)).unwrap();
    result
}

pub(crate) fn byte() -> Datatype {
    Datatype::predefined(Kind::Byte)
}

pub(crate) fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + salt * 13) as u8).collect()
}

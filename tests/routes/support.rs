//! Jobs of several ranks, each a thread, which talk through memory, but for every third one.

use std::{
    net::SocketAddr,
    sync::{Arc, Barrier, Mutex},
    thread,
    time::Duration,
};

use hikyaku::{
    backends::BindOptions,
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator, Engine, Options, Unconnected},
    },
    transport::{Routes, Transport, WaitPolicy},
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

/// A rank, with what the others must know of it.
fn rank_of(process: u32) -> (Unconnected, Contact) {
    let mut place = BindOptions::default();
    place.place.process = process;
    let routes = if process % 3 == 2 {
        Routes::Network
    } else {
        Routes::Memory
    };
    let builder = Transport::builder().bind_options(place).routes(routes);
    let mut engine = Engine::bind(builder, "udp", "127.0.0.1:0", process).unwrap();
    let contact = (engine.local_addr(), engine.link_address());
    (engine, contact)
}

/// The same; `program` finalises.
pub(crate) fn processes<T: Send>(
    _: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let contacts: Mutex<Vec<Option<Contact>>> = Mutex::new(vec![None; size as usize]);
    let bound = Barrier::new(size as usize);
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|process| {
                let (contacts, bound, program) = (&contacts, &bound, &program);
                scope.spawn(move || {
                    let (mut engine, contact) = rank_of(process);
                    contacts.lock().unwrap()[process as usize] = Some(contact);
                    bound.wait();
                    let all: Vec<Contact> = contacts.lock().unwrap().iter().flatten().cloned().collect();
                    for (other, (address, link)) in (0..).zip(&all) {
                        if other != process {
                            engine.introduce(*address, link).unwrap();
                        }
                    }
                    let near = |process: u32| process % 3 != 2;
                    let others = (0..size).filter(|other| *other != process && near(*other)).count();
                    let met = engine.meet().unwrap();
                    assert_eq!(met.memory, if near(process) { others } else { 0 });
                    let addresses: Vec<SocketAddr> = all.iter().map(|(address, _)| *address).collect();
                    let engine: Arc<Engine> = engine.connect(&addresses, options.clone()).unwrap();
                    program(Communicator::world(&engine))
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

pub(crate) fn job<T: Send>(size: u32, program: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    job_on("udp", size, &options(), program)
}

pub(crate) fn byte() -> Datatype {
    Datatype::predefined(Kind::Byte)
}

pub(crate) fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + salt * 13) as u8).collect()
}

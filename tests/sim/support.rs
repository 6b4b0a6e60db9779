//! The same names as in the tests of the engine: jobs of simulated ranks.

use std::time::Duration;

use hikyaku::{
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator, Options},
    },
    sim::Simulation,
};

/// Nobody waits in another thread.
pub(crate) const THREADS: bool = false;

pub(crate) fn options() -> Options {
    Options::default()
}

pub(crate) fn job_on<T: 'static>(
    _: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + 'static,
) -> Vec<T> {
    processes("", size, options, move |world| {
        let result = program(world.clone());
        world.barrier().unwrap();
        world.engine().finalize(Duration::from_secs(2)).unwrap();
        result
    })
}

/// The same; `program` finalises.
pub(crate) fn processes<T: 'static>(
    _: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + 'static,
) -> Vec<T> {
    let mut simulation = Simulation {
        options: options.clone(),
        shared_memory: crate::SHARED_MEMORY,
        ..Simulation::new(size, 1)
    };
    if crate::SHARED_MEMORY {
        simulation.network.per_host = size.div_ceil(2);
    }
    let outcome = simulation.run(move |engine| program(Communicator::world(engine)));
    outcome.unwrap_or_else(|error| panic!("{error}")).results
}

pub(crate) fn job<T: 'static>(size: u32, program: impl Fn(Communicator) -> T + 'static) -> Vec<T> {
    job_on("", size, &options(), program)
}

pub(crate) fn byte() -> Datatype {
    Datatype::predefined(Kind::Byte)
}

pub(crate) fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + salt * 13) as u8).collect()
}

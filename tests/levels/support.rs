//! Jobs of several ranks, each a thread, on several hosts: threads of one user talk through memory, and those of different
//! users do not, as if they were on different hosts. Only root can become another user: without it, all but the first
//! host's ranks have a host of their own.

use hikyaku::{
    backends::BindOptions,
    mpi::{
        collectives::Levels,
        engine::{Communicator, Engine, Options, Unconnected},
    },
    transport::{Routes, Transport},
};

pub(crate) use self::ranks::{THREADS, byte, pattern};

#[path = "../support/ranks.rs"]
mod ranks;

/// Collectives after which ranks know who shares a host.
const EARLY: u32 = 8;
/// The user of the second host.
const USER: u32 = 65_000;

/// The host of each rank.
pub(crate) type Hosts<'a> = &'a [u32];

pub(crate) fn options() -> Options {
    with(Levels::Leaders)
}

pub(crate) fn with(levels: Levels) -> Options {
    let mut options = ranks::options();
    options.policy.levels = levels;
    options
}

/// Returns whether this thread has become another user, which only root may.
fn becomes(user: u32) -> bool {
    // SAFETY: the system call takes three numbers. The C library's function would change all threads; the kernel's system
    // call changes only the thread that calls it, and those that it makes later.
    unsafe { libc::syscall(libc::SYS_setresuid, -1, user, -1) == 0 }
}

/// Runs `program` as each rank, and gives what they gave. Before that, they have called enough collectives on the world to
/// know its hosts. `program` finalises.
pub(crate) fn on_hosts<T: Send>(
    hosts: Hosts<'_>,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    // SAFETY: the system call takes nothing and cannot fail.
    let may_become = unsafe { libc::geteuid() } == 0;
    let routes = |process: u32| {
        let is_near = hosts[process as usize] == 0 || may_become;
        if is_near { Routes::Auto } else { Routes::Network }
    };
    let open = |process: u32| {
        let host = hosts[process as usize];
        assert!(host == 0 || !may_become || becomes(USER + host));
        let mut place = BindOptions::default();
        place.place.process = process;
        let builder = Transport::builder().bind_options(place).routes(routes(process));
        Engine::bind(builder, "udp", "127.0.0.1:0", process).unwrap()
    };
    let meet = |process: u32, engine: &mut Unconnected| {
        let host = hosts[process as usize];
        let others = hosts.iter().filter(|other| **other == host).count() - 1;
        let met = engine.meet().unwrap();
        let near = routes(process) == Routes::Auto;
        assert_eq!(met.memory, if near { others } else { 0 }, "rank {process}");
    };
    ranks::run(hosts.len() as u32, options, open, meet, |world| {
        (0..EARLY).for_each(|_| world.barrier().unwrap());
        program(world)
    })
}

/// The same; the ranks finalise after it.
pub(crate) fn job_on_hosts<T: Send>(
    hosts: Hosts<'_>,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    on_hosts(hosts, options, |world| ranks::finalizing(&world, &program))
}

// ---- as the tests of other folders ask for them

/// Two hosts, of which the first one has more ranks if they are not even.
fn halves(size: u32) -> Vec<u32> {
    (0..size).map(|rank| rank * 2 / size.max(1)).collect()
}

pub(crate) fn processes<T: Send>(
    _: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let mut options = options.clone();
    options.policy.levels = Levels::Leaders;
    on_hosts(&halves(size), &options, program)
}

pub(crate) fn job_on<T: Send>(
    backend: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    processes(backend, size, options, |world| ranks::finalizing(&world, &program))
}

pub(crate) fn job<T: Send>(size: u32, program: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    job_on("udp", size, &options(), program)
}

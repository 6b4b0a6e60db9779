//! Jobs of several ranks, each a thread and a process of one poller, which is a thread, too.

use std::{env, path::PathBuf, process, sync::OnceLock, thread};

use hikyaku::{
    Config,
    backends::{
        Backend,
        dpdk::{Device, DpdkOptions, Memory},
    },
    mpi::engine::{Communicator, Engine, Options},
    poller::{Path, Poller, PollerBackend, PollerOptions},
    transport::Transport,
};

pub(crate) use self::ranks::{THREADS, byte, options, pattern};

#[path = "../support/ranks.rs"]
mod ranks;

/// The socket of the poller, which ends with the tests. Its port leads nowhere: ranks talk to each other.
fn poller() -> &'static PathBuf {
    static SOCKET: OnceLock<PathBuf> = OnceLock::new();
    SOCKET.get_or_init(|| {
        let socket = env::temp_dir().join(format!("hikyaku-jobs-{}", process::id()));
        let mut dpdk = DpdkOptions::new(Device::parse(&format!("net_null{},no-rx=1", process::id())).unwrap());
        dpdk.memory = Memory::NoHuge;
        dpdk.descriptors = Some(256);
        let options = PollerOptions::new(dpdk, "10.99.0.1".parse().unwrap(), socket.clone());
        let mut poller = Poller::start(options).unwrap_or_else(|error| panic!("{error}"));
        thread::spawn(move || poller.run(|| false));
        socket
    })
}

/// Runs `program` as each of `size` ranks, and gives what they gave.
pub(crate) fn job<T: Send>(size: u32, program: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    job_on("poller", size, &options(), program)
}

/// The same; whatever backend is named, it is the poller.
pub(crate) fn job_on<T: Send>(
    backend: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    processes(backend, size, options, |world| ranks::finalizing(&world, &program))
}

/// The same; `program` finalises.
pub(crate) fn processes<T: Send>(
    _: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let open = |_| {
        let backend = connect();
        let path = backend.path();
        (Box::new(backend) as Box<dyn Backend>, path)
    };
    processes_on(size, options, &Config::default(), open, program)
}

/// Connects to the poller.
pub(crate) fn connect() -> PollerBackend {
    PollerBackend::connect(poller(), 0).unwrap()
}

/// Runs `program` as each rank, with the backend that `open` gives it.
pub(crate) fn processes_on<T: Send>(
    size: u32,
    options: &Options,
    config: &Config,
    open: impl Fn(u32) -> (Box<dyn Backend>, Path) + Sync,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let open = |process| {
        let (backend, path) = open(process);
        let builder = Transport::builder().config(config.clone()).behind_poller(path);
        Engine::on(builder, backend, process).unwrap()
    };
    ranks::run(size, options, open, |_, _| {}, program)
}

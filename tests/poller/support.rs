//! Jobs of several ranks, each a thread and a process of one poller, which is a thread, too.

use std::{
    env,
    net::SocketAddr,
    path::PathBuf,
    process,
    sync::{Arc, Barrier, Mutex, OnceLock},
    thread,
    time::Duration,
};

use hikyaku::{
    backends::{
        dpdk::{Device, DpdkOptions, Memory},
        poller::PollerBackend,
    },
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator, Engine, Options},
    },
    poller::{Poller, PollerOptions},
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

/// The socket of the poller, which ends with the tests. Its port leads nowhere: ranks talk to each other.
fn poller() -> &'static PathBuf {
    static SOCKET: OnceLock<PathBuf> = OnceLock::new();
    SOCKET.get_or_init(|| {
        let socket = env::temp_dir().join(format!("hikyaku-jobs-{}", process::id()));
        let mut dpdk = DpdkOptions::new(Device::parse(&format!("net_null{},no-rx=1", process::id())).unwrap());
        dpdk.memory = Memory::NoHuge;
        dpdk.descriptors = 256;
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
    _: &str,
    size: u32,
    options: &Options,
    program: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let addresses: Mutex<Vec<SocketAddr>> = Mutex::new(vec![([0, 0, 0, 0], 0).into(); size as usize]);
    let bound = Barrier::new(size as usize);
    let socket = poller();
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|process| {
                let (addresses, bound, program) = (&addresses, &bound, &program);
                scope.spawn(move || {
                    let backend = PollerBackend::connect(socket, 0).unwrap();
                    let engine = Engine::on(Transport::builder(), Box::new(backend), process).unwrap();
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

pub(crate) fn byte() -> Datatype {
    Datatype::predefined(Kind::Byte)
}

pub(crate) fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + salt * 13) as u8).collect()
}

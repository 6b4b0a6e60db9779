//! A poller in a thread, and threads as its processes: correct ones, broken ones, and many that come and go.

use std::{
    env, fs,
    io::Write,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::PathBuf,
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
};

use super::*;
use crate::{
    PeerId,
    backends::dpdk::{Device, DpdkOptions, Memory},
    poller::{
        PollerBackend, PollerError,
        hello::{Queues, Wish},
        layout::{DOWN, MEMORY, kind, numbered},
    },
    reliability::{MAX_RAILS, RailState},
    shm::{as_nobody, handshake::Version},
    transport::{Event, Transport, WaitError, WaitPolicy},
};

const LONG: Duration = Duration::from_secs(10);
const ADDRESS: &str = "10.99.0.1";

fn options(device: &str, socket: PathBuf) -> PollerOptions {
    let mut dpdk = DpdkOptions::new(Device::parse(device).unwrap());
    dpdk.memory = Memory::NoHuge;
    dpdk.descriptors = Some(256);
    PollerOptions::new(dpdk, ADDRESS.parse().unwrap(), socket)
}

/// A poller in a thread, on a port that leads nowhere: its processes talk to each other.
struct Running {
    socket: PathBuf,
    stop: Arc<AtomicBool>,
    /// Ends without waiting for its processes.
    at_once: Arc<AtomicBool>,
    thread: Option<JoinHandle<(PollerStats, Pools)>>,
}

impl Running {
    fn new() -> Self {
        Self::with_ports(1)
    }

    /// With so many ports, the addresses of which count on.
    fn with_ports(ports: u32) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = env::temp_dir().join(format!("hikyaku-poller-{}-{number}", process::id()));
        // The low numbers belong to other tests.
        let device = |port: u32| format!("net_null{},size=64,no-rx=1", 1_000 + 10 * number + port);
        let mut settings = options(&device(0), socket.clone());
        for port in 1..ports {
            let mut dpdk = options(&device(port), socket.clone()).dpdk;
            dpdk.address = format!("10.99.{port}.1").parse().unwrap();
            settings.further.push(dpdk);
        }
        let mut poller = Poller::start(settings).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(poller.ports().count(), ports as usize);
        let stop = Arc::new(AtomicBool::new(false));
        let at_once = Arc::new(AtomicBool::new(false));
        let (seen, hurry) = (Arc::clone(&stop), Arc::clone(&at_once));
        let thread = thread::spawn(move || {
            poller.run(|| seen.load(Ordering::Relaxed)).unwrap();
            // A process that has gone is noticed a moment later.
            for _ in 0..LONG.as_millis() {
                if poller.stats().processes == 0 || hurry.load(Ordering::Relaxed) {
                    break;
                }
                let mut looks = 0;
                poller
                    .run(|| {
                        looks += 1;
                        looks > 1
                    })
                    .unwrap();
            }
            (poller.stats(), poller.pools())
        });
        Self {
            socket,
            stop,
            at_once,
            thread: Some(thread),
        }
    }

    fn rank(&self, processor: u32) -> Transport {
        let backend = PollerBackend::connect(&self.socket, 0).unwrap_or_else(|error| panic!("{error}"));
        let builder = Transport::builder().processor(processor).wait(WaitPolicy::Block);
        builder
            .behind_poller(backend.path())
            .backend(Box::new(backend))
            .unwrap()
    }

    /// Two ranks that have each other as peers.
    fn pair(&self) -> [(Transport, PeerId); 2] {
        let (mut a, mut b) = (self.rank(1), self.rank(2));
        let to_b = a.add_peer(b.local_addr(), 2).unwrap();
        let to_a = b.add_peer(a.local_addr(), 1).unwrap();
        [(a, to_b), (b, to_a)]
    }

    /// Stops the poller when all processes are gone.
    fn finish(mut self) -> PollerStats {
        self.stop.store(true, Ordering::Relaxed);
        let (stats, pools) = self.thread.take().unwrap().join().unwrap();
        assert_eq!((stats.processes, stats.on_loan), (0, 0));
        assert_eq!((pools.receive().in_use, pools.send().in_use), (0, 0), "{pools:?}");
        let mut lock = self.socket.clone().into_os_string();
        lock.push(".lock");
        assert!(
            !self.socket.exists() && !PathBuf::from(lock).exists(),
            "files are left behind"
        );
        stats
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Exchanges messages in both directions.
fn talk(pair: &mut [(Transport, PeerId); 2]) {
    let [(a, to_b), (b, to_a)] = pair;
    for len in [0, 1, 100, 3_000, 100_000] {
        let data: Vec<u8> = (0..len).map(|i: u32| (i * 7) as u8).collect();
        a.send(*to_b, &data).unwrap();
        let message = b.receive(Some(LONG)).unwrap().into_vec();
        assert!(message == data, "{len} bytes");
        b.send(*to_a, &message).unwrap();
        assert!(a.receive(Some(LONG)).unwrap().data() == data, "{len} bytes");
    }
}

#[test]
fn processes_of_one_poller_talk_to_each_other() {
    let running = Running::new();
    let mut pair = running.pair();
    talk(&mut pair);
    let [(a, _), (mut b, _)] = pair;
    a.close(LONG).unwrap();
    assert!(matches!(b.wait_event(Some(LONG)).unwrap(), Event::PeerUp { .. }));
    assert!(matches!(b.wait_event(Some(LONG)).unwrap(), Event::PeerClosed { .. }));
    drop(b);
    let stats = running.finish();
    assert_eq!((stats.came, stats.left), (2, 2));
}

/// As long as the receiver takes them: what they lie in meanwhile has room for two of the longest that there are.
#[test]
fn messages_of_hundreds_of_megabytes() {
    let running = Running::new();
    let [(mut a, to_b), (mut b, _)] = running.pair();
    let data: bytes::Bytes = (0..300_u32 << 20).map(|i| (i >> 8) as u8 ^ i as u8).collect();
    a.send_bytes(to_b, data.clone()).unwrap();
    let message = b.receive(Some(6 * LONG)).unwrap();
    assert!(message.data() == data, "other bytes");
    drop((a, b));
    running.finish();
}

/// Open descriptors of this process.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn thousands_come_and_go() {
    const ROUNDS: u32 = 1_500;
    let running = Running::new();
    let mut steady = running.rank(1);
    let mut before = 0;
    for round in 0..ROUNDS {
        if round == 50 {
            before = descriptors();
        }
        let mut guest = running.rank(2);
        let to_guest = steady.add_peer(guest.local_addr(), 2).unwrap();
        let to_steady = guest.add_peer(steady.local_addr(), 1).unwrap();
        guest.send(to_steady, &[7; 5_000]).unwrap();
        assert_eq!(steady.receive(Some(LONG)).unwrap().len(), 5_000);
        steady.send(to_guest, b"welcome").unwrap();
        // Some end without having received, some with a goodbye.
        if round % 3 == 0 {
            assert_eq!(guest.receive(Some(LONG)).unwrap().data(), b"welcome");
        }
        if round % 3 == 1 {
            guest.close(LONG).unwrap();
        }
    }
    // Descriptors of other tests come and go, too.
    assert!(
        descriptors() < before + 200,
        "{before} descriptors, then {}",
        descriptors()
    );
    drop(steady);
    let stats = running.finish();
    assert_eq!(stats.came, u64::from(ROUNDS) + 1);
    assert_eq!((stats.thrown_out, stats.refused), (0, 0));
}

#[test]
fn the_end_of_the_poller_is_an_error() {
    for policy in [WaitPolicy::Spin, WaitPolicy::Block, WaitPolicy::default()] {
        let running = Running::new();
        let backend = PollerBackend::connect(&running.socket, 0).unwrap();
        let builder = Transport::builder().processor(1).wait(policy);
        let mut rank = builder
            .behind_poller(backend.path())
            .backend(Box::new(backend))
            .unwrap();
        running.at_once.store(true, Ordering::Relaxed);
        running.stop.store(true, Ordering::Relaxed);
        let error = match rank.wait_event(LONG).unwrap_err() {
            WaitError::Backend(error) => error,
            other => panic!("{other}"),
        };
        let inner = error
            .io_error()
            .get_ref()
            .and_then(|error| error.downcast_ref::<PollerError>());
        assert!(matches!(inner, Some(PollerError::Gone)), "{error:?}");
        assert!(rank.progress().is_err(), "it stays so");
    }
}

#[test]
fn strangers_and_other_releases_are_refused() {
    let running = Running::new();
    let mut steady = running.pair();
    // An unknown message, none at all, and half of one.
    for bytes in [&[0_u8; handshake::LEN][..], &[], &[1; 100]] {
        let mut socket = UnixStream::connect(&running.socket).unwrap();
        socket.write_all(bytes).unwrap();
    }
    let old = Hello {
        version: Version {
            release: "0.0.7".to_owned(),
            ..Version::ours(LAYOUT)
        },
        ..Hello::new(0, Wish::No, String::new())
    };
    let socket = UnixStream::connect(&running.socket).unwrap();
    handshake::send(&socket, &old.bytes(), &[]).unwrap();
    let (bytes, _) = handshake::receive(&socket).unwrap();
    let Some(Answer::Refused(why)) = Answer::read(&bytes) else {
        panic!("it was let in");
    };
    assert!(why.contains("0.0.7"), "{why}");
    // Queues of the port, with another DPDK, and of a port that has none.
    let ask = |wish, dpdk: &str| {
        let socket = UnixStream::connect(&running.socket).unwrap();
        let hello = Hello::new(0, wish, dpdk.to_owned());
        handshake::send(&socket, &hello.bytes(), &[]).unwrap();
        Answer::read(&handshake::receive(&socket).unwrap().0)
    };
    let Some(Answer::Refused(why)) = ask(Wish::Must, "DPDK 99.11.0") else {
        panic!("it was let in");
    };
    assert!(why.contains("has DPDK 99.11.0, and the poller DPDK"), "{why}");
    let Some(Answer::Welcome {
        queues: Queues::Denied(why),
        ..
    }) = ask(Wish::IfFree, &dpdk::version())
    else {
        panic!("it was not let in, or got queues");
    };
    assert!(why.contains("no queues for processes: of this driver"), "{why}");
    // A UDP port that is in use.
    let taken = steady[0].0.local_addr().port();
    let error = PollerBackend::connect(&running.socket, taken).unwrap_err().to_string();
    assert!(
        error.contains(&format!("another process has UDP port {taken}")),
        "{error}"
    );
    talk(&mut steady);
    drop(steady);
    let stats = running.finish();
    assert_eq!((stats.came, stats.refused, stats.strangers), (3, 3, 3));
    assert_eq!((stats.queues_given, stats.queues_denied), (0, 1));
}

/// Each break writes something else into the shared memory.
#[test]
fn broken_processes_are_thrown_out_and_others_do_not_notice() {
    type Break = fn(&Segment);
    fn record(memory: &Segment, kind: u32, bytes: &[u8]) {
        memory
            .atomic(DOWN.data)
            .store(u64::from(kind) << 32 | bytes.len() as u64, Ordering::Relaxed);
        memory.write(DOWN.data + 8, bytes);
        let taken = (8 + bytes.len() as u64).next_multiple_of(16);
        memory.atomic(DOWN.control).store(taken, Ordering::Release);
    }
    let breaks: [(&str, Break); 13] = [
        ("a head beyond the ring", |memory| {
            memory.atomic(DOWN.control).store(1 << 40, Ordering::Release);
        }),
        ("a head that fits nothing", |memory| {
            memory.atomic(DOWN.control).store(24, Ordering::Release)
        }),
        ("a record longer than what there is", |memory| {
            memory.atomic(DOWN.data).store(1 << 32 | 4_000, Ordering::Relaxed);
            memory.atomic(DOWN.control).store(32, Ordering::Release);
        }),
        ("a tail beyond the head", |memory| {
            memory.atomic(64).store(1 << 20, Ordering::Release)
        }),
        ("a kind that there is not", |memory| record(memory, 99, &[0; 16])),
        ("bytes beyond the memory", |memory| {
            record(memory, kind::AWAY, &numbered(MEMORY - 8, 64));
        }),
        ("bytes around the end of numbers", |memory| {
            record(memory, kind::AWAY, &numbered(usize::MAX - 8, 64));
        }),
        ("bytes of a ring", |memory| {
            record(memory, kind::AWAY, &numbered(4_096, 64))
        }),
        ("a record that is too long for the ring", |memory| {
            record(memory, kind::WHOLE, &[1; 5_000]);
        }),
        ("no place at all", |memory| record(memory, kind::AWAY, &[0; 3])),
        ("no command", |memory| record(memory, kind::WHOLE, &[0; 48])),
        ("a command before the settings", |memory| {
            let mut bytes = [0; 48];
            bytes[0] = 2;
            record(memory, kind::WHOLE, &bytes);
        }),
        ("settings that are none", |memory| {
            let mut bytes = [0xff; 400];
            bytes[0] = 1;
            record(memory, kind::WHOLE, &bytes);
        }),
    ];
    let running = Running::new();
    let mut steady = running.pair();
    let count = breaks.len() as u64;
    for (what, break_it) in breaks {
        let mut broken = PollerBackend::connect(&running.socket, 0).unwrap();
        break_it(broken.memory());
        // The poller closes its socket.
        let mut gone = false;
        for _ in 0..1_000 {
            // (A ring that it has damaged itself may be what it sees first.)
            gone = broken.wait(Some(Duration::from_millis(20))).is_err();
            if gone {
                break;
            }
        }
        assert!(gone, "{what}: it is still there");
        talk(&mut steady);
    }
    drop(steady);
    let stats = running.finish();
    assert_eq!((stats.came, stats.thrown_out), (2 + count, count));
}

#[test]
fn a_flooded_process_that_does_not_look_is_bounded_and_harms_nobody() {
    let running = Running::new();
    let mut steady = running.pair();
    let [(mut source, to_sink), (sink, _)] = running.pair();
    let data = vec![1; 2_000];
    let mut sent = 0_u64;
    for _ in 0..30_000 {
        match source.send(to_sink, &data) {
            Ok(()) => sent += 1,
            Err(_) => {
                source.progress().unwrap();
            }
        }
        if sent.is_multiple_of(5_000) {
            talk(&mut steady);
        }
    }
    talk(&mut steady);
    drop(sink);
    // Either its goodbye has arrived, or the session is lost.
    source.wait_event(LONG).unwrap();
    drop((source, steady));
    let stats = running.finish();
    assert_eq!(stats.thrown_out, 0);
}

#[test]
fn processes_of_other_users_are_refused() {
    let running = Running::new();
    let mut steady = running.pair();
    fs::set_permissions(&running.socket, fs::Permissions::from_mode(0o666)).unwrap();
    let refused = as_nobody(|| PollerBackend::connect(&running.socket, 0).unwrap_err().to_string());
    talk(&mut steady);
    drop(steady);
    let stats = running.finish();
    match refused {
        None => println!("left out: it needs root"),
        Some(why) => {
            assert!(why.contains("it is of user 65534"), "{why}");
            assert_eq!((stats.came, stats.refused), (2, 1));
        }
    }
}

/// The commands of a process that has hung up are executed in turns, as those of others; later writes to its memory (a
/// child process may have it) are not read.
#[test]
fn a_process_that_hangs_up_does_not_keep_the_poller_busy() {
    const RECORD: u64 = 64;
    const RECORDS: u64 = 5_000;
    /// `RequestAcks`, which needs no peer.
    const COMMAND: u8 = 7;
    let path = env::temp_dir().join(format!("hikyaku-poller-{}-hangs-up", process::id()));
    let mut poller = Poller::start(options("net_null80,size=64,no-rx=1", path.clone())).unwrap();
    let mut now = Instant::from_nanos(1 << 40);
    let mut turn = |poller: &mut Poller| {
        now += Duration::from_nanos(LOOK);
        poller.turn(now).unwrap();
    };
    let coming = thread::spawn(move || PollerBackend::connect(&path, 0).unwrap());
    while !coming.is_finished() {
        turn(&mut poller);
    }
    let backend = coming.join().unwrap();
    let memory = Arc::clone(backend.memory());
    // It connects, and is gone.
    let builder = Transport::builder().processor(1).behind_poller(backend.path());
    let rank = builder.backend(Box::new(backend)).unwrap();
    drop(rank);
    let head = || memory.atomic(DOWN.control).load(Ordering::Acquire);
    let tail = || memory.atomic(DOWN.control + 64).load(Ordering::Acquire);
    let write = |records: u64| {
        let mut bytes = [0; 48];
        bytes[0] = COMMAND;
        for _ in 0..records {
            let at = DOWN.data + head() as usize;
            let header = u64::from(kind::WHOLE) << 32 | bytes.len() as u64;
            memory.atomic(at).store(header, Ordering::Relaxed);
            memory.write(at + 8, &bytes);
            memory.atomic(DOWN.control).store(head() + RECORD, Ordering::Release);
        }
    };
    write(RECORDS);
    let end = head();
    turn(&mut poller);
    assert!(tail() < end / 10, "it was busy with {} of {end} bytes", tail());
    write(RECORDS);
    let mut turns = 0;
    while poller.stats().processes > 0 {
        assert!(turns < RECORDS, "it never goes");
        turns += 1;
        turn(&mut poller);
    }
    assert_eq!(tail(), end, "what was said before it went, and no more");
    assert_eq!((poller.stats().left, poller.stats().thrown_out), (1, 0));
}

/// Each end is reached by a rail for each port; what a process says of others leads nowhere.
#[test]
fn each_port_is_a_rail() {
    let running = Running::with_ports(2);
    let mut pair = running.pair();
    let at = |rank: &Transport, port: u8| rank.port_stats(port).map(|(address, _)| address);
    for rank in [&pair[0].0, &pair[1].0] {
        let [first, second] = [0, 1].map(|port| at(rank, port).unwrap());
        assert_eq!(first, rank.local_addr());
        assert_eq!(second.to_string(), format!("10.99.1.1:{}", first.port()));
        assert_eq!(at(rank, 2), None);
    }
    let seconds = [1, 0].map(|other: usize| at(&pair[other].0, 1).unwrap());
    for ((rank, peer), second) in pair.iter_mut().zip(seconds) {
        assert_eq!(rank.add_rail(*peer, Path::new(second, 1)), Ok(1));
        assert!(rank.add_rail(*peer, Path::new(second, 1)).is_err());
        // By a port that there is not, to an address that nobody has, and more than a session can have.
        assert_eq!(rank.add_rail(*peer, Path::new(second, 7)), Ok(2));
        assert_eq!(rank.add_rail(*peer, Path::new(rank.local_addr(), 255)), Ok(3));
        for rail in 4..MAX_RAILS as u8 {
            assert_eq!(rank.add_rail(*peer, Path::new(second, rail + 100)), Ok(rail));
        }
        assert!(rank.add_rail(*peer, Path::new(second, 99)).is_err());
    }
    let mut up = [false; 2];
    while up != [true; 2] {
        talk(&mut pair);
        for ((rank, peer), up) in pair.iter_mut().zip(&mut up) {
            let expected = Event::RailUp { peer: *peer, rail: 1 };
            while let Some(event) = rank.next_event() {
                assert!(!matches!(event, Event::RailUp { rail: 2.., .. }), "{event:?}");
                *up |= event == expected;
            }
        }
    }
    let [(a, to_b), (b, _)] = &mut pair;
    let data = bytes::Bytes::from(vec![7; 1 << 20]);
    for _ in 0..8 {
        a.send_bytes(*to_b, data.clone()).unwrap();
        assert!(b.receive(Some(LONG)).unwrap().data() == data, "other bytes");
    }
    // Another process, which knows both and has the same ports, is nobody there until it is added, and then a peer of its
    // own: by no rail does it come into the session of others.
    let mut third = running.rank(3);
    let to_b = third.add_peer(b.local_addr(), 2).unwrap();
    assert_eq!(third.add_rail(to_b, Path::new(seconds[0], 1)), Ok(1));
    third.send(to_b, b"let me in").unwrap();
    let at_third = third.local_addr();
    talk(&mut pair);
    let b = &mut pair[1].0;
    let to_third = b.add_peer(at_third, 3).unwrap();
    assert_eq!(b.receive(Some(LONG)).unwrap().peer(), to_third);
    assert!(b.rail_stats(to_third, 1).is_none());
    talk(&mut pair);
    drop(third);
    for (rank, peer) in &pair {
        let states = (0..MAX_RAILS as u8).map(|rail| rank.rail_stats(*peer, rail).unwrap().state);
        let states: Vec<RailState> = states.collect();
        assert_eq!(states[..2], [RailState::Up; 2]);
        assert_eq!(states[2..], [RailState::Unproven; MAX_RAILS - 2]);
        assert!(rank.rail_stats(*peer, MAX_RAILS as u8).is_none());
    }
    let [(mut a, to_b), (b, _)] = pair;
    b.close(LONG).unwrap();
    while !matches!(a.wait_event(Some(LONG)).unwrap(), Event::PeerClosed { .. }) {}
    let sent = [0, 1].map(|rail| a.rail_stats(to_b, rail).unwrap().bytes_sent);
    assert!(sent.iter().all(|bytes| *bytes > 1 << 20), "{sent:?}");
    drop(a);
    running.finish();
}

#[test]
fn one_poller_has_a_socket_and_a_device() {
    let running = Running::new();
    let again = |socket: PathBuf, device: &str| {
        Poller::start(options(device, socket))
            .err()
            .unwrap_or_else(|| panic!("there are two"))
    };
    let error = again(running.socket.clone(), "net_null77");
    assert!(matches!(error, StartError::Running { .. }), "{error}");
    // The lock of the device goes by its name.
    let first = env::temp_dir().join(format!("hikyaku-poller-{}-device", process::id()));
    let device = format!("net_null78,size={}", 64 + process::id() % 1000);
    let poller = Poller::start(options(&device, first.clone())).unwrap();
    let error = again(first.with_extension("2"), &device);
    assert!(matches!(error, StartError::DeviceTaken { .. }), "{error}");
    drop(poller);
    running.finish();
}

#[test]
fn settings_that_can_not_be_say_what_can() {
    let mut options = options("net_null79", PathBuf::from("/nowhere/at/all"));
    let error = Poller::start(options.clone()).unwrap_err();
    assert!(matches!(error, StartError::Socket { .. }), "{error}");
    let port = |device: &str, address: &str| {
        let mut port = DpdkOptions::new(Device::parse(device).unwrap());
        port.address = address.parse().unwrap();
        port
    };
    let further = |ports: &[DpdkOptions]| {
        let mut options = options.clone();
        options.further = ports.to_vec();
        Poller::start(options).unwrap_err()
    };
    for (wrong, why) in [
        (
            port("net_null79,size=64", "10.99.1.1"),
            "the device net_null79,size=64 is named",
        ),
        (port("net_null78", ADDRESS), "the address 10.99.0.1 is named twice"),
    ] {
        let error = further(&[wrong]);
        assert!(matches!(error, StartError::Twice { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    let many: Vec<DpdkOptions> = (1..7)
        .map(|number| port(&format!("net_null8{number}"), &format!("10.99.{number}.1")))
        .collect();
    let error = further(&many);
    assert!(matches!(error, StartError::Ports { ports: 7, most: 6 }), "{error}");
    options.buffers = 600;
    let error = Poller::start(options).unwrap_err().to_string();
    assert!(error.contains("from 1024"), "{error}");
    let error = PollerBackend::connect(&PathBuf::from("/nowhere/at/all"), 0).unwrap_err();
    assert!(error.to_string().contains("hikyaku poller --socket"), "{error}");
}

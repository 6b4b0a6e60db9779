//! Transports that share memory, between threads and between processes.
#![cfg(all(feature = "shm", target_os = "linux"))]

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/lost.rs"]
mod lost;

use std::{
    collections::VecDeque,
    env,
    net::SocketAddr,
    os::fd::AsFd,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use exchange::{LONG, content, exchange};
use hikyaku::{
    Config, PeerError, PeerId, SendError,
    backends::{BindError, shm},
    reliability::Payload,
    transport::{BuildError, Event, SendOptions, Transport, WaitPolicy},
    wire::ANY_PROCESSOR,
};
use lost::until_down;
use rustix::event::{PollFd, PollFlags, poll};

const ROLE: &str = "SHM_TEST_ROLE";
const TO: &str = "SHM_TEST_TO";
const NAME: &str = "SHM_TEST_NAME";

/// Until its program runs, a new process has the descriptors of this one, and with them the names of all transports.
static STARTING: Mutex<()> = Mutex::new(());

fn start(command: &mut Command) -> Child {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "how long the kernel takes is real time")]
fn now() -> Instant {
    Instant::now()
}

fn bind(processor: u32, name: &str, config: Config) -> Transport {
    let builder = Transport::builder().processor(processor).config(config);
    builder.bind_shm(name).unwrap()
}

fn pair() -> (Transport, PeerId, Transport, PeerId) {
    let [mut a, mut b] = [1, 2].map(|processor| bind(processor, "", Config::default()));
    let to_b = a.add_peer(b.local_addr(), 2).unwrap();
    let to_a = b.add_peer(a.local_addr(), 1).unwrap();
    (a, to_b, b, to_a)
}

/// Below and above what a ring of each size takes, and what a packet takes.
fn lens() -> Vec<usize> {
    let mut lens = vec![0, 1, 8, 0, 900, 1_100, 16_000, 17_000, 40_000, 1 << 20, 3, 8 << 20];
    lens.extend((0..500).map(|i| i * 7 % 300));
    lens.extend((0..50).map(|i| i * 7_919 % 200_000));
    lens
}

/// Sends everything back until a message says "end".
fn echo(transport: &mut Transport) {
    loop {
        let message = transport.receive(Some(LONG)).unwrap();
        let peer = message.peer();
        let data = message.into_vec();
        if data == b"end" {
            return;
        }
        transport.send_blocking(peer, &data).unwrap();
    }
}

#[test]
fn messages_of_all_sizes_between_threads() {
    for policy in [WaitPolicy::Block, WaitPolicy::default()] {
        let name = format!("threads-{}-{policy:?}", std::process::id());
        let mut a = bind(1, "", Config::default());
        let (a_address, there) = (a.local_addr(), mpsc::channel());
        let other = thread::spawn(move || {
            let builder = Transport::builder().processor(2).wait(policy);
            let mut b = builder.bind_shm(&name).unwrap();
            let to_a = b.add_peer(a_address, 1).unwrap();
            there.0.send(b.local_addr()).unwrap();
            echo(&mut b);
            b.flush(LONG).unwrap();
            b.close_peer(to_a);
            b.close(LONG).unwrap();
        });
        let to_b = a.add_peer(there.1.recv().unwrap(), 2).unwrap();
        exchange(&mut a, to_b, &lens(), 3);
        a.send(to_b, b"end").unwrap();
        loop {
            if let Event::PeerClosed { peer } = a.wait_event(Some(LONG)).unwrap() {
                break assert_eq!(peer, to_b);
            }
        }
        other.join().unwrap();
    }
}

/// Both call at the same moment: there are two memories, and each direction keeps its order.
#[test]
fn both_may_begin() {
    let (mut a, to_b, mut b, to_a) = pair();
    for number in 0..100_u32 {
        a.send(to_b, &number.to_le_bytes()).unwrap();
        b.send(to_a, &number.to_le_bytes()).unwrap();
    }
    for number in 0..100_u32 {
        let mut seen = [false; 2];
        while seen != [true; 2] {
            for (side, seen) in [&mut a, &mut b].into_iter().zip(&mut seen) {
                if *seen {
                    side.progress().unwrap();
                } else if let Some(message) = side.try_receive().unwrap() {
                    assert_eq!(message.data(), number.to_le_bytes());
                    *seen = true;
                }
            }
        }
    }
}

/// A program that sleeps on the descriptor alone misses nothing.
#[test]
fn the_descriptor_tells_of_messages() {
    let (mut a, to_b, mut b, to_a) = pair();
    let rounds = 300;
    let other = thread::spawn(move || {
        for _ in 0..rounds {
            let message = b.receive(Some(LONG)).unwrap().into_vec();
            b.send_blocking(to_a, &message).unwrap();
        }
        b.flush(LONG).unwrap();
        b
    });
    let _ = a.descriptor().unwrap();
    for round in 0..rounds {
        a.send(to_b, &[round as u8]).unwrap();
        a.progress().unwrap();
        let echo = loop {
            if let Some(message) = a.try_receive().unwrap() {
                break message.into_vec();
            }
            let timeout = rustix::event::Timespec::try_from(LONG).unwrap();
            let fd = a.as_fd();
            let ready = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timeout)).unwrap();
            assert_eq!(ready, 1, "round {round}");
        };
        assert_eq!(echo, [round as u8]);
    }
    other.join().unwrap();
}

#[test]
fn there_may_be_no_such_peer() {
    let mut a = bind(1, "", Config::default());
    let peer = a.add_peer(shm::address("nobody has this name"), 2).unwrap();
    a.send(peer, b"hello?").unwrap();
    let event = a.wait_event(Some(LONG)).unwrap();
    let Event::PeerDown { error, .. } = event else {
        panic!("{event:?}")
    };
    assert_eq!(error, PeerError::Refused);
    // Nor at an address of the network.
    let peer = a.add_peer("127.0.0.1:9".parse().unwrap(), 3).unwrap();
    a.send(peer, b"hello?").unwrap();
    let event = a.wait_event(Some(LONG)).unwrap();
    assert!(
        matches!(
            event,
            Event::PeerDown {
                error: PeerError::Refused,
                ..
            }
        ),
        "{event:?}"
    );
}

#[test]
fn a_name_is_taken_once() {
    let _no_child_has_it = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let name = format!("once-{}", std::process::id());
    let first = bind(1, &name, Config::default());
    assert_eq!(first.local_addr(), shm::address(&name));
    assert_eq!(first.backend_name(), "shm");
    let error = Transport::builder().bind_shm(&name).unwrap_err();
    assert!(
        matches!(&error, BuildError::Bind(BindError::Io { source, .. }) if source.kind() == std::io::ErrorKind::AddrInUse),
        "{error}"
    );
    drop(first);
    bind(1, &name, Config::default());
    let error = Transport::builder().bind("shm", "127.0.0.1:80").unwrap_err();
    assert!(error.to_string().contains("fd68:696b:7961:6b75"), "{error}");
}

// ---- processes

/// The part of a child process. Not a test by itself: tests run it.
#[test]
fn child() {
    let Ok(role) = env::var(ROLE) else { return };
    let to: SocketAddr = env::var(TO).unwrap().parse().unwrap();
    match role.as_str() {
        "stranger" => {
            let mut transport = bind(7, "", Config::default());
            let peer = transport.add_peer(to, 1).unwrap();
            transport.send(peer, b"here").unwrap();
            echo(&mut transport);
            transport.close(LONG).unwrap();
        }
        "aborts" => {
            let mut transport = bind(2, "", Config::default());
            let peer = transport.add_peer(to, 1).unwrap();
            transport.send(peer, b"here").unwrap();
            transport.receive(Some(LONG)).unwrap();
            for number in 0..LAST {
                transport.send(peer, &number.to_le_bytes()).unwrap();
            }
            transport.progress().unwrap();
            std::process::abort();
        }
        "echo" => {
            let mut transport = bind(2, &env::var(NAME).unwrap(), Config::default());
            let peer = transport.add_peer(to, 1).unwrap();
            transport.send(peer, b"here").unwrap();
            echo(&mut transport);
            transport.close(LONG).unwrap();
        }
        other => panic!("no role {other}"),
    }
}

/// Messages of a process that aborts: more than a ring holds.
const LAST: u32 = 200;

/// A process that is a peer.
struct Process {
    child: Child,
    peer: PeerId,
}

impl Process {
    /// Starts one that echoes, and waits until it says that it is there.
    fn start(at: &mut Transport, name: &str) -> Self {
        let address = shm::address(name);
        let peer = match at.add_peer(address, 2) {
            Ok(peer) => peer,
            Err(hikyaku::AddPeerError::Exists(peer)) => peer,
            Err(error) => panic!("{error}"),
        };
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture"]).env(ROLE, "echo");
        command.env(TO, at.local_addr().to_string()).env(NAME, name);
        let child = start(command.stdin(Stdio::null()).stdout(Stdio::null()));
        assert_eq!(at.receive(Some(LONG)).unwrap().data(), b"here");
        Self { child, peer }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Only if a test has failed, or has killed it before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

#[test]
fn messages_of_all_sizes_between_processes() {
    let mut a = bind(1, "", Config::default());
    let mut process = Process::start(&mut a, &name("sizes"));
    exchange(&mut a, process.peer, &lens(), 3);
    a.send(process.peer, b"end").unwrap();
    a.flush(LONG).unwrap();
    assert!(process.child.wait().unwrap().success());
}

/// A server knows nobody.
#[test]
fn strangers_may_call_if_they_are_welcome() {
    let config = Config {
        accept_strangers: true,
        ..Config::default()
    };
    let mut a = bind(1, "", config);
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(ROLE, "stranger");
    let mut child = start(command.env(TO, a.local_addr().to_string()));
    let message = a.receive(Some(LONG)).unwrap();
    assert_eq!((message.data(), message.source()), (&b"here"[..], 7));
    let peer = message.peer();
    exchange(&mut a, peer, &lens(), 3);
    a.send(peer, b"end").unwrap();
    a.flush(LONG).unwrap();
    assert!(child.wait().unwrap().success());
}

fn ask(transport: &mut Transport, peer: PeerId, question: &[u8]) {
    transport.send(peer, question).unwrap();
    while transport.receive(Some(LONG)).unwrap().data() != question {}
}

/// Asks a peer that echoes a hundred times. Returns how many of the questions did not go as packets.
fn asks_by_ring(transport: &mut Transport, peer: PeerId) -> u64 {
    // (What wakes a peer that sleeps is a packet, too.)
    let past = |transport: &Transport| transport.stats().packets_sent - transport.backend_stats().datagrams_sent;
    let before = past(transport);
    for number in 0..100_u32 {
        ask(transport, peer, &number.to_le_bytes());
    }
    past(transport) - before
}

/// Whatever a message carries, and whichever way it goes by that, it comes as it was sent, and in order.
#[test]
fn all_kinds_of_messages_keep_their_order() {
    let (mut a, to_b, mut b, to_a) = pair();
    b.send(to_a, b"opens the session").unwrap();
    a.receive(Some(LONG)).unwrap();
    let plain = SendOptions::default();
    let kinds = [
        plain,
        SendOptions { tag: Some(0), ..plain },
        SendOptions {
            tag: Some(u64::MAX),
            ..plain
        },
        SendOptions {
            tag: Some(u64::MAX - 1),
            more: true,
            ..plain
        },
        SendOptions {
            immediate: Some(5),
            ..plain
        },
        SendOptions { channel: 1, ..plain },
        SendOptions {
            source: Some(1),
            destination: Some(2),
            ..plain
        },
    ];
    let mut rng = 1_u64;
    let mut sent = VecDeque::new();
    for number in 0..20_000_usize {
        rng = rng.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let options = kinds[(rng >> 33) as usize % kinds.len()];
        let data = content(number, ((rng >> 40) as usize % 6_000) >> (rng >> 60));
        loop {
            match a.send_with(to_b, Payload::Copy(&data), &options) {
                Ok(_) => break,
                Err(SendError::WouldBlock(_)) => drop(a.progress().unwrap()),
                Err(error) => panic!("{error}"),
            }
            take(&mut b, &mut sent);
        }
        sent.push_back((options, data));
        if (rng >> 50).is_multiple_of(8) {
            a.progress().unwrap();
            take(&mut b, &mut sent);
        }
    }
    while !sent.is_empty() {
        a.progress().unwrap();
        take(&mut b, &mut sent);
    }
}

/// Takes what has come, and compares it with what was sent.
fn take(b: &mut Transport, sent: &mut VecDeque<(SendOptions, Vec<u8>)>) {
    while let Some(message) = b.try_receive().unwrap() {
        let (options, data) = sent.pop_front().unwrap();
        assert!(message.data() == data, "{options:?}, {} bytes", data.len());
        assert_eq!(
            (message.tag_if_any(), message.immediate()),
            (options.tag, options.immediate)
        );
        assert_eq!((message.source(), message.destination()), (1, 2));
    }
}

/// Messages of several processors, and to peers whose number is not known, are not mistaken for those of the usual pair.
#[test]
fn processors_are_told_apart() {
    for (a_as, b_as) in [(1, 2), (ANY_PROCESSOR, 2), (1, ANY_PROCESSOR), (5, 2), (1, 6)] {
        let bind = |processors: [u32; 2]| Transport::builder().processors(&processors).bind_shm("").unwrap();
        let (mut a, mut b) = (bind([1, 5]), bind([2, 6]));
        let to_b = a.add_peer(b.local_addr(), b_as).unwrap();
        let to_a = b.add_peer(a.local_addr(), a_as).unwrap();
        let sixth = SendOptions {
            source: Some(5),
            destination: Some(6),
            ..SendOptions::default()
        };
        for number in 0..50_u32 {
            let options = if number % 7 == 3 { sixth } else { SendOptions::default() };
            a.send_with(to_b, Payload::Copy(&number.to_le_bytes()), &options)
                .unwrap();
            a.progress().unwrap();
            // (It sleeps, unless the message is there.)
            assert_eq!(b.receive(Some(LONG)).unwrap().data(), number.to_le_bytes());
            b.send(to_a, &number.to_le_bytes()).unwrap();
            b.progress().unwrap();
            assert_eq!(a.receive(Some(LONG)).unwrap().data(), number.to_le_bytes());
        }
    }
}

/// The last message and the goodbye behind it, to a peer that sleeps.
#[test]
fn the_last_message_before_a_goodbye_comes_whole() {
    for round in 0..100 {
        let (mut a, to_b, mut b, to_a) = pair();
        let other = thread::spawn(move || {
            b.send(to_a, b"ready").unwrap();
            let len = b.receive(Some(LONG)).unwrap().len();
            for message in 0..3 {
                assert!(b.receive(Some(LONG)).unwrap().data() == content(message, 10 * len));
            }
            while !matches!(b.wait_event(Some(LONG)).unwrap(), Event::PeerClosed { peer } if peer == to_a) {}
        });
        a.receive(Some(LONG)).unwrap();
        a.send(to_b, &vec![1; 1 + round % 20]).unwrap();
        for message in 0..3 {
            a.send(to_b, &content(message, 10 * (1 + round % 20))).unwrap();
        }
        a.close(LONG).unwrap();
        other.join().unwrap();
    }
}

/// What was said to be ready can be received, also if this side says goodbye first.
#[test]
fn ready_messages_outlast_a_goodbye() {
    let (mut a, to_b, mut b, to_a) = pair();
    b.send(to_a, b"1").unwrap();
    a.receive(Some(LONG)).unwrap();
    a.send(to_b, b"2").unwrap();
    a.progress().unwrap();
    b.receive(Some(LONG)).unwrap();
    b.send(to_a, b"3").unwrap();
    assert_eq!(a.progress().unwrap(), 1);
    a.close_peer(to_b);
    a.progress().unwrap();
    assert_eq!(a.try_receive().unwrap().unwrap().data(), b"3");
}

/// One that always has something in its ring does not keep the messages of another one from being received.
#[test]
fn peers_have_their_turns() {
    let [mut own, mut one, mut two] = [1, 2, 3].map(|processor| bind(processor, "", Config::default()));
    let mut others = [&mut one, &mut two].map(|other| (other.add_peer(own.local_addr(), 1).unwrap(), other));
    for (processor, (to_own, other)) in (2..).zip(&mut others) {
        let to_other = own.add_peer(other.local_addr(), processor).unwrap();
        other.send(*to_own, b"opens the session").unwrap();
        own.receive(Some(LONG)).unwrap();
        own.send(to_other, b"and answers").unwrap();
        own.progress().unwrap();
        other.receive(Some(LONG)).unwrap();
    }
    for (to_own, other) in &mut others {
        for _ in 0..40 {
            other.send(*to_own, b"waits in the ring").unwrap();
        }
    }
    let packets = others.each_ref().map(|(_, other)| other.backend_stats().datagrams_sent);
    let mut of = [0, 0];
    for _ in 0..100 {
        let index = own.receive(Some(LONG)).unwrap().source() as usize - 2;
        of[index] += 1;
        let (to_own, other) = &mut others[index];
        other.send(*to_own, b"and one more").unwrap();
    }
    assert!(of[0] >= 30 && of[1] >= 30, "{of:?}");
    assert_eq!(packets, others.map(|(_, other)| other.backend_stats().datagrams_sent));
}

/// What a process has sent is received, before its end is told.
#[test]
fn what_was_sent_before_an_abort_is_received() {
    let config = Config {
        accept_strangers: true,
        ..Config::default()
    };
    let mut a = bind(1, "", config);
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(ROLE, "aborts");
    let mut child = start(command.env(TO, a.local_addr().to_string()));
    let peer = a.receive(Some(LONG)).unwrap().peer();
    a.send(peer, b"go").unwrap();
    a.progress().unwrap();
    assert!(!child.wait().unwrap().success());
    for number in 0..LAST {
        assert_eq!(a.receive(Some(LONG)).unwrap().data(), number.to_le_bytes());
    }
    assert_eq!(until_down(&mut a, peer), PeerError::Refused);
}

/// (On a busy machine this process may have to wait for its turn: the best of a few counts.)
#[test]
fn a_killed_process_is_lost_within_a_fifth_of_a_second() {
    const LIMIT: Duration = Duration::from_millis(200);
    let mut best = Duration::MAX;
    for round in 0..10 {
        let mut a = bind(1, "", Config::default());
        let other = Process::start(&mut a, &name(&format!("other-{round}")));
        let mut victim = Process::start(&mut a, &name(&format!("victim-{round}")));
        ask(&mut a, victim.peer, b"1");
        victim.child.kill().unwrap();
        let killed = now();
        assert_eq!(until_down(&mut a, victim.peer), PeerError::Refused);
        best = best.min(killed.elapsed());
        // The other one is not affected.
        ask(&mut a, other.peer, b"2");
        a.send(other.peer, b"end").unwrap();
        a.flush(LONG).unwrap();
        if best < LIMIT {
            break;
        }
    }
    assert!(best < LIMIT, "lost after {best:?}");
}

/// A program that sleeps learns of it, too.
#[test]
fn a_sleeping_process_learns_of_the_end_of_another() {
    let mut a = bind(1, "", Config::default());
    let mut victim = Process::start(&mut a, &name("slept"));
    victim.child.kill().unwrap();
    loop {
        match a.wait_event(Some(LONG)).unwrap() {
            Event::PeerDown { error, .. } => break assert_eq!(error, PeerError::Refused),
            Event::PeerUp { .. } => {}
            event => panic!("{event:?}"),
        }
    }
}

/// Under the same name, in a memory of its own; what there was of the old one goes.
#[test]
fn a_process_that_is_started_anew_is_met_again() {
    let config = Config {
        reconnect: true,
        ..Config::default()
    };
    let mut a = bind(1, "", config);
    let name = name("anew");
    for _ in 0..3 {
        let mut victim = Process::start(&mut a, &name);
        assert!(asks_by_ring(&mut a, victim.peer) > 90);
        victim.child.kill().unwrap();
        victim.child.wait().unwrap();
        assert_eq!(until_down(&mut a, victim.peer), PeerError::Refused);
        while a.try_receive().unwrap().is_some() || a.next_event().is_some() {}
    }
    // Nothing is left of it.
    let name = shm::address(&name).ip().to_string();
    let last = name.rsplit(':').next().unwrap();
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    let left = sockets
        .lines()
        .find(|line| line.contains("hikyaku-shm-") && line.ends_with(last));
    assert_eq!(left, None);
}

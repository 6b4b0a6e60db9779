//! The whole stack over real sockets, between threads and between processes.
#![cfg(all(feature = "udp", target_os = "linux"))]

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/lost.rs"]
mod lost;

use std::{
    env, fs,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use exchange::{LONG, content, exchange};
use hikyaku::{
    Config, PeerError, PeerId, SendError,
    backends::BindOptions,
    reliability::Payload,
    transport::{BuildError, Event, FlushError, SendOptions, Transport, WaitError, WaitPolicy},
};
use lost::until_down;

const ROLE: &str = "TRANSPORT_TEST_ROLE";
const TO: &str = "TRANSPORT_TEST_TO";
const AT: &str = "TRANSPORT_TEST_AT";

#[expect(
    clippy::disallowed_methods,
    reason = "how long the kernel and others take is real time"
)]
fn now() -> Instant {
    Instant::now()
}

fn bind(processor: u32, address: &str, config: Config) -> Transport {
    Transport::builder()
        .processor(processor)
        .config(config)
        .bind("udp", address)
        .unwrap()
}

fn pair(address: &str, config: &Config) -> (Transport, PeerId, Transport, PeerId) {
    let mut a = bind(1, address, config.clone());
    let mut b = bind(2, address, config.clone());
    let to_b = a.add_peer(b.local_addr(), 2).unwrap();
    let to_a = b.add_peer(a.local_addr(), 1).unwrap();
    (a, to_b, b, to_a)
}

fn lens() -> Vec<usize> {
    let mut lens = vec![
        0,
        1,
        8,
        0,
        1_423,
        1_424,
        1_472,
        4_096,
        4_097,
        65_507,
        65_508,
        1 << 20,
        3,
        4 << 20,
    ];
    lens.extend((0..500).map(|i| i * 7 % 300));
    lens.extend((0..50).map(|i| i * 7_919 % 200_000));
    lens
}

/// Sends all messages to a peer that sends them back, and compares, in order.
fn echo_all(transport: &mut Transport, peer: PeerId) {
    exchange(transport, peer, &lens(), 3);
    transport.flush(LONG).unwrap();
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

fn between_threads(address: &str, policy: WaitPolicy) {
    let (mut a, to_b, b, to_a) = pair(address, &Config::default());
    let b_address = b.local_addr();
    drop(b);
    let (a_address, echoing) = (a.local_addr(), mpsc::channel());
    let other = thread::spawn(move || {
        let mut b = Transport::builder()
            .processor(2)
            .wait(policy)
            .bind("udp", b_address)
            .unwrap();
        assert_eq!(b.add_peer(a_address, 1).unwrap(), to_a);
        echoing.0.send(()).unwrap();
        echo(&mut b);
        b.close(LONG).unwrap();
    });
    echoing.1.recv().unwrap();
    echo_all(&mut a, to_b);
    a.send(to_b, b"end").unwrap();
    loop {
        if let Event::PeerClosed { peer } = a.wait_event(Some(LONG)).unwrap() {
            break assert_eq!(peer, to_b);
        }
    }
    other.join().unwrap();
    let stats = a.stats();
    assert_eq!((stats.peers_lost, stats.resets_sent), (0, 0), "{stats:?}");
}

#[test]
fn messages_of_all_sizes_between_threads() {
    between_threads("127.0.0.1:0", WaitPolicy::default());
}

#[test]
fn messages_of_all_sizes_between_threads_over_ipv6() {
    between_threads("[::1]:0", WaitPolicy::Block);
}

// ---- processes

/// The part of a child process. Not a test by itself: tests run it.
#[test]
fn child() {
    let Ok(role) = env::var(ROLE) else { return };
    let at = env::var(AT).unwrap_or_else(|_| "127.0.0.1:0".to_owned());
    match role.as_str() {
        "echo" => {
            let config = Config {
                accept_strangers: true,
                ..Config::default()
            };
            let mut transport = bind(2, &at, config);
            let to = env::var(TO).unwrap().parse().unwrap();
            let peer = transport.add_peer(to, 1).unwrap();
            transport.send(peer, b"here").unwrap();
            echo(&mut transport);
            transport.close(LONG).unwrap();
        }
        "environment" => {
            let error = Transport::builder()
                .environment()
                .bind("udp", "127.0.0.1:0")
                .unwrap_err();
            assert!(matches!(error, BuildError::Environment(_)));
            println!("{error}");
        }
        "counters" => {
            let open = |processor| {
                let builder = Transport::builder().processor(processor).environment();
                builder.bind("udp", "127.0.0.1:0").unwrap()
            };
            let (mut closed, mut dropped) = (open(7), open(8));
            let peer = closed.add_peer(dropped.local_addr(), 8).unwrap();
            dropped.add_peer(closed.local_addr(), 7).unwrap();
            closed.send(peer, b"five!").unwrap();
            assert_eq!(dropped.receive(Some(LONG)).unwrap().data(), b"five!");
            let _ = closed.close(Duration::from_millis(1));
        }
        other => panic!("no role {other}"),
    }
}

struct Process(Child);

impl Process {
    fn start(role: &str, to: SocketAddr, at: &str) -> Self {
        let child = command(role)
            .env(TO, to.to_string())
            .env(AT, at)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn signal(&self, signal: i32) {
        let id = i32::try_from(self.0.id()).unwrap();
        let kill = Command::new("kill")
            .arg(format!("-{signal}"))
            .arg(id.to_string())
            .status();
        assert!(kill.unwrap().success());
    }

    /// Stops it. The signal comes to one of its threads, and the others go on until that one has run.
    fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let threads = format!("/proc/{}/task", self.0.id());
        let is_stopped = |status: &str| {
            // Behind its name, which may be anything.
            let state = status.rsplit_once(") ");
            state.is_some_and(|(_, state)| state.starts_with('T'))
        };
        for _ in 0..LONG.as_millis() {
            let mut threads = fs::read_dir(&threads).unwrap();
            if threads.all(|it| fs::read_to_string(it.unwrap().path().join("stat")).is_ok_and(|it| is_stopped(&it))) {
                return;
            }
            thread::park_timeout(Duration::from_millis(1));
        }
        panic!("it does not stop");
    }

    fn end(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Only if a test has failed, or has killed it before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(ROLE, role);
    command
}

/// A transport that strangers may call.
fn host(config: Config) -> Transport {
    bind(
        1,
        "127.0.0.1:0",
        Config {
            accept_strangers: true,
            ..config
        },
    )
}

/// Waits until a child says that it is there.
fn here(transport: &mut Transport) -> PeerId {
    let message = transport.receive(Some(LONG)).unwrap();
    assert_eq!(message.data(), b"here");
    message.peer()
}

/// `HIKYAKU_STATS=-`: a line on standard error for each transport, however it ends.
#[test]
fn counters_are_written_at_the_end() {
    let output = command("counters").env("HIKYAKU_STATS", "-").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with('{')).collect();
    let [closed, dropped] = lines[..] else { panic!("{said}") };
    assert!(
        closed.starts_with(r#"{"processor":7,"pid":"#) && closed.ends_with("}}"),
        "{closed}"
    );
    assert!(
        closed.contains(r#""backend":"udp""#) && closed.contains(r#""payload_sent":5,"#),
        "{closed}"
    );
    assert!(dropped.starts_with(r#"{"processor":8,"pid":"#), "{dropped}");
    assert!(dropped.contains(r#""payload_received":5,"#), "{dropped}");
    // Nobody has asked for it.
    let quiet = command("counters").output().unwrap();
    assert!(!String::from_utf8(quiet.stderr).unwrap().contains("payload_sent"));
}

#[test]
fn messages_of_all_sizes_between_processes() {
    let mut a = host(Config::default());
    let process = Process::start("echo", a.local_addr(), "127.0.0.1:0");
    let peer = here(&mut a);
    echo_all(&mut a, peer);
    a.send(peer, b"end").unwrap();
    a.flush(LONG).unwrap();
    process.end();
}

fn ask(transport: &mut Transport, peer: PeerId, question: &[u8]) {
    transport.send(peer, question).unwrap();
    loop {
        let message = transport.receive(Some(LONG)).unwrap();
        if message.peer() == peer && message.data() == question {
            return;
        }
    }
}

#[test]
fn a_dead_peer_is_noticed_and_others_are_not_affected() {
    let death_timeout = Duration::from_millis(500);
    let mut a = host(Config {
        death_timeout,
        ..Config::default()
    });
    let [victim, frozen, other] = [(); 3].map(|()| {
        let process = Process::start("echo", a.local_addr(), "127.0.0.1:0");
        let peer = here(&mut a);
        (process, peer)
    });
    ask(&mut a, victim.1, b"1");
    victim.0.signal(9);
    // The kernel tells that nobody has the port any more.
    assert_eq!(until_down(&mut a, victim.1), PeerError::Refused);
    // A process that is stopped still has its port, but it does not answer.
    frozen.0.stop();
    let error = until_down(&mut a, frozen.1);
    assert!(
        matches!(error, PeerError::TimedOut { silence, .. } if silence >= death_timeout && silence < 10 * death_timeout),
        "{error:?}"
    );
    let refused = a.send(frozen.1, b"").unwrap_err();
    assert_eq!(refused, SendError::Peer(frozen.1, error));
    ask(&mut a, other.1, b"2");
    a.send(other.1, b"end").unwrap();
    a.flush(LONG).unwrap();
    other.0.end();
}

/// The kernel tells that nobody has the port any more. (On a busy machine this process may have to wait for its turn: the best
/// of a few counts.)
#[test]
fn a_killed_process_is_lost_within_a_fifth_of_a_second() {
    const LIMIT: Duration = Duration::from_millis(200);
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let config = Config {
            accept_strangers: true,
            ..Config::default()
        };
        let mut a = bind(1, at, config);
        let mut best = Duration::MAX;
        for _ in 0..10 {
            let process = Process::start("echo", a.local_addr(), at);
            let peer = here(&mut a);
            ask(&mut a, peer, b"1");
            process.signal(9);
            let killed = now();
            assert_eq!(until_down(&mut a, peer), PeerError::Refused, "{at}");
            best = best.min(killed.elapsed());
            if best < LIMIT {
                break;
            }
        }
        assert!(best < LIMIT, "{at}: lost after {best:?}");
    }
}

/// Seven peers say that a gigabyte is coming and send the beginning, to a process that may have half of one: it goes
/// on, and others are served.
#[test]
fn claims_of_lengths_do_not_exhaust_the_memory() {
    const LIARS: usize = 7;
    let mut a = host(Config::default());
    let mut limited = Command::new("prlimit");
    limited.arg("--as=536870912").arg(env::current_exe().unwrap());
    limited.args(["--exact", "child", "--nocapture"]).env(ROLE, "echo");
    limited.env(TO, a.local_addr().to_string()).env(AT, "127.0.0.1:0");
    let process = Process(limited.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    let peer = here(&mut a);
    let address = a.address(peer).unwrap();
    // (Pages of zeros that nobody touches.)
    let huge = Bytes::from(vec![0; 1 << 30]);
    let mut liars: Vec<(Transport, PeerId)> = (0..LIARS)
        .map(|_| {
            let mut liar = bind(3, "127.0.0.1:0", Config::default());
            let to = liar.add_peer(address, 2).unwrap();
            liar.send_bytes(to, huge.clone()).unwrap();
            (liar, to)
        })
        .collect();
    for (liar, to) in &mut liars {
        let event = liar.wait_event(Some(LONG)).unwrap();
        assert_eq!(event, Event::PeerUp { peer: *to });
    }
    let honest = content(5, 1 << 20);
    a.send_blocking(peer, &honest).unwrap();
    assert_eq!(a.receive(Some(LONG)).unwrap().data(), honest);
    drop(liars);
    a.send(peer, b"end").unwrap();
    a.flush(LONG).unwrap();
    process.end();
}

#[test]
fn a_blocked_sender_learns_of_the_death() {
    let death_timeout = Duration::from_millis(300);
    let mut a = host(Config {
        death_timeout,
        ..Config::default()
    });
    let process = Process::start("echo", a.local_addr(), "127.0.0.1:0");
    let peer = here(&mut a);
    // Until a peer has answered, it is `open_timeout` that counts.
    ask(&mut a, peer, b"1");
    process.stop();
    // Large and by reference: returns only when the memory is free.
    let error = a.send_blocking(peer, &vec![7; 32 << 20]).unwrap_err();
    assert!(error.to_string().contains("no answer"), "{error}");
    let error = a.send_blocking(peer, b"small").unwrap_err();
    assert!(error.to_string().contains("no answer"), "{error}");
}

#[test]
fn a_peer_that_is_stopped_for_a_while_loses_nothing() {
    let mut a = host(Config::default());
    let process = Process::start("echo", a.local_addr(), "127.0.0.1:0");
    let peer = here(&mut a);
    process.stop();
    for i in 0..200 {
        a.send(peer, &content(i, i * 10)).unwrap();
    }
    let silence = a.receive(Some(Duration::from_millis(300)));
    assert!(matches!(silence, Err(WaitError::TimedOut(_))), "{silence:?}");
    process.signal(libc::SIGCONT);
    for i in 0..200 {
        assert_eq!(a.receive(Some(LONG)).unwrap().data(), content(i, i * 10));
    }
    a.send(peer, b"end").unwrap();
    a.flush(LONG).unwrap();
    process.end();
}

#[test]
fn a_restarted_peer_is_recognised() {
    let mut a = host(Config::default());
    // A port of the child's own, the same both times.
    let at = bind(9, "127.0.0.1:0", Config::default()).local_addr().to_string();
    let process = Process::start("echo", a.local_addr(), &at);
    let peer = here(&mut a);
    ask(&mut a, peer, b"1");
    process.signal(9);
    drop(process);
    let process = Process::start("echo", a.local_addr(), &at);
    assert_eq!(here(&mut a), peer, "the same peer, by its address");
    ask(&mut a, peer, b"2");
    let (mut up, mut down) = (0, 0);
    while let Some(event) = a.next_event() {
        match event {
            Event::PeerUp { .. } => up += 1,
            Event::PeerDown { error, .. } => {
                // (What is seen first: its opening; that its port was closed meanwhile; or its answer to a probe of the
                // old session, if it takes its time between binding the port and the opening.)
                let known = [PeerError::Restarted, PeerError::Refused, PeerError::Reset];
                assert!(known.contains(&error), "{error}");
                down += 1;
            }
            _ => {}
        }
    }
    assert_eq!((up, down), (2, 1));
    a.send(peer, b"end").unwrap();
    a.flush(LONG).unwrap();
    process.end();
}

// ---- one process

#[test]
fn back_pressure_is_an_error_and_then_an_event() {
    let config = Config {
        unexpected_bytes: 64 << 10,
        send_queue_bytes: 64 << 10,
        ..Config::default()
    };
    let (mut a, to_b, mut b, _) = pair("127.0.0.1:0", &config);
    let mut sent = 0_u32;
    // b makes progress but takes nothing, so both its memory and our queue fill up, and no further.
    loop {
        match a.send(to_b, &[0; 1_000]) {
            Ok(()) => sent += 1,
            Err(SendError::WouldBlock(_)) => {
                let before = b.ready();
                for _ in 0..100 {
                    a.progress().unwrap();
                    b.progress().unwrap();
                }
                if b.ready() == before && a.send(to_b, &[0; 1_000]).is_err() {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 200, "{sent} messages of 1,000 bytes are not bounded");
    }
    assert!(b.ready() > 10 && b.ready() <= 64, "{}", b.ready());
    let mut writable = false;
    let mut received = 0;
    while received < sent {
        a.progress().unwrap();
        received += u32::from(b.try_receive().unwrap().is_some());
        while let Some(event) = a.next_event() {
            writable |= event == Event::Writable { peer: to_b };
        }
    }
    assert!(writable);
    a.send(to_b, b"again").unwrap();
}

#[test]
fn many_peers_on_one_socket() {
    const PEERS: u32 = 150;
    let mut hub = host(Config::default());
    let address = hub.local_addr();
    let mut spokes: Vec<(Transport, PeerId)> = (0..PEERS)
        .map(|i| {
            let mut spoke = bind(100 + i, "127.0.0.1:0", Config::default());
            let peer = spoke.add_peer(address, 1).unwrap();
            for n in 0..10_u32 {
                spoke.send(peer, &n.to_le_bytes()).unwrap();
            }
            (spoke, peer)
        })
        .collect();
    let mut next = vec![0; PEERS as usize];
    let mut echoed = 0;
    while echoed < 10 * PEERS {
        while let Some(message) = hub.try_receive().unwrap() {
            let (peer, source) = (message.peer(), message.source());
            assert_eq!(message.data(), u32::to_le_bytes(next[source as usize - 100]));
            next[source as usize - 100] += 1;
            hub.send(peer, &source.to_le_bytes()).unwrap();
        }
        for (i, (spoke, _)) in spokes.iter_mut().enumerate() {
            while let Some(message) = spoke.try_receive().unwrap() {
                assert_eq!(message.data(), (100 + i as u32).to_le_bytes());
                echoed += 1;
            }
        }
    }
    assert_eq!(hub.peers(), PEERS as usize);
}

#[test]
fn a_helper_answers_while_the_application_computes() {
    let (a, _, mut b, to_a) = pair("127.0.0.1:0", &Config::default());
    let a = a.with_progress_thread(Duration::from_millis(1));
    // Nobody calls anything of a meanwhile.
    b.send_blocking(to_a, &content(1, 2 << 20)).unwrap();
    b.send(to_a, b"done").unwrap();
    b.flush(LONG).unwrap();
    let mut guard = a.lock().unwrap();
    assert!(guard.receive(Some(LONG)).unwrap().data() == content(1, 2 << 20));
    assert_eq!(guard.receive(Some(LONG)).unwrap().data(), b"done");
    drop(guard);
    let other = thread::spawn(move || {
        let event = b.wait_event(Some(LONG)).unwrap();
        while !matches!(b.wait_event(Some(LONG)).unwrap(), Event::PeerClosed { .. }) {}
        event
    });
    a.close(LONG).unwrap();
    assert!(matches!(other.join().unwrap(), Event::PeerUp { .. }));
}

#[test]
fn a_helper_ends_with_its_handle() {
    let (a, _, _b, _) = pair("127.0.0.1:0", &Config::default());
    let address = a.local_addr();
    let a = a.with_progress_thread(Duration::from_secs(3_600));
    assert_eq!(a.lock().unwrap().local_addr(), address);
    drop(a);
    // The port is free: the thread has let go of the transport.
    bind(1, &address.to_string(), Config::default());
}

#[test]
fn flush_and_close_say_who_was_lost() {
    let config = Config {
        open_timeout: Duration::from_millis(200),
        death_timeout: Duration::from_millis(200),
        ..Config::default()
    };
    let (mut a, to_b, b, _) = pair("127.0.0.1:0", &config);
    a.send(to_b, b"nobody makes progress there").unwrap();
    let short = Duration::from_millis(20);
    assert!(matches!(a.flush(short), Err(FlushError::TimedOut { peers: 1, .. })));
    let error = a.flush(LONG).unwrap_err();
    assert!(
        matches!(error, FlushError::Peer(peer, PeerError::TimedOut { .. }) if peer == to_b),
        "{error}"
    );
    drop(b);
    // Nothing is on its way to anybody.
    a.flush(LONG).unwrap();
    a.close(LONG).unwrap();
}

/// A receiver that has all of a message may close at once, and the sender has succeeded: of large messages, of messages
/// by reference, and of small ones.
#[test]
fn what_was_delivered_is_no_error_when_the_receiver_closes_then() {
    const CLIENTS: usize = 20;
    let strangers = Config {
        accept_strangers: true,
        ..Config::default()
    };
    let mut server = bind(1, "127.0.0.1:0", strangers);
    let address = server.local_addr();
    let clients = thread::spawn(move || {
        for round in 0..CLIENTS {
            let mut client = bind(2, "127.0.0.1:0", Config::default());
            let to_server = client.add_peer(address, 1).unwrap();
            client.send(to_server, &[round as u8]).unwrap();
            let message = client.receive(Some(LONG)).unwrap();
            assert_eq!(message.len(), 1 << 20);
            // Goodbye, without a flush.
            drop(client);
        }
    });
    for _ in 0..CLIENTS {
        let message = server.receive(Some(LONG)).unwrap();
        let (peer, way) = (message.peer(), message[0] % 3);
        let large = content(7, 1 << 20);
        match way {
            0 => server.send_blocking(peer, &large).unwrap(),
            1 => {
                let token = server.send_bytes(peer, Bytes::from(large)).unwrap();
                server.flush(LONG).unwrap();
                let events: Vec<Event> = std::iter::from_fn(|| server.next_event()).collect();
                assert!(events.contains(&Event::Sent { peer, token }), "{events:?}");
            }
            _ => {
                let on_another = SendOptions {
                    channel: 3,
                    ..SendOptions::default()
                };
                server.send_blocking_with(peer, &large, &on_another).unwrap();
            }
        }
    }
    clients.join().unwrap();
    server.close(LONG).unwrap();
}

#[test]
fn a_dropped_transport_says_goodbye() {
    let (mut a, to_b, mut b, _) = pair("127.0.0.1:0", &Config::default());
    a.send(to_b, b"first").unwrap();
    b.receive(Some(LONG)).unwrap();
    b.progress().unwrap();
    a.flush(LONG).unwrap_or(());
    drop(a);
    loop {
        match b.wait_event(Some(LONG)).unwrap() {
            Event::PeerClosed { .. } => return,
            Event::PeerUp { .. } => {}
            event => panic!("{event:?}"),
        }
    }
}

#[test]
fn what_can_not_be_built_says_why() {
    let a = bind(1, "127.0.0.1:0", Config::default());
    let error = Transport::builder().bind("udp", a.local_addr()).unwrap_err();
    assert!(matches!(error, BuildError::Bind(_)));
    assert!(error.to_string().contains("another process has this port"), "{error}");

    let error = Transport::builder().bind("udp", "not a name").unwrap_err();
    assert!(matches!(error, BuildError::Resolve(_)));
    assert!(
        error.to_string().contains("\"not a name\" cannot be resolved"),
        "{error}"
    );
    let error = a.resolve("[::1]:80").unwrap_err();
    assert!(error.to_string().contains("no address of the right kind"), "{error}");
    assert_eq!(a.resolve("127.0.0.1:80").unwrap().port(), 80);

    let error = Transport::builder().bind("pigeon", "127.0.0.1:0").unwrap_err();
    assert!(error.to_string().contains("pigeon"), "{error}");

    let config = Config {
        window_packets: 0,
        ..Config::default()
    };
    let error = Transport::builder()
        .config(config)
        .bind("udp", "127.0.0.1:0")
        .unwrap_err();
    assert!(error.to_string().contains("window_packets"), "{error}");

    let error = Transport::builder()
        .processors(&[])
        .bind("udp", "127.0.0.1:0")
        .unwrap_err();
    assert!(matches!(error, BuildError::NoProcessor));
}

#[test]
fn a_bad_environment_is_reported() {
    let log = if cfg!(feature = "events") {
        "it takes off, error, warn, info, debug or trace"
    } else {
        "HIKYAKU_LOG, but this program was built without the feature `events` of hikyaku"
    };
    for (name, value, says) in [
        ("HIKYAKU_ACK_DELEY", "1ms", "did you mean HIKYAKU_ACK_DELAY?"),
        ("HIKYAKU_ACK_DELAY", "soon", "HIKYAKU_ACK_DELAY=soon"),
        ("HIKYAKU_LUG", "info", "did you mean HIKYAKU_LOG?"),
        ("HIKYAKU_LOG", "loud", log),
    ] {
        let output = command("environment").env(name, value).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(says), "{text}");
    }
}

#[test]
fn one_port_to_send_and_one_to_receive() {
    let mut options = BindOptions::default();
    options.separate_send_socket = true;
    let end = |processor| {
        Transport::builder()
            .processor(processor)
            .config(Config::dse())
            .bind_options(options.clone())
            .bind("udp", "127.0.0.1:0")
            .unwrap()
    };
    let (mut a, mut b) = (end(1), end(2));
    let to_b = a.add_peer(b.local_addr(), 2).unwrap();
    b.add_peer(a.local_addr(), 1).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            echo(&mut b);
            b.flush(LONG).unwrap();
        });
        echo_all(&mut a, to_b);
        a.send(to_b, b"end").unwrap();
        a.flush(LONG).unwrap();
    });
    assert_eq!(a.stats().peers_lost, 0);
}

/// A wrong number of a processor is an error of that message alone.
#[test]
fn a_message_for_nobody_comes_back() {
    let (mut a, to_b, mut b, _) = pair("127.0.0.1:0", &Config::default());
    let receiver = thread::spawn(move || {
        for number in 0..=10 {
            assert_eq!(&b.receive(Some(LONG)).unwrap()[..], &content(number, 100)[..]);
        }
        b.close(LONG).unwrap();
    });
    let wrong = SendOptions {
        destination: Some(77),
        ..SendOptions::default()
    };
    for number in 0..10 {
        a.send(to_b, &content(number, 100)).unwrap();
        a.send_with(to_b, Payload::Copy(b"lost"), &wrong).unwrap();
    }
    a.flush(LONG).unwrap();
    let mut back = 0;
    while back < 10 {
        match a.wait_event(Some(LONG)).unwrap() {
            Event::Returned {
                peer,
                source: 1,
                destination: 77,
                messages,
            } if peer == to_b => back += messages,
            Event::PeerUp { .. } => {}
            event => panic!("{event:?}"),
        }
    }
    assert_eq!(back, 10);
    // The receiver stays until all have come back.
    a.send(to_b, &content(10, 100)).unwrap();
    a.close(LONG).unwrap();
    receiver.join().unwrap();
}

/// As many pairs of processors as the receiver takes, and an error for one more; nobody is lost.
#[test]
fn too_many_pairs_of_processors() {
    let (mut a, to_b, mut b, _) = pair("127.0.0.1:0", &Config::default());
    let receiver = thread::spawn(move || {
        for number in 0..=4_096 {
            assert_eq!(b.receive(Some(LONG)).unwrap().len(), 8, "{number}");
        }
        b.close(LONG).unwrap();
    });
    let from = |source| SendOptions {
        source: Some(source),
        ..SendOptions::default()
    };
    // Processor 1 is the usual one.
    for source in 1..=4_096 {
        a.send_blocking_with(to_b, &[1; 8], &from(source)).unwrap();
    }
    let refused = a.send_with(to_b, Payload::Copy(&[1; 8]), &from(4_097));
    assert_eq!(refused, Err(SendError::TooManyPairs { peer: to_b, max: 4_096 }));
    a.send(to_b, &[1; 8]).unwrap();
    a.flush(LONG).unwrap();
    a.close(LONG).unwrap();
    receiver.join().unwrap();
}

/// Events that nobody takes do not fill the memory: sending by reference ends in an error, other sending goes on.
#[test]
fn events_that_nobody_takes_are_bounded() {
    let (mut a, to_b, mut b, _) = pair("127.0.0.1:0", &Config::default());
    let receiver = thread::spawn(move || {
        let mut received = 0;
        while let Ok(message) = b.receive(Some(LONG)) {
            received += 1;
            if &message[..] == b"last" {
                break;
            }
        }
        b.close(LONG).unwrap();
        received
    });
    let mut sent = 0;
    let refused = loop {
        match a.send_bytes(to_b, Bytes::from_static(b"by reference")) {
            Ok(_) => sent += 1,
            Err(SendError::WouldBlock(_)) => {
                a.flush(LONG).unwrap();
            }
            Err(error) => break error,
        }
    };
    assert_eq!(refused, SendError::EventsWaiting(65_536));
    // What was under way is told too, but a blocking send is over when it returns.
    a.send_blocking(to_b, &[7; 100_000]).unwrap();
    a.flush(LONG).unwrap();
    let mut told = 0;
    while let Some(event) = a.next_event() {
        told += u32::from(matches!(event, Event::Sent { .. }));
    }
    assert_eq!(told, sent);
    assert!(sent <= 65_536 + 4_096, "{sent}");
    a.send_bytes(to_b, Bytes::from_static(b"last")).unwrap();
    a.close(LONG).unwrap();
    assert_eq!(receiver.join().unwrap(), sent + 2);
}

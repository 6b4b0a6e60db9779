//! The events of `docs/events.md`: each when its cause comes, once, and as it is documented.

use std::{
    collections::VecDeque,
    env,
    io::{self, Write},
    net::SocketAddr,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use hikyaku::{
    Config, Congestion, PeerId,
    messaging::{Messenger, SendOptions},
    reliability::{Burst, Endpoint, Limits, Path, Payload},
    time::Instant,
    transport::Transport,
};
use tracing::{Level, subscriber};
use tracing_subscriber::fmt;

const DELAY: Duration = Duration::from_micros(100);
const SECOND: Duration = Duration::from_secs(1);

/// The lines of a subscriber.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Those since the last call that contain `word`.
    fn take(&self, word: &str) -> Vec<String> {
        let text = std::mem::take(&mut *self.0.lock().unwrap());
        let text = String::from_utf8(text).unwrap();
        let lines = text.lines().filter(|line| line.contains(word));
        lines.map(|line| line.trim().to_owned()).collect()
    }
}

/// Runs `f` with a subscriber, as a program's own.
fn listen(f: impl FnOnce(&Lines)) {
    let lines = Lines::default();
    let writer = lines.clone();
    let own = fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .without_time()
        .with_max_level(Level::DEBUG)
        .finish();
    subscriber::with_default(own, || f(&lines));
}

/// Two processes and the wires between them, in virtual time.
struct Pair {
    now: Instant,
    config: Config,
    /// With each, the other as its peer.
    nodes: [(Messenger, PeerId); 2],
    /// (when it arrives, at which node, at which port, the datagram)
    wires: VecDeque<(Instant, usize, u8, Vec<u8>)>,
    /// What leaves by this port is lost.
    dead: Option<u8>,
}

fn address(node: usize) -> SocketAddr {
    address_of(node, 0)
}

/// Both have an address for each port, which reaches that of the other one only.
fn address_of(node: usize, port: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2 + port, 1 + node as u8], 1_000))
}

fn node(node: usize, incarnation: u64, config: &Config) -> (Messenger, PeerId) {
    let limits = Limits {
        max_datagram: 8_972,
        max_segments: 1,
        max_batch: 8_972,
        receive_buffer: 1 << 20,
        holds_references: false,
        ack_bytes: usize::MAX,
        receive_port: 0,
    };
    let endpoint = Endpoint::new(config.clone(), limits, incarnation, incarnation.into()).unwrap();
    let mut messenger = Messenger::new(endpoint, &[node as u32]);
    let peer = messenger.add_peer(address(1 - node), 1 - node as u32).unwrap();
    (messenger, peer)
}

impl Pair {
    fn new(config: Config) -> Self {
        Self {
            now: Instant::ZERO,
            nodes: [node(0, 1, &config), node(1, 2, &config)],
            config,
            wires: VecDeque::new(),
            dead: None,
        }
    }

    /// A second rail between the two.
    fn add_rail(&mut self) {
        for (node, (messenger, peer)) in self.nodes.iter_mut().enumerate() {
            let path = Path::new(address_of(1 - node, 1), 1);
            assert_eq!(messenger.add_rail(self.now, *peer, path), Ok(1));
        }
    }

    fn send(&mut self, from: usize, len: usize) {
        let data = vec![7; len];
        let (node, peer) = &mut self.nodes[from];
        node.send(self.now, *peer, &SendOptions::default(), Payload::Copy(&data))
            .unwrap();
    }

    /// Lets this much time pass. The wires lose the datagrams that `lose` chooses.
    fn run(&mut self, time: Duration, mut lose: impl FnMut(usize, &[u8]) -> bool) {
        let end = self.now + time;
        loop {
            for from in 0..2 {
                let (node, _) = &mut self.nodes[from];
                let mut burst = Burst::default();
                while node.poll_transmit(self.now, &mut burst) {
                    let mut datagram = Vec::new();
                    node.gather(&burst, |bytes| datagram.extend_from_slice(bytes));
                    if !lose(from, &datagram) && self.dead != Some(burst.port()) {
                        self.wires
                            .push_back((self.now + DELAY, 1 - from, burst.port(), datagram));
                    }
                }
                while node.poll_event().is_some() {}
                while node.receive().is_some() {}
            }
            let arrival = self.wires.front().map(|(at, ..)| *at);
            let timeout = self.nodes.iter().filter_map(|(node, _)| node.poll_timeout()).min();
            let next = arrival.into_iter().chain(timeout).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            while self.wires.front().is_some_and(|(at, ..)| *at <= self.now)
                && let Some((_, to, port, mut datagram)) = self.wires.pop_front()
            {
                let (len, path) = (datagram.len(), Path::new(address_of(1 - to, port), port));
                self.nodes[to].0.handle_datagrams(self.now, path, &mut datagram, len);
            }
            for (node, _) in &mut self.nodes {
                node.handle_timeout(self.now);
            }
        }
    }
}

fn never(_: usize, _: &[u8]) -> bool {
    false
}

#[test]
fn a_session_opens_is_closed_and_begins_again() {
    listen(|lines| {
        let mut pair = Pair::new(Config::default());
        for _ in 0..100 {
            pair.send(0, 1_000);
            pair.send(1, 1_000);
        }
        pair.run(SECOND, never);
        let session = "hikyaku::reliability::endpoint::session: session";
        assert_eq!(
            lines.take("session "),
            [
                format!("INFO {session} opened processor=1 peer=0 address=192.0.2.1:1000"),
                format!("INFO {session} opened processor=0 peer=0 address=192.0.2.2:1000"),
            ]
        );
        // A process in the place of the other one.
        pair.nodes[1] = node(1, 3, &pair.config);
        pair.send(1, 1_000);
        pair.run(SECOND, never);
        let lines = lines.take("processor=0");
        let [lost, begun, mtu] = &lines[..] else {
            panic!("{lines:#?}")
        };
        let of = "processor=0 peer=0 address=192.0.2.2:1000";
        assert_eq!(
            *lost,
            format!("WARN {session} lost {of} session=1 error=it has restarted")
        );
        assert_eq!(*begun, format!("INFO {session} restarted {of} session=2"));
        assert!(mtu.contains("path MTU found"), "{mtu}");
    });
}

#[test]
fn a_peer_that_goes_away_is_lost() {
    listen(|lines| {
        let mut pair = Pair::new(Config::default());
        pair.send(0, 1_000);
        pair.run(SECOND, never);
        pair.send(0, 1_000);
        lines.take("");
        pair.run(10 * SECOND, |_, _| true);
        let lost = lines.take("WARN");
        let [lost] = &lost[..] else { panic!("{lost:#?}") };
        let begin = "WARN hikyaku::reliability::endpoint::session: session lost processor=0 peer=0 address=192.0.2.2:1000 session=1 \
                     error=no answer to ";
        assert!(lost.starts_with(begin), "{lost}");
    });
}

/// A rail is told when the peer has answered there, when it does not any more, and when it never has.
#[test]
fn rails_come_and_go() {
    let rail = |what: &str| {
        format!("hikyaku::reliability::endpoint::rails: {what} processor=0 peer=0 rail=1 address=192.0.3.2:1000 port=1")
    };
    let of_rails = |lines: &Lines| {
        let all = lines.take("endpoint::rails: ").into_iter();
        all.filter(|line| line.contains("processor=0")).collect::<Vec<_>>()
    };
    listen(|lines| {
        let config = Config {
            unexpected_bytes: 64 << 20,
            ..Config::default()
        };
        let mut pair = Pair::new(config.clone());
        pair.add_rail();
        // (A large message goes by both.)
        let talk = |pair: &mut Pair, time| {
            pair.send(0, 4 << 20);
            pair.run(time, never);
        };
        talk(&mut pair, SECOND);
        assert_eq!(of_rails(lines), [format!("INFO {}", rail("rail up"))]);
        pair.dead = Some(1);
        talk(&mut pair, SECOND);
        assert_eq!(of_rails(lines), [format!("WARN {}", rail("rail down"))]);
        pair.dead = None;
        talk(&mut pair, 10 * SECOND);
        assert_eq!(of_rails(lines), [format!("INFO {}", rail("rail up"))]);
        // One that is dead from the beginning.
        let mut pair = Pair::new(config);
        pair.add_rail();
        pair.dead = Some(1);
        talk(&mut pair, 60 * SECOND);
        assert_eq!(of_rails(lines), [format!("INFO {}", rail("no answer on a rail"))]);
    });
}

#[test]
fn the_path_mtu_is_told_when_it_is_found_and_when_it_is_lost() {
    listen(|lines| {
        let mut pair = Pair::new(Config::default());
        pair.send(0, 1_000);
        pair.run(SECOND, never);
        let end = "processor=0 peer=0 address=192.0.2.2:1000 rail=0";
        let timeout = "hikyaku::reliability::endpoint::timeout:";
        assert_eq!(
            lines.take("processor=0 peer=0 address=192.0.2.2:1000 rail=0 bytes"),
            [format!("INFO {timeout} path MTU found {end} bytes=8972")]
        );
        let small = |_: usize, datagram: &[u8]| datagram.len() > 1_472;
        pair.send(0, 100_000);
        pair.run(2 * SECOND, small);
        let settle = "hikyaku::reliability::endpoint::settle:";
        assert_eq!(
            lines.take("MTU"),
            [
                format!("INFO {settle} large datagrams are lost: path MTU taken back {end} before=8972 bytes=1200"),
                format!("INFO {timeout} path MTU found {end} bytes=1472"),
            ]
        );
    });
}

#[test]
fn a_burst_of_losses_is_one_event() {
    listen(|lines| {
        let mut pair = Pair::new(Config::default());
        pair.send(0, 1_000);
        pair.run(SECOND, never);
        lines.take("");
        // Each tenth packet of a message of fifty: all of one episode.
        let mut count = 0;
        pair.send(0, 50 * 8_900);
        pair.run(SECOND, |from, _| {
            count += usize::from(from == 0);
            from == 0 && count % 10 == 5 && count <= 50
        });
        let stats = pair.nodes[0].0.layer().stats();
        let bursts = lines.take("retransmission burst");
        assert_eq!(bursts.len(), 1, "{bursts:#?}");
        assert!(stats.resends >= 5, "{stats}");
        let begin = "DEBUG hikyaku::reliability::flow::sender::recovery: retransmission burst peer=0 channel=0 cause=";
        assert!(bursts[0].starts_with(begin), "{bursts:#?}");

        // Nothing arrives for 20 ms: time-outs.
        let silent = pair.now + Duration::from_millis(20);
        for _ in 0..5 {
            pair.send(0, 5_000);
        }
        pair.run(Duration::from_millis(20), |_, _| true);
        assert!(pair.now >= silent);
        let bursts = lines.take("cause=TimeOut");
        assert!(
            bursts[0].ends_with("retransmission burst peer=0 channel=0 cause=TimeOut packets=5"),
            "{bursts:#?}"
        );
        assert!((1..8).contains(&bursts.len()), "{bursts:#?}");
    });
}

#[test]
fn windows_that_double_or_halve_are_told() {
    listen(|lines| {
        let mut pair = Pair::new(Config {
            congestion: Congestion::Aimd,
            path_mtu_discovery: false,
            ..Config::default()
        });
        for _ in 0..10 {
            pair.send(0, 200_000);
            pair.run(Duration::from_millis(10), never);
        }
        let grown = lines.take("window changed");
        let windows: Vec<u32> = grown.iter().map(|line| last_number(line)).collect();
        assert!(
            windows.len() > 1 && windows.windows(2).all(|pair| pair[1] >= 2 * pair[0]),
            "{grown:#?}"
        );
        let begin = "DEBUG hikyaku::reliability::flow::sender::recovery: window changed peer=0 channel=0 before=";
        assert!(grown[0].starts_with(begin), "{grown:#?}");
        pair.send(0, 200_000);
        pair.run(Duration::from_millis(20), |_, _| true);
        let shrunk = lines.take("window changed");
        let [line] = &shrunk[..] else { panic!("{shrunk:#?}") };
        assert!(last_number(line) <= windows[windows.len() - 1] / 2, "{line}");
    });
}

fn last_number(line: &str) -> u32 {
    line.rsplit('=').next().unwrap().parse().unwrap()
}

/// Packets in order and in time are no events, however many there are.
#[test]
fn nothing_is_told_of_packets() {
    listen(|lines| {
        let mut pair = Pair::new(Config::default());
        pair.send(0, 1_000);
        pair.run(SECOND, never);
        lines.take("");
        for _ in 0..1_000 {
            pair.send(0, 1_000);
            pair.send(1, 10);
            pair.run(Duration::from_millis(1), never);
        }
        assert_eq!(lines.take(""), Vec::<String>::new());
    });
}

const CHILD: &str = "EVENTS_TEST_CHILD";

/// (Does nothing but in a process that [`printed`] has started.)
#[test]
fn a_program_without_a_subscriber() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    let end = |processor| {
        let builder = Transport::builder().processor(processor).environment();
        builder.bind("udp", "127.0.0.1:0")
    };
    let mut alice = end(1).unwrap_or_else(|error| panic!("{error}"));
    let mut bob = end(2).unwrap();
    let to_bob = alice.add_peer(bob.local_addr(), 2).unwrap();
    bob.add_peer(alice.local_addr(), 1).unwrap();
    alice.send(to_bob, b"hello").unwrap();
    bob.receive(Some(10 * SECOND)).unwrap();
    alice.flush(Duration::from_millis(1)).ok();
    bob.progress().unwrap();
    alice.flush(10 * SECOND).ok();
}

/// Exit code and standard error of such a program with this `HIKYAKU_LOG`.
fn printed(level: Option<&str>) -> (bool, String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "a_program_without_a_subscriber", "--nocapture"])
        .env(CHILD, "yes")
        .env_remove("HIKYAKU_LOG");
    if let Some(level) = level {
        command.env("HIKYAKU_LOG", level);
    }
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_variable_prints_them_to_standard_error() {
    let (success, text) = printed(Some("debug"));
    assert!(success, "{text}");
    for line in [
        "  INFO hikyaku::transport::builder: transport opened processor=1 backend=\"udp\" address=127.0.0.1:",
        "  INFO hikyaku::reliability::endpoint::session: session opened processor=1 peer=0 address=127.0.0.1:",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains('\x1b'), "{text}");
    for level in [None, Some("off"), Some("error")] {
        assert_eq!(printed(level), (true, String::new()), "{level:?}");
    }
    let (success, text) = printed(Some("loud"));
    let says = "HIKYAKU_LOG=loud, which cannot be understood; it takes off, error, warn, info, debug or trace";
    assert!(!success && text.contains(says), "{text}");
}

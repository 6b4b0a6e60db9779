//! Node-wide pollers between real processes: two of them joined by shared memory (memif), with ranks behind each.
//!
//! Whatever happens to ranks, the pollers end with all packet buffers back in their pools.
#![cfg(all(feature = "dpdk", feature = "udp", target_os = "linux"))]
#![expect(unsafe_code, reason = "the engine takes pointers")]

mod combined;
mod devices;
#[path = "../support/hugepages.rs"]
mod hugepages;
mod rails;
mod support;

// The tests of MPI's engine, with processes of one poller.
#[path = "../support/answers.rs"]
mod answers;
#[path = "../mpi/arrays.rs"]
mod arrays;
#[path = "../support/exchange.rs"]
mod exchange;
#[path = "../mpi/messages.rs"]
mod messages;
#[expect(dead_code, reason = "what these tests do not need, others do")]
#[path = "../support/netns.rs"]
mod netns;
#[path = "../support/part.rs"]
mod part;
#[path = "../mpi/persistent.rs"]
mod persistent;
#[path = "../support/second_link.rs"]
mod second_link;
#[path = "../mpi/windows.rs"]
mod windows;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use answers::{END, send_back};
use exchange::{LONG, exchange};
use hikyaku::{
    Config, Contact, DropReason, PeerId,
    backends::{Place, dpdk::DpdkOptions},
    environment::Environment,
    poller::{Poller, PollerOptions},
    transport::{Event, Transport},
};
use netns::{Process, Veth};

/// Of what never takes so long, however busy the machine is.
const PART_LIMIT: Duration = Duration::from_secs(120);
const START_LIMIT: Duration = PART_LIMIT;
/// Of a peer that says nothing.
const DEATH: Duration = Duration::from_secs(3);
const EVERY_SIZE: [usize; 14] = [
    0,
    1,
    8,
    0,
    250,
    1_400,
    1_472,
    2_049,
    4_097,
    8_972,
    65_508,
    1 << 20,
    3,
    4 << 20,
];
const NO_HUGE: (&str, &str) = ("HIKYAKU_DPDK_MEMORY", "no-huge");
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

// ---- parts

fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn number(name: &str) -> u64 {
    var(name).parse().unwrap()
}

/// Until a file says that it is to end.
fn play_poller() {
    let mut ports = DpdkOptions::of_process(&Environment::of_process(), None, Place::default()).unwrap();
    let addresses = var("PART_AT");
    for (port, address) in ports.iter_mut().zip(addresses.split(',')) {
        port.address = address.parse().unwrap();
    }
    let dpdk = ports.remove(0);
    let socket = PathBuf::from(var("HIKYAKU_POLLER"));
    let stop = stop_file(&socket);
    let address = dpdk.address;
    let mut options = PollerOptions::new(dpdk, address, socket);
    options.further = ports;
    options.buffers = number("PART_BUFFERS") as u32;
    let mut poller = match Poller::start(options) {
        Ok(poller) => poller,
        Err(error) => {
            println!("error: {error}");
            return;
        }
    };
    let pools = poller.pools();
    println!("serves");
    poller.run(|| stop.exists()).unwrap();
    // What has gone is noticed a moment later.
    let deadline = netns::now() + LONG;
    while poller.stats().processes > 0 && netns::now() < deadline {
        let mut looks = 0;
        poller
            .run(|| {
                looks += 1;
                looks > 2
            })
            .unwrap();
    }
    println!("{:?}", poller.dpdk_stats());
    for port in poller.ports() {
        println!(
            "port {}: {} bytes sent: {}",
            port.address, port.device, port.stats.bytes_sent
        );
    }
    println!("{:?}", poller.stats());
    let dropped = poller.stats().dropped;
    println!("openings of strangers: {}.", dropped.of(DropReason::Stranger));
    drop(poller);
    assert_eq!((pools.receive().in_use, pools.send().in_use), (0, 0), "{pools:?}");
    println!("all buffers are back");
}

fn stop_file(socket: &Path) -> PathBuf {
    socket.with_extension("stop")
}

/// A rank with UDP port `PART_PORT` that knows the one at `PART_TO`.
fn open(processor: u32) -> (Transport, PeerId) {
    open_with(processor, |_| {})
}

fn open_with(processor: u32, change: impl FnOnce(&mut Config)) -> (Transport, PeerId) {
    let mut config = Config {
        death_timeout: DEATH,
        contact: env::var("PART_JOB").map_or(Contact::NONE, |job| Contact::of_job(&[job.parse().unwrap(); 16])),
        ..Config::default()
    };
    change(&mut config);
    let builder = Transport::builder().processor(processor).config(config).environment();
    let at = (
        env::var("PART_IP").unwrap_or_else(|_| "0.0.0.0".into()),
        number("PART_PORT") as u16,
    );
    let bound = builder.bind("poller", (at.0.as_str(), at.1));
    let mut transport = bound.unwrap_or_else(|error| panic!("{error}"));
    println!("is at {}", transport.local_addr());
    let to = var("PART_TO").parse().unwrap();
    let peer = transport.add_peer(to, 3 - processor).unwrap();
    (transport, peer)
}

/// Sends every message back until [`END`].
fn play_answers() {
    let (transport, peer) = open(2);
    println!("answers");
    send_back(transport, peer, PART_LIMIT, LONG);
}

fn play_exchange() {
    let (mut transport, peer) = open(1);
    let mut lens = EVERY_SIZE.to_vec();
    lens.extend((0..200).map(|i| i * 7 % 300));
    lens.extend((0..20).map(|i| i * 7_919 % 200_000));
    exchange(&mut transport, peer, &lens, 3);
    transport.flush(LONG).unwrap();
    transport.send(peer, END).unwrap();
    loop {
        match transport.wait_event(Some(LONG)).unwrap() {
            Event::PeerClosed { .. } => break,
            Event::PeerDown { error, .. } => panic!("{error}"),
            _ => {}
        }
    }
    println!("done");
}

/// Calls until it gives up, because nobody answers.
fn play_outsider() {
    let (mut transport, peer) = open_with(1, |config| config.open_timeout = DEATH);
    let data = bytes::Bytes::from_static(b"let me in");
    transport.send_bytes(peer, data).unwrap();
    loop {
        match transport.wait_event(Some(LONG)).unwrap() {
            Event::PeerDown { error, .. } => break println!("not let in: {error}"),
            Event::PeerUp { .. } => panic!("it was let in"),
            _ => {}
        }
    }
    assert!(transport.try_receive().unwrap().is_none(), "it was answered");
}

/// Sends to its twin, and takes from it, as fast as it can, until that is gone.
fn play_flood() {
    let (mut transport, peer) = open(number("PART_PROCESSOR") as u32);
    let data = bytes::Bytes::from(exchange::content(1, 200_000));
    let mut received = 0_u64;
    let deadline = netns::now() + PART_LIMIT;
    let error = loop {
        assert!(netns::now() < deadline, "nobody has died");
        for len in [8, 2_000, 9_000, 200_000] {
            let _ = transport.send_bytes(peer, data.slice(..len));
        }
        while let Some(message) = transport.try_receive().unwrap() {
            assert!(message.data() == &data[..message.len()], "message {received}");
            received += 1;
            if received.is_power_of_two() || received.is_multiple_of(1_000) {
                println!("has received {received}");
            }
        }
        match transport.next_event() {
            Some(Event::PeerDown { error, .. }) => break error,
            Some(_) => continue,
            None => transport.progress().unwrap(),
        };
    };
    println!("dead: {error}");
}

/// Messages back and forth until a file says that it is to end.
fn play_steady() {
    let (mut transport, peer) = open(1);
    let stop = stop_file(Path::new(&var("HIKYAKU_POLLER"))).with_extension("steady");
    let mut rounds = 0;
    while !stop.exists() {
        exchange(&mut transport, peer, &[1, 100, 3_000, 20_000, 0, 100_000], 0);
        rounds += 1;
        if rounds == 1 {
            println!("steady");
        }
    }
    transport.flush(LONG).unwrap();
    transport.send(peer, END).unwrap();
    while !matches!(transport.wait_event(Some(LONG)).unwrap(), Event::PeerClosed { .. }) {}
    assert_eq!(transport.stats().peers_lost, 0);
    println!("{rounds} rounds");
}

/// Waits in one of the ways there are until its poller is gone.
fn play_orphan() {
    let (mut transport, peer) = open(1);
    let how = var("PART_HOW");
    let data = exchange::content(1, 1 << 20);
    transport.send(peer, b"are you there?").unwrap();
    transport.receive(Some(LONG)).unwrap();
    println!("waits");
    let error: Box<dyn std::error::Error> = match how.as_str() {
        "receive" => Box::new(transport.receive(Some(PART_LIMIT)).unwrap_err()),
        "send" => loop {
            if let Err(error) = transport.send_blocking(peer, &data) {
                break Box::new(error);
            }
        },
        _ => loop {
            let _ = transport.send(peer, b"again");
            if let Err(error) = transport.flush(PART_LIMIT) {
                break Box::new(error);
            }
        },
    };
    let mut chain = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        chain.push(cause.to_string());
        next = cause.source();
    }
    println!("error: {}", chain.join(": "));
}

/// Not a test: what the processes run.
#[test]
#[ignore = "a part that the other tests start"]
fn part() {
    match netns::role().as_deref() {
        None => {}
        Some("poller") => play_poller(),
        Some("answers") => play_answers(),
        Some("exchange") => play_exchange(),
        Some("flood") => play_flood(),
        Some("orphan") => play_orphan(),
        Some("outsider") => play_outsider(),
        Some("rails") => rails::play_exchange(),
        Some("rails answer") => rails::play_answers(),
        Some("steady") => play_steady(),
        Some(other) => panic!("unknown part {other}"),
    }
}

// ---- tests

fn finish(process: Process) -> String {
    part::finish(process, PART_LIMIT)
}

/// The link between two pollers.
enum Link {
    /// Memory, with these settings of DPDK.
    Memif(Vec<(&'static str, &'static str)>),
    /// An interface of the kernel for each, with these.
    PacketSockets(Veth, Vec<(&'static str, &'static str)>),
}

/// Two pollers, joined.
struct Nodes {
    folder: PathBuf,
    pollers: [Option<Process>; 2],
    link: Link,
    /// How often they are joined.
    rails: usize,
}

impl Nodes {
    /// Joined by memory, without hugepages.
    fn new(name: &str, buffers: u32) -> Self {
        Self::on(Link::Memif(vec![NO_HUGE]), name, buffers)
    }

    fn on(link: Link, name: &str, buffers: u32) -> Self {
        Self::start(Self::without_pollers(link, name), buffers)
    }

    /// Joined twice: the second interface of packet sockets is there already.
    fn with_rails(link: Link, name: &str) -> Self {
        let mut this = Self::without_pollers(link, name);
        this.rails = 2;
        this.start(16_384)
    }

    fn start(mut self, buffers: u32) -> Self {
        let this = &mut self;
        for node in 0..2 {
            let mut poller = this.start_poller(node, &this.device(node), buffers);
            poller.wait_for("serves", START_LIMIT);
            this.pollers[node] = Some(poller);
        }
        self
    }

    fn without_pollers(link: Link, name: &str) -> Self {
        let folder = env::temp_dir().join(format!("hikyaku-{name}-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self {
            folder,
            pollers: [None, None],
            link,
            rails: 1,
        }
    }

    fn device(&self, node: usize) -> String {
        let of_rail = |rail: usize| match self.link {
            Link::PacketSockets(..) => format!("af_packet:iface={}", [netns::INTERFACE, second_link::SECOND][rail]),
            Link::Memif(_) => {
                let role = ["server", "client"][node];
                let socket = self.folder.join(format!("memif{rail}"));
                format!("memif:socket={},role={role}", socket.display())
            }
        };
        (0..self.rails).map(of_rail).collect::<Vec<_>>().join(",")
    }

    fn start_poller(&self, node: usize, device: &str, buffers: u32) -> Process {
        let (socket, buffers) = (self.socket(node), buffers.to_string());
        let at = [ADDRESSES, second_link::BESIDE].map(|of_rail| of_rail[node])[..self.rails].join(",");
        let own = [
            ("HIKYAKU_DPDK_DEVICE", device),
            ("HIKYAKU_POLLER", &socket),
            ("PART_AT", &*at),
            ("PART_BUFFERS", &buffers),
        ];
        match &self.link {
            Link::Memif(more) => part::start("poller", &[&own[..], more].concat()),
            Link::PacketSockets(veth, more) => {
                [&veth.a, &veth.b][node].spawn_role("part", "poller", &[&own[..], more].concat())
            }
        }
    }

    fn socket(&self, node: usize) -> String {
        self.folder.join(node.to_string()).to_str().unwrap().to_owned()
    }

    /// Starts a rank at a port of a node; it knows the one at that port of the other node.
    fn rank(&self, node: usize, port: u16, role: &str, more: &[(&str, &str)]) -> Process {
        let to = format!("{}:{port}", ADDRESSES[1 - node]);
        let (socket, port) = (self.socket(node), port.to_string());
        let own = [("HIKYAKU_POLLER", &*socket), ("PART_PORT", &port), ("PART_TO", &to)];
        part::start(role, &[&own[..], more].concat())
    }

    /// Ends the pollers, which have no ranks any more; gives what they say.
    fn finish(mut self) -> [String; 2] {
        [0, 1].map(|node| {
            fs::write(stop_file(Path::new(&self.socket(node))), "").unwrap();
            let poller = self.pollers[node].take().expect("it has not been ended");
            let output = finish(poller);
            assert!(output.contains("all buffers are back"), "{output}");
            assert!(output.contains("processes: 0"), "{output}");
            output
        })
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.pollers = [None, None];
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A rank of each node, messages of every size between the two, and the end of all.
fn messages_between(nodes: Nodes) {
    let mut answers = nodes.rank(1, 7_001, "answers", &[]);
    answers.wait_for("answers", START_LIMIT);
    let asks = nodes.rank(0, 7_001, "exchange", &[]);
    finish(asks);
    finish(answers);
    for output in nodes.finish() {
        assert!(output.contains("came: 1, left: 1, died: 0, thrown_out: 0"), "{output}");
    }
}

#[test]
fn messages_of_every_size() {
    messages_between(Nodes::new("sizes", 8_192));
}

/// Messages take the way that there is, with a backend beside it or without.
#[test]
fn a_backend_beside_the_poller_is_not_for_messages() {
    let nodes = Nodes::new("beside", 8_192);
    let mut answers = nodes.rank(1, 7_001, "answers", &[]);
    answers.wait_for("answers", START_LIMIT);
    let beside = [("HIKYAKU_POLLER_BULK", "udp"), ("PART_IP", "127.0.0.1")];
    finish(nodes.rank(0, 7_001, "exchange", &beside));
    finish(answers);
    // Where nobody can reach it is no place for it.
    let (status, output) = nodes.rank(0, 7_001, "exchange", &beside[..1]).finish(PART_LIMIT);
    assert!(
        !status.success() && output.contains("HIKYAKU_POLLER_BULK=udp: peers need an address"),
        "{output}"
    );
    nodes.finish();
}

/// At any instant: while it sends, receives, has packets on loan and messages that nobody has acknowledged.
#[test]
fn ranks_that_are_killed_cost_the_others_nothing() {
    let nodes = Nodes::new("killed", 8_192);
    let mut answers = nodes.rank(1, 7_001, "answers", &[]);
    answers.wait_for("answers", START_LIMIT);
    let mut steady = nodes.rank(0, 7_001, "steady", &[]);
    steady.wait_for("steady", START_LIMIT);
    const ROUNDS: usize = 12;
    let mut told = 0;
    for round in 0..ROUNDS {
        let [one, two] = [0, 1].map(|node| {
            let processor = (node + 1).to_string();
            nodes.rank(node, 7_002, "flood", &[("PART_PROCESSOR", &processor)])
        });
        let (mut victim, survivor) = if round % 2 == 0 { (one, two) } else { (two, one) };
        // It has come so far, and a bit further by the time it dies.
        let far = [1, 2, 16, 128, 1_024, 2_000][round / 2];
        victim.wait_for(&format!("has received {far}"), START_LIMIT);
        victim.kill();
        let output = finish(survivor);
        assert!(output.contains("dead: "), "{output}");
        // Not after the time of silence: it is told.
        told += usize::from(output.contains("does not know our session"));
    }
    assert_eq!(told, ROUNDS, "some had to wait");
    fs::write(stop_file(Path::new(&nodes.socket(0))).with_extension("steady"), "").unwrap();
    finish(steady);
    finish(answers);
    let outputs = nodes.finish();
    for output in outputs {
        assert!(output.contains("died: 6, thrown_out: 0"), "{output}");
    }
}

/// The poller, which has their endpoints, demands the secret that only processes of the job know.
#[test]
fn an_opening_must_know_the_job() {
    let nodes = Nodes::new("contact", 8_192);
    let job = [("PART_JOB", "1")];
    let mut answers = nodes.rank(1, 7_001, "answers", &job);
    answers.wait_for("answers", START_LIMIT);
    // From the very address at which a process of the job is awaited.
    for other in [&[("PART_JOB", "2")][..], &[]] {
        let output = finish(nodes.rank(0, 7_001, "outsider", other));
        assert!(output.contains("not let in: "), "{output}");
    }
    finish(nodes.rank(0, 7_001, "exchange", &job));
    finish(answers);
    let [theirs, ours] = nodes.finish();
    assert!(theirs.contains("openings of strangers: 0."), "{theirs}");
    let dropped = ours
        .split_once("openings of strangers: ")
        .and_then(|(_, rest)| rest.split_once('.'));
    let dropped: u64 = dropped
        .and_then(|(count, _)| count.parse().ok())
        .unwrap_or_else(|| panic!("{ours}"));
    // Each has called more than once.
    assert!(dropped >= 4, "{dropped}");
}

#[test]
fn ranks_hear_of_the_death_of_their_poller() {
    for how in ["receive", "send", "flush"] {
        for wait in ["spin", "block"] {
            let mut nodes = Nodes::new(&format!("orphan-{how}-{wait}"), 8_192);
            let mut answers = nodes.rank(1, 7_001, "answers", &[]);
            answers.wait_for("answers", START_LIMIT);
            let mut orphan = nodes.rank(0, 7_001, "orphan", &[("PART_HOW", how), ("HIKYAKU_WAIT", wait)]);
            orphan.wait_for("waits", START_LIMIT);
            nodes.pollers[0].take().expect("it runs").kill();
            let output = finish(orphan);
            assert!(
                output.contains("error: ") && output.contains("the poller is gone"),
                "{output}"
            );
            // A new one takes the place of the dead one.
            let mut again = nodes.start_poller(0, "net_null0", 8_192);
            again.wait_for("serves", START_LIMIT);
            answers.kill();
        }
    }
}

#[test]
fn a_second_poller_is_refused() {
    let nodes = Nodes::new("second", 8_192);
    let output = finish(nodes.start_poller(0, "net_null0", 8_192));
    assert!(output.contains("error: another poller serves"), "{output}");
    let other = Nodes::without_pollers(Link::Memif(vec![NO_HUGE]), "second-other");
    let output = finish(other.start_poller(0, &nodes.device(0), 8_192));
    assert!(output.contains("error: another poller has the device"), "{output}");
    nodes.finish();
}

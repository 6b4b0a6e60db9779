//! Several veth pairs between the two namespaces: ports that leave by their interfaces, the choice among interfaces, and
//! streams of messages by all of them while one is cut.
//!
//! ```text
//!   namespace …-a                                     namespace …-b
//!   veth0  10.77.0.1/24  fd77::1/64  ───── mtu ─────  veth0  10.77.0.2/24  fd77::2/64
//!   veth1  10.78.0.1/24              ───── mtu ─────  veth1  10.78.0.2/24
//!   …
//! ```

use std::{env, io::IoSlice, net::SocketAddr, process::Command, time::Duration};

use hikyaku::{
    PeerId,
    backends::{
        Backend, BindOptions, Sent, Transmit,
        udp::{UdpBackend, UdpOptions},
    },
    internals::bootstrap::address::{Wish, choose, default_route, interfaces},
    reliability::Path,
    time::Instant,
    transport::{Event, Transport, WaitError},
};

use super::{
    PART_LIMIT, START_LIMIT, finish,
    netns::{self, Namespace, Process, Veth},
};

/// Port of every socket in these tests.
const PORT: u16 = 7_600;
/// Datagrams that each port sends.
const DATAGRAMS: u64 = 50;

/// The namespaces, and the number of pairs between them.
struct Wires {
    veth: Veth,
    rails: u8,
}

fn interface(rail: u8) -> String {
    format!("veth{rail}")
}

impl Wires {
    /// `rails` pairs with this MTU, each a network of its own. `None` as [`Veth::new`].
    fn new(rails: u8, mtu: u32) -> Option<Self> {
        let veth = Veth::new(mtu)?;
        let wires = Self { veth, rails };
        for rail in 1..rails {
            wires.veth.add_pair(&interface(rail), mtu);
            for end in wires.ends() {
                netns::ip(&format!(
                    "-n {} address add {}/24 dev {}",
                    end.name,
                    wires.address(end, rail),
                    interface(rail)
                ));
            }
        }
        Some(wires)
    }

    fn ends(&self) -> [&Namespace; 2] {
        [&self.veth.a, &self.veth.b]
    }

    fn address(&self, end: &Namespace, rail: u8) -> String {
        let host = if end.name == self.veth.a.name { 1 } else { 2 };
        format!("10.{}.0.{host}", 77 + rail)
    }

    /// The addresses of all rails with their port, as a part takes them.
    fn addresses(&self, end: &Namespace) -> String {
        let all = (0..self.rails).map(|rail| format!("{}:{PORT}", self.address(end, rail)));
        all.collect::<Vec<_>>().join(",")
    }
}

/// A counter of an interface.
fn counter(end: &Namespace, interface: &str, name: &str) -> u64 {
    let file = format!("/sys/class/net/{interface}/statistics/{name}");
    let text = end.exec("cat", &[&file], START_LIMIT);
    text.trim().parse().expect("a counter is a number")
}

fn sockets(name: &str) -> Vec<SocketAddr> {
    let all = env::var(name).unwrap();
    all.split(',').map(|address| address.parse().unwrap()).collect()
}

/// Plays a part of the tests here.
pub(super) fn play(role: &str) {
    match role {
        "rails-ports" => play_ports(),
        "rails-choice" => play_choice(),
        "rails-send" => play_send(),
        "rails-receive" => play_receive(),
        other => panic!("unknown part {other}"),
    }
}

/// Sends datagrams from each of its ports to one address each, and counts the answers.
fn play_ports() {
    let (own, to) = (sockets("RAILS_AT"), sockets("RAILS_TO"));
    let mut backend = UdpBackend::bind_ports(&own, &UdpOptions::default()).unwrap();
    let mut answers = vec![0; own.len()];
    for number in 0..DATAGRAMS {
        for (port, &destination) in (0..).zip(&to) {
            let data = number.to_be_bytes();
            let transmit = Transmit {
                destination,
                port,
                segment_size: data.len(),
                len: data.len(),
                slices: &[IoSlice::new(&data)],
                dont_fragment: true,
                token: 0,
            };
            assert_eq!(backend.transmit(Instant::ZERO, &transmit).unwrap(), Sent::All);
        }
        let wanted = (number as usize + 1) * own.len();
        while answers.iter().sum::<usize>() < wanted {
            backend.wait(Some(PART_LIMIT)).unwrap();
            for index in 0..backend.receive(Instant::ZERO, 8).unwrap() {
                let received = backend.received(index);
                assert_eq!(received.source, to[usize::from(received.port)]);
                answers[usize::from(received.port)] += 1;
            }
        }
    }
    println!("answers {answers:?}");
}

/// Chooses addresses as a rank of a job on several hosts does.
fn play_choice() {
    let begun = netns::now();
    let setting = env::var("RAILS_IFACE").ok();
    let wish = Wish {
        interface: setting.as_deref(),
        ..Wish::default()
    };
    let choice = choose(&wish, &interfaces(), default_route).unwrap();
    println!("after {} ms", begun.elapsed().as_millis());
    for chosen in &choice.chosen {
        println!("chosen {} {}", chosen.interface, chosen.address);
    }
    for (interface, why) in &choice.left_out {
        println!("not {interface}: {why}");
    }
}

fn echo(end: &Namespace, address: &str) -> Process {
    let mut echo = end.spawn_role("part", "echo", &[("NETNS_ADDRESS", address), ("NETNS_PORT", "7600")]);
    echo.wait_for("listens at ", START_LIMIT);
    echo
}

/// The routes know one interface for a network, and would send everything there.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn each_port_leaves_by_its_own_interface() {
    let Some(wires) = Wires::new(2, 1500) else { return };
    let [a, b] = wires.ends();
    // A second address for each end of the second pair, in the network of the first pair.
    for (end, host) in [(a, 3), (b, 4)] {
        netns::ip(&format!("-n {} address add 10.77.0.{host}/24 dev veth1", end.name));
    }
    // Each interface answers for its own address, so nothing comes there by way of the other one. (The echoes are plain
    // sockets, which answer as the routes say, so the other end must not be so strict.)
    b.exec("sysctl", &["-w", "net.ipv4.conf.all.arp_ignore=1"], START_LIMIT);
    let echoes = ["10.77.0.2", "10.77.0.4"].map(|address| echo(b, address));
    let before = ["veth0", "veth1"].map(|interface| counter(a, interface, "tx_packets"));
    let part = a.spawn_role(
        "part",
        "rails-ports",
        &[
            ("RAILS_AT", "10.77.0.1:7600,10.77.0.3:7600"),
            ("RAILS_TO", "10.77.0.2:7600,10.77.0.4:7600"),
        ],
    );
    finish(part);
    for (interface, before) in ["veth0", "veth1"].iter().zip(before) {
        let sent = counter(a, interface, "tx_packets") - before;
        // And some for its neighbours.
        assert!((DATAGRAMS..DATAGRAMS + 20).contains(&sent), "{interface}: {sent}");
    }
    drop(echoes);
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn ports_of_several_networks_carry_datagrams() {
    let Some(wires) = Wires::new(4, 9000) else { return };
    let [a, b] = wires.ends();
    let echoes: Vec<Process> = (0..4).map(|rail| echo(b, &wires.address(b, rail))).collect();
    let part = a.spawn_role(
        "part",
        "rails-ports",
        &[("RAILS_AT", &wires.addresses(a)), ("RAILS_TO", &wires.addresses(b))],
    );
    finish(part);
    drop(echoes);
}

/// Bridges of containers have addresses, and lead nowhere: the classic trap.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn twenty_bridges_are_left_out_and_cost_nothing() {
    let Some(wires) = Wires::new(2, 1500) else { return };
    let [a, _] = wires.ends();
    for number in 0..20 {
        netns::ip(&format!("-n {} link add docker{number} type bridge", a.name));
        netns::ip(&format!(
            "-n {} link add in{number} type veth peer name c{number}",
            a.name
        ));
        netns::ip(&format!("-n {} link set in{number} master docker{number} up", a.name));
        netns::ip(&format!("-n {} link set c{number} up", a.name));
        netns::ip(&format!(
            "-n {} address add 172.{}.0.1/16 dev docker{number}",
            a.name,
            17 + number
        ));
        netns::ip(&format!("-n {} link set docker{number} up", a.name));
    }
    let choice = |iface: &[(&str, &str)]| {
        let (status, output) = a.spawn_role("part", "rails-choice", iface).finish(PART_LIMIT);
        assert!(status.success(), "{output}");
        output
    };
    let said = choice(&[]);
    let chosen: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split_once("chosen "))
        .map(|(_, rest)| rest)
        .collect();
    assert_eq!(chosen, ["veth0 10.77.0.1", "veth1 10.78.0.1"], "{said}");
    assert_eq!(
        said.matches("a bridge without a device of this machine").count(),
        20,
        "{said}"
    );
    let ms: u64 = said
        .split_once("after ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
        .unwrap();
    assert!(Duration::from_millis(ms) < Duration::from_secs(1), "{ms} ms");
    let said = choice(&[("RAILS_IFACE", "veth1,docker3")]);
    assert!(
        said.contains("chosen veth1 10.78.0.1") && said.contains("chosen docker3 172.20.0.1"),
        "{said}"
    );
}

// ---- the whole stack

/// Bytes of a message of the stream.
const MESSAGE: usize = 1 << 20;
/// Messages under way at once.
const WINDOW: usize = 4;

/// A transport with a port at each of `RAILS_AT`, and a peer with the addresses `RAILS_TO`.
fn open(processor: u32) -> (Transport, PeerId) {
    let (own, to) = (sockets("RAILS_AT"), sockets("RAILS_TO"));
    let mut options = BindOptions::default();
    options.ports = own[1..].to_vec();
    let builder = Transport::builder().processor(processor).bind_options(options);
    let mut transport = builder.environment().bind_udp(own[0]).unwrap();
    let peer = transport.add_peer(to[0], 3 - processor).unwrap();
    for (port, &address) in (0..).zip(&to).skip(1) {
        transport.add_rail(peer, Path::new(address, port)).unwrap();
    }
    (transport, peer)
}

/// Sends `RAILS_COUNT` messages, and says what happens to rails.
fn play_send() {
    let (mut transport, peer) = open(1);
    let count: u64 = env::var("RAILS_COUNT").unwrap().parse().unwrap();
    let (mut sent, mut acknowledged) = (0, 0);
    println!("sends");
    while acknowledged < count {
        while sent < count && sent < acknowledged + WINDOW as u64 {
            transport.send_bytes(peer, message(sent).into()).unwrap();
            sent += 1;
        }
        match transport.wait_event(Some(PART_LIMIT)).unwrap() {
            Event::Sent { .. } => acknowledged += 1,
            Event::RailUp { rail, .. } => println!("rail {rail} is up after {acknowledged}"),
            Event::RailDown { rail, .. } => println!("rail {rail} is down after {acknowledged}"),
            Event::PeerDown { error, .. } => panic!("the peer is lost: {error}"),
            _ => {}
        }
    }
    transport.close(Some(PART_LIMIT)).unwrap();
}

/// Receives them, each once and in its order.
fn play_receive() {
    let (mut transport, _) = open(2);
    let count: u64 = env::var("RAILS_COUNT").unwrap().parse().unwrap();
    println!("listens");
    for number in 0..count {
        let data = transport.receive(Some(PART_LIMIT)).unwrap().into_vec();
        assert!(data == message(number), "message {number} is another one");
        if number % 8 == 7 {
            println!("got {}", number + 1);
        }
    }
    transport.flush(Some(PART_LIMIT)).unwrap();
    // Nothing comes twice.
    assert!(matches!(
        transport.receive(Some(Duration::from_millis(200))),
        Err(WaitError::TimedOut(_))
    ));
    transport.close(Some(PART_LIMIT)).unwrap();
    println!("got all");
}

/// The content of a message: different at each place of each message.
fn message(number: u64) -> Vec<u8> {
    let word = |at: u64| (number << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0..MESSAGE as u64 / 8).flat_map(word).collect()
}

impl Wires {
    /// All pairs carry this many Mbit/s in each direction.
    fn shape(&self, mbit: u32) {
        for end in self.ends() {
            for rail in 0..self.rails {
                let shape = format!("root tbf rate {mbit}mbit burst 256kb limit 16mb");
                let line = format!("-n {} qdisc add dev {} {shape}", end.name, interface(rail));
                let status = Command::new("tc").args(line.split_whitespace()).status();
                assert!(status.unwrap().success(), "tc {line}");
            }
        }
    }

    /// Starts a stream of `count` messages from `a` to `b`.
    fn stream(&self, count: u64) -> [Process; 2] {
        let [a, b] = self.ends();
        let count = count.to_string();
        let start = |end: &Namespace, other: &Namespace, role: &str| {
            let envs = [
                ("RAILS_AT", &*self.addresses(end)),
                ("RAILS_TO", &*self.addresses(other)),
                ("RAILS_COUNT", &*count),
            ];
            end.spawn_role("part", role, &envs)
        };
        let mut receiver = start(b, a, "rails-receive");
        receiver.wait_for("listens", START_LIMIT);
        [start(a, b, "rails-send"), receiver]
    }
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn all_rails_carry_a_stream() {
    let Some(wires) = Wires::new(3, 9000) else { return };
    wires.shape(400);
    let count = 96;
    let [sender, receiver] = wires.stream(count);
    finish(sender);
    finish(receiver);
    let [a, _] = wires.ends();
    let all: Vec<u64> = (0..3).map(|rail| counter(a, &interface(rail), "tx_bytes")).collect();
    let sum: u64 = all.iter().sum();
    // A third each, but for the first messages, before rails are proven.
    assert!(all.iter().all(|bytes| bytes * 5 > sum), "{all:?}");
    assert!(sum < count * MESSAGE as u64 * 11 / 10, "{all:?}");
}

/// `cut` and `mend` a rail of a stream; it goes on, and the rail comes back.
fn is_survived(wires: &Wires, cut: impl FnOnce(), mend: impl FnOnce()) {
    let [mut sender, mut receiver] = wires.stream(160);
    sender.wait_for("rail 1 is up", START_LIMIT);
    receiver.wait_for("got 16", PART_LIMIT);
    cut();
    sender.wait_for("rail 1 is down", PART_LIMIT);
    mend();
    sender.wait_for("rail 1 is up", PART_LIMIT);
    receiver.wait_for("got all", PART_LIMIT);
    finish(sender);
    finish(receiver);
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_stream_survives_a_link_that_goes_down() {
    for end in [0, 1] {
        let Some(wires) = Wires::new(2, 9000) else { return };
        wires.shape(200);
        let name = &wires.ends()[end].name;
        let set = |state: &str| netns::ip(&format!("-n {name} link set veth1 {state}"));
        is_survived(&wires, || set("down"), || set("up"));
    }
}

/// Data is lost on one way of a rail, or acknowledgements on the other.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_stream_survives_the_loss_of_one_direction() {
    for end in [0, 1] {
        let Some(wires) = Wires::new(2, 9000) else { return };
        wires.shape(200);
        let end = wires.ends()[end];
        is_survived(&wires, || end.loss_on("veth1", 100), || end.loss_on("veth1", 0));
    }
}

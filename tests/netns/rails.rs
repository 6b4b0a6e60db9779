//! Several veth pairs between the two namespaces: ports that leave by their interfaces, the choice among interfaces, and
//! streams of messages by all of them while one is cut.
//!
//! ```text
//!   namespace …-a                                     namespace …-b
//!   veth0  10.77.0.1/24  fd77::1/64  ───── mtu ─────  veth0  10.77.0.2/24  fd77::2/64
//!   veth1  10.78.0.1/24              ───── mtu ─────  veth1  10.78.0.2/24
//!   …
//! ```

use std::{env, io::IoSlice, net::SocketAddr, ops::Range, process::Command, time::Duration};

use hikyaku::{
    PeerError, PeerId,
    backends::{
        Backend, BindOptions, Sent, Transmit,
        udp::{UdpBackend, UdpOptions},
    },
    internals::bootstrap::address::{Wish, choose, default_route, interfaces},
    reliability::{Path, RailState},
    time::Instant,
    transport::{Event, Transport, WaitError},
};

use super::{
    PART_LIMIT, START_LIMIT, finish,
    netns::{self, Namespace, Process, Veth},
};

/// Port of every socket in these tests.
pub(super) const PORT: u16 = 7_600;
/// Datagrams that each port sends.
const DATAGRAMS: u64 = 50;

/// The namespaces, and the number of pairs between them.
pub(super) struct Wires {
    veth: Veth,
    rails: u8,
}

fn interface(rail: u8) -> String {
    format!("veth{rail}")
}

impl Wires {
    /// `rails` pairs with this MTU, each a network of its own. `None` as [`Veth::new`].
    pub(super) fn new(rails: u8, mtu: u32) -> Option<Self> {
        Self::before(rails, mtu, |_| {})
    }

    /// The same; each end is prepared before it gets its interfaces.
    pub(super) fn before(rails: u8, mtu: u32, prepare: impl Fn(&Namespace)) -> Option<Self> {
        let veth = Veth::prepared(mtu, prepare)?;
        let wires = Self { veth, rails };
        for rail in 1..rails {
            let name = interface(rail);
            netns::join(wires.ends().map(|end| (end, &*name)), [mtu; 2]);
        }
        for end in wires.ends() {
            let line = |rail| format!("address add {}/24 dev {}\n", wires.address(end, rail), interface(rail));
            netns::ip_batch(&end.name, &(1..rails).map(line).collect::<String>());
        }
        for end in wires.ends() {
            (1..rails).for_each(|rail| end.wait_until_up(&interface(rail)));
        }
        Some(wires)
    }

    pub(super) fn ends(&self) -> [&Namespace; 2] {
        [&self.veth.a, &self.veth.b]
    }

    pub(super) fn address(&self, end: &Namespace, rail: u8) -> String {
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
pub(super) fn counter(end: &Namespace, interface: &str, name: &str) -> u64 {
    let file = format!("/sys/class/net/{interface}/statistics/{name}");
    let text = end.exec("cat", &[&file], START_LIMIT);
    text.trim().parse().expect("a counter is a number")
}

pub(super) fn sockets(name: &str) -> Vec<SocketAddr> {
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
        "rails-send-again" => play_send_again(),
        "rails-receive-again" => play_receive_again(),
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
    let setting = env::var("RAILS_IFACE").ok();
    let wish = Wish {
        interface: setting.as_deref(),
        ..Wish::default()
    };
    let choice = choose(&wish, &interfaces(), default_route).unwrap();
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

/// The interfaces that a rank of a job on several hosts chooses there, and the whole output.
pub(super) fn choice(end: &Namespace, iface: Option<&str>) -> (Vec<String>, String) {
    let envs = iface.map(|iface| ("RAILS_IFACE", iface));
    let (status, said) = end
        .spawn_role("part", "rails-choice", envs.as_slice())
        .finish(PART_LIMIT);
    assert!(status.success(), "{said}");
    let chosen = said.lines().filter_map(|line| line.split_once("chosen "));
    (chosen.map(|(_, rest)| rest.to_owned()).collect(), said)
}

/// Interfaces that are parts of others, and those that lead nowhere.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn bonds_count_once_and_bridges_only_if_they_are_named() {
    let Some(wires) = Wires::new(3, 1500) else { return };
    let [a, _] = wires.ends();
    netns::ip_batch(
        &a.name,
        "link add docker0 type bridge\nlink add in0 master docker0 type veth peer name c0\nlink set in0 up\n\
         link set c0 up\nlink set docker0 up\naddress add 172.20.0.1/16 dev docker0\n\
         address add 10.99.0.1/24 dev veth0 label veth0:1\n",
    );
    let (chosen, said) = choice(a, None);
    assert_eq!(
        chosen,
        ["veth0 10.77.0.1", "veth1 10.78.0.1", "veth2 10.79.0.1", "veth0 fd77::1"]
    );
    assert!(
        said.contains("not docker0: a bridge without a device of this machine"),
        "{said}"
    );
    assert!(
        said.contains("not veth0:1: another one uses the device veth0"),
        "{said}"
    );
    let (chosen, _) = choice(a, Some("veth1,docker0,veth0:1"));
    assert_eq!(chosen, ["veth1 10.78.0.1", "docker0 172.20.0.1", "veth0:1 10.99.0.1"]);
    // Members keep their addresses, which is a mistake that people make.
    let bond = format!("-n {} link add bond0 type bond", a.name);
    if !Command::new("ip")
        .args(bond.split_whitespace())
        .output()
        .unwrap()
        .status
        .success()
    {
        println!("skipped: this kernel has no bonds");
        return;
    }
    netns::ip_batch(
        &a.name,
        "link set veth1 down\nlink set veth2 down\nlink set veth1 master bond0\nlink set veth2 master bond0\n\
         link set bond0 up\naddress add 10.90.0.1/24 dev bond0\n",
    );
    a.wait_until_up("bond0");
    let (chosen, said) = choice(a, None);
    assert_eq!(
        chosen,
        ["veth0 10.77.0.1", "bond0 10.90.0.1", "veth0 fd77::1"],
        "{said}"
    );
}

// ---- the whole stack

/// Bytes of a message of the stream.
pub(super) const MESSAGE: usize = 1 << 20;
/// Messages under way at once.
const WINDOW: usize = 4;

/// Of the process that receives.
pub(super) const RECEIVER: u32 = 100;

/// A transport with a port at each of `RAILS_AT`.
fn open(processor: u32) -> Transport {
    let own = sockets("RAILS_AT");
    let mut options = BindOptions::default();
    options.ports = own[1..].to_vec();
    let builder = Transport::builder().processor(processor).bind_options(options);
    builder.environment().bind_udp(own[0]).unwrap()
}

/// Adds the peer that has the addresses in the variable `name`; with `RAILS_CROSSED`, each port may reach each of them.
fn add(transport: &mut Transport, processor: u32, name: &str) -> PeerId {
    let to = sockets(name);
    let peer = transport.add_peer(to[0], processor).unwrap();
    for (port, &address) in (0..).zip(&to).skip(1) {
        transport.add_rail(peer, Path::new(address, port)).unwrap();
    }
    if env::var("RAILS_CROSSED").is_ok() {
        for port in 0..to.len() {
            for (_, &address) in to.iter().enumerate().filter(|(at, _)| *at != port) {
                transport.add_rail(peer, Path::new(address, port as u8)).unwrap();
            }
        }
    }
    peer
}

/// Says how it stands with all rails to a peer.
fn print_rails(transport: &Transport, peer: PeerId, processor: u32) {
    for (rail, stats) in (0..).map_while(|rail| Some((rail, transport.rail_stats(peer, rail)?))) {
        let (state, most, bytes) = (stats.state, stats.max_datagram, stats.bytes_sent);
        println!("of {processor} rail {rail}: {state:?} {most} {bytes}");
    }
}

/// Sends these messages, as many at once as the window says, and says what happens to rails. An error: the peer is lost.
fn send_all(transport: &mut Transport, peer: PeerId, numbers: Range<u64>) -> Result<(), PeerError> {
    let (mut next, mut acknowledged) = (numbers.start, 0);
    while numbers.start + acknowledged < numbers.end {
        while next < numbers.end && next < numbers.start + acknowledged + WINDOW as u64 {
            transport.send_bytes(peer, message(next).into()).unwrap();
            next += 1;
        }
        match transport.wait_event(Some(PART_LIMIT)).unwrap() {
            Event::Sent { .. } => acknowledged += 1,
            Event::RailUp { rail, .. } => println!("rail {rail} is up after {acknowledged}"),
            Event::RailDown { rail, .. } => println!("rail {rail} is down after {acknowledged}"),
            Event::PeerDown { error, .. } => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// `RAILS_COUNT`.
fn count() -> u64 {
    env::var("RAILS_COUNT").unwrap().parse().unwrap()
}

/// Sends `RAILS_COUNT` messages. With `RAILS_STAY`, until the receiver's second rail to its first peer is up, too; with
/// `RAILS_FIRST`, from that number on.
fn play_send() {
    let own = env::var("RAILS_PROCESSOR").map_or(1, |number| number.parse().unwrap());
    let mut transport = open(own);
    let peer = add(&mut transport, RECEIVER, "RAILS_TO");
    println!("sends");
    let first = first();
    let sent = send_all(&mut transport, peer, first..first + count());
    sent.unwrap_or_else(|error| panic!("the peer is lost: {error}"));
    if env::var("RAILS_STAY").is_ok() {
        assert!(transport.receive(Some(PART_LIMIT)).unwrap().data().is_empty());
    }
    print_rails(&transport, peer, RECEIVER);
    transport.close(Some(PART_LIMIT)).unwrap();
}

/// `RAILS_FIRST`: number of the first message.
fn first() -> u64 {
    env::var("RAILS_FIRST").map_or(0, |number| number.parse().unwrap())
}

/// Sends until the receiver is lost, and then `RAILS_COUNT` messages to the process in its place.
fn play_send_again() {
    let mut transport = open(1);
    let peer = add(&mut transport, RECEIVER, "RAILS_TO");
    let error = send_all(&mut transport, peer, first()..u64::MAX).unwrap_err();
    println!("lost: {error}");
    print_rails(&transport, peer, RECEIVER);
    // What was lost with it.
    while let Some(event) = transport.next_event() {
        assert!(!matches!(event, Event::PeerDown { .. }), "{event:?}");
    }
    transport.reconnect(peer);
    println!("again");
    send_all(&mut transport, peer, 0..count()).unwrap();
    print_rails(&transport, peer, RECEIVER);
    transport.close(Some(PART_LIMIT)).unwrap();
}

/// Receives what a sender sends until it is lost, and then `RAILS_COUNT` messages of the process in its place.
fn play_receive_again() {
    let mut transport = open(RECEIVER);
    let peer = add(&mut transport, 1, "RAILS_TO");
    println!("listens");
    let (mut old, mut new, mut lost) = (first(), 0, None);
    while new < count() {
        let data = transport.receive(Some(PART_LIMIT)).unwrap().into_vec();
        while let Some(event) = transport.next_event() {
            if let Event::PeerDown { error, .. } = event {
                assert_eq!(lost, None, "{error:?}");
                println!("lost: {error} after {old}");
                lost = Some(error);
            }
        }
        if new == 0 && data == message(old) {
            old += 1;
            println!("got {old}");
        } else {
            assert!(lost.is_some() && data == message(new), "message {new} is another one");
            new += 1;
        }
    }
    transport.flush(Some(PART_LIMIT)).unwrap();
    print_rails(&transport, peer, 1);
    transport.close(Some(PART_LIMIT)).unwrap();
    println!("got all");
}

/// Receives those of one sender, or of the two at `RAILS_TO` and `RAILS_TO_OTHER`: each once and in its order.
fn play_receive() {
    let mut transport = open(RECEIVER);
    let mut peers = vec![add(&mut transport, 1, "RAILS_TO")];
    if env::var("RAILS_TO_OTHER").is_ok() {
        peers.push(add(&mut transport, 2, "RAILS_TO_OTHER"));
    }
    let count = count();
    let mut next = vec![first(); peers.len()];
    println!("listens");
    for total in 1..=count * peers.len() as u64 {
        let received = transport.receive(Some(PART_LIMIT)).unwrap();
        let from = peers.iter().position(|&peer| peer == received.peer()).unwrap();
        let data = received.into_vec();
        assert!(data == message(next[from]), "message {} is another one", next[from]);
        next[from] += 1;
        if total % 8 == 0 {
            println!("got {total}");
        }
    }
    transport.flush(Some(PART_LIMIT)).unwrap();
    if env::var("RAILS_STAY").is_ok() {
        let is_up = |transport: &Transport| transport.rail_stats(peers[0], 1).unwrap().state == RailState::Up;
        while !is_up(&transport) {
            transport.wait_event(Some(PART_LIMIT)).unwrap();
        }
        for &peer in &peers {
            transport.send(peer, &[]).unwrap();
        }
    }
    for (processor, &peer) in (1..).zip(&peers) {
        print_rails(&transport, peer, processor);
    }
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

/// An interface sends this many Mbit/s.
pub(super) fn shape(end: &Namespace, interface: &str, mbit: u32) {
    let shape = format!("root tbf rate {mbit}mbit burst 256kb limit 16mb");
    let line = format!("-n {} qdisc add dev {interface} {shape}", end.name);
    let status = Command::new("tc").args(line.split_whitespace()).status();
    assert!(status.unwrap().success(), "tc {line}");
}

/// Starts a stream of `count` messages from `a` to `b`, which have these addresses.
pub(super) fn stream_between([a, b]: [&Namespace; 2], addresses: [&str; 2], count: u64) -> [Process; 2] {
    let [at_a, at_b] = addresses;
    let mut receiver = stream_part(b, "rails-receive", [at_b, at_a], count, &[]);
    receiver.wait_for("listens", START_LIMIT);
    [stream_part(a, "rails-send", [at_a, at_b], count, &[]), receiver]
}

impl Wires {
    /// All pairs carry this many Mbit/s in each direction.
    pub(super) fn shape(&self, mbit: u32) {
        (0..self.rails).for_each(|rail| self.shape_one(rail, mbit));
    }

    fn shape_one(&self, rail: u8, mbit: u32) {
        self.ends().iter().for_each(|end| shape(end, &interface(rail), mbit));
    }

    /// Starts a stream of `count` messages from `a` to `b`.
    fn stream(&self, count: u64) -> [Process; 2] {
        let [a, b] = self.ends();
        stream_between([a, b], [&self.addresses(a), &self.addresses(b)], count)
    }
}

/// Starts a part in a stream at the first addresses; the other one is at the second ones.
pub(super) fn stream_part(
    end: &Namespace,
    role: &str,
    addresses: [&str; 2],
    count: u64,
    more: &[(&str, &str)],
) -> Process {
    let count = count.to_string();
    let envs = [
        ("RAILS_AT", addresses[0]),
        ("RAILS_TO", addresses[1]),
        ("RAILS_COUNT", &*count),
    ];
    end.spawn_role("part", role, &[&envs, more].concat())
}

/// The state of a rail as [`print_rails`] says it, the largest datagram, and the bytes sent.
pub(super) fn rail(said: &str, of: u32, rail: u8) -> (String, usize, u64) {
    let line = said.split_once(&format!("of {of} rail {rail}: ")).expect(said).1;
    let mut words = line.split_whitespace();
    let mut word = || words.next().expect(said);
    (word().to_owned(), word().parse().unwrap(), word().parse().unwrap())
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

/// Rails with IPv4 and IPv6, two interfaces in one network, a rail that works in one direction only, and one whose middle
/// takes smaller datagrams than its ends and says nothing. On the slowest, a datagram takes milliseconds.
#[test]
#[ignore = "needs root, iproute2, nftables and ethtool: cargo xtask ci"]
fn rails_of_all_kinds_carry_one_stream() {
    let Some(wires) = Wires::new(5, 9000) else { return };
    let [a, b] = wires.ends();
    for (end, host) in [(a, 1), (b, 2)] {
        netns::ip_batch(
            &end.name,
            &format!(
                "address add fd78::{host}/64 dev veth1 nodad\naddress add 10.77.0.{}/24 dev veth2\n",
                host + 2
            ),
        );
        end.exec("sysctl", &["-w", "net.ipv4.conf.all.arp_ignore=1"], START_LIMIT);
        end.split_bursts_on("veth4");
        end.filter("iifname veth4 meta length > 1500 drop");
    }
    b.filter("iifname veth3 meta l4proto udp drop");
    for (number, mbit) in (0..).zip([300, 200, 20, 100, 100]) {
        wires.shape_one(number, mbit);
    }
    let addresses = [1, 2].map(|host| {
        let all = [
            format!("10.77.0.{host}"),
            format!("[fd78::{host}]"),
            format!("10.77.0.{}", host + 2),
            format!("10.80.0.{host}"),
            format!("10.81.0.{host}"),
        ];
        all.map(|address| format!("{address}:{PORT}")).join(",")
    });
    // So many that each rail finds its MTU meanwhile.
    let [sender, receiver] = stream_between([a, b], [&addresses[0], &addresses[1]], 256);
    let said = finish(sender);
    finish(receiver);
    println!("{said}");
    let all: Vec<_> = (0..5).map(|number| rail(&said, RECEIVER, number)).collect();
    for (number, largest) in [(0, 8_972), (1, 8_952), (2, 8_972), (4, 1_472)] {
        let (state, most, bytes) = &all[number];
        assert_eq!((&**state, *most), ("Up", largest), "{said}");
        assert!(*bytes > 1 << 20, "{said}");
    }
    assert_eq!((&*all[3].0, all[3].2), ("Unproven", 0), "{said}");
}

/// Two hosts have the same private address, behind routers that translate it. The receiver thinks that both are there, and
/// finds one of them.
#[test]
#[ignore = "needs root, iproute2 and nftables: cargo xtask ci"]
fn an_address_that_two_hosts_have_stands_for_the_right_one() {
    let Some([a, b, c, first, second]) = netns::namespaces(["a", "b", "c", "n", "m"]) else {
        return;
    };
    // The receiver's two networks: one has the hosts themselves, the other their routers.
    netns::ip_batch(
        &c.name,
        "link add lan type bridge\nlink set lan up\naddress add 10.77.0.9/24 dev lan\n\
         link add wan type bridge\nlink set wan up\naddress add 10.90.0.9/24 dev wan\n",
    );
    for (host, router, number) in [(&a, &first, 1), (&b, &second, 2)] {
        let (lan, wan) = (format!("lan{number}"), format!("wan{number}"));
        netns::join([(host, "direct"), (&c, &lan)], [1500; 2]);
        netns::join([(host, "inner"), (router, "inner")], [1500; 2]);
        netns::join([(router, "outer"), (&c, &wan)], [1500; 2]);
        netns::ip_batch(
            &c.name,
            &format!("link set {lan} master lan\nlink set {wan} master wan\n"),
        );
        netns::ip_batch(
            &host.name,
            &format!(
                "address add 10.77.0.{number}/24 dev direct\naddress add 192.168.5.2/24 dev inner\n\
                 route add default via 192.168.5.1\n"
            ),
        );
        netns::ip_batch(
            &router.name,
            &format!("address add 192.168.5.1/24 dev inner\naddress add 10.90.0.{number}/24 dev outer\n"),
        );
        router.forwards();
        router.nft(
            "add table ip nat\nadd chain ip nat out { type nat hook postrouting priority 100; }\n\
             add rule ip nat out oifname outer masquerade\n",
        );
    }
    netns::ip(&format!("-n {} route add 192.168.5.0/24 via 10.90.0.1", c.name));
    let at = |addresses: [&str; 2]| addresses.map(|address| format!("{address}:{PORT}")).join(",");
    let (at_a, at_b) = (at(["10.77.0.1", "192.168.5.2"]), at(["10.77.0.2", "192.168.5.2"]));
    let own = at(["10.77.0.9", "10.90.0.9"]);
    let more = [("RAILS_TO_OTHER", &*at_b), ("RAILS_STAY", "1")];
    let mut receiver = stream_part(&c, "rails-receive", [&own, &at_a], 24, &more);
    receiver.wait_for("listens", START_LIMIT);
    let from_a = stream_part(&a, "rails-send", [&at_a, &own], 24, &[("RAILS_STAY", "1")]);
    let from_b = stream_part(
        &b,
        "rails-send",
        [&at_b, &own],
        24,
        &[("RAILS_STAY", "1"), ("RAILS_PROCESSOR", "2")],
    );
    for sender in [from_a, from_b] {
        let said = finish(sender);
        let (state, _, bytes) = rail(&said, RECEIVER, 1);
        assert!(state == "Up" && bytes > 1 << 20, "{said}");
    }
    let said = finish(receiver);
    assert_eq!(
        (&*rail(&said, 1, 1).0, &*rail(&said, 2, 1).0),
        ("Up", "Unproven"),
        "{said}"
    );
}

/// `cut` and `mend` one of two rails of a stream; it goes on, and the rail comes back.
fn is_survived(wires: &Wires, rail: usize, cut: impl FnOnce(), mend: impl FnOnce()) {
    let [mut sender, mut receiver] = wires.stream(160);
    sender.wait_for("rail 1 is up", START_LIMIT);
    receiver.wait_for("got 16", PART_LIMIT);
    cut();
    sender.wait_for(&format!("rail {rail} is down"), PART_LIMIT);
    mend();
    sender.wait_for(&format!("rail {rail} is up"), PART_LIMIT);
    receiver.wait_for("got all", PART_LIMIT);
    finish(sender);
    finish(receiver);
}

/// Either rail, at either end. (The first port's socket is not bound to its interface.)
const CUTS: [(usize, usize); 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_stream_survives_a_link_that_goes_down() {
    for (rail, end) in CUTS {
        let Some(wires) = Wires::new(2, 9000) else { return };
        wires.shape(400);
        let name = &wires.ends()[end].name;
        let set = |state: &str| netns::ip(&format!("-n {name} link set veth{rail} {state}"));
        is_survived(&wires, rail, || set("down"), || set("up"));
    }
}

/// Data is lost on one way of a rail, or acknowledgements on the other.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_stream_survives_the_loss_of_one_direction() {
    for (rail, end) in CUTS {
        let Some(wires) = Wires::new(2, 9000) else { return };
        wires.shape(400);
        let (end, device) = (wires.ends()[end], format!("veth{rail}"));
        is_survived(&wires, rail, || end.loss_on(&device, 100), || end.loss_on(&device, 0));
    }
}

/// Numbers of messages of the old session begin here.
const OLD: &str = "1000000";
/// More messages than are received.
const ENDLESS: u64 = 1 << 20;

/// Three rails, of which packets wait on the last for long.
fn uneven() -> Option<Wires> {
    let wires = Wires::new(3, 9000)?;
    for (rail, mbit) in [(0, 400), (1, 200), (2, 20)] {
        wires.shape_one(rail, mbit);
    }
    Some(wires)
}

/// The loss of the old session is reported, and why, as it is with one path.
fn says_why(said: &str) -> bool {
    let known = [PeerError::Reset, PeerError::Restarted, PeerError::Refused];
    known.iter().any(|error| said.contains(&format!("lost: {error}")))
}

/// All rails have come up again, and have carried.
fn are_used_again(said: &str, of: u32, before: &str) {
    for number in 0..3 {
        let (state, _, bytes) = rail(said, of, number);
        let (_, _, others) = rail(before, of, number);
        assert!(state == "Up" && bytes > others + (100 << 10), "rail {number}: {said}");
    }
}

/// The receiver is killed while messages are under way on all rails, and another process takes its place.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_receiver_that_is_killed_in_mid_stripe_begins_anew() {
    let Some(wires) = uneven() else { return };
    let [a, b] = wires.ends();
    let [at_a, at_b] = [a, b].map(|end| wires.addresses(end));
    let old = [("RAILS_FIRST", OLD)];
    let mut receiver = stream_part(b, "rails-receive", [&at_b, &at_a], ENDLESS, &old);
    receiver.wait_for("listens", START_LIMIT);
    let count = 160;
    let mut sender = stream_part(a, "rails-send-again", [&at_a, &at_b], count, &old);
    receiver.wait_for("got 64", PART_LIMIT);
    receiver.kill();
    let receiver = stream_part(b, "rails-receive", [&at_b, &at_a], count, &[]);
    sender.wait_for("lost: ", PART_LIMIT);
    let said = finish(sender);
    let (before, after) = said.split_once("again\n").expect(&said);
    assert!(says_why(before), "{said}");
    are_used_again(after, RECEIVER, before);
    finish(receiver);
}

/// The same of the sender.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_sender_that_is_killed_in_mid_stripe_begins_anew() {
    let Some(wires) = uneven() else { return };
    let [a, b] = wires.ends();
    let [at_a, at_b] = [a, b].map(|end| wires.addresses(end));
    let old = [("RAILS_FIRST", OLD)];
    let count = 160;
    let mut receiver = stream_part(b, "rails-receive-again", [&at_b, &at_a], count, &old);
    receiver.wait_for("listens", START_LIMIT);
    let sender = stream_part(a, "rails-send", [&at_a, &at_b], ENDLESS, &old);
    receiver.wait_for("got 1000064", PART_LIMIT);
    sender.kill();
    let sender = stream_part(a, "rails-send", [&at_a, &at_b], count, &[]);
    let said = finish(sender);
    are_used_again(
        &said,
        RECEIVER,
        "of 100 rail 0: Up 0 0\nof 100 rail 1: Up 0 0\nof 100 rail 2: Up 0 0\n",
    );
    let said = finish(receiver);
    assert!(says_why(&said), "{said}");
    (0..3).for_each(|number| assert_eq!(rail(&said, 1, number).0, "Up", "{said}"));
}

/// An address goes, and its interface with it, and both come back.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_stream_survives_an_address_and_an_interface_that_vanish() {
    for end in [0, 1] {
        let Some(wires) = Wires::new(2, 9000) else { return };
        wires.shape(400);
        let [a, b] = wires.ends();
        let end = wires.ends()[end];
        let address = wires.address(end, 1);
        let set = |what: &str| netns::ip(&format!("-n {} address {what} {address}/24 dev veth1", end.name));
        is_survived(&wires, 1, || set("del"), || set("add"));
        let delete = || netns::ip(&format!("-n {} link del veth1", end.name));
        let again = || {
            netns::join([(a, "veth1"), (b, "veth1")], [9000; 2]);
            for end in [a, b] {
                let address = wires.address(end, 1);
                netns::ip(&format!("-n {} address add {address}/24 dev veth1", end.name));
            }
        };
        is_survived(&wires, 1, delete, again);
    }
}

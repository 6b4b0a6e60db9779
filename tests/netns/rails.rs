//! Several veth pairs between the two namespaces: ports that leave by their interfaces, and the choice among interfaces.
//!
//! ```text
//!   namespace …-a                                     namespace …-b
//!   veth0  10.77.0.1/24  fd77::1/64  ───── mtu ─────  veth0  10.77.0.2/24  fd77::2/64
//!   veth1  10.78.0.1/24              ───── mtu ─────  veth1  10.78.0.2/24
//!   …
//! ```

use std::{env, io::IoSlice, net::SocketAddr, time::Duration};

use hikyaku::{
    backends::{
        Backend, Sent, Transmit,
        udp::{UdpBackend, UdpOptions},
    },
    internals::bootstrap::address::{Wish, choose, default_route, interfaces},
    time::Instant,
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

/// Packets that an interface has sent.
fn sent_by(end: &Namespace, interface: &str) -> u64 {
    let file = format!("/sys/class/net/{interface}/statistics/tx_packets");
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
    let before = ["veth0", "veth1"].map(|interface| sent_by(a, interface));
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
        let sent = sent_by(a, interface) - before;
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

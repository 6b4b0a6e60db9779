//! Network namespaces with several Ethernets between them, each with a rate. Two have a veth pair for each; more have one
//! bridge for each, in a namespace of its own.

use std::{net::SocketAddr, path::Path, process::Command};

use crate::{failure::Failure, machine::iproute};

/// Port of all sockets.
const PORT: u16 = 7_000;

/// Nodes of a grid.
pub(super) const NODES: usize = 8;

/// Removes what it has made when it is dropped.
pub(super) struct Namespaces {
    name: String,
    nodes: usize,
}

/// The address of a node on a rail.
pub(super) fn address_of(node: usize, rail: usize) -> SocketAddr {
    SocketAddr::from(([10, 96 + rail as u8, 0, 1 + node as u8], PORT))
}

pub(super) fn configure(program: &str, words: &str) -> Result<(), Failure> {
    iproute::configure("rails", program, words)
}

/// An interface has a rate, and is up.
fn begin(namespace: &str, interface: &str, rate: u32) -> Result<(), Failure> {
    configure("ip", &format!("-n {namespace} link set {interface} up"))?;
    // More than a socket's buffer holds: a full queue is then waited for, as with a card, and loses nothing.
    let shape = format!("rate {rate}mbit burst 256kb limit 32mb");
    configure(
        "tc",
        &format!("-n {namespace} qdisc add dev {interface} root tbf {shape}"),
    )
}

impl Namespaces {
    /// A rail for each of `rates`, Mbit/s.
    pub(super) fn new(nodes: usize, rates: &[u32], mtu: u32) -> Result<Self, Failure> {
        let namespaces = Self {
            name: format!("hikyaku-{}", std::process::id()),
            nodes,
        };
        for name in namespaces.all() {
            configure("ip", &format!("netns add {name}"))?;
            configure("ip", &format!("-n {name} link set lo up"))?;
        }
        for (rail, rate) in rates.iter().enumerate() {
            if nodes == 2 {
                namespaces.wire(rail, *rate, mtu)?;
            } else {
                namespaces.switch(rail, *rate, mtu)?;
            }
            for node in 0..nodes {
                let (name, address) = (namespaces.of(node), address_of(node, rail).ip());
                configure("ip", &format!("-n {name} address add {address}/24 dev eth{rail}"))?;
            }
        }
        Ok(namespaces)
    }

    fn wire(&self, rail: usize, rate: u32, mtu: u32) -> Result<(), Failure> {
        let [a, b] = [0, 1].map(|end| self.of(end));
        let ends = format!("eth{rail} mtu {mtu} netns {a} type veth peer name eth{rail} mtu {mtu} netns {b}");
        configure("ip", &format!("link add {ends}"))?;
        begin(&a, &format!("eth{rail}"), rate)?;
        begin(&b, &format!("eth{rail}"), rate)
    }

    fn switch(&self, rail: usize, rate: u32, mtu: u32) -> Result<(), Failure> {
        let switch = self.of(self.nodes);
        configure("ip", &format!("-n {switch} link add br{rail} mtu {mtu} type bridge"))?;
        configure("ip", &format!("-n {switch} link set br{rail} up"))?;
        for node in 0..self.nodes {
            let (name, port) = (self.of(node), format!("p{rail}-{node}"));
            let ends = format!("eth{rail} mtu {mtu} netns {name} type veth peer name {port} mtu {mtu} netns {switch}");
            configure("ip", &format!("link add {ends}"))?;
            configure("ip", &format!("-n {switch} link set {port} master br{rail}"))?;
            begin(&name, &format!("eth{rail}"), rate)?;
            begin(&switch, &port, rate)?;
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = String> {
        let switches = usize::from(self.nodes > 2);
        (0..self.nodes + switches).map(|node| self.of(node))
    }

    /// The name of a node's.
    pub(super) fn of(&self, node: usize) -> String {
        format!("{}-{node}", self.name)
    }

    /// A program in the namespace of an end.
    pub(super) fn command(&self, end: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.of(end)]).arg(program);
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in self.all() {
            let _ = configure("ip", &format!("netns del {name}"));
        }
    }
}

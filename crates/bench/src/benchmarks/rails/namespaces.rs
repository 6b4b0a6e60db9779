//! Two network namespaces with several veth pairs between them, each with a rate.

use std::{net::SocketAddr, path::Path, process::Command};

use crate::{failure::Failure, machine::iproute};

/// Port of all sockets.
const PORT: u16 = 7_000;

/// Removes what it has made when it is dropped.
pub(super) struct Namespaces {
    name: String,
}

/// The address of an end (0 or 1) on a rail.
pub(super) fn address_of(end: usize, rail: usize) -> SocketAddr {
    SocketAddr::from(([10, 96 + rail as u8, 0, 1 + end as u8], PORT))
}

fn configure(program: &str, words: &str) -> Result<(), Failure> {
    iproute::configure("rails", program, words)
}

impl Namespaces {
    /// A pair for each of `rates`, Mbit/s.
    pub(super) fn new(rates: &[u32], mtu: u32) -> Result<Self, Failure> {
        let namespaces = Self {
            name: format!("hikyaku-{}", std::process::id()),
        };
        let [a, b] = [0, 1].map(|end| namespaces.of(end));
        for name in [&a, &b] {
            configure("ip", &format!("netns add {name}"))?;
            configure("ip", &format!("-n {name} link set lo up"))?;
        }
        for (rail, rate) in rates.iter().enumerate() {
            configure(
                "ip",
                &format!("link add eth{rail} mtu {mtu} netns {a} type veth peer name eth{rail} mtu {mtu} netns {b}"),
            )?;
            for (end, name) in [&a, &b].into_iter().enumerate() {
                let address = address_of(end, rail).ip();
                configure("ip", &format!("-n {name} address add {address}/24 dev eth{rail}"))?;
                configure("ip", &format!("-n {name} link set eth{rail} up"))?;
                // More than a socket's buffer holds: a full queue is then waited for, as with a card, and loses nothing.
                let shape = format!("rate {rate}mbit burst 256kb limit 32mb");
                configure("tc", &format!("-n {name} qdisc add dev eth{rail} root tbf {shape}"))?;
            }
        }
        Ok(namespaces)
    }

    fn of(&self, end: usize) -> String {
        format!("{}-{end}", self.name)
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
        for end in 0..2 {
            let _ = configure("ip", &format!("netns del {}", self.of(end)));
        }
    }
}

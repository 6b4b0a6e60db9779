//! The features that are built in and those that the machine offers, in brief.

use std::net::{IpAddr, SocketAddr};

use hikyaku::{
    backends::{self, BindOptions},
    environment::Environment,
    internals::bootstrap::address::{self, Wish},
};
use hikyaku_bench::machine::{
    environment::{cpu_model, interface_mtu, kernel},
    pin,
};
use serde::Serialize;

use crate::memory;

/// The build.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Build {
    version: &'static str,
    /// The oldest Rust that compiles it.
    rust_version: &'static str,
    target: String,
    profile: &'static str,
    backends: Vec<&'static str>,
    /// Features of the command.
    features: Vec<&'static str>,
}

impl Build {
    pub(super) fn of_this() -> Self {
        let features = [
            ("shm", cfg!(feature = "shm")),
            ("sim", cfg!(feature = "sim")),
            ("dpdk", cfg!(feature = "dpdk")),
            ("peers", cfg!(feature = "peers")),
        ];
        Self {
            version: env!("CARGO_PKG_VERSION"),
            rust_version: env!("CARGO_PKG_RUST_VERSION"),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            backends: backends::available().collect(),
            features: features.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect(),
        }
    }

    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let list = |names: &[&str]| {
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        };
        vec![
            row(
                "version",
                format!("{}, {}, {} build", self.version, self.target, self.profile),
            ),
            row("oldest Rust", self.rust_version),
            row("backends", list(&self.backends)),
            row("features", list(&self.features)),
        ]
    }
}

/// The machine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    cpu: String,
    kernel: String,
    /// Physical cores that this process may use.
    cores: usize,
    interfaces: Vec<Interface>,
    /// The address of a rank whose job is on this host.
    local: Chosen,
    /// The address of a rank whose job is on several hosts.
    remote: Chosen,
    /// How MPI ranks of this host can talk: "through memory", or why not.
    ranks_here: String,
    /// What copies large messages between them: "by the kernel", or why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    copied_here: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp: Option<Udp>,
}

#[derive(Clone, Debug, Serialize)]
struct Interface {
    name: String,
    address: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<usize>,
}

#[derive(Clone, Debug, Serialize)]
struct Chosen {
    /// `None`: there is none.
    address: Option<IpAddr>,
    why: String,
    /// Those of further rails.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rails: Vec<Rail>,
    /// The interfaces that are not used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOut>,
}

impl Chosen {
    /// The first address by this name, and the others below it.
    fn rows(&self, name: &str) -> Vec<Vec<String>> {
        let address = self
            .address
            .map_or_else(|| "none".to_owned(), |address| address.to_string());
        let mut rows = vec![row(name, format!("{address}: {}", self.why))];
        for rail in &self.rails {
            let name = format!("  and {}", rail.interface);
            rows.push(row(&name, format!("{}: {}", rail.address, rail.why)));
        }
        rows
    }
}

#[derive(Clone, Debug, Serialize)]
struct Rail {
    interface: String,
    address: IpAddr,
    why: String,
}

#[derive(Clone, Debug, Serialize)]
struct LeftOut {
    interface: String,
    why: String,
}

/// The socket buffer that the kernel has granted, bytes.
#[derive(Clone, Debug, Serialize)]
struct Udp {
    /// The largest datagram, bytes.
    max_datagram: usize,
    /// Datagrams in one system call; 1: no segmentation offload.
    max_segments: usize,
    /// Bytes.
    receive_buffer: usize,
}

impl Machine {
    /// Looks at this machine. Returns what is wrong with the variables as well.
    pub(super) fn of(environment: &Environment) -> (Self, Option<String>) {
        let interfaces = address::interfaces();
        let (local, wrong) = choose(environment, &interfaces, true);
        let (remote, _) = choose(environment, &interfaces, false);
        let with_mtu = |interface: &address::Interface| Interface {
            name: interface.name.clone(),
            address: interface.address,
            mtu: interface_mtu(interface.address),
        };
        let (ranks_here, copied_here) = match (memory::attempt(), memory::copies()) {
            (Ok(()), Ok(())) => ("through memory".to_owned(), Some("by the kernel".to_owned())),
            (Ok(()), Err(why)) => ("through memory".to_owned(), Some(format!("by both ranks: {why}"))),
            (Err(why), _) => (format!("over the network: {why}"), None),
        };
        let machine = Self {
            cpu: cpu_model(),
            kernel: kernel(),
            cores: pin::places().len(),
            interfaces: interfaces.iter().map(with_mtu).collect(),
            ranks_here,
            copied_here,
            udp: local.address.and_then(udp),
            local,
            remote,
        };
        (machine, wrong)
    }

    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![
            row("CPU", self.cpu.clone()),
            row("CPUs for this process", self.cores.to_string()),
            row("kernel", self.kernel.clone()),
        ];
        for Interface { name, address, mtu } in &self.interfaces {
            let mtu = mtu.map_or_else(String::new, |mtu| format!(", MTU {mtu} bytes"));
            rows.push(row(&format!("interface {name}"), format!("{address}{mtu}")));
        }
        for (name, chosen) in [
            ("address, ranks here only", &self.local),
            ("address, several hosts", &self.remote),
        ] {
            rows.extend(chosen.rows(name));
        }
        for LeftOut { interface, why } in &self.remote.left_out {
            rows.push(row(&format!("  not {interface}"), why.clone()));
        }
        rows.push(row("ranks of this host", self.ranks_here.clone()));
        if let Some(copied) = &self.copied_here {
            rows.push(row("  large messages", format!("copied {copied}")));
        }
        if let Some(udp) = &self.udp {
            rows.push(row(
                "UDP, from: kernel",
                format!(
                    "datagrams of up to {} bytes, {} in one system call, receive buffer {} bytes",
                    udp.max_datagram, udp.max_segments, udp.receive_buffer
                ),
            ));
        }
        rows
    }
}

fn row(name: &str, value: impl Into<String>) -> Vec<String> {
    vec![name.to_owned(), value.into()]
}

/// The addresses that a rank would take, and why.
fn choose(environment: &Environment, interfaces: &[address::Interface], all_local: bool) -> (Chosen, Option<String>) {
    let wanted = environment.get("HIKYAKU_IFACE");
    let wish = Wish {
        interface: wanted,
        all_local,
        known_as: environment
            .get("HIKYAKU_HOST_ADDRESS")
            .and_then(|text| text.parse().ok()),
    };
    match address::choose(&wish, interfaces, address::default_route) {
        Ok(choice) => {
            let mut all = choice.chosen.into_iter().map(|chosen| Rail {
                interface: chosen.interface,
                address: chosen.address,
                why: chosen.why.to_string(),
            });
            let first = all.next();
            let chosen = Chosen {
                address: first.as_ref().map(|first| first.address),
                why: first.map_or_else(String::new, |first| first.why),
                rails: all.collect(),
                left_out: choice
                    .left_out
                    .into_iter()
                    .map(|(interface, why)| LeftOut {
                        interface,
                        why: why.to_string(),
                    })
                    .collect(),
            };
            (chosen, None)
        }
        Err(error) => {
            let why = error.to_string();
            let chosen = Chosen {
                address: None,
                why: why.clone(),
                rails: Vec::new(),
                left_out: Vec::new(),
            };
            (chosen, wanted.map(|_| why))
        }
    }
}

/// Opens a socket, to see what the kernel grants.
fn udp(address: IpAddr) -> Option<Udp> {
    let backend = backends::bind("udp", SocketAddr::new(address, 0), &BindOptions::default()).ok()?;
    let capabilities = backend.capabilities();
    Some(Udp {
        max_datagram: capabilities.max_datagram,
        max_segments: capabilities.max_segments,
        receive_buffer: capabilities.receive_buffer,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn interfaces() -> Vec<address::Interface> {
        let of = |name: &str, address: &str| address::Interface {
            name: name.to_owned(),
            address: address.parse().unwrap(),
            prefix: 24,
            carriers: Vec::new(),
            unfit: None,
        };
        vec![
            of("eth0", "10.0.0.1"),
            of("eth1", "10.0.1.1"),
            of("eth2", "fd02::1"),
            of("eth3", "10.0.3.1"),
        ]
    }

    /// A row for each address that a rank has beside its first, in the order of the setting; those that it does not name are no
    /// rails.
    #[test]
    fn each_further_address_has_a_row() {
        let settings = [("HIKYAKU_IFACE".to_owned(), "eth1,eth0,fd02::/64".to_owned())];
        let (chosen, wrong) = choose(&settings.into_iter().collect(), &interfaces(), false);
        assert_eq!(wrong, None);
        let rows = chosen.rows("address, several hosts");
        assert_eq!(
            rows,
            [
                ["address, several hosts", "10.0.1.1: HIKYAKU_IFACE=eth1"],
                ["  and eth0", "10.0.0.1: HIKYAKU_IFACE=eth0"],
                ["  and eth2", "fd02::1: HIKYAKU_IFACE=fd02::/64"],
            ]
        );
        assert_eq!(
            serde_json::to_value(&chosen).unwrap()["rails"],
            json!([
                {"interface": "eth0", "address": "10.0.0.1", "why": "HIKYAKU_IFACE=eth0"},
                {"interface": "eth2", "address": "fd02::1", "why": "HIKYAKU_IFACE=fd02::/64"},
            ])
        );
    }

    /// Nothing is said of rails where there are none.
    #[test]
    fn one_address_has_one_row() {
        let settings = [("HIKYAKU_IFACE".to_owned(), "eth3".to_owned())];
        let (chosen, _) = choose(&settings.into_iter().collect(), &interfaces(), false);
        assert_eq!(chosen.rows("address"), [["address", "10.0.3.1: HIKYAKU_IFACE=eth3"]]);
        assert_eq!(serde_json::to_value(&chosen).unwrap().get("rails"), None);
    }
}

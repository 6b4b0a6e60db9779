//! Two network namespaces with Ethernets between them (veth pairs): the kernel's, and one for each device of DPDK.

use std::fs::File;

use nix::sched::{CloneFlags, setns};

use crate::{
    failure::{Failure, While},
    machine::iproute,
};

/// Addresses of the kernel's ends: of a network for benchmarks (RFC 2544); devices of DPDK have its other half.
const ADDRESSES: [&str; 2] = ["198.19.0.1", "198.19.0.2"];

/// Removes what it has made when it is dropped.
pub(crate) struct Wire {
    name: String,
}

/// The interface of the link with this number; 0: the kernel's.
pub(crate) fn interface(link: usize) -> String {
    format!("wire{link}")
}

/// The address of an end that is the kernel's: 0 or 1.
pub(crate) const fn address(end: usize) -> &'static str {
    ADDRESSES[end]
}

fn configure(words: &str) -> Result<(), Failure> {
    iproute::configure("over a wire of its own", "ip", words)
}

impl Wire {
    /// With an Ethernet for the kernel, and one for each of these numbers.
    pub(crate) fn new(devices: &[usize], mtu: usize) -> Result<Self, Failure> {
        let wire = Self {
            name: format!("hikyaku-{}", std::process::id()),
        };
        for end in 0..2 {
            configure(&format!("netns add {}", wire.namespace(end)))?;
            configure(&format!("-n {} link set lo up", wire.namespace(end)))?;
        }
        let [a, b] = [0, 1].map(|end| wire.namespace(end));
        for &link in [0].iter().chain(devices) {
            let interface = interface(link);
            let ends = format!("{interface} mtu {mtu} netns {a} type veth peer name {interface} mtu {mtu} netns {b}");
            configure(&format!("link add {ends}"))?;
            for (end, name) in [&a, &b].into_iter().enumerate() {
                match link {
                    0 => configure(&format!("-n {name} address add {}/24 dev {interface}", address(end)))?,
                    // The kernel sends nothing there of its own.
                    _ => configure(&format!("-n {name} link set {interface} addrgenmode none"))?,
                }
                configure(&format!("-n {name} link set {interface} up"))?;
            }
        }
        Ok(wire)
    }

    /// The name of the namespace of an end: 0 or 1.
    pub(crate) fn namespace(&self, end: usize) -> String {
        format!("{}-{end}", self.name)
    }

    /// Takes this thread, and all that it starts, to the first end.
    pub(crate) fn enter(&self) -> Result<(), Failure> {
        let what = "entering a network namespace";
        let namespace = File::open(format!("/run/netns/{}", self.namespace(0))).or_fail(what)?;
        setns(namespace, CloneFlags::CLONE_NEWNET).map_err(|error| Failure::run(format!("{what}: {error}")))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for end in 0..2 {
            let _ = configure(&format!("netns del {}", self.namespace(end)));
        }
    }
}

//! Network namespaces on a bridge, with a rate in both directions.

use std::{path::Path, process::Command};

use super::node::address_of;
use crate::{failure::Failure, machine::iproute};

/// Removes what it has made when it is dropped.
pub(super) struct Namespaces {
    name: String,
    count: u32,
}

fn configure(program: &str, words: &str) -> Result<(), Failure> {
    iproute::configure("meshes", program, words)
}

impl Namespaces {
    /// One for each of `count` processes, and one for the bridge. `rate`: Mbit/s.
    pub(super) fn new(count: u32, rate: u32) -> Result<Self, Failure> {
        let namespaces = Self {
            name: format!("hikyaku-{}", std::process::id()),
            count,
        };
        let bridge = namespaces.bridge();
        configure("ip", &format!("netns add {bridge}"))?;
        configure("ip", &format!("-n {bridge} link add br0 type bridge"))?;
        configure("ip", &format!("-n {bridge} link set br0 up"))?;
        for index in 0..count {
            let own = namespaces.of(index);
            configure("ip", &format!("netns add {own}"))?;
            configure(
                "ip",
                &format!("link add eth0 netns {own} type veth peer name p{index} netns {bridge}"),
            )?;
            configure("ip", &format!("-n {bridge} link set p{index} master br0 up"))?;
            configure("ip", &format!("-n {own} addr add {}/24 dev eth0", address_of(index)))?;
            for (namespace, link) in [(&own, "lo"), (&own, "eth0")] {
                configure("ip", &format!("-n {namespace} link set {link} up"))?;
            }
            for (namespace, link) in [(&own, "eth0"), (&bridge, &*format!("p{index}"))] {
                let shape = format!("rate {rate}mbit burst 3kb limit 64kb");
                configure("tc", &format!("-n {namespace} qdisc add dev {link} root tbf {shape}"))?;
            }
        }
        Ok(namespaces)
    }

    fn bridge(&self) -> String {
        format!("{}-b", self.name)
    }

    fn of(&self, index: u32) -> String {
        format!("{}-{index}", self.name)
    }

    /// A program in the namespace of a process.
    pub(super) fn command(&self, index: u32, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.of(index)]).arg(program);
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let all = (0..self.count).map(|index| self.of(index)).chain([self.bridge()]);
        for name in all {
            let _ = configure("ip", &format!("netns del {name}"));
        }
    }
}

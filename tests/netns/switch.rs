//! A switch between hosts.

use super::netns::{self, Namespace};

/// A bridge in a namespace of its own.
pub(super) struct Switch(Namespace);

impl Switch {
    /// None: there are no network namespaces here.
    pub(super) fn new() -> Option<Self> {
        let [namespace] = netns::namespaces(["s"])?;
        netns::ip_batch(&namespace.name, "link add lan type bridge\nlink set lan up\n");
        Some(Self(namespace))
    }

    /// Gives a host an interface of this name, which is connected with the switch's port `port`.
    pub(super) fn plug(&self, host: &Namespace, interface: &str, port: &str, mtu: u32) {
        let Self(switch) = self;
        netns::join([(host, interface), (switch, port)], [mtu; 2]);
        netns::ip(&format!("-n {} link set {port} master lan", switch.name));
    }
}

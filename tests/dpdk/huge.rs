//! Devices that need hugepages.

use super::{
    Socket,
    hugepages::{Huge, IN_MEMORY},
    pair,
};

#[test]
fn memif_in_hugepages() {
    let Some(_huge) = Huge::reserve() else { return };
    let socket = Socket::new("huge");
    pair([&socket.memif("client"), &socket.memif("server")], &[IN_MEMORY]);
}

#[test]
fn memif_without_copies() {
    let Some(_huge) = Huge::reserve() else { return };
    for mtu in ["1500", "9000"] {
        let socket = Socket::new("zero-copy");
        let client = format!("{},zero-copy=yes", socket.memif("client"));
        // The driver forgets what it has put into its ring to be written to, and one that it was sending.
        let kept = ("NETNS_KEPT", "1024");
        let more = [IN_MEMORY, ("HIKYAKU_DPDK_MTU", mtu), kept];
        pair([&client, &socket.memif("server")], &more);
    }
}

#[test]
fn virtio_between_processes() {
    let Some(_huge) = Huge::reserve() else { return };
    let socket = Socket::new("virtio");
    let path = socket.0.display();
    let (vhost, virtio) = (format!("vhost:iface={path}"), format!("virtio-user:path={path}"));
    pair([&virtio, &vhost], &[IN_MEMORY]);
}

//! Memory shared by two processes, by the rules of virtio: a vhost device at one end, virtio-user at the other.

use super::{ETHERNET, JUMBO, LOSES, LOSSY, NO_HUGE, Socket, pair};

pub(super) fn virtio(name: &str, memory: (&str, &str)) {
    for (what, more) in [
        ("jumbo", &[JUMBO][..]),
        ("ethernet", &[ETHERNET]),
        ("checksums", &[("HIKYAKU_DPDK_CHECKSUM", "on")]),
        ("queues", &[("HIKYAKU_DPDK_QUEUES", "2")]),
        ("ipv6", &[("NETNS_IPV6", "1")]),
        ("loss", &LOSES),
        ("ethernet-loss", &[LOSES[0], LOSSY, ETHERNET]),
        // Rings that overflow.
        ("overflow", &[("HIKYAKU_DPDK_DESCRIPTORS", "64")]),
    ] {
        let socket = Socket::new(&format!("virtio-{name}-{what}"));
        let path = socket.0.display();
        let (vhost, virtio) = (format!("vhost:iface={path}"), format!("virtio-user:path={path}"));
        println!("{what}");
        pair([&virtio, &vhost], &[&[memory], more].concat());
    }
}

#[test]
fn virtio_without_hugepages() {
    virtio("none", NO_HUGE);
}

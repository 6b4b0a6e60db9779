//! Pollers on other devices.

use std::{fs, path::Path, time::Duration};

use super::{
    Link, NO_HUGE, Nodes, START_LIMIT, finish,
    hugepages::{Huge, IN_MEMORY},
    messages_between,
    netns::{INTERFACE, Veth},
    stop_file,
};

#[test]
fn memif_in_hugepages() {
    let Some(_huge) = Huge::reserve() else { return };
    messages_between(Nodes::on(Link::Memif(vec![IN_MEMORY]), "huge", 8_192));
}

#[test]
fn several_queues() {
    let more = vec![NO_HUGE, ("HIKYAKU_DPDK_QUEUES", "3")];
    messages_between(Nodes::on(Link::Memif(more), "queues", 16_384));
}

/// A veth pair whose interfaces the kernel leaves to DPDK.
pub(super) fn veth(mtu: u32) -> Option<Veth> {
    let veth = Veth::new(mtu)?;
    let limit = Duration::from_secs(10);
    for end in [&veth.a, &veth.b] {
        end.exec("ip", &["address", "flush", "dev", INTERFACE], limit);
        // Packets between the two kernels need no checksums, and carry none; DPDK wants to see them.
        end.exec("ethtool", &["-K", INTERFACE, "tx", "off"], limit);
    }
    Some(veth)
}

#[test]
fn packet_sockets() {
    let Some(pair) = veth(1500) else { return };
    messages_between(Nodes::on(Link::PacketSockets(pair, vec![NO_HUGE]), "veth", 8_192));
}

#[test]
fn packet_sockets_with_large_frames_and_several_queues() {
    let Some(pair) = veth(9000) else { return };
    let more = vec![NO_HUGE, ("HIKYAKU_DPDK_MTU", "9000"), ("HIKYAKU_DPDK_QUEUES", "2")];
    messages_between(Nodes::on(Link::PacketSockets(pair, more), "jumbo", 8_192));
}

#[test]
fn packet_sockets_in_hugepages() {
    let (Some(_huge), Some(pair)) = (Huge::reserve(), veth(1500)) else {
        return;
    };
    messages_between(Nodes::on(
        Link::PacketSockets(pair, vec![IN_MEMORY]),
        "veth-huge",
        8_192,
    ));
}

/// Messages between two ranks of a poller never reach the port.
#[test]
fn a_ring() {
    let nodes = Nodes::without_pollers(Link::Memif(vec![NO_HUGE]), "ring");
    let mut poller = nodes.start_poller(0, "ring", 8_192);
    poller.wait_for("serves", START_LIMIT);
    let at = |port: u16| format!("{}:{port}", super::ADDRESSES[0]);
    let mut answers = nodes.rank(0, 7_001, "answers", &[("PART_TO", &at(7_002))]);
    answers.wait_for("answers", START_LIMIT);
    finish(nodes.rank(0, 7_002, "exchange", &[("PART_TO", &at(7_001))]));
    finish(answers);
    fs::write(stop_file(Path::new(&nodes.socket(0))), "").unwrap();
    let output = finish(poller);
    assert!(output.contains("all buffers are back"), "{output}");
}

//! Memory shared by two processes.

use super::{ETHERNET, JUMBO, LOSES, START_LIMIT, Socket, finish_with_buffers, pair, part, part_variables};

fn memif(name: &str, more: &[(&str, &str)]) {
    let socket = Socket::new(name);
    pair([&socket.memif("client"), &socket.memif("server")], more);
}

#[test]
fn memif_jumbo() {
    memif("jumbo", &[]);
}

#[test]
fn memif_with_ethernet_mtu_and_checksums() {
    memif(
        "checksums",
        &[("HIKYAKU_DPDK_MTU", "1500"), ("HIKYAKU_DPDK_CHECKSUM", "on")],
    );
}

/// Rings so short that they overflow all the time.
#[test]
fn memif_that_overflows() {
    memif("overflows", &[("HIKYAKU_DPDK_DESCRIPTORS", "64")]);
}

#[test]
fn memif_with_loss() {
    for mtu in [ETHERNET, JUMBO] {
        memif("loss", &[&LOSES[..], &[mtu]].concat());
    }
}

#[test]
fn memif_with_several_queues() {
    memif(
        "queues",
        &[("HIKYAKU_DPDK_QUEUES", "3"), ("HIKYAKU_DPDK_DESCRIPTORS", "128")],
    );
}

#[test]
fn memif_over_ipv6() {
    let six = [("NETNS_IPV6", "1"), ("HIKYAKU_DPDK_MTU", "1500")];
    memif("ipv6", &six);
}

#[test]
fn memif_client_that_starts_first() {
    let socket = Socket::new("first");
    let (server, client) = (socket.memif("server"), socket.memif("client"));
    let asks = part::start("exchange", &part_variables(0, &client, &[]));
    let answers = part::start("answers", &part_variables(1, &server, &[]));
    finish_with_buffers(asks);
    finish_with_buffers(answers);
}

#[test]
fn the_end_of_a_memif_dies() {
    for (asking, answering) in [("client", "server"), ("server", "client")] {
        let socket = Socket::new(asking);
        let (asking, answering) = (socket.memif(asking), socket.memif(answering));
        let mut answers = part::start("answers", &part_variables(1, &answering, &[]));
        let mut asks = part::start("death", &part_variables(0, &asking, &[]));
        answers.wait_for("answers", START_LIMIT);
        asks.wait_for("talks", START_LIMIT);
        answers.kill();
        let output = finish_with_buffers(asks);
        assert!(output.contains("dead: "), "{output}");
    }
}

//! Rails of which the paths or the interfaces are not alike: a middle that becomes narrower, two in one IPv6 network,
//! interfaces behind which there is nothing, and addresses at which no socket can be opened.

use std::process::Command;

use super::{
    PART_LIMIT, START_LIMIT, finish,
    jobs::{Ranks, addresses},
    netns::{self, Namespace},
    rails::{MESSAGE, PORT, RECEIVER, Wires, choice, counter, rail, shape, stream_between},
};

/// Two hosts that are joined directly, and by a router.
///
/// ```text
///   namespace …-a                        namespace …-r                        namespace …-b
///   veth0  10.77.0.1  fd77::1  ─────────────────────────────────────────────  veth0  10.77.0.2  fd77::2
///   veth1  10.78.0.1  fd78::1  ───────  left  right  ───────────────────────  veth1  10.79.0.2  fd79::2
/// ```
struct Detour {
    a: Namespace,
    b: Namespace,
    router: Namespace,
}

impl Detour {
    /// All of it takes 9000 bytes. `None` as [`netns::namespaces`].
    fn new(mbit: u32) -> Option<Self> {
        let [a, b, router] = netns::namespaces(["a", "b", "r"])?;
        netns::join([(&a, "veth0"), (&b, "veth0")], [9000; 2]);
        netns::join([(&a, "veth1"), (&router, "left")], [9000; 2]);
        netns::join([(&b, "veth1"), (&router, "right")], [9000; 2]);
        router.forwards();
        for (end, host, own, other, side) in [(&a, 1, 78, 79, "left"), (&b, 2, 79, 78, "right")] {
            let lines = format!(
                "address add 10.77.0.{host}/24 dev veth0\naddress add fd77::{host}/64 dev veth0 nodad\n\
                 address add 10.{own}.0.{host}/24 dev veth1\naddress add fd{own}::{host}/64 dev veth1 nodad\n\
                 route add 10.{other}.0.0/24 via 10.{own}.0.254\nroute add fd{other}::/64 via fd{own}::fe\n"
            );
            let router_lines =
                format!("address add 10.{own}.0.254/24 dev {side}\naddress add fd{own}::fe/64 dev {side} nodad\n");
            ["veth0", "veth1"].iter().for_each(|name| end.wait_until_up(name));
            router.wait_until_up(side);
            netns::ip_batch(&router.name, &router_lines);
            netns::ip_batch(&end.name, &lines);
            ["veth0", "veth1"].iter().for_each(|name| shape(end, name, mbit));
        }
        Some(Self { a, b, router })
    }

    /// From now on the router forwards packets of `mtu` bytes at most, both ways.
    fn shrink(&self, mtu: u32) {
        for (side, network) in [("left", 78), ("right", 79)] {
            let lines = format!(
                "route replace 10.{network}.0.0/24 dev {side} proto kernel scope link mtu lock {mtu}\n\
                 route replace fd{network}::/64 dev {side} proto kernel metric 256 mtu lock {mtu}\n"
            );
            netns::ip_batch(&self.router.name, &lines);
        }
    }
}

/// With a router that says so, and with one that does not; of IPv4, which it may fragment, and of IPv6, which it may not.
#[test]
#[ignore = "needs root, iproute2 and nftables: cargo xtask ci"]
fn a_second_rail_that_becomes_narrower_in_mid_stream_goes_on() {
    for (ipv6, mute) in [(false, false), (false, true), (true, false), (true, true)] {
        println!("IPv6: {ipv6}, silent router: {mute}");
        let Some(detour) = Detour::new(200) else { return };
        let Detour { a, b, router } = &detour;
        if mute {
            router.block_icmp("output");
        }
        let at = |host: u8, networks: [u8; 2]| {
            let all = networks.map(|network| match ipv6 {
                true => format!("[fd{network}::{host}]:{PORT}"),
                false => format!("10.{network}.0.{host}:{PORT}"),
            });
            all.join(",")
        };
        let count = 192;
        let [mut sender, mut receiver] = stream_between([a, b], [&at(1, [77, 78]), &at(2, [77, 79])], count);
        sender.wait_for("rail 1 is up", START_LIMIT);
        receiver.wait_for("got 48", PART_LIMIT);
        detour.shrink(1_500);
        let before = counter(a, "veth1", "tx_bytes");
        let said = finish(sender);
        finish(receiver);
        let (state, most, _) = rail(&said, RECEIVER, 1);
        // (The search ends within a few bytes of what passes.)
        let largest = if ipv6 { 1_452 } else { 1_472 };
        assert!(state == "Up" && (largest - 20..=largest).contains(&most), "{said}");
        // The other one has kept its size, and this one has gone on.
        assert_eq!(rail(&said, RECEIVER, 0).1, if ipv6 { 8_952 } else { 8_972 }, "{said}");
        let since = counter(a, "veth1", "tx_bytes") - before;
        assert!(since > 16 * MESSAGE as u64, "{since} bytes since then\n{said}");
    }
}

/// The routes know one of the interfaces for the network, and an interface answers neighbours for its own address only.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn two_interfaces_in_one_ipv6_network_are_two_rails() {
    let Some(wires) = Wires::new(2, 9000) else { return };
    wires.shape(200);
    let [a, b] = wires.ends();
    for (end, host) in [(a, 3), (b, 4)] {
        netns::ip(&format!("-n {} address add fd77::{host}/64 dev veth1 nodad", end.name));
    }
    let at = |hosts: [u8; 2]| hosts.map(|host| format!("[fd77::{host}]:{PORT}")).join(",");
    let [sender, receiver] = stream_between([a, b], [&at([1, 3]), &at([2, 4])], 48);
    let said = finish(sender);
    finish(receiver);
    for number in [0, 1] {
        let (state, most, bytes) = rail(&said, RECEIVER, number);
        assert_eq!((&*state, most), ("Up", 8_952), "{said}");
        assert!(bytes > 8 * MESSAGE as u64, "{said}");
        let sent = counter(a, &format!("veth{number}"), "tx_bytes");
        assert!(sent > bytes && sent < bytes * 11 / 10, "veth{number}: {sent}\n{said}");
    }
}

/// A dummy device, or where this kernel has none, one that only changes the direction of packets.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_device_with_nothing_behind_it_is_used_only_if_it_is_named() {
    let Some(wires) = Wires::new(2, 1500) else { return };
    let [a, _] = wires.ends();
    let can_make = |kind: &&str| {
        let line = format!("-n {} link add none0 type {kind}", a.name);
        let made = Command::new("ip").args(line.split_whitespace()).output().unwrap();
        made.status.success()
    };
    let Some(kind) = ["dummy", "ifb"].into_iter().find(can_make) else {
        println!("skipped: this kernel has neither dummy nor ifb");
        return;
    };
    println!("by {kind}");
    netns::ip_batch(&a.name, "link set none0 up\naddress add 10.99.0.1/24 dev none0\n");
    let (chosen, said) = choice(a, None);
    assert_eq!(
        chosen,
        ["veth0 10.77.0.1", "veth1 10.78.0.1", "veth0 fd77::1"],
        "{said}"
    );
    assert!(said.contains("not none0: nothing is behind it"), "{said}");
    let (chosen, said) = choice(a, Some("veth0,none0"));
    assert_eq!(chosen, ["veth0 10.77.0.1", "none0 10.99.0.1"], "{said}");
}

/// At one of the addresses another program has the port, and at another the kernel still asks whether somebody else has it.
/// The user has not named them, so the ranks do without.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn addresses_at_which_no_socket_can_be_opened_are_left_out() {
    let Some(wires) = Wires::new(3, 1500) else { return };
    let [a, b] = wires.ends();
    netns::ip(&format!("-n {} address del 10.79.0.1/24 dev veth2", a.name));
    // It asks for longer than this test takes.
    a.exec("sysctl", &["-w", "net.ipv6.conf.veth2.dad_transmits=600"], START_LIMIT);
    netns::ip(&format!("-n {} address add fd79::1/64 dev veth2", a.name));
    netns::ip(&format!("-n {} address add fd79::2/64 dev veth2 nodad", b.name));
    let port = PORT.to_string();
    let taken = [("NETNS_ADDRESS", "10.78.0.1"), ("NETNS_PORT", &*port)];
    let mut taker = a.spawn_role("part", "echo", &taken);
    taker.wait_for("listens at ", START_LIMIT);
    let all = Ranks::start(&wires, 1, 10, &[("HIKYAKU_PORT_BASE", &*port)]).finish();
    let [(said_a, counters_a), (said_b, counters_b)] = &all[..] else {
        panic!("two ranks")
    };
    assert_eq!(counters_a.get("ports"), None, "{said_a}");
    // (And one of the other family.)
    assert_eq!(addresses(&counters_b["ports"]).len(), 4, "{said_b}");
    // Named, they are an error.
    let named = [
        ("HIKYAKU_IFACE", "veth0,veth1"),
        ("HIKYAKU_PORT_BASE", &*port),
        ("HIKYAKU_RENDEZVOUS", "10.77.0.1:7100"),
        ("HIKYAKU_RANK", "0"),
        ("HIKYAKU_SIZE", "1"),
    ];
    let (status, said) = a.spawn_role("part", "rails-job", &named).finish(PART_LIMIT);
    assert!(
        !status.success() && said.contains("its port at 10.78.0.1:7600"),
        "{said}"
    );
}

//! Two hosts with two interfaces each in one network, of which not every one reaches every other.
//!
//! ```text
//!   namespace …-a                       namespace …-b
//!   eth0  10.77.0.1/24  ───╲  ╱───      eth0  10.77.0.2/24
//!   eth1  10.77.0.3/24  ───╱  ╲───      eth1  10.77.0.4/24
//!   mgmt  10.90.0.1/24  ──────────      mgmt  10.90.0.2/24   where ranks meet
//! ```

use super::{
    PART_LIMIT, START_LIMIT, finish,
    jobs::{Ranks, answered, connected_ms},
    netns::{self, Namespace},
    rails::{MESSAGE, PORT, RECEIVER, counter, rail, shape, stream_part},
    switch::Switch,
};

/// Mbit/s of each interface.
const MBIT: u32 = 400;
/// Messages of a stream: a second, and more.
const COUNT: u64 = 128;

/// The two hosts; `cables` connects their interfaces eth0 and eth1.
fn hosts(cables: impl FnOnce(&Namespace, &Namespace)) -> Option<[Namespace; 2]> {
    let [a, b] = netns::namespaces(["a", "b"])?;
    cables(&a, &b);
    netns::join([(&a, "mgmt"), (&b, "mgmt")], [1500; 2]);
    for (end, host) in [(&a, 1), (&b, 2)] {
        netns::ip_batch(
            &end.name,
            &format!(
                "address add 10.77.0.{host}/24 dev eth0\naddress add 10.77.0.{}/24 dev eth1\n\
                 address add 10.90.0.{host}/24 dev mgmt\n",
                host + 2
            ),
        );
        // As `hikyaku doctor` says.
        for setting in ["arp_ignore=1", "arp_announce=2", "rp_filter=2"] {
            let line = format!("net.ipv4.conf.all.{setting}");
            end.exec("sysctl", &["-w", &line], START_LIMIT);
        }
        for interface in ["eth0", "eth1"] {
            shape(end, interface, MBIT);
        }
    }
    for end in [&a, &b] {
        ["eth0", "eth1", "mgmt"].iter().for_each(|name| end.wait_until_up(name));
    }
    Some([a, b])
}

/// Two cables: the first interface of each host is connected with the second one of the other.
fn crosswise(a: &Namespace, b: &Namespace) {
    netns::join([(a, "eth0"), (b, "eth1")], [9000; 2]);
    netns::join([(a, "eth1"), (b, "eth0")], [9000; 2]);
}

/// The two hosts, all of whose interfaces are at one switch, and that switch.
fn at_one_switch() -> Option<([Namespace; 2], Switch)> {
    let switch = Switch::new()?;
    let ends = hosts(|a, b| {
        for (host, end) in [a, b].into_iter().enumerate() {
            for interface in ["eth0", "eth1"] {
                switch.plug(end, interface, &format!("to{host}{interface}"), 9000);
            }
        }
    })?;
    Some((ends, switch))
}

/// A stream from the first to the second host, which try all pairs. What the sender says of its rails, and the bytes that
/// each interface has sent.
fn stream([a, b]: [&Namespace; 2]) -> (String, [u64; 2]) {
    let at = |hosts: [u8; 2]| hosts.map(|host| format!("10.77.0.{host}:{PORT}")).join(",");
    let (at_a, at_b) = (at([1, 3]), at([2, 4]));
    let crossed = [("RAILS_CROSSED", "1")];
    let mut receiver = stream_part(b, "rails-receive", [&at_b, &at_a], COUNT, &crossed);
    receiver.wait_for("listens", START_LIMIT);
    let before = ["eth0", "eth1"].map(|interface| counter(a, interface, "tx_bytes"));
    let said = finish(stream_part(a, "rails-send", [&at_a, &at_b], COUNT, &crossed));
    receiver.wait_for("got all", PART_LIMIT);
    finish(receiver);
    let after = ["eth0", "eth1"].map(|interface| counter(a, interface, "tx_bytes"));
    (said, [after[0] - before[0], after[1] - before[1]])
}

/// States of the sender's rails (two straight ones, two crossed ones), and the bytes that they have sent.
fn rails(said: &str) -> [(String, u64); 4] {
    [0, 1, 2, 3].map(|number| {
        let (state, _, bytes) = rail(said, RECEIVER, number);
        (state, bytes)
    })
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn crossed_cables_carry_a_stream_and_connect_ranks() {
    let Some([a, b]) = hosts(crosswise) else { return };
    let (said, sent) = stream([&a, &b]);
    let rails = rails(&said);
    for (number, state) in [(0, "Unproven"), (1, "Unproven"), (2, "Up"), (3, "Up")] {
        assert_eq!(rails[number].0, state, "{said}");
    }
    // Until the second one is found, all goes by the first.
    assert!(
        sent.iter().all(|bytes| bytes * 5 > sent[0] + sent[1]),
        "{sent:?}\n{said}"
    );
    let iface = [("HIKYAKU_IFACE", "eth0,eth1")];
    for (said, counters) in Ranks::start_in(&[&a, &b], "10.90.0.1", 1, 100, &iface).finish() {
        let used = answered(&counters);
        assert!(
            !used.is_empty() && used.iter().all(|rail| [2, 3].contains(rail)),
            "{said}"
        );
        assert!(connected_ms(&said) < 1_000, "{said}");
    }
}

/// Where all pairs carry, the crossed ones would use the wires twice.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn on_one_switch_only_straight_pairs_are_used() {
    let Some(([a, b], _switch)) = at_one_switch() else {
        return;
    };
    let (said, sent) = stream([&a, &b]);
    let rails = rails(&said);
    for (number, state) in [(0, "Up"), (1, "Up"), (2, "Unproven"), (3, "Unproven")] {
        assert_eq!(
            (&*rails[number].0, rails[number].1 > 0),
            (state, state == "Up"),
            "{said}"
        );
    }
    assert!(
        sent.iter().all(|bytes| bytes * 3 > sent[0] + sent[1]),
        "{sent:?}\n{said}"
    );
    assert!(sent[0] + sent[1] < COUNT * MESSAGE as u64 * 11 / 10, "{sent:?}\n{said}");
}

/// A firewall lets datagrams through between the second interface of the one and the first of the other only.
#[test]
#[ignore = "needs root, iproute2 and nftables: cargo xtask ci"]
fn one_crossed_pair_is_enough() {
    let Some(([a, b], _switch)) = at_one_switch() else {
        return;
    };
    a.filter("ip daddr 10.77.0.1 meta l4proto udp drop");
    a.filter("ip saddr 10.77.0.4 meta l4proto udp drop");
    b.filter("ip daddr 10.77.0.4 meta l4proto udp drop");
    b.filter("ip saddr 10.77.0.1 meta l4proto udp drop");
    let iface = [("HIKYAKU_IFACE", "eth0,eth1")];
    let all = Ranks::start_in(&[&a, &b], "10.90.0.1", 1, 100, &iface).finish();
    for ((said, counters), rail) in all.iter().zip([3, 2]) {
        assert_eq!(answered(counters), [rail], "{said}");
        assert!(connected_ms(said) < 1_000, "{said}");
    }
}

//! Hosts with IPv4 and IPv6 on one interface, beside hosts with one of them only.

use serde_json::Value;

use super::{
    START_LIMIT,
    jobs::{Ranks, addresses, connected_ms},
    netns::{self, Namespace},
    switch::Switch,
};

/// Hosts at one switch, each with these addresses.
fn hosts<const N: usize>(letters: [&str; N], all: [&[&str]; N]) -> Option<(Switch, [Namespace; N])> {
    let switch = Switch::new()?;
    let ends = netns::namespaces(letters)?;
    for (number, (end, own)) in ends.iter().zip(all).enumerate() {
        switch.plug(end, "eth0", &format!("to{number}"), 1500);
        let line = |address: &&str| {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            format!("address add {address} dev eth0{nodad}\n")
        };
        netns::ip_batch(&end.name, &own.iter().map(line).collect::<String>());
    }
    ends.iter().for_each(|end| end.wait_until_up("eth0"));
    Some((switch, ends))
}

/// Datagrams that a rank has sent by each of its ports.
fn sent(counters: &Value) -> Vec<u64> {
    let ports = counters["ports"].as_array().map_or(&[][..], |ports| ports);
    ports
        .iter()
        .filter_map(|port| port["stats"]["datagrams_sent"].as_u64())
        .collect()
}

/// The one host with IPv6 only reaches the two with both by IPv6, and these reach each other by IPv4 alone.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_host_with_one_family_and_hosts_with_both_run_a_job() {
    let addresses_of: [&[&str]; 3] = [
        &["10.77.0.1/24", "fd77::1/64"],
        &["fd77::2/64"],
        &["10.77.0.3/24", "fd77::3/64"],
    ];
    let Some((_switch, [a, b, c])) = hosts(["a", "b", "c"], addresses_of) else {
        return;
    };
    let all = Ranks::start_in(&[&a, &b, &c], "[fd77::1]", 1, 100, &[]).finish();
    for (rank, (said, counters)) in all.iter().enumerate() {
        // One path to each: the first one works, and there is no other.
        assert_eq!(counters.get("rails"), None, "{said}");
        assert!(connected_ms(said) < 1_000, "{said}");
        if rank != 1 {
            let ports = [format!("10.77.0.{}", rank + 1), format!("fd77::{}", rank + 1)];
            assert_eq!(addresses(&counters["ports"]), ports, "{said}");
            assert!(sent(counters).iter().all(|&sent| sent > 0), "{said}");
        }
    }
}

/// Of two hosts with both, nothing is sent by the second family, and nothing is probed there.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn hosts_with_both_families_use_one() {
    let addresses_of: [&[&str]; 2] = [&["10.77.0.1/24", "fd77::1/64"], &["10.77.0.2/24", "fd77::2/64"]];
    let Some((_switch, [a, b])) = hosts(["a", "b"], addresses_of) else {
        return;
    };
    for (said, counters) in Ranks::start_in(&[&a, &b], "10.77.0.1", 1, 100, &[]).finish() {
        assert_eq!(counters.get("rails"), None, "{said}");
        let sent = sent(&counters);
        assert!(sent.len() == 2 && sent[0] > 0 && sent[1] == 0, "{said}");
    }
}

/// Hosts that have nothing in common say so at the start.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn hosts_of_different_families_are_an_error() {
    let addresses_of: [&[&str]; 2] = [&["10.77.0.1/24"], &["fd77::2/64"]];
    let Some((_switch, [a, b])) = hosts(["a", "b"], addresses_of) else {
        return;
    };
    // They meet at addresses that a rank does not choose: those of the loopback interface, routed between the two.
    for (end, own, to, via) in [
        (&a, "fdee::1", "fdee::2", "fe80::2"),
        (&b, "fdee::2", "fdee::1", "fe80::1"),
    ] {
        let local = if via == "fe80::2" { "fe80::1" } else { "fe80::2" };
        netns::ip_batch(
            &end.name,
            &format!(
                "address add {local}/64 dev eth0 nodad\naddress add {own}/128 dev lo nodad\n\
                 route add {to}/128 via {via} dev eth0 src {own}\n"
            ),
        );
    }
    let wanted = "addresses only, and this one has";
    let envs = [
        ("HIKYAKU_RENDEZVOUS", "[fdee::1]:7100"),
        ("HIKYAKU_JOB_KEY", "00112233445566778899aabbccddeeff"),
        ("HIKYAKU_SIZE", "2"),
    ];
    let ranks = [(&a, "0"), (&b, "1")].map(|(end, rank)| {
        let envs = [&envs[..], &[("HIKYAKU_RANK", rank)]].concat();
        end.spawn_role("part", "rails-job", &envs)
    });
    for rank in ranks {
        let (status, said) = rank.finish(START_LIMIT);
        assert!(!status.success() && said.contains(wanted), "{said}");
    }
}

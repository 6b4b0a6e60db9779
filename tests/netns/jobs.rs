//! MPI jobs of which each rank has several addresses, in two namespaces.
//!
//! The ranks meet without a launcher, at the first address of the first namespace. What each has used is in the counters
//! that it writes at its end (`HIKYAKU_STATS`).

use std::{
    collections::BTreeSet,
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{self, ExitStatus},
    time::Duration,
};

use hikyaku::{
    environment::Environment,
    mpi::{
        engine::{Communicator, Window},
        job::{Job, LINGER},
    },
};
use serde_json::Value;

use super::{
    PART_LIMIT, START_LIMIT,
    counter::add,
    netns::{self, Namespace, Process},
    rails::Wires,
    switch::Switch,
};

/// The UDP port of each rank that is alone on its host.
const PORT: &str = "7600";

// ---- the part of a rank

/// All ranks add to a counter of rank 0, `RAILS_ADDITIONS` times each. If there is `RAILS_UNTIL`, rank 1 alone does so until
/// that file is there: then it knows each value beforehand.
pub(super) fn play() {
    let begun = netns::now();
    let job = Job::join(&Environment::of_process()).unwrap_or_else(|error| panic!("cannot join: {error}"));
    let world = Communicator::world(job.engine());
    world.barrier().unwrap();
    println!("connected after {} ms", begun.elapsed().as_millis());
    println!("has {} UDP sockets", udp_sockets());
    let window = Window::allocate(&world, 8, 8).unwrap();
    let count = |name: &str| env::var(name).map_or(0, |count| count.parse().unwrap());
    let all: i64 = count("RAILS_ADDITIONS");
    let mut last = -1;
    for _ in 0..all {
        let was = add(&window, 1);
        assert!(was > last, "it was {last} before and {was} after");
        last = was;
    }
    world.barrier().unwrap();
    let sum = add(&window, 0);
    assert_eq!(sum, all * i64::from(world.size()), "each once");
    world.barrier().unwrap();
    if let Ok(end) = env::var("RAILS_UNTIL").map(PathBuf::from)
        && world.rank() == 1
    {
        for next in sum.. {
            assert_eq!(add(&window, 1), next, "each once");
            if next % 100 == 0 {
                println!(
                    "added {next}, {} rails were down",
                    job.engine().packet_stats().rails_down
                );
                if end.exists() {
                    break;
                }
            }
        }
    }
    world.barrier().unwrap();
    window.free().unwrap();
    Job::finalize(&world, LINGER, || Some(job)).unwrap();
    println!("counted");
}

/// The UDP sockets among this process's descriptors; several descriptors can stand for one socket.
fn udp_sockets() -> usize {
    let tables = ["udp", "udp6"].map(|table| fs::read_to_string(format!("/proc/self/net/{table}")).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    let known: Vec<String> = rows
        .filter_map(|row| Some(format!("socket:[{}]", row.split_whitespace().nth(9)?)))
        .collect();
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets: BTreeSet<_> = descriptors
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .collect();
    let is_udp = |target: &&PathBuf| known.iter().any(|socket| target.as_os_str() == socket.as_str());
    targets.iter().filter(is_udp).count()
}

// ---- the tests

/// The ranks of a job, `per_host` in each namespace.
pub(super) struct Ranks(Vec<Process>);

impl Ranks {
    pub(super) fn start(wires: &Wires, per_host: u32, additions: u32, more: &[(&str, &str)]) -> Self {
        let first = wires.address(wires.ends()[0], 0);
        Self::start_in(&wires.ends(), &first, per_host, additions, more)
    }

    pub(super) fn start_in(
        ends: &[&Namespace],
        first: &str,
        per_host: u32,
        additions: u32,
        more: &[(&str, &str)],
    ) -> Self {
        let additions = additions.to_string();
        let more = [&[("RAILS_ADDITIONS", &*additions)], more].concat();
        Self::start_as("rails-job", ends, first, per_host, &more)
    }

    /// `first`: an address of the first namespace that the other ones reach.
    pub(super) fn start_as(role: &str, ends: &[&Namespace], first: &str, per_host: u32, more: &[(&str, &str)]) -> Self {
        let meeting = format!("{first}:7100");
        let ranks = ends.len() as u32 * per_host;
        let size = ranks.to_string();
        let start = |rank: u32| {
            let rank_text = rank.to_string();
            let envs = [
                ("HIKYAKU_RENDEZVOUS", &*meeting),
                ("HIKYAKU_JOB_KEY", "00112233445566778899aabbccddeeff"),
                ("HIKYAKU_RANK", &rank_text),
                ("HIKYAKU_SIZE", &size),
                ("HIKYAKU_STATS", "-"),
            ];
            let end = ends[(rank / per_host) as usize];
            end.spawn_role("part", role, &[&envs, more].concat())
        };
        Self((0..ranks).map(start).collect())
    }

    /// The outputs of all, once they have ended well, each with its counters.
    pub(super) fn finish(self) -> Vec<(String, Value)> {
        let ended: Vec<_> = self.0.into_iter().map(|process| process.finish(PART_LIMIT)).collect();
        let is_well = ended
            .iter()
            .all(|(status, output)| status.success() && output.contains("counted"));
        let said: String = ended
            .iter()
            .map(|(status, output)| format!("{status}\n{output}\n"))
            .collect();
        assert!(is_well, "{said}");
        let of = |(_, output): (ExitStatus, String)| {
            let counters = output.lines().find(|line| line.starts_with('{'));
            let counters = serde_json::from_str(counters.expect(&output)).unwrap();
            (output, counters)
        };
        ended.into_iter().map(of).collect()
    }
}

/// The address, without its port, of an object.
fn address(object: &Value) -> String {
    let socket: SocketAddr = object["address"].as_str().unwrap().parse().unwrap();
    socket.ip().to_string()
}

/// Those of a list of objects.
pub(super) fn addresses(list: &Value) -> Vec<String> {
    list.as_array()
        .map_or_else(Vec::new, |all| all.iter().map(address).collect())
}

/// The time that a rank says it took to reach all others.
pub(super) fn connected_ms(said: &str) -> u64 {
    let rest = said.split_once("connected after ").expect(said).1;
    rest.split(' ').next().and_then(|ms| ms.parse().ok()).expect(said)
}

/// The numbers of the rails on which the peers have answered.
pub(super) fn answered(counters: &Value) -> Vec<u64> {
    let all = counters["rails"].as_array().expect("there are several rails");
    let up = all.iter().filter(|rail| rail["stats"]["round_trip_ns"] != 0);
    up.map(|rail| rail["rail"].as_u64().unwrap()).collect()
}

/// Bridges of containers have addresses, the same ones on all hosts, and lead nowhere: the classic trap. They come before
/// the interfaces that lead somewhere.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn ranks_between_hosts_with_twenty_bridges_are_connected_in_a_second() {
    let Some(wires) = Wires::before(2, 1500, |end| {
        let lines = (0..20).map(|number| {
            format!(
                "link add docker{number} type bridge\n\
                 link add in{number} master docker{number} type veth peer name c{number}\n\
                 link set in{number} up\nlink set c{number} up\nlink set docker{number} up\n\
                 address add 172.{}.0.1/16 dev docker{number}\n",
                17 + number
            )
        });
        netns::ip_batch(&end.name, &lines.collect::<String>());
    }) else {
        return;
    };
    let all = Ranks::start(&wires, 2, 100, &[]).finish();
    for (rank, (said, counters)) in all.iter().enumerate() {
        let end = wires.ends()[rank / 2];
        let own = [0, 1].map(|rail| wires.address(end, rail));
        let ports = addresses(&counters["ports"]);
        assert_eq!(ports[..2], own, "{said}");
        // For hosts without IPv4, of which there is none.
        assert!(ports.len() == 3 && ports[2].starts_with("fd77::"), "{said}");
        assert_eq!(counters["ports"][2]["stats"]["datagrams_sent"], 0, "{said}");
        assert!(connected_ms(said) < 1_000, "{said}");
        // A socket for each port, not for each port and peer.
        assert!(said.contains("has 3 UDP sockets"), "{said}");
        // By each of the two rails to each of the two ranks of the other host.
        assert_eq!(answered(counters), [0, 1, 0, 1], "{said}");
    }
}

/// A firewall lets one UDP port through, at all addresses; the first pair of addresses is silent altogether, and the second
/// one works in one direction only.
#[test]
#[ignore = "needs root, iproute2 and nftables: cargo xtask ci"]
fn one_pair_of_addresses_and_one_port_are_enough() {
    let Some(wires) = Wires::new(3, 1500) else { return };
    let [a, b] = wires.ends();
    for end in [a, b] {
        end.filter(&format!("meta l4proto udp udp dport != {PORT} drop"));
        end.filter("iifname veth0 meta l4proto udp drop");
    }
    b.filter("iifname veth1 meta l4proto udp drop");
    for (said, counters) in Ranks::start(&wires, 1, 100, &[("HIKYAKU_PORT_BASE", PORT)]).finish() {
        assert_eq!(answered(&counters), [2], "{said}");
        for port in counters["ports"].as_array().unwrap() {
            assert!(
                port["address"].as_str().unwrap().ends_with(&format!(":{PORT}")),
                "{said}"
            );
        }
    }
}

/// Containers of one host, each with a network of its own: ranks of one share memory, the others take the network, and the
/// lowest rank says so.
#[cfg(feature = "shm")]
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn containers_with_networks_of_their_own_use_these() {
    let Some(wires) = Wires::new(1, 1500) else { return };
    let all = Ranks::start(&wires, 2, 100, &[]).finish();
    let line = "ranks of this host talk over the network instead of through memory: process 2: it sees another network";
    for (rank, (said, _)) in all.iter().enumerate() {
        assert_eq!(said.contains(line), rank == 0, "rank {rank}: {said}");
    }
}

/// Two hosts with two interfaces each, behind a router that lets datagrams through between the first of the one and the
/// second of the other only.
#[test]
#[ignore = "needs root, iproute2 and nftables: cargo xtask ci"]
fn addresses_behind_routers_are_all_tried() {
    let Some([a, b, router]) = netns::namespaces(["a", "b", "r"]) else {
        return;
    };
    for (end, host) in [(&a, 1), (&b, 2)] {
        for number in [1, 2] {
            let (interface, other) = (format!("veth{number}"), format!("to{host}{number}"));
            netns::join([(end, &interface), (&router, &other)], [1500; 2]);
            netns::ip_batch(
                &end.name,
                &format!(
                    "address add 10.{host}{number}.0.1/24 dev {interface}\n\
                     route add default via 10.{host}{number}.0.254 dev {interface} metric {number}\n"
                ),
            );
            netns::ip(&format!(
                "-n {} address add 10.{host}{number}.0.254/24 dev {other}",
                router.name
            ));
            let loose = format!("net.ipv4.conf.{interface}.rp_filter=2");
            end.exec("sysctl", &["-w", &loose], START_LIMIT);
        }
    }
    router.forwards();
    router.nft(
        "add table ip rules\nadd chain ip rules through { type filter hook forward priority 0; }\n\
         add rule ip rules through ip saddr 10.11.0.1 ip daddr 10.22.0.1 accept\n\
         add rule ip rules through ip saddr 10.22.0.1 ip daddr 10.11.0.1 accept\n\
         add rule ip rules through meta l4proto udp drop\n",
    );
    for end in [&a, &b] {
        ["veth1", "veth2"]
            .iter()
            .for_each(|interface| end.wait_until_up(interface));
    }
    for (said, counters) in Ranks::start_in(&[&a, &b], "10.11.0.1", 1, 100, &[]).finish() {
        let own = addresses(&counters["ports"]);
        let rails = counters["rails"].as_array().unwrap();
        let up = rails.iter().filter(|rail| rail["stats"]["round_trip_ns"] != 0);
        let used: Vec<_> = up
            .map(|rail| (own[rail["port"].as_u64().unwrap() as usize].clone(), address(rail)))
            .collect();
        let [(own, other)] = &used[..] else {
            panic!("{used:?}\n{said}")
        };
        let mut both = [own, other];
        both.sort();
        assert_eq!(both, ["10.11.0.1", "10.22.0.1"], "{said}");
        assert_eq!(rails.len(), 4, "{said}");
    }
}

/// Virtual machines have the same address each, behind their own translation, and the route to elsewhere begins there. With
/// one port number, these are the same sockets.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn hosts_that_begin_with_the_same_address_find_each_other() {
    let (Some([a, b, c]), Some(switch)) = (netns::namespaces(["a", "b", "c"]), Switch::new()) else {
        return;
    };
    for (end, number) in [(&a, 1), (&b, 2), (&c, 3)] {
        if number < 3 {
            netns::ip_batch(
                &end.name,
                "link add nat0 type veth peer name gateway\nlink set gateway up\nlink set nat0 up\n\
                 address add 10.0.2.15/24 dev nat0\nroute add default via 10.0.2.2\n",
            );
        }
        switch.plug(end, "veth0", &format!("lan{number}"), 1500);
        netns::ip(&format!("-n {} address add 10.77.0.{number}/24 dev veth0", end.name));
    }
    for end in [&a, &b, &c] {
        end.wait_until_up("veth0");
    }
    let port = [("HIKYAKU_PORT_BASE", PORT)];
    let all = Ranks::start_in(&[&a, &b, &c], "10.77.0.1", 1, 100, &port).finish();
    for (said, counters) in &all[..2] {
        assert_eq!(addresses(&counters["ports"])[0], "10.0.2.15", "{said}");
        let rails = counters["rails"].as_array().unwrap();
        let second = rails.iter().filter(|rail| rail["port"] == 1);
        let up = second.filter(|rail| rail["stats"]["round_trip_ns"] != 0 && address(rail).starts_with("10.77.0."));
        assert_eq!(up.count(), 2, "{said}");
    }
}

/// First a rail loses what is acknowledged and answered on it, then all; each of the two in turn, until one has been found
/// dead. (It is not if what is under way goes by the other one, as it may in any turn.)
#[test]
#[ignore = "needs root, iproute2 and nftables: cargo xtask ci"]
fn a_rail_that_loses_acknowledgements_and_dies_doubles_no_operation() {
    let Some(wires) = Wires::new(2, 1500) else { return };
    let [a, b] = wires.ends();
    let end = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("end-{}", process::id()));
    let mut ranks = Ranks::start(&wires, 1, 10, &[("RAILS_UNTIL", end.to_str().unwrap())]);
    ranks.0[1].wait_for("added 500", START_LIMIT);
    for (turn, rail) in ["veth0", "veth1"].into_iter().cycle().enumerate() {
        b.loss_on(rail, 100);
        // Until it has been noticed, or not: operations go by one of the two.
        ranks.0[1].outlasts(Duration::from_millis(20));
        a.loss_on(rail, 100);
        ranks.0[1].skip();
        // (The first of these may be from before.)
        ranks.0[1].wait_for("added ", PART_LIMIT);
        let said = ranks.0[1].wait_for("added ", PART_LIMIT);
        a.loss_on(rail, 0);
        b.loss_on(rail, 0);
        ranks.0[1].outlasts(Duration::from_millis(300));
        let none_was = said.ends_with(" 0 rails were down");
        assert!(turn < 40 || !none_was, "{said}");
        if turn >= 3 && !none_was {
            break;
        }
    }
    fs::write(&end, "").unwrap();
    let all = ranks.finish();
    fs::remove_file(&end).unwrap();
    let down = |counters: &Value| counters["stats"]["rails_down"].as_u64().unwrap();
    assert!(all.iter().any(|(_, counters)| down(counters) > 0), "{}", all[1].0);
}

/// Settings that fit nothing, or the same thing twice.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn interfaces_that_are_not_there_or_named_twice() {
    let Some(wires) = Wires::new(2, 1500) else { return };
    let [a, _] = wires.ends();
    let envs = [
        ("HIKYAKU_IFACE", "veth1,eth7"),
        ("HIKYAKU_RENDEZVOUS", "10.77.0.1:7100"),
        ("HIKYAKU_RANK", "0"),
        ("HIKYAKU_SIZE", "1"),
    ];
    let (status, said) = a.spawn_role("part", "rails-job", &envs).finish(PART_LIMIT);
    assert!(!status.success(), "{said}");
    let wanted = "HIKYAKU_IFACE=eth7: no interface fits; this host has lo 127.0.0.1, ";
    assert!(said.contains(wanted) && said.contains("veth1 10.78.0.1"), "{said}");
    let twice = [("HIKYAKU_IFACE", "veth1,10.78.0.0/24,veth0")];
    for (said, counters) in Ranks::start(&wires, 1, 10, &twice).finish() {
        assert_eq!(addresses(&counters["ports"]).len(), 2, "{said}");
        assert_eq!(answered(&counters), [0, 1], "{said}");
    }
}

//! DPDK's virtual devices between real processes: memory shared by two of them (memif; with hugepages also memif without
//! copies and virtio), and packet or XDP sockets on a veth pair between two network namespaces, also with the kernel's
//! UDP at the other end.
//!
//! Every part ends by looking whether all packet buffers are back in their pools.
#![cfg(all(feature = "dpdk", feature = "udp", target_os = "linux"))]

#[path = "../support/answers.rs"]
mod answers;
#[path = "../support/exchange.rs"]
mod exchange;
mod huge;
#[path = "../support/hugepages.rs"]
mod hugepages;
mod memif;
#[expect(dead_code, reason = "what these tests do not need, others do")]
#[path = "../support/netns.rs"]
mod netns;
mod pages;
#[path = "../support/part.rs"]
mod part;
mod ports;
#[path = "../support/second_link.rs"]
mod second_link;
mod veth;
mod virtio;

use std::{
    env, fs,
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{self, Command},
    time::Duration,
};

use answers::{END, send_back};
use exchange::{LONG, content, exchange};
use hikyaku::{
    Config, PeerId,
    backends::{
        Backend, Impaired, Impairments,
        dpdk::{DpdkBackend, DpdkOptions, Pools},
    },
    environment::Environment,
    transport::{Event, Transport},
};
use netns::Process;
use virtio::virtio;

const PART_LIMIT: Duration = Duration::from_secs(60);
const START_LIMIT: Duration = Duration::from_secs(15);
/// Of a peer that says nothing.
const DEATH: Duration = Duration::from_secs(3);
const EVERY_SIZE: [usize; 12] = [0, 1, 8, 0, 1_400, 1_472, 4_097, 8_972, 65_508, 1 << 20, 3, 4 << 20];

// ---- parts

fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// The pools are `None` at the end that has the kernel's sockets.
fn open(processor: u32) -> (Transport, PeerId, Option<Pools>) {
    let at: SocketAddr = var("NETNS_AT").parse().unwrap();
    let config = Config {
        death_timeout: DEATH,
        ..Config::default()
    };
    let builder = Transport::builder().processor(processor).config(config);
    let (mut transport, pools) = if var("NETNS_DEVICE") == "kernel" {
        (builder.bind("udp", at).unwrap(), None)
    } else {
        let options = DpdkOptions::from_environment(&Environment::of_process(), Some(&var("NETNS_DEVICE"))).unwrap();
        let backend = DpdkBackend::bind(at, &options).unwrap_or_else(|error| panic!("{error}"));
        println!("opened {backend:?}");
        let pools = backend.pools();
        let mut backend: Box<dyn Backend> = Box::new(backend);
        if env::var("NETNS_LOSES").is_ok() {
            let losing = Impairments {
                loss: 0.02,
                ..Impairments::default()
            };
            backend = Box::new(Impaired::new(backend, losing, processor.into()).unwrap());
        }
        (builder.backend(backend).unwrap(), Some(pools))
    };
    let peer = transport
        .add_peer(var("NETNS_TO").parse().unwrap(), 3 - processor)
        .unwrap();
    (transport, peer, pools)
}

/// The transport is gone. A driver may keep as many buffers of each pool as `NETNS_KEPT` says.
fn end(pools: Option<Pools>) {
    let kept = env::var("NETNS_KEPT").map_or(0, |kept| kept.parse().unwrap());
    if let Some(pools) = pools {
        let in_use = [pools.receive().in_use, pools.send().in_use];
        assert!(in_use.iter().all(|count| *count <= kept), "{pools:?}");
    }
    println!("all buffers are back");
    let device = var("NETNS_DEVICE");
    if device.contains("zero-copy=yes") {
        // The driver has closed the file of the memory: it cannot be shown to another end, nor become larger.
        refused(&device, "one such link");
        refused("ring", "zero-copy=yes");
    }
}

/// This process opens no such port any more, and says so.
fn refused(device: &str, why: &str) {
    let options = DpdkOptions::from_environment(&Environment::of_process(), Some(device)).unwrap();
    let error = DpdkBackend::bind(var("NETNS_AT").parse().unwrap(), &options).expect_err("a second port");
    assert!(error.to_string().contains(why), "{error}");
}

/// Sends every message back until [`END`], or until the other end is gone.
fn play_answers() {
    let (transport, peer, pools) = open(2);
    println!("answers");
    send_back(transport, peer, PART_LIMIT, LONG);
    end(pools);
}

fn play_exchange() {
    let (mut transport, peer, pools) = open(1);
    let mut lens = EVERY_SIZE.to_vec();
    lens.extend((0..200).map(|i| i * 7 % 300));
    lens.extend((0..20).map(|i| i * 7_919 % 200_000));
    exchange(&mut transport, peer, &lens, 3);
    println!("{:?}", transport.backend_stats());
    transport.send(peer, END).unwrap();
    loop {
        match transport.wait_event(Some(LONG)).unwrap() {
            Event::PeerClosed { .. } => break,
            Event::PeerDown { error, .. } => panic!("{error}"),
            _ => {}
        }
    }
    assert_eq!(transport.stats().peers_lost, 0);
    if env::var("NETNS_LOSSY").is_ok() {
        assert!(transport.stats().resends > 0, "nothing was lost");
    }
    drop(transport);
    end(pools);
}

/// The link goes and comes back, as often as it wants until the file `NETNS_UNTIL` is there.
fn play_link() {
    let (mut transport, peer, pools) = open(1);
    exchange(&mut transport, peer, &[1, 100_000, 0], 0);
    println!("talks");
    let until = PathBuf::from(var("NETNS_UNTIL"));
    while !until.exists() {
        transport.send_blocking(peer, b"there?").unwrap();
        while transport.receive(Some(Duration::from_millis(100))).is_err() {
            println!("silent");
        }
    }
    exchange(&mut transport, peer, &EVERY_SIZE, 3);
    transport.send_blocking(peer, END).unwrap();
    transport.close(LONG).unwrap();
    end(pools);
}

/// The other end is killed while large messages are on their way to it.
fn play_death() {
    let (mut transport, peer, pools) = open(1);
    exchange(&mut transport, peer, &[1, 100_000, 0], 0);
    println!("talks");
    let data = bytes::Bytes::from(content(1, 1 << 20));
    let deadline = netns::now() + LONG;
    let error = loop {
        assert!(netns::now() < deadline, "nobody has died");
        let _ = transport.send_bytes(peer, data.clone());
        let _ = transport.try_receive().unwrap();
        match transport.wait_event(Duration::from_millis(1)) {
            Ok(Event::PeerDown { error, .. }) => break error,
            _ => continue,
        }
    };
    println!("dead: {error}");
    drop(transport);
    end(pools);
}

/// Opens a device, and has it until it is killed.
fn play_holds() {
    let options = DpdkOptions::from_environment(&Environment::of_process(), Some(&var("NETNS_DEVICE"))).unwrap();
    let backend = DpdkBackend::bind(var("NETNS_AT").parse().unwrap(), &options);
    let _backend = backend.unwrap_or_else(|error| panic!("{error}"));
    println!("holds as {}", process::id());
    std::thread::park_timeout(PART_LIMIT);
}

/// Opening fails.
fn play_failure() {
    let options = DpdkOptions::from_environment(&Environment::of_process(), Some(&var("NETNS_DEVICE"))).unwrap();
    let error = DpdkBackend::bind(var("NETNS_AT").parse().unwrap(), &options).unwrap_err();
    println!("error: {error}");
}

/// Not a test: what the processes run.
#[test]
#[ignore = "a part that the other tests start"]
fn part() {
    match netns::role().as_deref() {
        None => {}
        Some("answers") => play_answers(),
        Some("exchange") => play_exchange(),
        Some("death") => play_death(),
        Some("link") => play_link(),
        Some("rails") => ports::play_exchange(),
        Some("rails answer") => ports::play_answers(),
        Some("holds") => play_holds(),
        Some("failure") => play_failure(),
        Some(other) => panic!("unknown part {other}"),
    }
}

// ---- tests

/// Without reserved pages, which not every machine has.
const NO_HUGE: (&str, &str) = ("HIKYAKU_DPDK_MEMORY", "no-huge");
const ETHERNET: (&str, &str) = ("HIKYAKU_DPDK_MTU", "1500");
const JUMBO: (&str, &str) = ("HIKYAKU_DPDK_MTU", "9000");
/// Packets get lost, by other means than [`LOSES`].
const LOSSY: (&str, &str) = ("NETNS_LOSSY", "1");
/// One in fifty is lost before it gets to a device that nobody could lose packets of.
const LOSES: [(&str, &str); 2] = [("NETNS_LOSES", "1"), LOSSY];
const ADDRESSES: [&str; 2] = ["10.77.0.1:7001", "10.77.0.2:7002"];
const ADDRESSES_IPV6: [&str; 2] = ["[fd77::1]:7001", "[fd77::2]:7002"];

/// Variables of a part: `side` 0 asks, 1 answers. Over IPv6 if `more` has `NETNS_IPV6`.
fn part_variables<'a>(side: usize, device: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let addresses = if more.iter().any(|(name, _)| *name == "NETNS_IPV6") {
        ADDRESSES_IPV6
    } else {
        ADDRESSES
    };
    let own = [
        ("NETNS_AT", addresses[side]),
        ("NETNS_TO", addresses[1 - side]),
        ("NETNS_DEVICE", device),
        NO_HUGE,
    ];
    [&own, more].concat()
}

fn finish(process: Process) -> String {
    part::finish(process, PART_LIMIT)
}

fn finish_with_buffers(process: Process) -> String {
    let output = finish(process);
    assert!(output.contains("all buffers are back"), "{output}");
    output
}

/// A socket in the file system, removed in the end.
struct Socket(PathBuf);

impl Socket {
    fn new(name: &str) -> Self {
        Self(env::temp_dir().join(format!("hikyaku-{name}-{}", process::id())))
    }

    fn memif(&self, role: &str) -> String {
        format!("memif:socket={},role={role}", self.0.display())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Who has made it removes it too, unless it was killed.
        let _ = fs::remove_file(&self.0);
    }
}

/// Two processes in this namespace; the one that answers starts first.
fn pair(devices: [&str; 2], more: &[(&str, &str)]) {
    let mut answers = part::start("answers", &part_variables(1, devices[1], more));
    answers.wait_for("answers", START_LIMIT);
    let asks = part::start("exchange", &part_variables(0, devices[0], more));
    finish_with_buffers(asks);
    finish_with_buffers(answers);
}

/// Tries to open a device, and gives what is said about it.
fn failure(device: &str, more: &[(&str, &str)]) -> String {
    let output = finish(part::start("failure", &part_variables(0, device, more)));
    let (_, error) = output.split_once("error: ").expect("it has failed");
    error.to_owned()
}

#[test]
fn arguments_that_dpdk_does_not_know() {
    let error = failure("ring", &[("HIKYAKU_DPDK_EAL", "--no-such-argument")]);
    assert!(error.contains("DPDK's environment does not start"), "{error}");
    assert!(error.contains("--no-such-argument"), "{error}");
}

#[test]
fn hugepages_that_are_not_there() {
    let nowhere = [
        ("HIKYAKU_DPDK_MEMORY", "hugepages"),
        ("HIKYAKU_DPDK_EAL", "--huge-dir=/no/such/folder"),
    ];
    let error = failure("ring", &nowhere);
    assert!(error.contains("DPDK's environment does not start"), "{error}");
    assert!(error.contains("HIKYAKU_DPDK_MEMORY=no-huge"), "{error}");
}

#[test]
fn devices_that_are_not_there() {
    let error = failure("af_packet:iface=no-such-iface", &[]);
    assert!(
        error.contains("no-such-iface") && error.contains("needs root"),
        "{error}"
    );
    let error = failure("af_xdp:iface=no-such-iface", &[]);
    assert!(error.contains("no-such-iface") && error.contains("CAP_BPF"), "{error}");
    let error = failure("virtio-user:path=/no/such/socket", &[]);
    assert!(error.contains("vhost device at its socket"), "{error}");
    let error = failure("vhost:iface=/no/such/folder/socket", &[]);
    assert!(error.contains("/no/such/folder"), "{error}");
    let error = failure(
        "port:0000:99:00.0",
        &[("HIKYAKU_DPDK_PCI", "on"), ("HIKYAKU_DPDK_EAL", "-a 0000:99:00.0")],
    );
    assert!(error.contains("0000:99:00.0"), "{error}");
}

/// As a user who may open no packet sockets, no XDP sockets and no TAP devices, nor write into another user's folder.
#[test]
fn without_permission() {
    // Whether it starts at all is seen by having it list its tests.
    let mut tried = Command::new(env::current_exe().unwrap());
    if let Err(error) = tried.arg("--list").uid(65_534).gid(65_534).output() {
        println!("skipped: to try it without permission needs root, and a folder that all may read: {error}");
        return;
    }
    for (device, wanted) in [
        ("af_packet:iface=lo", "needs root"),
        ("af_xdp:iface=lo", "needs root"),
        ("net_tap", "needs root"),
        ("memif:socket=/proc/hikyaku,role=server", "needs a folder"),
        ("vhost:iface=/proc/hikyaku", "needs a vhost device"),
    ] {
        let mut command = part::command("failure", &part_variables(0, device, &[]));
        command.uid(65_534).gid(65_534);
        let output = finish(Process::spawn(command));
        let error = output.split_once("error: ").map_or("", |(_, error)| error);
        assert!(error.contains(wanted), "{device}: {output}");
    }
}

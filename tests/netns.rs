//! Two processes in two network namespaces over a veth pair: the kernel's real path, with an MTU and with loss.

#[path = "support/netns.rs"]
mod netns;

use std::{
    env,
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use netns::{Namespace, Veth};

/// Of a whole part played by a child. The slowest waits for 500 answers, some of which are lost.
const PART_LIMIT: Duration = Duration::from_secs(60);
const START_LIMIT: Duration = Duration::from_secs(10);

/// Answers every datagram with itself until an empty one comes.
fn play_echo(address: IpAddr) {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.set_read_timeout(Some(PART_LIMIT)).unwrap();
    println!("listens at {}", socket.local_addr().unwrap());
    let mut datagram = vec![0; 65_536];
    loop {
        let (len, from) = socket.recv_from(&mut datagram).unwrap();
        if len == 0 {
            return;
        }
        socket.send_to(&datagram[..len], from).unwrap();
    }
}

/// Sends numbered datagrams of `len` octets one after the other, each until its answer or a time-out.
fn play_ping(address: IpAddr, echo: SocketAddr, count: u32, len: usize) {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut answered = 0;
    let mut answer = vec![0; 65_536];
    for number in 0..count {
        let mut datagram = vec![0xa5; len];
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        socket.send_to(&datagram, echo).unwrap();
        // Late answers to earlier numbers are passed over. There are fewer of them than numbers.
        while let Ok(len) = socket.recv(&mut answer) {
            if answer[..len] == datagram {
                answered += 1;
                break;
            }
        }
    }
    // Loss may hit these too. The parent kills an echo that has missed them all.
    for _ in 0..10 {
        socket.send_to(&[], echo).unwrap();
    }
    println!("answered {answered}");
}

/// Not a test: what the processes in the namespaces run.
#[test]
#[ignore = "a part that the other tests start"]
fn part() {
    let Some(role) = netns::role() else { return };
    let var = |name: &str| env::var(name).unwrap();
    let address = var("NETNS_ADDRESS").parse().unwrap();
    match role.as_str() {
        "echo" => play_echo(address),
        "ping" => {
            let echo = var("NETNS_ECHO").parse().unwrap();
            play_ping(
                address,
                echo,
                var("NETNS_COUNT").parse().unwrap(),
                var("NETNS_LEN").parse().unwrap(),
            );
        }
        other => panic!("unknown part {other}"),
    }
}

/// How many of `count` datagrams of `len` octets from `ping` were answered by `echo`.
fn ping(ping: &Namespace, echo: &Namespace, ipv6: bool, count: u32, len: usize) -> u32 {
    let address = |namespace: &Namespace| if ipv6 { namespace.ipv6 } else { namespace.ipv4 }.to_string();
    let mut server = echo.spawn_role("part", "echo", &[("NETNS_ADDRESS", &address(echo))]);
    let listens = server.wait_for("listens at ", START_LIMIT);
    let (status, output) = ping
        .spawn_role(
            "part",
            "ping",
            &[
                ("NETNS_ADDRESS", &address(ping)),
                ("NETNS_ECHO", &listens),
                ("NETNS_COUNT", &count.to_string()),
                ("NETNS_LEN", &len.to_string()),
            ],
        )
        .finish(PART_LIMIT);
    assert!(status.success(), "{output}");
    let answered = output
        .split_once("answered ")
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    answered.unwrap_or_else(|| panic!("no count in:\n{output}"))
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn datagrams_cross_at_both_mtus() {
    for mtu in [1500, 9000] {
        let Some(veth) = Veth::new(mtu) else { return };
        for ipv6 in [false, true] {
            assert_eq!(ping(&veth.a, &veth.b, ipv6, 50, 100), 50, "MTU {mtu}, IPv6: {ipv6}");
        }
        // 28 octets of IPv4 and UDP header: the largest datagram that is one packet, and one octet more.
        let largest = mtu as usize - 28;
        let fragments = || veth.a.counter("Ip", "FragCreates");
        assert_eq!(ping(&veth.a, &veth.b, false, 10, largest), 10, "MTU {mtu}");
        assert_eq!(fragments(), 0, "MTU {mtu}: {largest} octets fit");
        assert_eq!(ping(&veth.a, &veth.b, false, 10, largest + 1), 10, "MTU {mtu}");
        assert_eq!(fragments(), 20, "MTU {mtu}: {} octets take two packets", largest + 1);
    }
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn loss_is_about_as_much_as_asked() {
    let Some(veth) = Veth::new(1500) else { return };
    veth.b.loss(30);
    let answered = ping(&veth.a, &veth.b, false, 500, 100);
    // 350 expected; the standard deviation is 10.
    assert!((280..420).contains(&answered), "{answered} of 500");
    veth.b.loss(100);
    assert_eq!(ping(&veth.a, &veth.b, true, 10, 100), 0);
    veth.b.loss(0);
    assert_eq!(ping(&veth.a, &veth.b, true, 50, 100), 50);
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn nothing_is_left_behind() {
    let names = || {
        String::from_utf8(
            std::process::Command::new("ip")
                .args(["netns", "list"])
                .output()
                .unwrap()
                .stdout,
        )
    };
    let Some(veth) = Veth::new(1500) else { return };
    let name = veth.a.name.clone();
    // A process that would keep the namespace alive, and whose handle is forgotten.
    std::mem::forget(veth.b.spawn("sleep", &["600"], &[]));
    veth.a.split_bursts();
    assert!(names().unwrap().contains(&name));
    let panicked = std::thread::spawn(move || {
        let _veth = veth;
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert!(!names().unwrap().contains(name.trim_end_matches('a')));
}

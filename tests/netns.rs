//! Processes in network namespaces over veth pairs: the kernel's real path, with an MTU and with loss.
#![cfg(all(feature = "udp", target_os = "linux"))]

#[path = "support/answers.rs"]
mod answers;
#[path = "support/counter.rs"]
mod counter;
#[path = "netns/crossed.rs"]
mod crossed;
#[cfg(feature = "shm")]
#[expect(unsafe_code, reason = "the engine takes pointers")]
#[path = "support/drawn.rs"]
mod drawn;
#[path = "support/exchange.rs"]
mod exchange;
#[path = "netns/families.rs"]
mod families;
#[path = "netns/jobs.rs"]
mod jobs;
#[cfg(feature = "shm")]
#[path = "netns/levels.rs"]
mod levels;
#[path = "support/netns.rs"]
mod netns;
#[path = "netns/paths.rs"]
mod paths;
#[path = "netns/rails.rs"]
mod rails;
#[path = "netns/relay.rs"]
mod relay;
#[path = "netns/switch.rs"]
mod switch;

use std::{
    env,
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use answers::{END, send_back};
use exchange::{LONG, content, exchange};
use hikyaku::{
    Config, PeerError, PeerId, SendError,
    transport::{Event, Transport},
};
use netns::{Namespace, Process, Routed, Veth};
use socket2::{Domain, Protocol, Socket, Type};

/// Of a whole part played by a child. The slowest waits for 500 answers, some of which are lost.
const PART_LIMIT: Duration = Duration::from_secs(60);
const START_LIMIT: Duration = Duration::from_secs(10);

/// Answers every datagram with itself until an empty one comes.
fn play_echo(address: IpAddr) {
    let port = env::var("NETNS_PORT").map_or(0, |port| port.parse().unwrap());
    let socket = UdpSocket::bind((address, port)).unwrap();
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

/// Sends numbered datagrams of `len` bytes one after the other, each until its answer or a time-out.
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
    match role.as_str() {
        "echo" => play_echo(var("NETNS_ADDRESS").parse().unwrap()),
        "ping" => {
            let echo = var("NETNS_ECHO").parse().unwrap();
            play_ping(
                var("NETNS_ADDRESS").parse().unwrap(),
                echo,
                var("NETNS_COUNT").parse().unwrap(),
                var("NETNS_LEN").parse().unwrap(),
            );
        }
        "answers" => play_answers(&var("NETNS_AT"), var("NETNS_TO").parse().unwrap()),
        "exchange" => play_exchange(),
        "outage" => play_outage(),
        "death" => play_death(),
        "forgery" => play_forgery(),
        "timeout" => play_timeout(),
        "restart" => play_restart(),
        "rails-job" => jobs::play(),
        "rails-relay" => relay::play(),
        #[cfg(feature = "shm")]
        "levels-job" => levels::play(),
        other => rails::play(other),
    }
}

// ---- parts of the whole stack

/// Of a peer in these tests.
const DEATH: Duration = Duration::from_secs(4);

fn open(at: &str, processor: u32) -> Transport {
    let death_timeout = env::var("NETNS_DEATH_MS").map_or(DEATH, |ms| Duration::from_millis(ms.parse().unwrap()));
    let config = Config {
        death_timeout,
        ..Config::default()
    };
    Transport::builder()
        .processor(processor)
        .config(config)
        .bind("udp", at)
        .unwrap()
}

/// Our transport at `NETNS_AT`, and the peers at `NETNS_TO`.
fn open_with_peers() -> (Transport, Vec<PeerId>) {
    let mut transport = open(&env::var("NETNS_AT").unwrap(), 1);
    let to = env::var("NETNS_TO").unwrap();
    let peers = to
        .split(',')
        .zip(2..)
        .map(|(peer, processor)| transport.add_peer(peer.parse().unwrap(), processor).unwrap())
        .collect();
    (transport, peers)
}

/// Says "here", then sends every message back to where it came from, until [`END`].
fn play_answers(at: &str, to: SocketAddr) {
    let mut transport = open(
        at,
        env::var("NETNS_PROCESSOR").map_or(2, |number| number.parse().unwrap()),
    );
    let peer = transport.add_peer(to, 1).unwrap();
    println!("answers at {at}");
    transport.send(peer, b"here").unwrap();
    send_back(transport, peer, LONG, LONG);
}

fn wait_until_here(transport: &mut Transport, peer: PeerId) {
    let message = transport.receive(Some(LONG)).unwrap();
    assert_eq!((message.peer(), message.data()), (peer, &b"here"[..]));
}

fn ask(transport: &mut Transport, peer: PeerId, len: usize) {
    transport.send_blocking(peer, &content(len, len)).unwrap();
    let message = transport.receive(Some(LONG)).unwrap();
    assert!(
        message.peer() == peer && message.data() == content(len, len),
        "{len} bytes"
    );
}

/// Says goodbye to `peer` and waits until it has said so too.
fn part_from(transport: &mut Transport, peer: PeerId) {
    transport.send(peer, END).unwrap();
    loop {
        match transport.wait_event(Some(LONG)).unwrap() {
            Event::PeerClosed { peer: closed } if closed == peer => return,
            Event::PeerDown { peer: down, error } if down == peer => panic!("{error}"),
            _ => {}
        }
    }
}

/// All sizes both ways, until the path's MTU is found as well.
fn play_exchange() {
    let (mut transport, peers) = open_with_peers();
    let [peer] = peers[..] else { panic!("one peer") };
    wait_until_here(&mut transport, peer);
    let mut lens = vec![0, 1, 8, 0, 1_400, 1_472, 4_097, 8_972, 65_508, 1 << 20, 3, 4 << 20];
    lens.extend((0..200).map(|i| i * 7 % 300));
    lens.extend((0..20).map(|i| i * 7_919 % 200_000));
    let max_datagram = |transport: &Transport| transport.peer_stats(peer).unwrap().max_datagram;
    exchange(&mut transport, peer, &lens, 0);
    let wanted: u64 = env::var("NETNS_WANTED").unwrap().parse().unwrap();
    let deadline = netns::now() + LONG;
    while max_datagram(&transport) != wanted {
        assert!(netns::now() < deadline, "path MTU: {} bytes", max_datagram(&transport));
        ask(&mut transport, peer, 5_000);
    }
    if env::var("NETNS_SHRINK").is_ok() {
        println!("to be shrunk");
        let shrunk: u64 = env::var("NETNS_SHRINK").unwrap().parse().unwrap();
        // The search ends close to it, from below.
        let close = shrunk - 64..=shrunk;
        while !close.contains(&max_datagram(&transport)) {
            assert!(netns::now() < deadline, "path MTU: {} bytes", max_datagram(&transport));
            ask(&mut transport, peer, 200_000);
        }
        exchange(&mut transport, peer, &lens, 0);
        assert!(close.contains(&max_datagram(&transport)));
    }
    // Before it parts: a copy that arrives after goodbye is answered by a reset.
    let stats = transport.stats();
    assert_eq!((stats.peers_lost, stats.resets_sent), (0, 0), "{stats:?}");
    part_from(&mut transport, peer);
}

/// Messages without a pause while the link comes and goes, until the parent has seen enough.
fn play_outage() {
    let (mut transport, peers) = open_with_peers();
    let [peer] = peers[..] else { panic!("one peer") };
    wait_until_here(&mut transport, peer);
    let lens: Vec<usize> = (0..200).map(|i| i * 997 % 30_000).collect();
    exchange(&mut transport, peer, &lens, 0);
    println!("talks");
    let outage = Duration::from_millis(500);
    let (mut longest, mut after) = (Duration::ZERO, 0);
    let deadline = netns::now() + LONG;
    // Long enough after the outage that nothing can still be on its way.
    while after < 20 {
        let start = netns::now();
        assert!(start < deadline, "no outage came: {longest:?}");
        exchange(&mut transport, peer, &lens, 0);
        longest = longest.max(start.elapsed());
        after += usize::from(longest >= outage);
    }
    println!("outage lasted {longest:?}");
    part_from(&mut transport, peer);
    let stats = transport.stats();
    assert_eq!((stats.peers_lost, stats.sessions_opened), (0, 1), "{stats:?}");
}

/// The first peer dies; the second one must not notice.
fn play_death() {
    let (mut transport, peers) = open_with_peers();
    let [dying, other] = peers[..] else { panic!("two peers") };
    for _ in 0..2 {
        assert_eq!(transport.receive(Some(LONG)).unwrap().data(), b"here");
    }
    ask(&mut transport, dying, 100_000);
    println!("talks");
    let deadline = netns::now() + LONG;
    let (mut asked, mut slowest) = (0, Duration::ZERO);
    let error = 'dead: loop {
        assert!(netns::now() < deadline, "nobody has died");
        match transport.send(dying, &[]) {
            Ok(()) | Err(SendError::WouldBlock(_)) => {}
            Err(SendError::Peer(peer, error)) if peer == dying => break error,
            Err(error) => panic!("{error}"),
        }
        let start = netns::now();
        transport.send(other, b"are you well?").unwrap();
        // What the dying one has sent comes between.
        while transport.receive(Some(LONG)).unwrap().peer() != other {}
        (asked, slowest) = (asked + 1, slowest.max(start.elapsed()));
        while let Some(event) = transport.next_event() {
            if let Event::PeerDown { peer, error } = event {
                assert_eq!(peer, dying);
                break 'dead error;
            }
        }
    };
    assert_eq!(transport.send(dying, b""), Err(SendError::Peer(dying, error)));
    let silence = match error {
        PeerError::TimedOut { silence, .. } => silence,
        PeerError::Refused => Duration::ZERO,
        other => panic!("{other}"),
    };
    let kind = if silence.is_zero() { "refused" } else { "timed out" };
    assert!(
        asked > 0 && slowest < Duration::from_millis(500),
        "{asked} asked, slowest {slowest:?}"
    );
    exchange(&mut transport, other, &[0, 1, 1 << 20, 3], 0);
    part_from(&mut transport, other);
    println!("dead: {kind} after {} ms", silence.as_millis());
}

/// Says to `NETNS_TO` again and again that nobody listens at `NETNS_AT`, until killed: ICMP from an address that has nothing to
/// do with either, which quotes their addresses and ports, and `NETNS_LEN` bytes of a packet with a wrong token.
fn play_forgery() {
    let [at, to] = ["NETNS_AT", "NETNS_TO"].map(|name| env::var(name).unwrap().parse::<SocketAddr>().unwrap());
    let mut quoted = vec![0; env::var("NETNS_LEN").unwrap().parse().unwrap()];
    // A packet of data of the second version.
    quoted.iter_mut().zip([0x20_u8]).for_each(|(byte, first)| *byte = first);
    let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
    let (protocol, len) = (17, 8 + quoted.len() as u16);
    let socket = match (at.ip(), to.ip()) {
        (IpAddr::V4(at), IpAddr::V4(to)) => {
            message.extend([0x45, 0]);
            message.extend((20 + len).to_be_bytes());
            message.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            message.extend(to.octets());
            message.extend(at.octets());
            Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap()
        }
        (IpAddr::V6(at), IpAddr::V6(to)) => {
            // The kernel makes the checksum.
            message[..2].copy_from_slice(&[1, 4]);
            message.extend([0x60, 0, 0, 0]);
            message.extend(len.to_be_bytes());
            message.extend([protocol, 64]);
            message.extend(to.octets());
            message.extend(at.octets());
            Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6)).unwrap()
        }
        _ => panic!("one family"),
    };
    for number in [to.port(), at.port(), len, 0] {
        message.extend(number.to_be_bytes());
    }
    message.extend(&quoted);
    if at.is_ipv4() {
        let sum = message
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low)))
            .sum::<u32>();
        let sum = (sum & 0xffff) + (sum >> 16);
        message[2..4].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    }
    let target = SocketAddr::new(to.ip(), 0).into();
    println!("forges");
    loop {
        socket.send_to(&message, &target).unwrap();
        std::thread::park_timeout(Duration::from_micros(500));
    }
}

/// Asks until a peer that is stopped for a while has answered; nobody may be lost.
fn play_timeout() {
    let (mut transport, peers) = open_with_peers();
    let [peer] = peers[..] else { panic!("one peer") };
    wait_until_here(&mut transport, peer);
    let forged = env::var("NETNS_LEN").unwrap();
    println!("talks");
    let deadline = netns::now() + LONG;
    let mut longest = Duration::ZERO;
    while longest < Duration::from_millis(500) || transport.stats().refusals_ignored < 100 {
        assert!(
            netns::now() < deadline,
            "longest {longest:?}, forged {forged}, {:?}",
            transport.stats()
        );
        let asked = netns::now();
        ask(&mut transport, peer, 100);
        longest = longest.max(asked.elapsed());
    }
    while let Some(event) = transport.next_event() {
        assert!(matches!(event, Event::PeerUp { .. }), "{event:?}");
    }
    println!("heard {} forgeries", transport.stats().refusals_ignored);
    part_from(&mut transport, peer);
}

/// The peer is killed and started again at the same address.
fn play_restart() {
    let (mut transport, peers) = open_with_peers();
    let [peer] = peers[..] else { panic!("one peer") };
    wait_until_here(&mut transport, peer);
    exchange(&mut transport, peer, &[1, 100_000, 0], 0);
    println!("talks");
    wait_until_here(&mut transport, peer);
    exchange(&mut transport, peer, &[1, 1 << 20, 0], 0);
    let (mut up, mut down) = (0, Vec::new());
    while let Some(event) = transport.next_event() {
        match event {
            Event::PeerUp { .. } => up += 1,
            Event::PeerDown { error, .. } => down.push(error),
            _ => {}
        }
    }
    assert!(
        up == 2 && matches!(down[..], [PeerError::Restarted | PeerError::Refused]),
        "{up} {down:?}"
    );
    part_from(&mut transport, peer);
}

// ---- tests of the whole stack

const PORT: u16 = 7_001;

fn at(namespace: &Namespace, ipv6: bool, port: u16) -> String {
    let ip = if ipv6 { namespace.ipv6 } else { namespace.ipv4 };
    SocketAddr::new(ip, port).to_string()
}

/// Starts who answers at `port` in `b` what comes from `a`.
fn answers(a: &Namespace, b: &Namespace, ipv6: bool, port: u16) -> Process {
    let (at, to) = (at(b, ipv6, port), at(a, ipv6, PORT));
    let processor = (port - PORT + 1).to_string();
    let mut process = b.spawn_role(
        "part",
        "answers",
        &[("NETNS_AT", &at), ("NETNS_TO", &to), ("NETNS_PROCESSOR", &processor)],
    );
    process.wait_for("answers at ", START_LIMIT);
    process
}

/// Starts who asks the first ports of `b`, as `role`.
fn asks(a: &Namespace, b: &Namespace, ipv6: bool, role: &str, peers: u16, more: &[(&str, &str)]) -> Process {
    let to: Vec<String> = (1..=peers).map(|n| at(b, ipv6, PORT + n)).collect();
    let (own, to) = (at(a, ipv6, PORT), to.join(","));
    let envs = [&[("NETNS_AT", own.as_str()), ("NETNS_TO", to.as_str())], more].concat();
    a.spawn_role("part", role, &envs)
}

fn finish(process: Process) -> String {
    let (status, output) = process.finish(PART_LIMIT);
    assert!(status.success(), "{output}");
    output
}

/// All sizes between `a` and `b`; `largest`: what the path is found to carry, bytes of an IP packet.
fn exchange_between(a: &Namespace, b: &Namespace, ipv6: bool, largest: u32) {
    let server = answers(a, b, ipv6, PORT + 1);
    let wanted = (largest - headers(ipv6)).to_string();
    finish(asks(a, b, ipv6, "exchange", 1, &[("NETNS_WANTED", &wanted)]));
    finish(server);
}

/// Of IP and UDP.
fn headers(ipv6: bool) -> u32 {
    if ipv6 { 48 } else { 28 }
}

fn messages_arrive(mtu: u32) {
    let Some(veth) = Veth::new(mtu) else { return };
    veth.a.split_bursts();
    veth.b.split_bursts();
    for loss in [0, 1, 10] {
        veth.a.loss(loss);
        veth.b.loss(loss);
        for ipv6 in [false, true] {
            exchange_between(&veth.a, &veth.b, ipv6, mtu);
        }
    }
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn messages_of_all_sizes_arrive_at_mtu_1500_with_loss() {
    messages_arrive(1_500);
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn messages_of_all_sizes_arrive_at_mtu_9000_with_loss() {
    messages_arrive(9_000);
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn bursts_that_are_lost_whole_arrive_all_the_same() {
    let Some(veth) = Veth::new(1_500) else { return };
    veth.b.loss(10);
    exchange_between(&veth.a, &veth.b, false, 1_500);
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_path_narrower_than_both_ends_is_found() {
    for mute in [false, true] {
        let Some(path) = Routed::new(1_500) else { return };
        if mute {
            path.block_icmp();
        }
        for ipv6 in [false, true] {
            exchange_between(&path.a, &path.b, ipv6, 1_500);
        }
    }
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_path_that_becomes_narrower_is_noticed() {
    // Not IPv6 with a silent router: no router fragments it, and the kernel fragments only for what it has been told,
    // so what is in flight cannot arrive, and the session ends by time-out.
    for (mute, ipv6) in [(false, false), (true, false), (false, true)] {
        let Some(path) = Routed::new(9_000) else { return };
        if mute {
            path.block_icmp();
        }
        println!("silent router: {mute}, IPv6: {ipv6}");
        let server = answers(&path.a, &path.b, ipv6, PORT + 1);
        let (wanted, shrunk) = (9_000 - headers(ipv6), 1_500 - headers(ipv6));
        let more = [
            ("NETNS_WANTED", &*wanted.to_string()),
            ("NETNS_SHRINK", &*shrunk.to_string()),
        ];
        let mut process = asks(&path.a, &path.b, ipv6, "exchange", 1, &more);
        process.wait_for("to be shrunk", LONG);
        path.shrink(1_500);
        finish(process);
        finish(server);
    }
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn the_death_of_a_peer_is_told_and_does_not_touch_another() {
    // A port where nobody listens is refused, unless nothing says so; then silence tells. Linux refuses six packets at
    // once and then one a second: if the first six were all under way, the next tells of the death.
    let (silent, refused) = (Duration::from_millis(600), Duration::from_millis(2_400));
    for (mute, limit) in [(false, 2 * refused), (true, silent)] {
        let Some(veth) = Veth::new(1_500) else { return };
        if mute {
            veth.a.ignore_icmp();
        }
        let dying = answers(&veth.a, &veth.b, false, PORT + 1);
        let other = answers(&veth.a, &veth.b, false, PORT + 2);
        let more = [("NETNS_DEATH_MS", &*limit.as_millis().to_string())];
        let mut process = asks(&veth.a, &veth.b, false, "death", 2, &more);
        process.wait_for("talks", LONG);
        dying.kill();
        let killed = netns::now();
        let dead = process.wait_for("dead: ", LONG);
        let passed = killed.elapsed();
        if mute {
            // The silence began when the peer was last heard: a little before it was killed.
            let silence = dead
                .strip_prefix("timed out after ")
                .and_then(|rest| rest.strip_suffix(" ms"));
            let silence: u128 = silence.and_then(|ms| ms.parse().ok()).expect(&dead);
            assert!(silence >= limit.as_millis(), "{dead} {passed:?}");
            assert!(passed < 4 * limit, "{dead} {passed:?}");
        } else {
            assert!(dead.starts_with("refused"), "{dead}");
            assert!(passed < refused, "{dead} {passed:?}");
        }
        finish(process);
        finish(other);
    }
}

/// Messages of an attacker off the path about a session, while the peer does not answer for a second.
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn forged_refusals_lose_nobody() {
    for (ipv6, len) in [(false, 0), (false, 64), (true, 0), (true, 64)] {
        let Some(path) = Routed::new(1_500) else { return };
        println!("IPv6: {ipv6}, {len} bytes quoted");
        let server = answers(&path.a, &path.b, ipv6, PORT + 1);
        let len = len.to_string();
        let mut process = asks(&path.a, &path.b, ipv6, "timeout", 1, &[("NETNS_LEN", &len)]);
        process.wait_for("talks", LONG);
        let [from, to] = [at(&path.b, ipv6, PORT + 1), at(&path.a, ipv6, PORT)];
        let envs = [("NETNS_AT", &*from), ("NETNS_TO", &to), ("NETNS_LEN", &len)];
        let mut forger = path.router.spawn_role("part", "forgery", &envs);
        forger.wait_for("forges", START_LIMIT);
        server.signal("STOP");
        process.outlasts(Duration::from_secs(1));
        server.signal("CONT");
        process.wait_for("heard ", LONG);
        forger.kill();
        finish(process);
        finish(server);
    }
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_link_that_is_down_for_a_second_loses_nothing() {
    for ipv6 in [false, true] {
        let Some(veth) = Veth::new(1_500) else { return };
        let server = answers(&veth.a, &veth.b, ipv6, PORT + 1);
        let mut process = asks(&veth.a, &veth.b, ipv6, "outage", 1, &[]);
        process.wait_for("talks", LONG);
        veth.b.link(false);
        process.outlasts(Duration::from_secs(1));
        veth.b.link(true);
        process.wait_for("outage lasted ", LONG);
        finish(process);
        finish(server);
    }
}

#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn a_restarted_peer_is_the_same_peer() {
    let Some(veth) = Veth::new(1_500) else { return };
    let server = answers(&veth.a, &veth.b, false, PORT + 1);
    let mut process = asks(&veth.a, &veth.b, false, "restart", 1, &[]);
    process.wait_for("talks", LONG);
    server.kill();
    let server = answers(&veth.a, &veth.b, false, PORT + 1);
    finish(process);
    finish(server);
}

// ---- tests of the network itself

/// How many of `count` datagrams of `len` bytes from `ping` were answered by `echo`.
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
        // 28 bytes of IPv4 and UDP header: the largest datagram that is one packet, and one byte more.
        let largest = mtu as usize - 28;
        let fragments = || veth.a.counter("Ip", "FragCreates");
        assert_eq!(ping(&veth.a, &veth.b, false, 10, largest), 10, "MTU {mtu}");
        assert_eq!(fragments(), 0, "MTU {mtu}: {largest} bytes fit");
        assert_eq!(ping(&veth.a, &veth.b, false, 10, largest + 1), 10, "MTU {mtu}");
        assert_eq!(fragments(), 20, "MTU {mtu}: {} bytes take two packets", largest + 1);
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

//! Pollers with two ports, by which each rank reaches its peer on two rails.

use std::{env, net::SocketAddr, time::Duration};

use hikyaku::{
    PeerId,
    reliability::{Path, RailState},
    transport::{Event, Transport},
};

use super::{
    Link, NO_HUGE, Nodes, START_LIMIT,
    answers::{END, send_back},
    devices::veth,
    exchange::{LONG, exchange},
    finish,
    netns::INTERFACE,
    open,
    second_link::{BESIDE, SECOND, exchange_until},
    var,
};
use crate::PART_LIMIT;

const RAIL: u8 = 1;
/// What each rail carries at least, if large messages are striped.
const SHARE: u64 = 4 << 20;

/// With a rail by the second port.
fn open_with_rail(processor: u32) -> (Transport, PeerId) {
    let (mut transport, peer) = open(processor);
    let side = processor as usize - 1;
    let (own, _) = transport.port_stats(RAIL).expect("the poller has a second port");
    assert_eq!(own.ip().to_string(), BESIDE[side]);
    assert_eq!(own.port(), transport.local_addr().port());
    let to = var("PART_TO").parse::<SocketAddr>().unwrap();
    let beside = SocketAddr::new(BESIDE[1 - side].parse().unwrap(), to.port());
    let path = Path::new(beside, RAIL);
    assert_eq!(transport.add_rail(peer, path), Ok(RAIL));
    assert!(transport.add_rail(peer, path).is_err(), "it has it already");
    let stats = transport.rail_stats(peer, RAIL).unwrap();
    assert_eq!((stats.path, stats.state), (path, RailState::Unproven));
    (transport, peer)
}

/// Sends every message back until [`END`].
pub(super) fn play_answers() {
    let (transport, peer) = open_with_rail(2);
    println!("answers");
    send_back(transport, peer, PART_LIMIT, LONG);
}

/// Both rails carry; then, with `PART_CUT`, the second link is cut.
pub(super) fn play_exchange() {
    let (mut transport, peer) = open_with_rail(1);
    let rail = RAIL;
    exchange_until(&mut transport, peer, &Event::RailUp { peer, rail });
    let stats = transport.rail_stats(peer, rail).unwrap();
    assert!(
        stats.state == RailState::Up && !stats.round_trip.is_zero() && stats.max_datagram > 0,
        "{stats:?}"
    );
    // (By reference: one that waits for room takes in what comes meanwhile.)
    exchange(&mut transport, peer, &[1 << 20; 24], 0);
    println!("striped");
    let is_cut = env::var("PART_CUT").is_ok();
    if is_cut {
        exchange_until(&mut transport, peer, &Event::RailDown { peer, rail });
        let stats = transport.rail_stats(peer, rail).unwrap();
        assert_eq!((stats.state, stats.failures), (RailState::Down, 1));
        println!("down");
        exchange(&mut transport, peer, &[1 << 20; 8], 0);
    }
    assert_eq!(transport.stats().peers_lost, 0);
    transport.send_blocking(peer, END).unwrap();
    loop {
        match transport.wait_event(Some(LONG)).unwrap() {
            Event::PeerClosed { .. } => break,
            Event::PeerDown { error, .. } => panic!("{error}"),
            _ => {}
        }
    }
    for rail in [0, RAIL] {
        let stats = transport.rail_stats(peer, rail).unwrap();
        assert!(stats.bytes_sent > SHARE, "rail {rail}: {stats:?}");
    }
}

/// Each port of both pollers has carried its share.
fn both_have_carried(nodes: Nodes) {
    for output in nodes.finish() {
        for address in [super::ADDRESSES, BESIDE].as_flattened() {
            let line = output
                .lines()
                .find(|line| line.starts_with(&format!("port {address}: ")));
            let Some((_, sent)) = line.and_then(|line| line.rsplit_once(' ')) else {
                continue;
            };
            assert!(sent.parse::<u64>().unwrap() > SHARE, "{output}");
        }
        assert_eq!(output.matches("\nport 10.").count(), 2, "{output}");
    }
}

#[test]
fn two_memifs_are_two_rails() {
    let nodes = Nodes::with_rails(Link::Memif(vec![NO_HUGE]), "rails");
    let mut answers = nodes.rank(1, 7_001, "rails answer", &[]);
    answers.wait_for("answers", START_LIMIT);
    finish(nodes.rank(0, 7_001, "rails", &[]));
    finish(answers);
    both_have_carried(nodes);
}

/// Two packet sockets, of which one link is cut.
#[test]
fn a_port_whose_link_goes_is_a_dead_rail() {
    let Some(pair) = veth(1500) else { return };
    pair.add_pair(SECOND, 1500);
    let limit = Duration::from_secs(10);
    for end in [&pair.a, &pair.b] {
        end.exec("ethtool", &["-K", SECOND, "tx", "off"], limit);
    }
    let nodes = Nodes::with_rails(Link::PacketSockets(pair, vec![NO_HUGE]), "rails-cut");
    let mut answers = nodes.rank(1, 7_001, "rails answer", &[]);
    answers.wait_for("answers", START_LIMIT);
    let mut asks = nodes.rank(0, 7_001, "rails", &[("PART_CUT", "1")]);
    asks.wait_for("striped", START_LIMIT);
    let Link::PacketSockets(pair, _) = &nodes.link else {
        unreachable!()
    };
    pair.b.exec("ip", &["link", "set", SECOND, "down"], limit);
    asks.wait_for("down", START_LIMIT);
    finish(asks);
    finish(answers);
    both_have_carried(nodes);
}

#[test]
fn ports_that_can_not_be_are_refused() {
    let nodes = Nodes::without_pollers(Link::Memif(vec![NO_HUGE]), "rails-wrong");
    let start = |device: &str, at: &str| {
        let socket = nodes.socket(0);
        let variables = [
            ("HIKYAKU_DPDK_DEVICE", device),
            ("HIKYAKU_POLLER", &socket),
            ("PART_AT", at),
            ("PART_BUFFERS", "16384"),
            NO_HUGE,
        ];
        finish(super::part::start("poller", &variables))
    };
    let interface = format!("af_packet:iface={INTERFACE}");
    for (device, at, why) in [
        (
            &*format!("{interface},{interface},qpairs=2"),
            "10.0.0.1,10.1.0.1",
            "the device net_af_packet,iface=veth0,qpairs=2 is named twice",
        ),
        (
            "net_null0,net_null1",
            "10.0.0.1,10.0.0.1",
            "the address 10.0.0.1 is named twice",
        ),
        ("net_null0,net_null1", "10.0.0.1,0.0.0.0", "0.0.0.0"),
        (
            "net_null0,net_null1,net_null2,net_null3,net_null4,net_null5,net_null6",
            "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5,10.0.0.6,10.0.0.7",
            "7 ports: a poller has 6 at most",
        ),
    ] {
        let output = start(device, at);
        assert!(output.contains("error: ") && output.contains(why), "{device}: {output}");
    }
}

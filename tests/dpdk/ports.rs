//! Several devices, each of which is a port of one backend, and so a rail.

use std::{
    env, io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hikyaku::{
    Config, PeerId,
    backends::{self, Backend, BindOptions, Sent, Transmit},
    forward_backend,
    reliability::Path,
    time::Instant,
    transport::{Event, Transport},
};

use super::{
    DEATH, PART_LIMIT, START_LIMIT, Socket,
    answers::{END, send_back},
    exchange::{LONG, exchange},
    finish,
    netns::{INTERFACE, Namespace, Process, Veth},
    part, part_variables,
    second_link::{BESIDE, SECOND, exchange_until},
    var,
};

/// The bytes that each port has taken.
type Taken = Arc<[AtomicU64; 2]>;

/// A backend that counts them.
struct Counting(Box<dyn Backend>, Taken);

impl Backend for Counting {
    forward_backend!(self => self.0; name, capabilities, local_addr, receive, received, wait, stats, poll_notices, as_fd,
        descriptors, next_deadline, ports, neighbours);

    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        let sent = self.0.transmit(now, transmit)?;
        if sent == Sent::All {
            self.1[usize::from(transmit.port)].fetch_add(transmit.len as u64, Ordering::Relaxed);
        }
        Ok(sent)
    }
}

/// With a rail to the other end for each device.
fn open(processor: u32) -> (Transport, PeerId, Taken) {
    let side = processor as usize - 1;
    let at: SocketAddr = var("NETNS_AT").parse().unwrap();
    let to: SocketAddr = var("NETNS_TO").parse().unwrap();
    let beside = BESIDE.map(|address| address.parse::<IpAddr>().unwrap());
    let mut options = BindOptions::default();
    options.device = Some(var("NETNS_DEVICE"));
    options.ports = vec![SocketAddr::new(beside[side], at.port())];
    let backend = backends::bind("dpdk", at, &options).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(backend.ports().len(), 2);
    assert_eq!(backend.ports()[1].local_addr().ip(), beside[side]);
    let config = Config {
        death_timeout: DEATH,
        ..Config::default()
    };
    let builder = Transport::builder().processor(processor).config(config);
    let taken = Taken::default();
    let backend = Counting(backend, Arc::clone(&taken));
    let mut transport = builder.backend(Box::new(backend)).unwrap();
    let peer = transport.add_peer(to, 3 - processor).unwrap();
    let path = Path::new(SocketAddr::new(beside[1 - side], to.port()), 1);
    assert_eq!(transport.add_rail(peer, path), Ok(1));
    (transport, peer, taken)
}

/// Sends every message back until [`END`].
pub(super) fn play_answers() {
    let (transport, peer, _) = open(2);
    println!("answers");
    send_back(transport, peer, PART_LIMIT, LONG);
}

/// Both rails carry; then, with `NETNS_CUT`, the second link is cut.
pub(super) fn play_exchange() {
    let (mut transport, peer, taken) = open(1);
    let rail = 1;
    exchange_until(&mut transport, peer, &Event::RailUp { peer, rail });
    // (By reference: one that waits for room takes in what comes meanwhile.)
    exchange(&mut transport, peer, &[1 << 20; 24], 0);
    let sent = [0, 1].map(|port: usize| taken[port].load(Ordering::Relaxed));
    assert!(sent.iter().all(|bytes| *bytes > 4 << 20), "{sent:?}");
    println!("striped: {sent:?}");
    if env::var("NETNS_CUT").is_ok() {
        exchange_until(&mut transport, peer, &Event::RailDown { peer, rail });
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
}

#[test]
fn two_memifs_are_two_rails() {
    let sockets = [Socket::new("rail0"), Socket::new("rail1")];
    let devices = |role: &str| format!("{},{}", sockets[0].memif(role), sockets[1].memif(role));
    let mut answers = part::start("rails answer", &part_variables(1, &devices("server"), &[]));
    answers.wait_for("answers", START_LIMIT);
    let asks = part::start("rails", &part_variables(0, &devices("client"), &[]));
    finish(asks);
    finish(answers);
}

/// Two packet sockets, of which one link is cut.
#[test]
fn a_port_whose_link_goes_is_a_dead_rail() {
    let Some(veth) = Veth::new(1500) else { return };
    veth.add_pair(SECOND, 1500);
    let limit = Duration::from_secs(10);
    for end in [&veth.a, &veth.b] {
        for interface in [INTERFACE, SECOND] {
            end.exec("ip", &["address", "flush", "dev", interface], limit);
            end.exec("ethtool", &["-K", interface, "tx", "off"], limit);
        }
    }
    let devices = format!("af_packet:iface={INTERFACE},af_packet:iface={SECOND}");
    let role = |end: &Namespace, role: &str, side: usize| -> Process {
        end.spawn_role("part", role, &part_variables(side, &devices, &[("NETNS_CUT", "1")]))
    };
    let mut answers = role(&veth.b, "rails answer", 1);
    answers.wait_for("answers", START_LIMIT);
    let mut asks = role(&veth.a, "rails", 0);
    asks.wait_for("striped", START_LIMIT);
    veth.b.exec("ip", &["link", "set", SECOND, "down"], limit);
    asks.wait_for("down", START_LIMIT);
    finish(asks);
    finish(answers);
}

//! 10,000 peers, each with a socket of its own, talk to one socket.
#![cfg(all(feature = "udp", target_os = "linux"))]

use std::{
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

use hikyaku::{
    Config, PeerId,
    reliability::{Burst, Endpoint, Event, Limits, Origin, Outgoing, Payload, Sink, Verdict},
    time::Instant,
    transport::{Transport, WaitPolicy},
    wire::{Packet, Seq},
};

const PEERS: u32 = 10_000;
/// So many talk at a time.
const BATCH: usize = 100;

/// A peer reduced to the protocol: an endpoint pumped by hand over a plain socket. Its time counts pumps, 10 µs each.
struct Spoke {
    endpoint: Endpoint,
    hub: PeerId,
    socket: UdpSocket,
    number: u32,
    sent: u32,
    pumps: u64,
    got: Got,
}

#[derive(Default)]
struct Got(Vec<u32>);

impl Sink for Got {
    fn deliver(&mut self, _: Origin, packet: Packet<&[u8]>) -> Verdict {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(packet.payload());
        self.0.push(u32::from_le_bytes(bytes));
        Verdict::Taken
    }
}

impl Spoke {
    fn new(number: u32, hub: SocketAddr) -> Self {
        let limits = Limits {
            max_datagram: 1_472,
            max_segments: 1,
            max_batch: 1_472,
            receive_buffer: 64 << 10,
            holds_references: false,
            ack_bytes: usize::MAX,
            receive_port: 0,
        };
        let config = Config {
            path_mtu_discovery: false,
            ..Config::default()
        };
        let mut endpoint = Endpoint::new(config, limits, u64::from(number) + 1, number.into()).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let hub = endpoint.add_peer(hub, 0).unwrap();
        Self {
            endpoint,
            hub,
            socket,
            number,
            sent: 0,
            pumps: 0,
            got: Got::default(),
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.pumps * 10_000)
    }

    fn ask(&mut self) {
        let message = Outgoing {
            source: self.number,
            destination: 0,
            message: Seq(self.sent),
            match_bits: None,
            immediate: None,
        };
        self.sent += 1;
        let question = self.number.to_le_bytes();
        let now = self.now();
        self.endpoint
            .send(now, self.hub, 0, &message, Payload::Copy(&question))
            .unwrap();
    }

    fn pump(&mut self, burst: &mut Burst) {
        self.pumps += 1;
        let now = self.now();
        let mut bytes = [0; 2_048];
        while let Ok((len, from)) = self.socket.recv_from(&mut bytes) {
            self.endpoint
                .handle_datagrams(now, from, &mut bytes[..len], len, &mut self.got);
        }
        self.endpoint.handle_timeout(now);
        while self.endpoint.poll_transmit(now, burst) {
            let mut datagram = Vec::with_capacity(burst.len());
            self.endpoint.gather(burst, |piece| datagram.extend_from_slice(piece));
            // What does not fit the hub's buffer is sent again.
            let _ = self.socket.send_to(&datagram, burst.destination());
        }
        while let Some(event) = self.endpoint.poll_event() {
            assert!(!matches!(event, Event::Down { .. }), "{}: {event:?}", self.number);
        }
    }
}

/// The spokes of a batch ask until each has its answers and has acknowledged them; the hub answers all. (Where this takes
/// long, the hub gives up those that never acknowledge.)
fn talk(hub: &mut Transport, batch: &mut [Spoke], burst: &mut Burst) {
    let expected = batch[0].got.0.len() + 1;
    for spoke in &mut *batch {
        spoke.ask();
    }
    while batch
        .iter()
        .any(|spoke| spoke.got.0.len() < expected || spoke.endpoint.stats().acks_alone < expected as u64)
    {
        for spoke in &mut *batch {
            spoke.pump(burst);
        }
        while let Some(message) = hub.try_receive().unwrap() {
            let (peer, source) = (message.peer(), message.source());
            assert_eq!(message.data(), source.to_le_bytes());
            hub.send(peer, &source.to_le_bytes()).unwrap();
        }
        while hub.next_event().is_some() {}
    }
}

#[test]
fn ten_thousand_peers_talk_to_one_socket() {
    if UdpSocket::bind("127.0.0.1:0").is_err() || open_files() < u64::from(PEERS) + 100 {
        println!("skipped: this needs {PEERS} open files (ulimit -n)");
        return;
    }
    let config = Config {
        accept_strangers: true,
        death_timeout: Duration::from_secs(600),
        ..Config::default()
    };
    let builder = Transport::builder().config(config).wait(WaitPolicy::Spin);
    let mut hub = builder.bind("udp", "127.0.0.1:0").unwrap();
    let address = hub.local_addr();
    let mut spokes: Vec<Spoke> = (1..=PEERS).map(|number| Spoke::new(number, address)).collect();
    let mut burst = Burst::default();
    for _ in 0..2 {
        for batch in spokes.chunks_mut(BATCH) {
            talk(&mut hub, batch, &mut burst);
        }
    }
    assert_eq!(hub.peers(), PEERS as usize);
    assert_eq!(hub.stats().sessions_opened, u64::from(PEERS));
    assert!(spokes.iter().all(|spoke| spoke.got.0 == [spoke.number; 2]));
}

/// The soft limit of open files.
fn open_files() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok())
        .unwrap_or(0)
}

//! A host whose process does not read.

use alloc::{vec, vec::Vec};
use core::net::SocketAddr;

use super::{
    Broken, ProxyEndpoint, ProxyServer, REPORT,
    record::{Kind, Record},
    server::MOST_REPORTS,
};
use crate::{
    Config,
    reliability::{
        Burst, Endpoint, Event, Limits, MAX_RAILS, Origin, Outgoing, PacketLayer, Path, Payload, PeerId, RailState,
        RailStats, Sink, Verdict,
    },
    span::Span,
    time::Instant,
    wire::{Packet, Seq},
};

const LIMITS: Limits = Limits {
    max_datagram: 1_472,
    max_segments: 1,
    max_batch: 1_472,
    receive_buffer: 1 << 20,
    holds_references: false,
    ack_bytes: usize::MAX,
    receive_port: 0,
};

struct Nothing;

impl Sink for Nothing {
    fn deliver(&mut self, _: Origin, _: Packet<&[u8]>) -> Verdict {
        Verdict::Taken
    }
}

/// A host and a peer of its process, on a network that loses nothing.
struct Two {
    now: Instant,
    host: ProxyServer,
    peer: Endpoint,
    to_host: PeerId,
    epoch: u64,
}

fn config() -> Config {
    Config {
        accept_strangers: true,
        ..Config::default()
    }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

impl Two {
    fn new() -> Self {
        let mut remote = ProxyEndpoint::new(config(), LIMITS, &[1]).unwrap();
        let mut burst = Burst::default();
        assert!(remote.poll_transmit(Instant::ZERO, &mut burst));
        let mut start = Vec::new();
        remote.gather(&burst, &mut |bytes| start.extend_from_slice(bytes));
        let mut peer = Endpoint::new(config(), LIMITS, 2, 2).unwrap();
        Self {
            now: Instant::from_nanos(1),
            host: ProxyServer::new(&start, LIMITS, 1, 1, 10).unwrap(),
            to_host: peer.add_peer(address(1), 1).unwrap(),
            peer,
            epoch: 2,
        }
    }

    /// Lets a millisecond pass, and what is to be sent arrive.
    fn go_on(&mut self) {
        let mut burst = Burst::default();
        self.now = self.now.plus_nanos(1_000_000);
        self.peer.handle_timeout(self.now);
        self.host.handle_timeout(self.now);
        let mut any = true;
        while any {
            any = false;
            while self.peer.poll_transmit(self.now, &mut burst) {
                let mut bytes = vec![];
                self.peer.gather(&burst, |slice| bytes.extend_from_slice(slice));
                self.host.handle_datagram(self.now, address(2), &mut bytes, true);
                any = true;
            }
            while self.host.poll_transmit(self.now, &mut burst) {
                let mut bytes = vec![];
                self.host.gather(&burst, |span| span.append_to(&mut bytes));
                let stride = bytes.len();
                self.peer
                    .handle_datagrams(self.now, address(1), &mut bytes, stride, &mut Nothing);
                any = true;
            }
        }
    }

    /// The peer starts anew, opens a session, says something, and says goodbye. Gives whether that ends in so many
    /// milliseconds.
    fn visit(&mut self, limit: u32) -> bool {
        self.epoch += 1;
        self.peer = Endpoint::new(config(), LIMITS, self.epoch, self.epoch.into()).unwrap();
        self.to_host = self.peer.add_peer(address(1), 1).unwrap();
        let message = Outgoing {
            source: 2,
            destination: 1,
            message: Seq(0),
            match_bits: None,
            immediate: None,
        };
        let sent = self
            .peer
            .send(self.now, self.to_host, 0, &message, Payload::Copy(b"hello"));
        assert!(sent.is_ok(), "{sent:?}");
        self.peer.close(self.now, self.to_host);
        for _ in 0..limit {
            self.go_on();
            while let Some(event) = self.peer.poll_event() {
                if let Event::Down { error, .. } = event {
                    return error == crate::PeerError::Closed;
                }
            }
        }
        false
    }

    /// The process reads everything. Gives how often it is told that its peer is there.
    fn read(&mut self) -> usize {
        let mut ups = 0;
        while let Some(report) = self.host.poll_report() {
            let report: [u8; REPORT] = report;
            ups += usize::from(report[0] == Kind::Up as u8);
        }
        ups
    }
}

#[test]
fn who_does_not_read_is_told_no_more_than_so_much() {
    let mut two = Two::new();
    let mut visits = 0;
    while !two.host.is_full() {
        assert!(two.visit(20), "visit {visits}");
        visits += 1;
        assert!(visits <= MOST_REPORTS, "nothing is reported");
    }
    let waiting = two.host.endpoint().untaken_events();
    // Its peer finds nobody, whatever it tries.
    assert!(!two.visit(100));
    assert!(two.host.endpoint().untaken_events() <= waiting + 1);
    assert!(waiting <= MOST_REPORTS + 2, "{waiting}");
    // As soon as it reads, all is well: nothing that it was told about is lost, and the peer is served.
    assert_eq!(two.read(), visits);
    assert!(!two.host.is_full());
    for _ in 0..Config::default().open_timeout.as_millis() {
        two.go_on();
    }
    assert_eq!(two.read(), 1);
}

/// A process adds rails to peers of its own only, and not more than a session can have, whatever it says.
#[test]
fn rails_are_added_to_ones_own_peers() {
    let mut host = Two::new().host;
    let mut order = |record: &Record, carried: &[u8]| {
        let done = host.handle_command(Instant::from_nanos(1), &record.bytes(), Span::new(carried), None);
        (done, host.endpoint().peers())
    };
    let rail = |peer: u32, path: Path| {
        let mut record = Record::new(Kind::AddRail, peer);
        record.set_rail(1, &RailStats::new(path, RailState::Up));
        record
    };
    for peer in [0, 1, u32::MAX] {
        let (done, peers) = order(&rail(peer, address(7).into()), b"");
        assert_eq!((done, peers), (Err(Broken::Peer), 0), "peer {peer}");
    }
    let mut add = Record::new(Kind::AddPeer, 0);
    add.value = super::record::NEW;
    add.set_address(address(2));
    assert_eq!(order(&add, b""), (Ok(()), 1));
    assert_eq!(order(&rail(0, address(7).into()), b"more").0, Err(Broken::Malformed));
    assert_eq!(order(&rail(1, address(7).into()), b"").0, Err(Broken::Peer));
    for number in 0..100 {
        let path = Path::new(address(100 + number), number as u8);
        assert_eq!(order(&rail(0, path), b""), (Ok(()), 1));
        assert_eq!(order(&rail(0, path), b""), (Ok(()), 1));
    }
    let rails = (0..=u8::MAX).filter_map(|rail| host.endpoint().rail_stats(PeerId(0), rail));
    let rails: Vec<RailStats> = rails.collect();
    assert_eq!(rails.len(), MAX_RAILS);
    // What it said of their state is not believed.
    assert!(
        rails[1..].iter().all(|rail| rail.state == RailState::Unproven),
        "{rails:?}"
    );
    assert_eq!(rails[0].path, address(2).into());
}

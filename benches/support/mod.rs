//! Two endpoints in one thread, no socket: the protocol's own cost.

use std::net::SocketAddr;

use bytes::Bytes;
use hikyaku::{
    Config, Congestion, PeerId,
    reliability::{Burst, Endpoint, Limits, Origin, Outgoing, Payload, Sink, Verdict},
    time::Instant,
    wire::{Packet, Plain, Seq},
};

/// Counts what arrives, in place.
#[derive(Default)]
pub(crate) struct Count {
    /// Bytes of payload.
    pub(crate) bytes: u64,
    /// Packets.
    pub(crate) packets: u64,
    pub(crate) cost: u32,
}

impl Sink for Count {
    #[inline]
    fn deliver_plain(&mut self, origin: &Origin, message: &Plain<'_>) -> bool {
        self.bytes += message.payload.len() as u64;
        self.packets += 1;
        self.cost += origin.cost;
        true
    }

    #[inline]
    fn deliver(&mut self, origin: Origin, packet: Packet<&[u8]>) -> Verdict {
        self.bytes += packet.payload().len() as u64;
        self.packets += 1;
        self.cost += origin.cost;
        Verdict::Taken
    }
}

/// A sender and a receiver; each datagram is assembled with one copy and delivered in place.
pub(crate) struct Pair {
    pub(crate) sender: Endpoint,
    pub(crate) receiver: Endpoint,
    pub(crate) to_receiver: PeerId,
    pub(crate) to_sender: PeerId,
    pub(crate) addresses: [SocketAddr; 2],
    pub(crate) burst: Burst,
    pub(crate) wire: Vec<u8>,
    pub(crate) now: u64,
    pub(crate) next: u32,
    /// The messages that have arrived.
    pub(crate) got: Count,
}

impl Pair {
    /// For [`answer`](Self::answer): no search for the path MTU, or for credit, comes between.
    pub(crate) fn quiet(max_datagram: usize) -> Self {
        let config = Config {
            congestion: Congestion::Fixed,
            path_mtu_discovery: false,
            unexpected_bytes: 1 << 30,
            ..Config::default()
        };
        Self::new(&config, max_datagram)
    }

    /// With a session that is open and a path MTU of `max_datagram` that is found.
    pub(crate) fn new(config: &Config, max_datagram: usize) -> Self {
        let limits = Limits {
            max_datagram,
            max_segments: 64,
            max_batch: 65_507,
            receive_buffer: 8 << 20,
            holds_references: false,
            ack_bytes: usize::MAX,
            receive_port: 0,
        };
        let addresses = [
            SocketAddr::from(([127, 0, 0, 1], 1)),
            SocketAddr::from(([127, 0, 0, 1], 2)),
        ];
        let mut sender = Endpoint::new(config.clone(), limits, 1, 1).expect("valid settings");
        let mut receiver = Endpoint::new(config.clone(), limits, 2, 2).expect("valid settings");
        let to_receiver = sender.add_peer(addresses[1], 1).expect("a new peer");
        let to_sender = receiver.add_peer(addresses[0], 0).expect("a new peer");
        let mut pair = Self {
            sender,
            receiver,
            to_receiver,
            to_sender,
            addresses,
            burst: Burst::default(),
            wire: Vec::with_capacity(1 << 16),
            now: 1_000_000_000,
            next: 0,
            got: Count::default(),
        };
        for _ in 0..8 {
            pair.exchange(&Payload::Copy(&[1; 8]), 1);
        }
        pair
    }

    /// Sends `count` messages one way, acknowledgements included.
    pub(crate) fn exchange(&mut self, payload: &Payload<'_>, count: u32) {
        let now = Instant::from_nanos(self.now);
        for _ in 0..count {
            let message = Outgoing {
                source: 0,
                destination: 1,
                message: Seq(self.next),
                match_bits: None,
                immediate: None,
            };
            self.next = self.next.wrapping_add(1);
            self.sender
                .send(now, self.to_receiver, 0, &message, payload.clone())
                .expect("room in the queue");
        }
        self.sender.request_acks(now);
        while !self.sender.all_idle() {
            self.now += 2_000;
            carry(
                &mut self.sender,
                &mut self.receiver,
                self.addresses[0],
                self.now,
                &mut self.burst,
                &mut self.wire,
                &mut self.got,
            );
            carry(
                &mut self.receiver,
                &mut self.sender,
                self.addresses[1],
                self.now,
                &mut self.burst,
                &mut self.wire,
                &mut self.got,
            );
            let cost = std::mem::take(&mut self.got.cost);
            let session = self.receiver.session(self.to_sender);
            self.receiver.release(self.to_sender, session, cost);
            while self.sender.poll_event().is_some() {}
            while self.receiver.poll_event().is_some() {}
        }
    }

    /// Sends a message, and one of the same bytes back, each of which carries the other's acknowledgement.
    pub(crate) fn answer(&mut self, data: &[u8]) {
        for answer in [false, true] {
            let (from, to) = (&mut self.sender, &mut self.receiver);
            let (peers, pair) = ((self.to_receiver, self.to_sender), (0, 1));
            let ((from, to), (peer, back), (source, destination)) = match answer {
                false => ((from, to), peers, pair),
                true => ((to, from), (peers.1, peers.0), (1, 0)),
            };
            let message = Outgoing {
                source,
                destination,
                message: Seq(self.next),
                match_bits: None,
                immediate: None,
            };
            self.now += 2_000;
            let (now, wire) = (Instant::from_nanos(self.now), &mut self.wire);
            let inline = from.begin_inline(now, peer, 0, &message, data, &mut self.burst);
            from.finish_inline(&inline.expect("the flow is quiet"), data, &mut self.burst);
            wire.clear();
            from.gather(&self.burst, |piece| wire.extend_from_slice(piece));
            let stride = wire.len();
            to.handle_datagrams(now, self.addresses[source as usize], wire, stride, &mut self.got);
            let (session, cost) = (to.session(back), std::mem::take(&mut self.got.cost));
            to.release(back, session, cost);
            // Its first credit.
            carry(
                to,
                from,
                self.addresses[destination as usize],
                self.now,
                &mut self.burst,
                &mut self.wire,
                &mut self.got,
            );
        }
        self.next = self.next.wrapping_add(1);
    }

    /// A shared payload of `len` bytes.
    pub(crate) fn shared(len: usize) -> Payload<'static> {
        Payload::Shared(Bytes::from_static(&DATA[..len]))
    }
}

static DATA: [u8; 65_536] = [7; 65_536];

fn carry(
    from: &mut Endpoint,
    to: &mut Endpoint,
    source: SocketAddr,
    now: u64,
    burst: &mut Burst,
    wire: &mut Vec<u8>,
    got: &mut Count,
) {
    let now = Instant::from_nanos(now);
    while from.poll_transmit(now, burst) {
        wire.clear();
        from.gather(burst, |piece| wire.extend_from_slice(piece));
        to.handle_datagrams(now, source, wire, burst.segment_size(), got);
    }
}

//! The protocol without any socket: two endpoints in one thread, and an endpoint full of peers.
//!
//! Each datagram is put together with one copy, as a socket would, and delivered in place.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use hikyaku::{
    Config, Congestion, PeerId,
    reliability::{Burst, Endpoint, Limits, Origin, Outgoing, Payload, Sink, Verdict},
    time::Instant,
    wire::{Packet, Seq},
};

use crate::{failure::Failure, machine::clock, transports::sizes::pattern};

/// Messages, and packets, in flight at most.
const WINDOW: u16 = 16;
/// How long, on the clock that the endpoints are shown, a datagram travels.
const FLIGHT: u64 = 2_000;

/// The optional work of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Checksum off, the payload placed where it is delivered.
    Plain,
    /// With CRC-32C over every packet.
    Checksum,
    /// The message is copied once more at delivery.
    SecondCopy,
}

impl Variant {
    /// All of them, in the order of the table.
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Checksum, Self::SecondCopy];

    /// Its name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "hikyaku/core",
            Self::Checksum => "hikyaku/core+checksum",
            Self::SecondCopy => "hikyaku/core+copy",
        }
    }
}

/// One round of one variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Messages delivered.
    pub messages: usize,
    /// Packets that carried them.
    pub packets: usize,
    /// Time of all, ns.
    pub nanos: u64,
}

/// Takes packets where they are; copies them to the message if told to.
#[derive(Default)]
struct Taker {
    packets: usize,
    bytes: usize,
    cost: u32,
    copy: Option<Vec<u8>>,
}

impl Sink for Taker {
    #[inline]
    fn deliver(&mut self, origin: Origin, packet: Packet<&[u8]>) -> Verdict {
        let payload = packet.payload();
        self.packets += 1;
        self.bytes += payload.len();
        self.cost += origin.cost;
        if let Some(copy) = &mut self.copy {
            // The cost of a copy does not depend on where in the message it goes.
            let length = payload.len().min(copy.len());
            copy[..length].copy_from_slice(&payload[..length]);
            std::hint::black_box(&copy[..length]);
        }
        Verdict::Taken
    }
}

fn failed(what: &str, error: impl std::fmt::Debug) -> Failure {
    Failure::run(format!("bench core: {what}: {error:?}"))
}

fn endpoint(config: Config, datagram: usize, epoch: u64) -> Result<Endpoint, Failure> {
    let limits = Limits {
        max_datagram: datagram,
        max_segments: 64,
        max_batch: 65_507,
        receive_buffer: 8 << 20,
        holds_references: false,
        ack_bytes: usize::MAX,
        receive_port: 0,
    };
    Endpoint::new(config, limits, epoch, epoch.into()).map_err(|error| failed("settings", error))
}

/// A sender and a receiver.
pub(crate) struct Pair {
    sender: Endpoint,
    receiver: Endpoint,
    to_receiver: PeerId,
    to_sender: PeerId,
    burst: Burst,
    wire: Vec<u8>,
    now: u64,
    next: u32,
    taker: Taker,
    payload: Payload<'static>,
}

const SENDER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const RECEIVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 2);

impl Pair {
    /// For messages of one size, in datagrams of at most `datagram` bytes, with the session open.
    pub(crate) fn new(variant: Variant, size: usize, datagram: usize) -> Result<Self, Failure> {
        let config = Config {
            checksum: variant == Variant::Checksum,
            congestion: Congestion::Fixed,
            window_packets: WINDOW,
            ..Config::default()
        };
        let mut sender = endpoint(config.clone(), datagram, 1)?;
        let mut receiver = endpoint(config, datagram, 2)?;
        let to_receiver = sender.add_peer(RECEIVER, 1).map_err(|error| failed("peer", error))?;
        let to_sender = receiver.add_peer(SENDER, 0).map_err(|error| failed("peer", error))?;
        let mut pair = Self {
            sender,
            receiver,
            to_receiver,
            to_sender,
            burst: Burst::default(),
            wire: Vec::with_capacity(1 << 16),
            now: 1_000_000_000,
            next: 0,
            taker: Taker {
                copy: (variant == Variant::SecondCopy).then(|| vec![0; 1 << 16]),
                ..Taker::default()
            },
            payload: Payload::Shared(Bytes::from(pattern(size))),
        };
        // Opens the session, finds the path's MTU, fills caches.
        for _ in 0..16 {
            pair.exchange(1)?;
        }
        Ok(pair)
    }

    /// Moves `messages` messages in windows and takes the time.
    pub(crate) fn round(&mut self, messages: usize) -> Result<Sample, Failure> {
        (self.taker.packets, self.taker.bytes) = (0, 0);
        let start = clock::now();
        let mut left = messages;
        while left > 0 {
            let count = left.min(usize::from(WINDOW));
            self.exchange(count)?;
            left -= count;
        }
        let nanos = clock::now() - start;
        if self.taker.bytes != messages * self.payload.len() {
            return Err(Failure::run("bench core: not all bytes have arrived"));
        }
        Ok(Sample {
            messages,
            packets: self.taker.packets,
            nanos,
        })
    }

    /// Sends some messages and goes on until all are acknowledged.
    fn exchange(&mut self, count: usize) -> Result<(), Failure> {
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
                .send(now, self.to_receiver, 0, &message, self.payload.clone())
                .map_err(|error| failed("send", error))?;
        }
        self.sender.request_acks(now);
        let limit = self.now + 10_000_000_000;
        while !self.sender.all_idle() {
            self.now += FLIGHT;
            if self.now > limit {
                return Err(Failure::run("bench core: the endpoints make no progress"));
            }
            let (wire, burst, taker) = (&mut self.wire, &mut self.burst, &mut self.taker);
            carry(
                &mut self.sender,
                &mut self.receiver,
                SENDER,
                self.now,
                (burst, wire, taker),
            );
            carry(
                &mut self.receiver,
                &mut self.sender,
                RECEIVER,
                self.now,
                (burst, wire, taker),
            );
            let cost = std::mem::take(&mut taker.cost);
            let session = self.receiver.session(self.to_sender);
            self.receiver.release(self.to_sender, session, cost);
            while self.sender.poll_event().is_some() {}
            while self.receiver.poll_event().is_some() {}
        }
        Ok(())
    }
}

/// Brings everything that one endpoint has to send to the other.
fn carry(
    from: &mut Endpoint,
    to: &mut Endpoint,
    source: SocketAddr,
    now: u64,
    (burst, wire, taker): (&mut Burst, &mut Vec<u8>, &mut Taker),
) {
    let now = Instant::from_nanos(now);
    while from.poll_transmit(now, burst) {
        wire.clear();
        from.gather(burst, |piece| wire.extend_from_slice(piece));
        to.handle_datagrams(now, source, wire, burst.segment_size(), taker);
    }
}

/// An endpoint that knows `peers` peers and has nothing to do.
pub(crate) fn endpoint_with_peers(peers: u32) -> Result<Endpoint, Failure> {
    let config = Config {
        max_peers: peers.max(Config::default().max_peers),
        ..Config::default()
    };
    let mut endpoint = endpoint(config, 65_507, 1)?;
    for peer in 0..peers {
        // A loopback address for each: 127.x.y.z with one port for 2^24 of them.
        let [_, a, b, c] = peer.to_be_bytes();
        let address = SocketAddr::from(([127, a, b, c], 7475));
        endpoint
            .add_peer(address, peer + 1)
            .map_err(|error| failed("peer", error))?;
    }
    Ok(endpoint)
}

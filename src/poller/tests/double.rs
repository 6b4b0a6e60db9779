//! A test double of the poller's side of a link. It writes arbitrary bytes at arbitrary times, through its own
//! mappings.

use std::{
    env, fs,
    io::IoSlice,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    process,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use rustix::event::{EventfdFlags, eventfd};

use super::super::{
    PollerBackend,
    hello::{Answer, Queues},
    layout::{self, kind, numbered},
};
use crate::shm::{Access, Producer, Segment, handshake};
use crate::wire::{Base, Builder, Flags, Kind, MAX_HEADER_LEN, Seq, Token};

/// Bytes of the memory for packets.
pub(super) const PACKETS: usize = 64 << 10;
/// The address of the peer that sends all packets, and its processor; then our processor.
pub(super) const PEER: &str = "10.99.0.2:7";
pub(super) const THEIRS: u32 = 2;
pub(super) const OURS: u32 = 1;
/// The first byte of a record: a delivery, and a record that introduces a peer.
const DELIVER: u8 = 65;
const PEER_RECORD: u8 = 66;
/// Bytes before the packet in a delivery.
pub(super) const BEFORE: usize = 16;

/// The poller's side of a link.
pub(super) struct Double {
    pub(super) memory: Arc<Segment>,
    pub(super) packets: Arc<Segment>,
    pub(super) up: Producer,
    _socket: UnixStream,
    _bells: [OwnedFd; 2],
}

impl Double {
    /// Connects a backend to a new double, and returns both.
    pub(super) fn new() -> (Self, PollerBackend) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("hikyaku-double-{}-{number}", process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let (memory, memory_fd) = Segment::create("double-rank", layout::MEMORY, Access::Write).unwrap();
        let (packets, packets_fd) = Segment::create("double-packets", PACKETS, Access::Read).unwrap();
        let bells = [0, 1].map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap());
        let (socket, backend) = thread::scope(|scope| {
            let comes = scope.spawn(|| PollerBackend::connect(&path, 0).unwrap());
            let (socket, _) = listener.accept().unwrap();
            handshake::receive(&socket).unwrap();
            let welcome = Answer::Welcome {
                udp_port: 5,
                addresses: vec!["10.99.0.1".parse().unwrap()],
                max_datagram: 1_472,
                packets: PACKETS as u64,
                queues: Queues::Unasked,
            };
            let fds = [&packets_fd, &memory_fd, &bells[0], &bells[1]].map(AsFd::as_fd);
            handshake::send(&socket, &welcome.bytes(), &fds).unwrap();
            (socket, comes.join().unwrap())
        });
        fs::remove_file(path).unwrap();
        let memory = Arc::new(memory);
        let this = Self {
            up: Producer::new(Arc::clone(&memory), layout::UP),
            memory,
            packets: Arc::new(packets),
            _socket: socket,
            _bells: bells,
        };
        (this, backend)
    }

    /// Writes a record into the ring.
    pub(super) fn push(&mut self, kind: u32, bytes: &[u8]) {
        assert!(self.up.has_room(bytes.len()).unwrap(), "the process does not read");
        self.up.push(kind, &[IoSlice::new(bytes)]);
        self.up.publish();
    }

    /// Writes a record into the memory for packets, and points to it in the ring.
    pub(super) fn push_away(&mut self, at: usize, bytes: &[u8]) {
        self.packets.write(at, bytes);
        self.push(kind::AWAY, &numbered(at, bytes.len()));
    }

    /// Introduces the peer.
    pub(super) fn tell_peer(&mut self) {
        self.push(kind::WHOLE, &peer());
    }
}

/// The record that introduces the peer.
pub(super) fn peer() -> [u8; 48] {
    let std::net::SocketAddr::V4(address) = PEER.parse().unwrap() else {
        unreachable!()
    };
    let mut record = [0; 48];
    record[0] = PEER_RECORD;
    record[16..20].copy_from_slice(&u32::from(address.port()).to_le_bytes());
    record[20..24].copy_from_slice(&THEIRS.to_le_bytes());
    record[24..40].copy_from_slice(&address.ip().to_ipv6_mapped().octets());
    record
}

/// A record that delivers a packet of the peer in its first session.
pub(super) fn delivery(packet: &[u8]) -> Vec<u8> {
    let mut record = vec![0; BEFORE];
    record[0] = DELIVER;
    record[8] = 1;
    record[12..16].copy_from_slice(&(packet.len() as u32).to_le_bytes());
    record.extend_from_slice(packet);
    record
}

/// A data packet with the message number `message`. `more` may add to its header.
pub(super) fn packet(message: u32, payload: &[u8], more: impl FnOnce(&mut Builder<'_>)) -> Vec<u8> {
    let base = Base {
        kind: Kind::Data,
        channel: 0,
        source: THEIRS,
        destination: OURS,
        session: Token { index: 1, secret: 1 },
        sequence: Seq(message),
        acknowledgement: Seq(0),
        rail: 0,
        message: Seq(message),
    };
    let mut header = [0; MAX_HEADER_LEN];
    let mut builder = Builder::new(&mut header, &base);
    builder.set(Flags::empty());
    more(&mut builder);
    let len = builder.finish(payload.len() as u16);
    [&header[..len], payload].concat()
}

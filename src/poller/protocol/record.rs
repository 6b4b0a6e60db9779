//! Records: the messages of the link between a process and the poller that runs its endpoint. Both are on one machine
//! and of one release, so numbers are little-endian and nothing is optional.
//!
//! ```text
//!  0 kind  1 channel  2 flags(2)  4 peer(4)  8 session(4)  12 value(4)          every record
//! 16 source(4)  20 destination(4)  24 a(8)  32 b(8)  40 c(8)                     all but deliveries
//! 48 payload
//! ```

use alloc::vec::Vec;
use core::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use crate::{
    config::{Config, Congestion, Contact, Recovery, WindowMode},
    error::PeerError,
    reliability::{Path, RailState, RailStats},
};

/// Stands for the other end of the link, where records go to and come from: no peer has this address.
pub const LINK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// Bytes before the packet in a record that delivers one.
pub const DELIVERY: usize = 16;
/// Bytes of every other report, and of a command without its payload.
pub const REPORT: usize = 48;

/// The kinds of records: commands first, then reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Payload: settings and processors.
    Start = 1,
    /// `value`: the host's number of the peer, or [`NEW`].
    AddPeer,
    Send,
    Place,
    /// Answer with [`Room`](Self::Room) when there is room for copies.
    AskRoom,
    /// `value`: credit to give back.
    Release,
    RequestAcks,
    /// `value`: on or off.
    Watch,
    Close,
    Reconnect,
    /// The peer has sent what a correct peer cannot send.
    GiveUp,
    Connect,
    /// An address of the peer, and the number of the host's port by which it is reached (`channel`).
    AddRail,
    /// A packet; `value`: what it costs.
    Deliver = 65,
    /// A peer of the host's.
    Peer,
    Up,
    /// `c`: commands that had been executed before.
    Down,
    /// `c`: the token.
    Sent,
    /// `value`: number of the first message; `a`: how many.
    Returned,
    Room,
    /// `a`: how far may be sent.
    Credit,
    /// `a`: so many commands are executed, and everything is acknowledged.
    Idle,
    /// What is known of a rail, and whether it has come or gone.
    Rail,
}

const COMMANDS: [Kind; 13] = [
    Kind::Start,
    Kind::AddPeer,
    Kind::Send,
    Kind::Place,
    Kind::AskRoom,
    Kind::Release,
    Kind::RequestAcks,
    Kind::Watch,
    Kind::Close,
    Kind::Reconnect,
    Kind::GiveUp,
    Kind::Connect,
    Kind::AddRail,
];
const REPORTS: [Kind; 10] = [
    Kind::Deliver,
    Kind::Peer,
    Kind::Up,
    Kind::Down,
    Kind::Sent,
    Kind::Returned,
    Kind::Room,
    Kind::Credit,
    Kind::Idle,
    Kind::Rail,
];

/// There are match bits.
pub(super) const MATCHED: u16 = 1;
/// There is immediate data.
pub(super) const IMMEDIATE: u16 = 2;
/// The payload goes by reference: a [`Kind::Sent`] reports that its memory is free.
pub(super) const BY_REFERENCE: u16 = 4;
/// Something is lost.
pub(super) const LOST: u16 = 8;
/// The address is one of IPv6.
pub(super) const IPV6: u16 = 16;
/// The rail works from now on, or does not any more.
pub(super) const RAIL_UP: u16 = 32;
pub(super) const RAIL_DOWN: u16 = 64;

const RAIL_STATES: [RailState; 3] = [RailState::Unproven, RailState::Up, RailState::Down];

/// The host has no number for this peer yet.
pub(super) const NEW: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    pub(super) channel: u8,
    pub(super) flags: u16,
    pub(super) peer: u32,
    pub(super) session: u32,
    pub(super) value: u32,
    pub(super) source: u32,
    pub(super) destination: u32,
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) c: u64,
}

impl Record {
    pub(super) fn new(kind: Kind, peer: u32) -> Self {
        Self {
            kind,
            channel: 0,
            flags: 0,
            peer,
            session: 0,
            value: 0,
            source: 0,
            destination: 0,
            a: 0,
            b: 0,
            c: 0,
        }
    }

    /// The bytes of everything but deliveries.
    #[inline]
    pub(super) fn bytes(&self) -> [u8; REPORT] {
        let mut bytes = [0; REPORT];
        bytes[..DELIVERY].copy_from_slice(&self.short_bytes());
        bytes[16..20].copy_from_slice(&self.source.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.destination.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.a.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.b.to_le_bytes());
        bytes[40..].copy_from_slice(&self.c.to_le_bytes());
        bytes
    }

    /// The bytes of a delivery.
    #[inline]
    pub(super) fn short_bytes(&self) -> [u8; DELIVERY] {
        let mut bytes = [0; DELIVERY];
        bytes[0] = self.kind as u8;
        bytes[1] = self.channel;
        bytes[2..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.peer.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.session.to_le_bytes());
        bytes[12..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }

    /// A command in `bytes`; its payload is elsewhere.
    #[inline]
    pub(super) fn command(bytes: &[u8; REPORT]) -> Option<Self> {
        let kind = *COMMANDS.get(usize::from(bytes[0]).checked_sub(Kind::Start as usize)?)?;
        Some(Self::read(kind, bytes))
    }

    /// A report in `bytes`; what a delivery brings is behind [`DELIVERY`] bytes.
    #[inline]
    pub(super) fn report(bytes: &[u8]) -> Option<Self> {
        let kind = *REPORTS.get(usize::from(*bytes.first()?).checked_sub(Kind::Deliver as usize)?)?;
        if kind == Kind::Deliver {
            let mut long = [0; REPORT];
            long[..DELIVERY].copy_from_slice(bytes.first_chunk::<DELIVERY>()?);
            return Some(Self::read(kind, &long));
        }
        Some(Self::read(kind, bytes.first_chunk()?))
    }

    #[inline]
    fn read(kind: Kind, bytes: &[u8; REPORT]) -> Self {
        Self {
            kind,
            channel: bytes[1],
            flags: u16::from_le_bytes(part(bytes, 2)),
            peer: u32::from_le_bytes(part(bytes, 4)),
            session: u32::from_le_bytes(part(bytes, 8)),
            value: u32::from_le_bytes(part(bytes, 12)),
            source: u32::from_le_bytes(part(bytes, 16)),
            destination: u32::from_le_bytes(part(bytes, 20)),
            a: u64::from_le_bytes(part(bytes, 24)),
            b: u64::from_le_bytes(part(bytes, 32)),
            c: u64::from_le_bytes(part(bytes, 40)),
        }
    }

    /// Puts an address into the fields `flags`, `source`, `a` and `b`.
    pub(super) fn set_address(&mut self, address: SocketAddr) {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => {
                self.flags |= IPV6;
                ip
            }
        };
        self.source = address.port().into();
        self.a = u64::from_le_bytes(part(&ip.octets(), 0));
        self.b = u64::from_le_bytes(part(&ip.octets(), 8));
    }

    pub(super) fn address(&self) -> SocketAddr {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.a.to_le_bytes());
        bytes[8..].copy_from_slice(&self.b.to_le_bytes());
        let ip = Ipv6Addr::from(bytes);
        let mapped = ip.to_ipv4_mapped().filter(|_| self.flags & IPV6 == 0);
        SocketAddr::new(mapped.map_or(IpAddr::V6(ip), IpAddr::V4), self.source as u16)
    }

    /// Puts the state of a rail into all fields but `kind` and `peer`. Of times and counts, as much as fits.
    pub(super) fn set_rail(&mut self, rail: u8, stats: &RailStats) {
        let state = RAIL_STATES.iter().position(|state| *state == stats.state);
        let least = |number: u128| u32::try_from(number).unwrap_or(u32::MAX);
        self.channel = rail;
        self.session = least(stats.round_trip.as_nanos());
        self.value = u32::from(stats.max_datagram) | (state.unwrap_or_default() as u32) << 16;
        self.destination = least(stats.failures.into());
        self.c = stats.bytes_sent;
        self.set_address(stats.path.address);
        self.source |= u32::from(stats.path.port) << 16;
    }

    /// The state of the rail with the number `channel`.
    pub(super) fn rail(&self) -> RailStats {
        RailStats {
            path: Path::new(self.address(), (self.source >> 16) as u8),
            state: *{ RAIL_STATES.get((self.value >> 16) as usize) }.unwrap_or(&RailState::Unproven),
            round_trip: Duration::from_nanos(self.session.into()),
            max_datagram: self.value as u16,
            bytes_sent: self.c,
            failures: self.destination.into(),
        }
    }

    /// Puts an error into the fields `value`, `destination` and `a`.
    pub(super) fn set_error(&mut self, error: PeerError) {
        self.value = match error {
            PeerError::TimedOut { resends, silence } => {
                self.destination = resends;
                self.a = silence.as_nanos() as u64;
                0
            }
            PeerError::Refused => 1,
            PeerError::Reset => 2,
            PeerError::Restarted => 3,
            PeerError::Closed => 4,
            PeerError::Misbehaved => 5,
            PeerError::Incompatible { features } => {
                self.destination = features;
                6
            }
            PeerError::NoRoom => 7,
            PeerError::OtherUser => 8,
            PeerError::OtherRelease => 9,
            PeerError::NoMemory => 10,
        };
    }

    pub(super) fn error(&self) -> PeerError {
        match self.value {
            0 => PeerError::TimedOut {
                resends: self.destination,
                silence: Duration::from_nanos(self.a),
            },
            1 => PeerError::Refused,
            2 => PeerError::Reset,
            3 => PeerError::Restarted,
            4 => PeerError::Closed,
            5 => PeerError::Misbehaved,
            7 => PeerError::NoRoom,
            8 => PeerError::OtherUser,
            9 => PeerError::OtherRelease,
            10 => PeerError::NoMemory,
            _ => PeerError::Incompatible {
                features: self.destination,
            },
        }
    }
}

#[inline]
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

/// Numbers of which [`Kind::Start`]'s payload begins with this many: the settings.
const SETTINGS: usize = 32;

/// Settings and processors as the payload of [`Kind::Start`].
pub(super) fn start_payload(config: &Config, processors: &[u32]) -> Vec<u8> {
    let nanos = |time: Duration| time.as_nanos() as u64;
    let settings: [u64; SETTINGS] = [
        config.max_datagram.into(),
        config.safe_datagram.into(),
        config.path_mtu_discovery.into(),
        config.max_payload.into(),
        config.bundle.into(),
        config.timestamps.into(),
        config.checksum.into(),
        (config.recovery == Recovery::GoBackN).into(),
        config.nack.into(),
        nanos(config.reordering_window),
        config.window_packets.into(),
        (config.window_mode == WindowMode::BurstThenWait).into(),
        config.window_bytes.into(),
        match config.congestion {
            Congestion::Fixed => 0,
            Congestion::Aimd => 1,
            Congestion::Delay => 2,
        },
        nanos(config.target_delay),
        nanos(config.ack_delay),
        config.ack_bytes.into(),
        nanos(config.initial_rto),
        nanos(config.min_rto),
        nanos(config.max_rto),
        config.retry_limit.into(),
        nanos(config.death_timeout),
        nanos(config.open_timeout),
        nanos(config.keepalive),
        config.unexpected_bytes.into(),
        config.max_message.into(),
        config.send_queue_bytes.into(),
        config.send_queue_messages.into(),
        config.max_peers.into(),
        u64::from(config.resets_per_second) << 2
            | u64::from(config.late_peers) << 1
            | u64::from(config.accept_strangers),
        config.challenges_per_second.into(),
        config.contact.0,
    ];
    let mut payload = Vec::with_capacity(8 * SETTINGS + 4 * processors.len());
    settings
        .iter()
        .for_each(|setting| payload.extend_from_slice(&setting.to_le_bytes()));
    processors
        .iter()
        .for_each(|processor| payload.extend_from_slice(&processor.to_le_bytes()));
    payload
}

/// The opposite; `None`: nonsense, or settings that are out of their ranges.
pub(super) fn read_start(payload: &[u8]) -> Option<(Config, Vec<u32>)> {
    let (settings, rest) = payload.split_at_checked(8 * SETTINGS)?;
    let (processors, rest) = rest.as_chunks::<4>();
    let mut settings = settings
        .as_chunks::<8>()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes));
    let mut next = || settings.next().unwrap_or(0);
    let mut config = Config {
        max_datagram: next().try_into().ok()?,
        safe_datagram: next().try_into().ok()?,
        path_mtu_discovery: next() != 0,
        max_payload: next().try_into().ok()?,
        bundle: next() != 0,
        timestamps: next() != 0,
        checksum: next() != 0,
        recovery: if next() == 0 {
            Recovery::SelectiveRepeat
        } else {
            Recovery::GoBackN
        },
        nack: next() != 0,
        reordering_window: Duration::from_nanos(next()),
        window_packets: next().try_into().ok()?,
        window_mode: if next() == 0 {
            WindowMode::Sliding
        } else {
            WindowMode::BurstThenWait
        },
        window_bytes: next().try_into().ok()?,
        congestion: match next() {
            0 => Congestion::Fixed,
            1 => Congestion::Aimd,
            _ => Congestion::Delay,
        },
        target_delay: Duration::from_nanos(next()),
        ack_delay: Duration::from_nanos(next()),
        ack_bytes: next().try_into().ok()?,
        initial_rto: Duration::from_nanos(next()),
        min_rto: Duration::from_nanos(next()),
        max_rto: Duration::from_nanos(next()),
        retry_limit: next().try_into().ok()?,
        death_timeout: Duration::from_nanos(next()),
        open_timeout: Duration::from_nanos(next()),
        late_peers: false,
        reconnect: false,
        keepalive: Duration::from_nanos(next()),
        unexpected_bytes: next().try_into().ok()?,
        max_message: next().try_into().ok()?,
        send_queue_bytes: next().try_into().ok()?,
        send_queue_messages: next().try_into().ok()?,
        max_peers: next().try_into().ok()?,
        accept_strangers: false,
        resets_per_second: 0,
        challenges_per_second: 0,
        contact: Contact::NONE,
    };
    let last = next();
    config.challenges_per_second = next().try_into().ok()?;
    config.contact = Contact(next());
    config.accept_strangers = last & 1 == 1;
    config.late_peers = last & 2 == 2;
    config.resets_per_second = (last >> 2).try_into().ok()?;
    let processors: Vec<u32> = processors.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    (rest.is_empty() && !processors.is_empty() && config.validate().is_ok()).then_some((config, processors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_through() {
        for config in [Config::default(), Config::dse()] {
            let config = Config {
                accept_strangers: true,
                late_peers: false,
                contact: Contact::of_job(&[3; 16]),
                ..config
            };
            let payload = start_payload(&config, &[3, 9]);
            assert_eq!(read_start(&payload), Some((config, [3, 9].to_vec())));
            for len in 0..payload.len() - 4 {
                assert_eq!(read_start(&payload[..len]), None, "{len}");
            }
        }
    }

    #[test]
    fn addresses_rails_and_errors_come_through() {
        for text in ["10.1.2.3:4", "[fd77::1]:65535", "[::ffff:10.1.2.3]:4"] {
            let mut record = Record::new(Kind::Peer, 7);
            record.set_address(text.parse().unwrap());
            let read = Record::report(&record.bytes()).unwrap();
            assert_eq!(read.address(), text.parse().unwrap());
        }
        for (state, address) in [
            (RailState::Up, "10.1.2.3:4"),
            (RailState::Unproven, "[fd77::1]:65535"),
            (RailState::Down, "0.0.0.0:1"),
        ] {
            let stats = RailStats {
                path: Path::new(address.parse().unwrap(), 255),
                state,
                round_trip: Duration::from_nanos(47_925),
                max_datagram: 65_507,
                bytes_sent: 1 << 40,
                failures: 3,
            };
            let mut record = Record::new(Kind::Rail, 7);
            record.set_rail(15, &stats);
            let read = Record::report(&record.bytes()).unwrap();
            assert_eq!((read.peer, read.channel, read.rail()), (7, 15, stats));
        }
        let silence = Duration::from_nanos(12_345);
        for error in [
            PeerError::TimedOut { resends: 8, silence },
            PeerError::Refused,
            PeerError::Reset,
            PeerError::Restarted,
            PeerError::Closed,
            PeerError::Misbehaved,
            PeerError::NoRoom,
            PeerError::Incompatible { features: 1 << 20 },
        ] {
            let mut record = Record::new(Kind::Down, 7);
            record.set_error(error);
            assert_eq!(Record::report(&record.bytes()).unwrap().error(), error);
        }
    }

    #[test]
    fn kinds_are_what_their_numbers_say() {
        for first in 0..=u8::MAX {
            let mut bytes = [0; REPORT];
            bytes[0] = first;
            for record in [Record::command(&bytes), Record::report(&bytes)].into_iter().flatten() {
                assert_eq!(record.kind as u8, first);
            }
        }
        assert_eq!(Record::report(&[]), None);
    }
}

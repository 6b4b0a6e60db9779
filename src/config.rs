//! Settings of the protocol, validated once.

use core::{fmt, time::Duration};

use crate::siphash::siphash;

/// How lost packets are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Recovery {
    /// Only the missing packets are sent again (the receiver keeps packets that arrive out of order).
    SelectiveRepeat,
    /// All packets from the first missing one on are sent again; the receiver drops packets that arrive out of order.
    GoBackN,
}

/// How the limit of packets in flight is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum WindowMode {
    /// A packet may follow as soon as the oldest one is acknowledged.
    Sliding,
    /// A full burst, then nothing until all of it is acknowledged.
    BurstThenWait,
}

/// How the number of bytes in flight is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Congestion {
    /// Always [`Config::window_bytes`].
    Fixed,
    /// Additive increase, multiplicative decrease on loss (RFC 5681 without the slow parts).
    Aimd,
    /// Keeps the round-trip time near a target, in the manner of Swift; single losses do not shrink the window.
    Delay,
}

/// A secret that the processes of one job share. It is part of the packets that open a session; a receiver ignores an
/// opening without it. Never printed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Contact(pub(crate) u64);

impl Contact {
    /// No secret: the first opening from the address of a peer is believed.
    pub const NONE: Self = Self(0);

    /// The contact of the job with this key. The key cannot be computed from it.
    #[must_use]
    pub fn of_job(key: &[u8; 16]) -> Self {
        const FIRST_CONTACT: u64 = 1;
        let key = u128::from_le_bytes(*key);
        let key = [key as u64, (key >> 64) as u64];
        Self(siphash(key, &[FIRST_CONTACT]))
    }
}

impl fmt::Debug for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::NONE {
            "Contact::NONE"
        } else {
            "Contact(..)"
        })
    }
}

/// Settings of an endpoint. [`Config::default`] is for a LAN; [`Config::dse`] is the UDP protocol of DSE.
///
/// Every field has a default, a unit and a valid range (both ends included), which [`Config::validate`] checks. The two
/// sides of a session may have different settings.
///
/// With the feature `serde`, settings that a text does not have are the default's, and one that is no setting is an error.
/// [`contact`](Self::contact) is a secret, and neither written nor read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Config {
    /// Largest datagram ever sent, bytes of UDP payload. 512 to 65,507; default 65,507. The interface, the peer and the
    /// path lower it.
    pub max_datagram: u16,
    /// Size of datagrams that are expected to pass everywhere until probes have shown more, bytes of UDP payload
    /// (BASE_PLPMTU of RFC 8899). 512 to `max_datagram`; default 1,472: Ethernet without options. Over IPv6, whose
    /// header is larger, it is 20 bytes less.
    pub safe_datagram: u16,
    /// Look for a larger path MTU by probes (RFC 8899). Default on.
    pub path_mtu_discovery: bool,
    /// Largest payload per packet, bytes. 1 to 65,507; default 65,507 (that is: as the datagram allows).
    pub max_payload: u16,
    /// Small messages to one processor share datagrams. Default on.
    pub bundle: bool,
    /// Put timestamps into packets, 8 bytes each: they give round-trip times even for resends. Default on.
    pub timestamps: bool,
    /// Ask for a CRC-32C in every packet, for links that do not check. Agreed when a session opens: if either side
    /// asks, both put a checksum into all their packets, and drop packets without one
    /// ([`DropReason::Checksum`](crate::DropReason::Checksum)). Default off: only packets that open or refuse a session
    /// have one. A checksum that is present is always verified. Sealed packets
    /// ([`Endpoint::with_sealer`](crate::reliability::Endpoint::with_sealer)) have none.
    pub checksum: bool,
    /// How lost packets are sent again. Default selective repeat.
    pub recovery: Recovery,
    /// Ask for missing packets as soon as a gap outlives the reordering window. Default on.
    pub nack: bool,
    /// A gap younger than this is taken for reordering. 0 to 1 s; default 50 µs.
    pub reordering_window: Duration,
    /// Most packets in flight per flow. 1 to 1,024; default 1,024.
    pub window_packets: u16,
    /// How the window is used. Default sliding.
    pub window_mode: WindowMode,
    /// Most bytes in flight per flow, and most that the peer may have in flight to this side. 1,024 to 64 MiB; default
    /// 1 MiB; the socket buffer lowers it.
    pub window_bytes: u32,
    /// How the number of bytes in flight is limited. Default delay-based.
    pub congestion: Congestion,
    /// Delay that the delay-based window aims at, beyond the smallest round-trip time seen. 1 µs to 1 s; default 300
    /// µs.
    pub target_delay: Duration,
    /// Longest time that an acknowledgement waits for a packet to ride on. 0 to 100 ms; default 200 µs.
    pub ack_delay: Duration,
    /// Acknowledge after this many bytes (or a quarter of the window) at the latest. 1 to 16 MiB; default 256 KiB.
    pub ack_bytes: u32,
    /// Retransmission time-out before the first round-trip sample. 1 ms to 10 s; default 10 ms.
    pub initial_rto: Duration,
    /// Smallest retransmission time-out. 10 µs to 10 s; default 200 µs.
    pub min_rto: Duration,
    /// Largest retransmission time-out after back-off, unless twice the time-out that follows from the round trip is
    /// more. `min_rto` to 60 s; default 200 ms.
    pub max_rto: Duration,
    /// A peer is dead only after this many unanswered resends in a row … 1 to 1,000; default 8.
    pub retry_limit: u16,
    /// … and this long after its last packet arrived. 1 ms to 1 hour; default 4 s. Time during which this side did not
    /// run does not count.
    pub death_timeout: Duration,
    /// The same while a session is opening, because a peer may start later than this side. 1 ms to 1 hour; default 10
    /// s.
    pub open_timeout: Duration,
    /// Peers may start later than this side. On: a peer that has never been heard is not given up because the
    /// network reports that no process listens at its address (ICMP port unreachable). Off: it is lost when the network
    /// has reported that for 100 ms. Default on; `mpi::engine` switches it off, since all processes of a job listen
    /// before they learn each other's addresses.
    pub late_peers: bool,
    /// Call a lost peer until it answers, with a back-off of 50 ms to 1 s: a peer that was silent, that the network
    /// refused, or that does not know the session any more. Until it answers, sends to it are refused
    /// ([`SendError::Peer`](crate::SendError::Peer)). Default off:
    /// [`Endpoint::reconnect`](crate::reliability::Endpoint::reconnect) calls it once. Ignored for the ranks of an MPI
    /// job, and where packets go through a poller.
    pub reconnect: bool,
    /// Time between requests for a sign of life from a watched idle peer. 1 ms to 1 hour; default 1 s.
    pub keepalive: Duration,
    /// Bytes that one peer may have sent and the application has not yet taken. 64 KiB to 1 GiB; default 8 MiB.
    pub unexpected_bytes: u32,
    /// Largest message that is accepted, bytes. 1 to 4 GiB − 1; default 1 GiB.
    pub max_message: u32,
    /// Bytes of copied payload that may be queued or unacknowledged per flow before `WouldBlock`.
    /// 4 KiB to 1 GiB; default 4 MiB.
    pub send_queue_bytes: u32,
    /// Messages by reference that may be queued or unacknowledged per flow before `WouldBlock`.
    /// 1 to 1,048,576; default 4,096.
    pub send_queue_messages: u32,
    /// Most peers. 1 to 1,048,575; default 1,048,575. Where strangers are accepted, a stranger that is gone, or has not
    /// shown that it hears this side, gives way to a newcomer ([`PeerError::NoRoom`](crate::PeerError::NoRoom)). Its
    /// [`PeerId`](crate::PeerId) is not used again for 64 s.
    pub max_peers: u32,
    /// Accept sessions from addresses that were not added as peers, after a round trip has shown that they receive
    /// there. Default off.
    pub accept_strangers: bool,
    /// Most resets a second. Resets answer packets of unknown sessions: this many to addresses of peers, and as many to
    /// other addresses. 0 to 1,000,000; default 1,000.
    pub resets_per_second: u32,
    /// Most challenges a second: this many to addresses of peers that open another session, and as many to strangers. 1
    /// to 1,000,000; default 1,000. (Each costs a system call, and several where nobody listens at the address: at 10,000 a
    /// flood of openings takes a fifth of a CPU.)
    pub challenges_per_second: u32,
    /// The secret that both sides must know for a session to begin; the same on both. Default [`Contact::NONE`]; the
    /// processes of an MPI job derive it from the job's key.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub contact: Contact,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_datagram: 65_507,
            safe_datagram: 1_472,
            path_mtu_discovery: true,
            max_payload: 65_507,
            bundle: true,
            timestamps: true,
            checksum: false,
            recovery: Recovery::SelectiveRepeat,
            nack: true,
            reordering_window: Duration::from_micros(50),
            window_packets: 1_024,
            window_mode: WindowMode::Sliding,
            window_bytes: 1 << 20,
            congestion: Congestion::Delay,
            target_delay: Duration::from_micros(300),
            ack_delay: Duration::from_micros(200),
            ack_bytes: 256 << 10,
            initial_rto: Duration::from_millis(10),
            min_rto: Duration::from_micros(200),
            max_rto: Duration::from_millis(200),
            retry_limit: 8,
            death_timeout: Duration::from_secs(4),
            open_timeout: Duration::from_secs(10),
            late_peers: true,
            reconnect: false,
            keepalive: Duration::from_secs(1),
            unexpected_bytes: 8 << 20,
            max_message: 1 << 30,
            send_queue_bytes: 4 << 20,
            send_queue_messages: 4_096,
            max_peers: MAX_PEERS,
            accept_strangers: false,
            resets_per_second: 1_000,
            challenges_per_second: 1_000,
            contact: Contact::NONE,
        }
    }
}

/// Each peer takes some hundred bytes: a larger table would no longer be small.
pub(crate) const MAX_PEERS: u32 = (1 << 20) - 1;
/// The receive bitmap's size bounds the window.
pub(crate) const MAX_WINDOW_PACKETS: u16 = 1_024;

/// The smallest limit of datagrams: it leaves room for the largest header and some payload.
pub(crate) const MIN_DATAGRAM: u16 = 512;
/// The largest limit of datagrams: the largest UDP payload over IPv4.
const LARGEST_DATAGRAM: u16 = 65_507;

impl Config {
    /// The UDP protocol of DSE, as published: 10 packets of at most 1,024 bytes in a row, go-back-N, NACK and timer, no
    /// bundles (the DSE paper, sections 2.3 and 2.4; `docs/papers.md`).
    ///
    /// The paper leaves some values open; ours are a NACK at the first packet out of order, 8 resends, a timer of the
    /// measured round trip and the wait of acknowledgements (40 ms before the first round trip, doubling up to 200 ms), and
    /// an acknowledgement that waits for a reply for at most 20 ms, or until three packets wait for it. (With 100 ms
    /// SOR would be faster than over the full mesh of TCP: `docs/measured/simulation.md`.) The window slides;
    /// [`Config::window_mode`] selects the paper's other reading.
    #[must_use]
    pub fn dse() -> Self {
        Self {
            max_payload: 1_024,
            path_mtu_discovery: false,
            bundle: false,
            timestamps: false,
            recovery: Recovery::GoBackN,
            reordering_window: Duration::ZERO,
            window_packets: 10,
            congestion: Congestion::Fixed,
            ack_delay: Duration::from_millis(20),
            initial_rto: Duration::from_millis(40),
            min_rto: Duration::from_millis(20),
            ..Self::default()
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// Names the first setting that is out of range, and its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        fn time(name: &'static str, value: Duration, min: Duration, max: Duration) -> Result<(), ConfigError> {
            if (min..=max).contains(&value) {
                return Ok(());
            }
            Err(ConfigError {
                name,
                value: Value::Time(value),
                min: Value::Time(min),
                max: Value::Time(max),
            })
        }
        const HOUR: Duration = Duration::from_secs(3_600);
        const MS: Duration = Duration::from_millis(1);
        number(
            "max_datagram",
            self.max_datagram.into(),
            MIN_DATAGRAM.into(),
            LARGEST_DATAGRAM.into(),
        )?;
        number(
            "safe_datagram",
            self.safe_datagram.into(),
            MIN_DATAGRAM.into(),
            self.max_datagram.into(),
        )?;
        number("max_payload", self.max_payload.into(), 1, 65_507)?;
        time(
            "reordering_window",
            self.reordering_window,
            Duration::ZERO,
            Duration::from_secs(1),
        )?;
        number(
            "window_packets",
            self.window_packets.into(),
            1,
            MAX_WINDOW_PACKETS.into(),
        )?;
        number("window_bytes", self.window_bytes.into(), 1 << 10, 64 << 20)?;
        time(
            "target_delay",
            self.target_delay,
            Duration::from_micros(1),
            Duration::from_secs(1),
        )?;
        time("ack_delay", self.ack_delay, Duration::ZERO, Duration::from_millis(100))?;
        number("ack_bytes", self.ack_bytes.into(), 1, 16 << 20)?;
        time("initial_rto", self.initial_rto, MS, Duration::from_secs(10))?;
        time(
            "min_rto",
            self.min_rto,
            Duration::from_micros(10),
            Duration::from_secs(10),
        )?;
        time("max_rto", self.max_rto, self.min_rto, Duration::from_secs(60))?;
        number("retry_limit", self.retry_limit.into(), 1, 1_000)?;
        time("death_timeout", self.death_timeout, MS, HOUR)?;
        time("open_timeout", self.open_timeout, MS, HOUR)?;
        time("keepalive", self.keepalive, MS, HOUR)?;
        number("unexpected_bytes", self.unexpected_bytes.into(), 64 << 10, 1 << 30)?;
        number("max_message", self.max_message.into(), 1, u32::MAX.into())?;
        number("send_queue_bytes", self.send_queue_bytes.into(), 4 << 10, 1 << 30)?;
        number("send_queue_messages", self.send_queue_messages.into(), 1, 1 << 20)?;
        number("max_peers", self.max_peers.into(), 1, MAX_PEERS.into())?;
        number("resets_per_second", self.resets_per_second.into(), 0, 1_000_000)?;
        number("challenges_per_second", self.challenges_per_second.into(), 1, 1_000_000)
    }
}

fn number(name: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ConfigError {
        name,
        value: Value::Number(value),
        min: Value::Number(min),
        max: Value::Number(max),
    })
}

/// A setting is out of its range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ConfigError {
    name: &'static str,
    value: Value,
    min: Value,
    max: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Number(u64),
    Time(Duration),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Time(t) => write!(f, "{t:?}"),
        }
    }
}

impl ConfigError {
    /// Checks the largest datagram of a backend. It may be larger than any setting.
    pub(crate) fn check_limit(max_datagram: usize) -> Result<(), Self> {
        let most = LARGEST_DATAGRAM.into();
        number(
            "max_datagram",
            (max_datagram as u64).min(most),
            MIN_DATAGRAM.into(),
            most,
        )
    }

    /// Name of the setting: a field of [`Config`].
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "setting `{}` is {}, must be from {} to {}",
            self.name, self.value, self.min, self.max
        )
    }
}

crate::debug_as_display!(ConfigError);

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn defaults_are_valid() {
        assert_eq!(Config::default().validate(), Ok(()));
        assert_eq!(Config::dse().validate(), Ok(()));
    }

    /// A number and whether it is in the range: what is just inside and just outside of both ends.
    fn edges(min: u64, max: u64) -> impl Iterator<Item = (u64, bool)> {
        let outside = min.checked_sub(1).into_iter().chain(max.checked_add(1));
        [(min, true), (max, true)]
            .into_iter()
            .chain(outside.map(|value| (value, false)))
    }

    #[test]
    fn ranges_are_as_documented() {
        /// Settings that bound others are as far away as possible.
        fn wide() -> Config {
            Config {
                safe_datagram: 512,
                min_rto: Duration::from_micros(10),
                max_rto: Duration::from_secs(60),
                ..Config::default()
            }
        }
        fn check(name: &str, config: &Config, valid: bool) {
            let refused = config.validate().err().map(|error| error.name());
            assert_eq!(refused, (!valid).then_some(name), "{config:?}");
        }
        macro_rules! numbers {
            ($($field:ident: $min:expr, $max:expr;)*) => {$(
                for (value, valid) in edges($min, $max) {
                    // What the type cannot hold cannot be set.
                    if let Ok($field) = value.try_into() {
                        check(stringify!($field), &Config { $field, ..wide() }, valid);
                    }
                }
            )*};
        }
        macro_rules! times {
            ($($field:ident: $min:expr, $max:expr;)*) => {$(
                for (value, valid) in edges($min, $max) {
                    let $field = Duration::from_nanos(value);
                    check(stringify!($field), &Config { $field, ..wide() }, valid);
                }
            )*};
        }
        const US: u64 = 1_000;
        const MS: u64 = 1_000 * US;
        const S: u64 = 1_000 * MS;
        const KIB: u64 = 1 << 10;
        const MIB: u64 = 1 << 20;
        const GIB: u64 = 1 << 30;
        numbers! {
            max_datagram: 512, 65_507;
            safe_datagram: 512, 65_507;
            max_payload: 1, 65_507;
            window_packets: 1, 1_024;
            window_bytes: 1_024, 64 * MIB;
            ack_bytes: 1, 16 * MIB;
            retry_limit: 1, 1_000;
            unexpected_bytes: 64 * KIB, GIB;
            max_message: 1, 4 * GIB - 1;
            send_queue_bytes: 4 * KIB, GIB;
            send_queue_messages: 1, 1_048_576;
            max_peers: 1, 1_048_575;
            resets_per_second: 0, 1_000_000;
            challenges_per_second: 1, 1_000_000;
        }
        times! {
            reordering_window: 0, S;
            target_delay: US, S;
            ack_delay: 0, 100 * MS;
            initial_rto: MS, 10 * S;
            min_rto: 10 * US, 10 * S;
            max_rto: 10 * US, 60 * S;
            death_timeout: MS, 3_600 * S;
            open_timeout: MS, 3_600 * S;
            keepalive: MS, 3_600 * S;
        }
    }

    #[test]
    fn errors_name_the_setting_and_its_range() {
        let config = Config {
            window_packets: 0,
            ..Config::default()
        };
        let error = config.validate().unwrap_err();
        assert_eq!(error.name(), "window_packets");
        assert_eq!(
            error.to_string(),
            "setting `window_packets` is 0, must be from 1 to 1024"
        );
    }
}

//! Settings and statistics as text, and back.

use std::{fmt::Debug, time::Duration};

use hikyaku::{
    Config, Congestion, Contact, DropReason, PeerStats, Recovery, Stats, WindowMode, backends::BackendStats,
    transport::Transport,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{from_str, json, to_string, to_value};

fn round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = to_string(value).unwrap();
    assert_eq!(from_str::<T>(&text).unwrap(), *value, "{text}");
}

#[test]
fn settings() {
    let other = Config {
        max_payload: 1_000,
        recovery: Recovery::GoBackN,
        window_mode: WindowMode::BurstThenWait,
        congestion: Congestion::Aimd,
        ack_delay: Duration::from_nanos(1_500),
        reconnect: true,
        ..Config::default()
    };
    for config in [Config::default(), Config::dse(), other] {
        round_trip(&config);
    }
    // A text names what it changes; words are those of the environment.
    let config: Config = from_str(r#"{"recovery": "go-back-n", "min_rto": {"secs": 1, "nanos": 5}}"#).unwrap();
    let expected = Config {
        recovery: Recovery::GoBackN,
        min_rto: Duration::new(1, 5),
        ..Config::default()
    };
    assert_eq!(config, expected);
    let error = from_str::<Config>(r#"{"ack_deley": 5}"#).unwrap_err().to_string();
    assert!(error.contains("unknown field `ack_deley`"), "{error}");
}

#[test]
fn a_secret_is_not_written() {
    let config = Config {
        contact: Contact::of_job(&[7; 16]),
        ..Config::default()
    };
    let text = to_string(&config).unwrap();
    assert!(!text.contains("contact"), "{text}");
    assert_eq!(from_str::<Config>(&text).unwrap(), Config::default());
}

/// A transport that has sent a message, and has dropped what was none.
fn used() -> (Stats, PeerStats, BackendStats) {
    let end = |processor| {
        Transport::builder()
            .processor(processor)
            .bind("udp", "127.0.0.1:0")
            .unwrap()
    };
    let (mut alice, mut bob) = (end(1), end(2));
    let to_bob = alice.add_peer(bob.local_addr(), 2).unwrap();
    bob.add_peer(alice.local_addr(), 1).unwrap();
    let noise = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    noise.send_to(b"no packet", alice.local_addr()).unwrap();
    alice.send(to_bob, b"hello").unwrap();
    bob.receive(Some(Duration::from_secs(10))).unwrap();
    while alice.stats().dropped.total() == 0 {
        alice.progress().unwrap();
    }
    (alice.stats(), alice.peer_stats(to_bob).unwrap(), alice.backend_stats())
}

#[test]
fn statistics() {
    let (stats, peer, backend) = used();
    round_trip(&stats);
    round_trip(&peer);
    round_trip(&backend);
    let value = to_value(stats).unwrap();
    assert_eq!(value["dropped"], json!({"Malformed": 1}));
    assert_eq!(value["payload_sent"], json!(stats.payload_sent));
    assert_eq!(stats.dropped.of(DropReason::Malformed), 1);
}

/// The output of a program that prints `{stats}`.
#[test]
fn statistics_are_tables() {
    let mut value = to_value(Stats::default()).unwrap();
    value["packets_sent"] = json!(12_345);
    value["dropped"] = json!({"Malformed": 2, "Stranger": 30});
    let stats: Stats = serde_json::from_value(value).unwrap();
    let expected = "\
packets sent       12345
packets received       0
payload sent           0
payload received       0
packets delivered      0
resends                0
lost by order          0
lost by nack           0
lost by timeout        0
spurious timeouts      0
probes                 0
flows settled          0
rails up               0
rails down             0
acks alone             0
nacks sent             0
messages bundled       0
resets sent            0
answers dropped        0
sessions opened        0
peers lost             0
blocked on credit      0
refusals ignored       0
dropped               32
  Malformed            2
  Stranger            30";
    assert_eq!(stats.to_string(), expected);

    let mut value = to_value(PeerStats::default()).unwrap();
    value["smoothed_rtt"] = json!({"secs": 0, "nanos": 61_500});
    value["window"] = json!(524_288);
    value["unknown_features"] = json!(16);
    let peer: PeerStats = serde_json::from_value(value).unwrap();
    let expected = "\
smoothed rtt       61.5µs
min rtt               0ns
window             524288
in flight               0
packets in flight       0
queued                  0
max datagram            0
unexpected              0
checksum            false
unknown features     0x10";
    assert_eq!(peer.to_string(), expected);
    assert_eq!(BackendStats::default().to_string().lines().count(), 9);
}

//! The next packet of a dialogue, against the general way.

use super::{
    alone::{queue_one, quiet, send_past_the_queue},
    *,
};
use crate::{PeerError, reliability::Target};

/// Two who have talked; what one of them has just said comes next at the other.
fn talking(config: &Config) -> (Pair, [PeerId; 2]) {
    let (mut pair, to_b, to_a) = Pair::new(config);
    let peers = [to_b, to_a];
    for from in [0, 1, 0, 1] {
        pair.send(from, peers[from], 0, Payload::Copy(b"hello"));
        pair.settle();
    }
    pair.twins = true;
    for (number, from) in [(1, 0), (1, 1), (2, 0), (2, 1), (4, 0)] {
        assert!(pair.wire.is_empty() || pair.arrive());
        assert!(send_past_the_queue(&mut pair, from, peers[from], number, b"hello"));
    }
    pair.turns = 0;
    (pair, peers)
}

fn is_talking(endpoint: &Endpoint) -> bool {
    endpoint.dialogue.next.is_some()
}

/// Whichever bit of the datagram is another one, the same follows as without a short way; and only who has sent, what is
/// said and when may be another.
#[test]
fn every_bit_is_looked_at() {
    for timestamps in [true, false] {
        let config = Config {
            path_mtu_discovery: false,
            timestamps,
            ..Config::default()
        };
        let octets = talking(&config).0.wire[0].1.len();
        let mut turns = vec![];
        for bit in 0..8 * octets {
            let (mut pair, _) = talking(&config);
            assert!(is_talking(&pair.ends[1].0));
            let (from, datagram) = (pair.ends[0].1, &mut pair.wire[0].1);
            datagram[bit / 8] ^= 1 << (bit % 8);
            if let Ok(packet) = Packet::new_checked(&datagram[..]) {
                let una = pair.ends[1].0.actives[0].send.una;
                if packet.base().acknowledgement == una {
                    // It says nothing new, which it may.
                    continue;
                }
                assert!(pair.arrive());
            } else {
                let (endpoint, _, got, _) = &mut pair.ends[1];
                assert!(!endpoint.handle_turn(Instant::ZERO, &from, datagram, got));
            }
            turns.extend((pair.turns > 0).then_some(bit / 8));
        }
        turns.dedup();
        // The number of the message, which is the layer's above; the stamps; the message.
        let said: Vec<usize> = (36..octets).collect();
        assert_eq!(turns, said);
    }
}

#[test]
fn who_has_moved_is_seen() {
    let (mut pair, [_, to_a]) = talking(&Config::default());
    pair.ends[0].1 = SocketAddr::from(([127, 0, 0, 1], 77));
    assert!(pair.arrive());
    assert_eq!((pair.turns, pair.ends[1].0.address(to_a)), (0, Some(pair.ends[0].1)));
}

/// Where what is sent is not what is granted, …
#[test]
fn what_is_beyond_the_credit_is_seen() {
    let (mut pair, _) = talking(&Config::default());
    let p = &mut pair.ends[1].0.peers[0];
    p.limit_told = p.cost_received + 5;
    assert!(pair.arrive());
    assert_eq!(pair.turns, 0);
}

/// … or the layer above has another opinion, the general way decides.
#[test]
fn who_takes_nothing_is_asked_again() {
    let (mut pair, _) = talking(&Config::default());
    pair.ends[1].2.put_off = 1;
    assert!(pair.arrive());
    assert_eq!(pair.turns, 0);
    assert_eq!(pair.ends[1].0.stats().dropped.of(crate::DropReason::BeyondCredit), 1);
}

/// Anything else that happens to an endpoint ends its dialogue: what was looked at when it began may not be so any more.
#[test]
fn everything_else_interrupts() {
    type Act = fn(&mut Endpoint, Instant, PeerId);
    let acts: [Act; 13] = [
        |e, now, peer| _ = e.send(now, peer, 0, &message(1, 6), Payload::Copy(b"more")),
        |e, now, peer| {
            let target = Target {
                source: 1,
                destination: 0,
                landing: 0,
                key: 0,
                offset: 0,
            };
            _ = e.place(now, peer, 0, &target, Bytes::from_static(b"more"));
        },
        |e, now, _| e.handle_timeout(now),
        |e, now, _| e.handle_unreachable(now, SocketAddr::from(([127, 0, 0, 1], 1)), &[]),
        |e, now, _| e.request_acks(now),
        |e, now, peer| e.connect(now, peer),
        |e, now, peer| e.watch(now, peer, true),
        |e, now, peer| e.close(now, peer),
        |e, _, _| e.set_limits(LIMITS),
        |e, _, peer| e.tell_when_writable(peer),
        |e, _, peer| e.expel(peer, PeerError::Misbehaved),
        |e, now, _| {
            e.mark_ready(0);
            e.poll_transmit(now, &mut Burst::default());
        },
        |e, now, _| {
            let mut nothing = [0; 40];
            e.handle_datagrams(
                now,
                SocketAddr::from(([127, 0, 0, 1], 1)),
                &mut nothing,
                40,
                &mut Got::default(),
            );
        },
    ];
    for (number, act) in acts.into_iter().enumerate() {
        let (mut pair, [_, to_a]) = talking(&Config::default());
        let now = Instant::from_nanos(pair.now);
        act(&mut pair.ends[1].0, now, to_a);
        assert!(!is_talking(&pair.ends[1].0), "act {number}");
    }
}

/// While something waits for its turn there is no dialogue: what goes alone would pass it.
#[test]
fn what_waits_comes_before_a_dialogue() {
    type Change = fn(&mut Endpoint);
    let changes: [(Change, bool); 6] = [
        (|_| {}, true),
        (|e| queue_one(e, 1), false),
        (|e| e.actives[0].send.timeouts = 3, false),
        (|e| e.actives[0].receive.nack_now = true, false),
        (|e| _ = e.actives[0].probe.start(2_000, 9_000), false),
        (|e| e.actives[0].send.lost_count = 1, false),
    ];
    for (number, (change, begins)) in changes.into_iter().enumerate() {
        let config = Config {
            path_mtu_discovery: false,
            ..Config::default()
        };
        let (mut pair, _) = talking(&config);
        let endpoint = &mut pair.ends[1].0;
        endpoint.interrupt();
        change(endpoint);
        endpoint.dialogue.queues = false;
        let (from, mut datagram) = (pair.ends[0].1, pair.wire.pop_front().unwrap().1);
        let (endpoint, _, got, _) = &mut pair.ends[1];
        let (now, stride) = (Instant::from_nanos(pair.now), datagram.len());
        endpoint.handle_datagrams(now, from, &mut datagram, stride, got);
        assert_eq!(is_talking(endpoint), begins, "change {number}");
    }
}

/// Who queues what is sent interrupts each dialogue: none begins, until something goes alone.
#[test]
fn who_queues_has_no_dialogue() {
    let (mut pair, [_, to_a]) = talking(&Config::default());
    pair.send(1, to_a, 3, Payload::Copy(b"more"));
    assert!(pair.arrive());
    assert!(pair.predicted > 0 && !is_talking(&pair.ends[1].0));
}

/// A dialogue goes on through messages that go alone, with match bits or without, and begins anew with others.
#[test]
fn a_dialogue_goes_on() {
    let (mut pair, to_b, to_a) = quiet();
    pair.twins = true;
    for number in 2..102 {
        for (from, peer) in [(0, to_b), (1, to_a)] {
            assert!(send_past_the_queue(&mut pair, from, peer, number, &data(number, 600)));
            while pair.arrive() {}
        }
    }
    // One of three has match bits: the two changes make two of three another packet than the one before.
    assert!((60..=80).contains(&pair.turns), "{}", pair.turns);
}

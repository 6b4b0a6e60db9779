//! The short way for what is predicted, against the long one.

use super::{
    inline::{queue_one, quiet, send_past_the_queue},
    *,
};
use crate::{
    PeerError,
    reliability::{endpoint::demux::Arrival, peer::Phase, timers::Timer},
};

/// Takes in a datagram as if nothing could be predicted. Gives whether it was as predicted.
pub(super) fn handle_unpredicted(
    endpoint: &mut Endpoint,
    now: Instant,
    source: SocketAddr,
    bytes: &[u8],
    got: &mut Got,
) -> bool {
    endpoint.advance(now);
    endpoint.stats.packets_received += 1;
    let arrival = Arrival::new(source, bytes, Packet::new_checked(bytes).unwrap());
    let predicted = endpoint.clone().handle_predicted(&source, bytes, &mut got.clone());
    if let Err(reason) = endpoint.handle_any(&arrival, &mut [].chunks(1), got) {
        endpoint.count_drop(reason);
    }
    predicted
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn as_predicted_is_as_ever(
        steps in prop::collection::vec((0_usize..2, 1_usize..8, 0_usize..3_000, 0_u8..16, any::<bool>()), 1..60),
        drop_every in prop::sample::select(vec![3, 5, 11, 40, usize::MAX]),
        (timestamps, checksum, nack) in (any::<bool>(), prop::bool::weighted(0.2), any::<bool>()),
        window_packets in prop_oneof![4 => 1_u16..8, 1 => Just(40)],
        (put_off, congestion) in (0_usize..3, 0_usize..3),
    ) {
        let congestion = [Congestion::Fixed, Congestion::Aimd, Congestion::Delay][congestion];
        let config = Config {
            timestamps, checksum, nack, window_packets, congestion, send_queue_bytes: 16 << 10, ..Config::default()
        };
        let (mut pair, to_b, to_a) = Pair::new(&config);
        pair.twins = true;
        let peers = [to_b, to_a];
        (0..2).for_each(|from| pair.send(from, peers[from], 0, Payload::Copy(b"first")));
        pair.pump();
        pair.drop_every = drop_every;
        let mut sent = [1, 1];
        for (from, count, len, then, shared) in steps {
            for _ in 0..count {
                let bytes = data(sent[from], len);
                let shared = shared.then(|| Payload::Shared(Bytes::from(bytes.clone())));
                sent[from] += u32::from(pair.try_send(from, peers[from], sent[from], shared.unwrap_or(Payload::Copy(&bytes))));
            }
            match then {
                0 => pair.pump(),
                1..4 => drop(pair.arrive()),
                4..10 => pair.settle(),
                10..13 => {
                    pair.now += 150_000;
                    let now = Instant::from_nanos(pair.now);
                    pair.ends.iter_mut().for_each(|end| end.0.handle_timeout(now));
                    pair.transmit();
                }
                13 => pair.ends[1 - from].2.put_off = put_off,
                _ => {}
            }
        }
        // One side goes while messages are under way in both directions.
        for from in [0, 1, 0, 1] {
            pair.try_send(from, peers[from], sent[from], Payload::Copy(b"last"));
            sent[from] += 1;
            pair.transmit();
        }
        let now = Instant::from_nanos(pair.now);
        pair.ends[0].0.close(now, to_b);
        pair.pump();
        prop_assert!(pair.ends.iter().all(|end| end.0.all_idle()));
    }
}

/// A session in which both sides have just said something; what arrives is compared, and the next datagram is under way.
fn about_to_arrive(checksum: bool) -> (Pair, PeerId) {
    let (mut pair, to_b, to_a) = Pair::new(&Config {
        checksum,
        ..Config::default()
    });
    for number in 0..4 {
        (0..2).for_each(|from| pair.send(from, [to_b, to_a][from], number, Payload::Copy(b"hello")));
        pair.settle();
    }
    pair.twins = true;
    pair.send(0, to_b, 4, Payload::Copy(b"hello"));
    pair.transmit();
    (pair, to_a)
}

/// Nothing that is not as predicted is taken for it: without the checksum that there must be, …
#[test]
fn a_missing_checksum_is_seen() {
    let (mut pair, _) = about_to_arrive(true);
    let (_, datagram, stride) = pair.wire.front_mut().unwrap();
    let flags = Packet::new_checked(&datagram[..]).unwrap().flags();
    assert!(flags.contains(Flags::CHECKSUM));
    datagram[2..4].copy_from_slice(&(flags - Flags::CHECKSUM).bits().to_be_bytes());
    // It is the last extension before the payload.
    let payload = datagram.len() - b"hello".len();
    datagram.drain(payload - 8..payload);
    *stride = datagram.len();
    assert!(pair.arrive());
    let stats = pair.ends[1].0.stats();
    assert_eq!(stats.dropped.of(crate::DropReason::Checksum), 1);
    assert_eq!(pair.ends[1].2.messages.len(), 4);
}

/// … from elsewhere, …
#[test]
fn a_peer_that_has_moved_is_seen() {
    let (mut pair, to_a) = about_to_arrive(false);
    pair.ends[0].1 = SocketAddr::from(([127, 0, 0, 1], 77));
    assert!(pair.arrive());
    assert_eq!(pair.ends[1].0.address(to_a), Some(pair.ends[0].1));
}

/// … or with an acknowledgement of what was never sent.
#[test]
fn an_impossible_acknowledgement_is_seen() {
    let (mut pair, _) = about_to_arrive(false);
    let (_, datagram, _) = pair.wire.front_mut().unwrap();
    let ack = Packet::new_checked(&datagram[..]).unwrap().base().acknowledgement;
    datagram[28..32].copy_from_slice(&ack.plus(1).0.to_be_bytes());
    assert!(pair.arrive());
    assert_eq!(pair.ends[1].0.stats().dropped.of(crate::DropReason::BadAck), 1);
    assert_eq!(pair.ends[1].2.messages.len(), 4);
}

/// What is not usual on this side, and in a datagram, is seen; what does no harm is predicted. Either way the same follows.
#[test]
fn what_is_not_as_predicted_is_seen() {
    type Change = fn(&mut Endpoint, &mut [u8]);
    let changes: [(Change, bool); 13] = [
        (|_, _| {}, true),
        (|e, _| e.peers[0].phase = Phase::Closing, false),
        (|e, _| e.peers[0].blocked = true, false),
        (|e, _| e.peers[0].cost_received = e.peers[0].limit_told, false),
        (|e, _| queue_one(e, 1), false),
        (|e, _| e.actives[0].send.set_timeouts(3), false),
        (|e, _| e.actives[0].send.lose_first(), false),
        (|e, _| e.actives[0].send.sack_first(), false),
        (|e, _| e.actives[0].deadlines.set(Timer::Reorder, u64::MAX / 2), true),
        // A session of another time; …
        (
            |e, bytes| bytes[16..24].copy_from_slice(&(e.peers[0].local_secret ^ 1).to_be_bytes()),
            false,
        ),
        // … an acknowledgement of what had been acknowledged before the last one; …
        (
            |e, bytes| {
                bytes[28..32].copy_from_slice(&e.actives[0].send.first_unacknowledged().minus(1).0.to_be_bytes())
            },
            false,
        ),
        // … of nothing new; …
        (
            |e, bytes| bytes[28..32].copy_from_slice(&e.actives[0].send.first_unacknowledged().0.to_be_bytes()),
            true,
        ),
        // … and no time.
        (|_, bytes| bytes[40..44].fill(0), true),
    ];
    for (number, (change, predicted)) in changes.into_iter().enumerate() {
        let (mut pair, _) = about_to_arrive(false);
        let endpoint = &mut pair.ends[1].0;
        change(endpoint, &mut pair.wire[0].1);
        assert!(pair.arrive());
        assert_eq!(pair.predicted, usize::from(predicted), "change {number}");
    }
}

/// Where nothing is lost, all that follows the opening is as predicted.
#[test]
fn requests_and_answers_are_predicted() {
    let (mut pair, to_b, to_a) = Pair::new(&Config {
        path_mtu_discovery: false,
        ..Config::default()
    });
    let round = |pair: &mut Pair, number| {
        for (from, peer) in [(0, to_b), (1, to_a)] {
            pair.send(from, peer, number, Payload::Copy(&data(number, 600)));
            pair.transmit();
            while pair.arrive() {}
        }
    };
    (0..4).for_each(|number| round(&mut pair, number));
    pair.twins = true;
    let before = pair.datagrams;
    (4..104).for_each(|number| round(&mut pair, number));
    // But for those that tell of credit.
    let (predicted, all) = (pair.predicted, pair.datagrams - before);
    assert!(predicted >= 180 && all == 200, "{predicted} of {all}");
}

/// So is what comes without being answered.
#[test]
fn a_stream_is_predicted() {
    let (mut pair, to_b, _) = quiet();
    pair.twins = true;
    for number in 2..102 {
        pair.send(0, to_b, number, Payload::Copy(b"hello"));
        pair.settle();
    }
    // But for an acknowledgement now and then.
    assert!(pair.predicted >= 98, "{}", pair.predicted);
}

/// An answer to the first of several: the others go on waiting.
#[test]
fn an_answer_before_all_is_heard_is_predicted() {
    let (mut pair, to_b, to_a) = quiet();
    pair.twins = true;
    for number in 2..5 {
        pair.send(0, to_b, number, Payload::Copy(b"request"));
        pair.transmit();
    }
    assert!(pair.arrive());
    pair.send(1, to_a, 2, Payload::Copy(b"answer"));
    pair.transmit();
    let before = pair.predicted;
    while pair.arrive() {}
    assert_eq!(pair.predicted - before, 3);
    let in_flight = pair.ends[0].0.peer_stats(to_b).unwrap().packets_in_flight;
    assert!(in_flight == 2 && !pair.ends[0].0.all_idle());
}

/// What an impossible answer acknowledges is not looked for when the session is over.
#[test]
fn an_impossible_answer_ends_its_flow() {
    let (mut pair, to_b, to_a) = quiet();
    assert!(send_past_the_queue(&mut pair, 0, to_b, 2, b"request"));
    assert!(pair.arrive());
    let impossible = Outgoing {
        source: NOBODY,
        ..message(1, 2)
    };
    let now = Instant::from_nanos(pair.now);
    pair.ends[1]
        .0
        .send(now, to_a, 0, &impossible, Payload::Copy(b"answer"))
        .unwrap();
    pair.settle();
    let down = |event: &Event| {
        matches!(
            event,
            Event::Down {
                error: PeerError::Misbehaved,
                lost: false,
                ..
            }
        )
    };
    assert!(pair.ends[0].0.all_idle());
    pair.pump();
    assert!(pair.ends[0].3.iter().any(down));
}

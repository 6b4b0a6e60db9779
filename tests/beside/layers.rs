//! The layer in memory by itself, and beside an endpoint.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use bytes::Bytes;
use hikyaku::{
    Config, PeerError,
    messaging::{Access, Messenger, SendOptions},
    reliability::{Beside, Burst, Endpoint, Event, Gate, Limits, MemoryLayer, Payload, PeerId},
    time::Instant,
};
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    max_datagram: 9_000,
    max_segments: 16,
    max_batch: 60_000,
    receive_buffer: 1 << 20,
    holds_references: false,
    ack_bytes: usize::MAX,
    receive_port: 0,
};

/// A burst on its way: its source, its stride, its bytes.
type Carried = (SocketAddr, usize, Vec<u8>);

/// Messengers that a medium joins which loses nothing.
struct Medium {
    ends: Vec<Messenger>,
    queues: Vec<VecDeque<Carried>>,
    now: Instant,
    /// The only peer of each end of a pair.
    peer: PeerId,
}

fn address(end: usize) -> SocketAddr {
    ([127, 0, 0, 1], 1_000 + end as u16).into()
}

impl Medium {
    fn new(ends: Vec<Messenger>, peer: PeerId) -> Self {
        Self {
            queues: ends.iter().map(|_| VecDeque::new()).collect(),
            ends,
            now: Instant::from_nanos(1_000),
            peer,
        }
    }

    /// Two layers in memory.
    fn pair(config: &Config) -> Self {
        let end = |end: usize| {
            let layer = MemoryLayer::new(config.clone(), LIMITS, end as u64 + 1).unwrap();
            let mut messenger = Messenger::new(Box::new(layer), &[end as u32]);
            let peer = messenger.add_peer(address(1 - end), 1 - end as u32).unwrap();
            (messenger, peer)
        };
        let [(first, peer), (second, _)] = [end(0), end(1)];
        Self::new(vec![first, second], peer)
    }

    /// Takes bursts from `from` until it has none, and returns the number of packets.
    fn transmit(&mut self, from: usize) -> usize {
        let (mut burst, mut packets) = (Burst::default(), 0);
        while self.ends[from].poll_transmit(self.now, &mut burst) {
            let mut bytes = Vec::new();
            self.ends[from].gather(&burst, |part| bytes.extend_from_slice(part));
            assert_eq!(bytes.len(), burst.len());
            let to = (0..self.ends.len()).find(|to| address(*to) == burst.destination());
            match to {
                Some(to) => self.queues[to].push_back((address(from), burst.segment_size(), bytes)),
                None => self.ends[from].handle_unreachable(self.now, burst.destination(), &[]),
            }
            packets += burst.segments();
        }
        packets
    }

    fn receive(&mut self, to: usize) {
        while let Some((source, stride, mut bytes)) = self.queues[to].pop_front() {
            self.ends[to].handle_datagrams(self.now, source, &mut bytes, stride);
        }
        self.ends[to].handle_timeout(self.now);
    }

    /// Until nothing moves any more.
    fn run(&mut self) {
        for _ in 0..1_000 {
            let moved: usize = (0..self.ends.len()).map(|end| self.transmit(end)).sum();
            (0..self.ends.len()).for_each(|end| self.receive(end));
            self.now += Duration::from_millis(1);
            if moved == 0 {
                return;
            }
        }
        panic!("packets go to and fro without end");
    }

    fn send(&mut self, from: usize, data: &[u8]) {
        let options = SendOptions::default();
        self.ends[from]
            .send(self.now, self.peer, &options, Payload::Copy(data))
            .unwrap();
    }

    fn take(&mut self, at: usize) -> Option<Vec<u8>> {
        let message = self.ends[at].receive()?;
        Some(message.to_vec())
    }

    fn events(&mut self, of: usize) -> Vec<Event> {
        std::iter::from_fn(|| self.ends[of].poll_event()).collect()
    }
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + salt * 13) as u8).collect()
}

/// A placement has arrived when the other side says so, not when the medium has taken it.
#[test]
fn a_placement_is_sent_when_it_has_arrived() {
    let mut medium = Medium::pair(&Config::default());
    medium.send(0, b"hello");
    medium.run();
    medium.events(0);
    let region = medium.ends[1]
        .register(Access::Lasting, Box::new(vec![0; 50_000]))
        .unwrap();
    let (now, peer, data) = (medium.now, medium.peer, Bytes::from(pattern(50_000, 3)));
    let tokens = [0, 1].map(|_| medium.ends[0].place(now, peer, 0, region, 0, data.clone()).unwrap());
    assert!(medium.transmit(0) > 1);
    assert_eq!(medium.events(0), [], "nothing has been received");
    assert!(!medium.ends[0].layer().is_idle(peer));
    medium.receive(1);
    medium.run();
    assert_eq!(medium.events(0), tokens.map(|token| Event::Sent { peer, token }));
    assert!(medium.ends[0].layer().is_idle(peer));
}

/// Two layers, the first with a gate to the second.
fn gated() -> (Medium, Gate) {
    let gate = Gate::default();
    let end = |end: usize| {
        let layer = MemoryLayer::new(Config::default(), LIMITS, end as u64 + 1).unwrap();
        let gates = (end == 0).then(|| gate.clone());
        let layer = layer.with_gates(move |_| gates.clone());
        let mut messenger = Messenger::new(Box::new(layer), &[end as u32]);
        let peer = messenger.add_peer(address(1 - end), 1 - end as u32).unwrap();
        (messenger, peer)
    };
    let [(first, peer), (second, _)] = [end(0), end(1)];
    (Medium::new(vec![first, second], peer), gate)
}

/// A rank that waits for a peer asks the medium for it, and sends nothing, until the medium wants a session.
#[test]
fn a_peer_that_is_watched_from_the_beginning_is_sent_nothing() {
    let (mut medium, gate) = gated();
    for _ in 0..3 {
        medium.now += Duration::from_millis(100);
        medium.ends[0].watch(medium.now, medium.peer, true);
        assert_eq!(medium.transmit(0), 0);
        assert!(gate.take_question() && !gate.take_question());
    }
    gate.set_wanted();
    medium.now += Duration::from_millis(100);
    medium.ends[0].watch(medium.now, medium.peer, true);
    medium.run();
    assert!(medium.ends[0].layer().is_up(medium.peer));
}

/// It is given up if a peer waits for it, and learns of it when it goes on.
#[test]
fn a_peer_that_is_silent_for_too_long_is_given_up() {
    let (mut medium, gate) = gated();
    medium.send(0, b"hello");
    medium.run();
    (0..2).for_each(|end| drop(medium.events(end)));
    let limit = Config::default().death_timeout;
    gate.set_silence(limit - Duration::from_millis(1));
    medium.now += Duration::from_millis(100);
    medium.ends[0].watch(medium.now, medium.peer, true);
    assert_eq!(medium.events(0), []);
    gate.set_silence(limit);
    medium.ends[0].watch(medium.now, medium.peer, true);
    assert_eq!(medium.events(0), [], "it has just been watched");
    medium.now += Duration::from_millis(100);
    medium.ends[0].watch(medium.now, medium.peer, true);
    let error_of = |event: &Event| match event {
        Event::Down { error, .. } => Some(*error),
        _ => None,
    };
    let errors: Vec<_> = medium.events(0).iter().filter_map(error_of).collect();
    let silence = limit;
    assert_eq!(errors, [PeerError::TimedOut { resends: 0, silence }]);
    medium.send(1, b"here again");
    medium.run();
    assert_eq!(medium.take(0), None);
    let errors: Vec<_> = medium.events(1).iter().filter_map(error_of).collect();
    assert_eq!(errors, [PeerError::Reset]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whenever they are taken: all come, whole and in order, and what waits is bounded by the credit.
    #[test]
    fn messages_of_all_sizes_arrive_in_order(
        lens in prop::collection::vec(prop_oneof![0..100_usize, 400..600_usize, 8_000..10_000_usize, 0..200_000_usize], 1..60),
        shared in any::<u64>(),
        every in 1..6_usize,
    ) {
        let config = Config { unexpected_bytes: 128 << 10, ..Config::default() };
        let mut medium = Medium::pair(&config);
        let (mut sent, mut taken, mut tokens) = (0, 0, 0);
        let mut done = 0;
        while taken < lens.len() {
            if sent < lens.len() {
                let data = pattern(lens[sent], sent);
                let payload = if shared >> (sent % 64) & 1 == 1 {
                    tokens += 1;
                    Payload::Shared(Bytes::from(data))
                } else {
                    Payload::Copy(&data)
                };
                medium.ends[0].send(medium.now, medium.peer, &SendOptions::default(), payload).unwrap();
                sent += 1;
            }
            medium.run();
            let stats = medium.ends[1].layer().peer_stats(medium.peer).unwrap();
            // A message that is larger than half of the credit gives it back as it comes.
            prop_assert!(stats.unexpected <= 128 << 10);
            if sent % every == 0 || sent == lens.len() {
                let data = medium.take(1);
                prop_assert_eq!(data, Some(pattern(lens[taken], taken)), "message {}", taken);
                taken += 1;
            }
            done += medium.events(0).iter().filter(|event| matches!(event, Event::Sent { .. })).count();
        }
        medium.run();
        done += medium.events(0).iter().filter(|event| matches!(event, Event::Sent { .. })).count();
        prop_assert_eq!(done, tokens);
        prop_assert!(medium.ends.iter().all(|end| end.layer().all_idle()));
        prop_assert_eq!(medium.ends[1].layer().stats().dropped.total(), 0);
    }
}

#[test]
fn a_goodbye_comes_after_all_messages_and_a_new_session_may_follow() {
    let mut medium = Medium::pair(&Config::default());
    medium.send(0, b"first");
    medium.ends[0].close(medium.now, medium.peer);
    let refused = medium.ends[0].send(medium.now, medium.peer, &SendOptions::default(), Payload::Copy(b"late"));
    assert!(refused.is_err());
    medium.run();
    assert_eq!(medium.take(1).as_deref(), Some(&b"first"[..]));
    for end in 0..2 {
        let events = medium.events(end);
        let down = |event: &Event| {
            matches!(
                event,
                Event::Down {
                    error: PeerError::Closed,
                    lost: false,
                    ..
                }
            )
        };
        assert_eq!(events.iter().filter(|event| down(event)).count(), 1, "{events:?}");
        assert_eq!(medium.ends[end].layer().down(medium.peer), Some(PeerError::Closed));
    }
    medium.ends[1].reconnect(medium.peer);
    medium.send(1, b"second");
    medium.run();
    assert_eq!(medium.take(0).as_deref(), Some(&b"second"[..]));
    assert!(
        medium
            .ends
            .iter()
            .all(|end| end.layer().is_up(medium.peer) && end.layer().session(medium.peer) == 2)
    );
}

#[test]
fn a_peer_that_has_restarted_begins_anew() {
    let mut medium = Medium::pair(&Config::default());
    medium.send(0, b"of the first incarnation");
    medium.run();
    medium.events(1);
    let layer = MemoryLayer::new(Config::default(), LIMITS, 77).unwrap();
    medium.ends[0] = Messenger::new(Box::new(layer), &[0]);
    medium.ends[0].add_peer(address(1), 1).unwrap();
    medium.send(0, b"of the second");
    medium.run();
    let restarted = |event: &Event| {
        matches!(
            event,
            Event::Down {
                error: PeerError::Restarted,
                ..
            }
        )
    };
    assert!(medium.events(1).iter().any(restarted));
    assert_eq!(medium.take(1).as_deref(), Some(&b"of the first incarnation"[..]));
    assert_eq!(medium.take(1).as_deref(), Some(&b"of the second"[..]));
}

#[test]
fn an_absent_peer_is_refused_and_a_wrong_processor_returned() {
    let mut medium = Medium::pair(&Config::default());
    let nobody = medium.ends[0].add_peer(address(7), 7).unwrap();
    let options = SendOptions::default();
    medium.ends[0]
        .send(medium.now, nobody, &options, Payload::Copy(b"hello"))
        .unwrap();
    let elsewhere = SendOptions {
        destination: Some(9),
        ..options
    };
    medium.ends[0]
        .send(medium.now, medium.peer, &elsewhere, Payload::Copy(b"hello"))
        .unwrap();
    medium.run();
    let events = medium.events(0);
    let refused =
        |event: &Event| matches!(event, Event::Down { peer, error: PeerError::Refused, .. } if *peer == nobody);
    let returned = |event: &Event| {
        matches!(
            event,
            Event::Returned {
                destination: 9,
                messages: 1,
                ..
            }
        )
    };
    assert!(events.iter().any(refused), "{events:?}");
    assert!(events.iter().any(returned), "{events:?}");
    assert_eq!(medium.ends[1].layer().peer_stats(medium.peer).unwrap().unexpected, 0);
}

/// Three ends: 0 reaches 1 through memory and 2 over the network.
#[test]
fn each_peer_is_reached_by_its_own_layer() {
    let config = Config::default();
    let end = |end: usize| {
        let endpoint = Endpoint::new(config.clone(), LIMITS, end as u64 + 1, end as u128 + 1).unwrap();
        let memory = MemoryLayer::new(config.clone(), LIMITS, end as u64 + 1).unwrap();
        let near = move |_: SocketAddr, peer: u32| peer < 2 && end < 2;
        let mut messenger = Messenger::new(Box::new(Beside::new(endpoint, memory, near)), &[end as u32]);
        let others = (0..3).filter(|peer| *peer != end);
        let peers: Vec<_> = others
            .map(|peer| messenger.add_peer(address(peer), peer as u32).unwrap())
            .collect();
        (messenger, peers)
    };
    let (ends, peers): (Vec<_>, Vec<_>) = (0..3).map(end).unzip();
    let mut medium = Medium::new(ends, peers[0][0]);
    let options = SendOptions::default();
    for (salt, &peer) in peers[0].iter().enumerate() {
        let data = Payload::Shared(Bytes::from(pattern(50_000, salt)));
        medium.ends[0].send(medium.now, peer, &options, data).unwrap();
    }
    medium.run();
    for peer in 1..3 {
        assert_eq!(medium.take(peer), Some(pattern(50_000, peer - 1)));
    }
    let events = medium.events(0);
    let sent = events
        .iter()
        .filter(|event| matches!(event, Event::Sent { .. }))
        .count();
    assert_eq!(sent, 2, "{events:?}");
    let endpoint = |end: &Messenger| end.layer().as_endpoint().unwrap().stats();
    assert_eq!(endpoint(&medium.ends[1]).packets_received, 0);
    assert!(endpoint(&medium.ends[2]).packets_received > 5);
    let all = medium.ends[0].layer().stats();
    assert!(
        all.payload_sent == 100_000 && endpoint(&medium.ends[0]).payload_sent == 50_000,
        "{all:?}"
    );
}

/// Packets for which there is no room wait, in order, until there is.
#[test]
fn packets_of_a_peer_that_restarts_again_and_again_are_put_off() {
    let config = Config {
        unexpected_bytes: 128 << 10,
        ..Config::default()
    };
    let mut medium = Medium::pair(&config);
    for incarnation in 1..=4_u64 {
        let layer = MemoryLayer::new(config.clone(), LIMITS, 100 * incarnation).unwrap();
        medium.ends[0] = Messenger::new(Box::new(layer), &[0]);
        medium.ends[0].add_peer(address(1), 1).unwrap();
        // The second message needs credit that is announced at the first.
        for part in 0..2 {
            medium.send(0, &pattern(60_000, incarnation as usize * 2 + part));
            medium.run();
        }
    }
    // Of the third incarnation nothing was kept but what its successor displaced.
    let mut taken = Vec::new();
    for _ in 0..20 {
        taken.extend(medium.take(1));
        medium.run();
    }
    let expected: Vec<_> = [2, 3, 4, 5, 8, 9].map(|salt| pattern(60_000, salt)).into();
    assert_eq!(taken.len(), expected.len());
    assert!(taken == expected);
}

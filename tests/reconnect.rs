//! Processes that live on both sides of a silence, and find each other again, over whole transports.
#![cfg(all(feature = "loopback", feature = "udp", target_os = "linux"))]

use std::{
    thread,
    time::{Duration, Instant},
};

use hikyaku::{
    Config, PeerError, PeerId,
    transport::{Event, LostMessages, Transport},
};

const PATIENCE: Duration = Duration::from_secs(30);
const WAYS: [(&str, &str); 2] = [("loopback", "127.0.0.1:0"), ("udp", "127.0.0.1:0")];

#[expect(clippy::disallowed_methods, reason = "the transports' clocks are real")]
fn now() -> Instant {
    Instant::now()
}

struct Side {
    transport: Transport,
    peer: PeerId,
    events: Vec<Event>,
    received: Vec<Vec<u8>>,
}

impl Side {
    fn pump(&mut self) {
        if let Some(message) = self.transport.try_receive().unwrap() {
            self.received.push(message.into_vec());
        }
        while let Some(event) = self.transport.next_event() {
            self.events.push(event);
        }
    }

    fn ups(&self) -> usize {
        let ups = self.events.iter();
        ups.filter(|event| matches!(event, Event::PeerUp { .. })).count()
    }

    fn downs(&self) -> Vec<PeerError> {
        let events = self.events.iter();
        events
            .filter_map(|event| match event {
                Event::PeerDown { error, .. } => Some(*error),
                _ => None,
            })
            .collect()
    }
}

/// Two that have talked. `always` is who wants its peer back by itself.
fn pair((backend, address): (&str, &str), always: [bool; 2]) -> [Side; 2] {
    let mut transports = [1, 2].map(|processor: u32| {
        let config = Config {
            death_timeout: Duration::from_millis(100),
            retry_limit: 3,
            reconnect: always[processor as usize - 1],
            ..Config::default()
        };
        let builder = Transport::builder().processor(processor).config(config);
        builder.bind(backend, address).unwrap()
    });
    let addresses = [0, 1].map(|side| transports[side].local_addr());
    let peers = [0, 1].map(|side| transports[side].add_peer(addresses[1 - side], 2 - side as u32).unwrap());
    let mut peers = peers.into_iter();
    let mut sides = transports.map(|transport| Side {
        transport,
        peer: peers.next().unwrap(),
        events: Vec::new(),
        received: Vec::new(),
    });
    say(&mut sides, b"first");
    // Acknowledgements are under way.
    let settled = now() + Duration::from_millis(20);
    until(&mut sides, "settled", |_| now() >= settled);
    sides
}

/// Pumps the sides until something is so.
fn until(sides: &mut [Side], what: &str, done: impl Fn(&[Side]) -> bool) {
    let begun = now();
    while !done(sides) {
        for side in &mut *sides {
            side.pump();
        }
        let events: Vec<_> = sides.iter().map(|side| &side.events).collect();
        assert!(begun.elapsed() < PATIENCE, "not {what}: {events:?}");
        thread::yield_now();
    }
}

/// Each says something, which arrives.
fn say(sides: &mut [Side; 2], what: &[u8]) {
    for side in &mut *sides {
        side.transport.send(side.peer, what).unwrap();
    }
    let heard = |sides: &[Side]| {
        sides
            .iter()
            .all(|side| side.received.last().is_some_and(|last| last == what))
    };
    until(sides, "heard", heard);
}

/// The second does nothing, until the first has lost it.
fn stall(sides: &mut [Side; 2]) {
    let peer = sides[0].peer;
    for message in [&b"lost 1"[..], b"lost 2", b"lost 3"] {
        sides[0].transport.send(peer, message).unwrap();
    }
    until(&mut sides[..1], "lost", |sides| !sides[0].downs().is_empty());
    let downs = sides[0].downs();
    assert!(matches!(downs[..], [PeerError::TimedOut { .. }]), "{downs:?}");
    let lost = LostMessages {
        session: 1,
        source: 1,
        destination: 2,
        first: 1,
    };
    assert_eq!(sides[0].transport.take_lost(peer), [lost]);
    assert_eq!(sides[0].transport.take_lost(peer), []);
}

fn expect_second_session(sides: &mut [Side; 2]) {
    until(sides, "up again", |sides| sides.iter().all(|side| side.ups() == 2));
    say(sides, b"second");
    for side in sides {
        assert_eq!((side.ups(), side.downs().len()), (2, 1), "{:?}", side.events);
    }
}

#[test]
fn a_side_that_was_silent_comes_back_by_itself_if_that_is_wanted() {
    for way in WAYS {
        for always in [[true, false], [true, true]] {
            let mut sides = pair(way, always);
            stall(&mut sides);
            expect_second_session(&mut sides);
        }
    }
}

#[test]
fn a_side_that_was_silent_comes_back_when_it_is_asked_for() {
    for way in WAYS {
        let mut sides = pair(way, [false, false]);
        stall(&mut sides);
        let peer = sides[0].peer;
        sides[0].transport.reconnect(peer);
        expect_second_session(&mut sides);
    }
}

#[test]
fn both_sides_may_ask() {
    for way in WAYS {
        let mut sides = pair(way, [false, false]);
        stall(&mut sides);
        // The other one hears that its session is over when it says something.
        let peer = sides[1].peer;
        sides[1].transport.send(peer, b"into the void").unwrap();
        until(&mut sides, "told", |sides| !sides[1].downs().is_empty());
        assert_eq!(sides[1].downs(), [PeerError::Reset]);
        for side in &mut sides {
            side.transport.reconnect(side.peer);
        }
        expect_second_session(&mut sides);
    }
}

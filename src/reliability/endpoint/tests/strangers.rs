//! Strangers come, and those that are gone give way.

use super::{
    guesses::{Form, forge, talk, with_token},
    *,
};
use crate::{
    DropReason, PeerError,
    prng::Prng,
    wire::{Base, Kind, Token},
};

const SECOND: u64 = 1_000_000_000;

fn address(number: u32) -> SocketAddr {
    SocketAddr::from(((0x0a00_0000 | number).to_be_bytes(), 4_810))
}

fn server(max_peers: u32) -> Endpoint {
    let config = Config {
        accept_strangers: true,
        max_peers,
        ..Config::default()
    };
    Endpoint::new(config, LIMITS, 7, 7).unwrap()
}

/// Datagrams that an endpoint has to send, and where to.
fn sent(endpoint: &mut Endpoint, now: u64) -> Vec<(SocketAddr, Vec<u8>)> {
    let (mut burst, mut all) = (Burst::default(), Vec::new());
    while endpoint.poll_transmit(Instant::from_nanos(now), &mut burst) {
        let mut bytes = Vec::new();
        endpoint.gather(&burst, |part| bytes.extend_from_slice(part));
        all.extend(
            bytes
                .chunks(burst.segment_size())
                .map(|bytes| (burst.destination(), bytes.to_vec())),
        );
    }
    all
}

fn hand_in(endpoint: &mut Endpoint, now: u64, from: SocketAddr, bytes: &[u8], got: &mut Got) {
    let (mut bytes, len) = (bytes.to_vec(), bytes.len());
    endpoint.handle_datagrams(Instant::from_nanos(now), from, &mut bytes, len, got);
}

/// An opening that says nothing else, with a token of its own.
fn opening(rng: &mut Prng) -> Vec<u8> {
    let form = Form {
        kind: Kind::Ack,
        opens: true,
        more: true,
    };
    let base = Base {
        kind: Kind::Ack,
        channel: 0,
        source: 9,
        destination: 0,
        session: Token::NONE,
        sequence: Seq(0),
        acknowledgement: Seq(0),
        rail: 0,
        message: Seq(0),
    };
    forge(form, base, rng)
}

/// Strangers a second that are challenged by default.
const CHALLENGED: u64 = 1_000;

/// Opens a session, answers the challenge, and is never heard again.
fn call_and_vanish(server: &mut Endpoint, now: u64, from: SocketAddr, rng: &mut Prng) {
    let bytes = opening(rng);
    hand_in(server, now, from, &bytes, &mut Got::default());
    let cookie = sent(server, now).iter().find_map(|(to, bytes)| {
        let packet = Packet::new_checked(&bytes[..]).unwrap();
        (*to == from && packet.kind() == Kind::Challenge).then(|| packet.open().unwrap().token)
    });
    hand_in(
        server,
        now,
        from,
        &with_token(&bytes, cookie.unwrap()),
        &mut Got::default(),
    );
    sent(server, now);
}

/// A client and what has become of it.
struct Client {
    endpoint: Endpoint,
    address: SocketAddr,
    got: Got,
    down: Option<PeerError>,
    /// Datagrams that have come from the server.
    arrived: usize,
}

impl Client {
    fn new(number: u32) -> Self {
        let mut endpoint = Endpoint::new(Config::default(), LIMITS, number.into(), number.into()).unwrap();
        endpoint.add_peer(address(0), 0).unwrap();
        Self {
            endpoint,
            address: address(number),
            got: Got::default(),
            down: None,
            arrived: 0,
        }
    }

    /// Sends the server a message, and lets time go on for 200 ms.
    fn call(&mut self, server: &mut Endpoint, got: &mut Got, now: &mut u64) {
        let at = Instant::from_nanos(*now);
        let number = got.messages.len() as u32;
        let sent = self
            .endpoint
            .send(at, PeerId(0), 0, &message(1, number), Payload::Copy(b"hello"));
        assert!(sent.is_ok(), "{:?}", sent.err());
        self.exchange(server, got, now, SECOND / 5);
    }

    fn exchange(&mut self, server: &mut Endpoint, got: &mut Got, now: &mut u64, time: u64) {
        let end = *now + time;
        while *now < end {
            *now += SECOND / 1_000;
            for endpoint in [&mut self.endpoint, &mut *server] {
                endpoint.handle_timeout(Instant::from_nanos(*now));
            }
            for _ in 0..4 {
                for (to, bytes) in sent(&mut self.endpoint, *now) {
                    assert_eq!(to, address(0));
                    hand_in(server, *now, self.address, &bytes, got);
                }
                for (to, bytes) in sent(server, *now) {
                    if to == self.address {
                        self.arrived += 1;
                        hand_in(&mut self.endpoint, *now, address(0), &bytes, &mut self.got);
                    }
                }
            }
            while server.poll_event().is_some() {}
            while let Some(event) = self.endpoint.poll_event() {
                if let Event::Down { error, .. } = event {
                    self.down = Some(error);
                }
            }
        }
    }
}

/// 200,000 strangers in 200 s, all of which live where they say and vanish: the honest pair beside them goes on, memory is
/// bounded, nobody gets the number of one that has just left, and an honest stranger is let in at once.
#[test]
fn strangers_that_vanish_give_way() {
    const ROOM: u32 = 50;
    let mut rng = Prng::new(4);
    let (mut pair, ..) = Pair::of([Endpoint::new(Config::default(), LIMITS, 5, 5).unwrap(), server(ROOM)]);
    talk(&mut pair, 0);
    for number in 1..=200_000 {
        pair.now += SECOND / CHALLENGED;
        let now = pair.now;
        let server = &mut pair.ends[1].0;
        call_and_vanish(server, now, address(number), &mut rng);
        assert_eq!(server.stats().sessions_opened, u64::from(number) + 1);
        while server.poll_event().is_some() {}
        if number % 10_000 == 0 {
            talk(&mut pair, number);
        }
    }
    let (server, now) = (&mut pair.ends[1].0, &mut pair.now);
    // As many as are challenged in the 64 s in which the number of a peer names no other, and those that are there.
    assert!(
        server.peers() as u32 <= ROOM + 65 * CHALLENGED as u32,
        "{}",
        server.peers()
    );
    assert_eq!(server.down(PeerId(0)), None);
    assert_eq!(server.stats().dropped.of(DropReason::TooManyPeers), 0);
    let (mut client, mut got) = (Client::new(300_000), Got::default());
    client.call(server, &mut got, now);
    assert_eq!((got.messages.len(), client.down), (1, None));
}

/// When nobody can leave, the newcomer is told. One that says goodbye makes room, and its number names no other peer.
#[test]
fn a_newcomer_hears_that_there_is_no_room() {
    let (mut server, mut got, mut now) = (server(2), Got::default(), SECOND);
    let mut clients = [1, 2, 3, 4].map(Client::new);
    for (n, client) in clients.iter_mut().enumerate().take(3) {
        client.call(&mut server, &mut got, &mut now);
        assert_eq!(client.down, (n == 2).then_some(PeerError::NoRoom));
    }
    assert_eq!(server.stats().dropped.of(DropReason::TooManyPeers), 1);
    assert_eq!((got.messages.len(), server.peers()), (2, 2));
    let first = server.peer_by_address(clients[0].address).unwrap();
    clients[0].endpoint.close(Instant::from_nanos(now), PeerId(0));
    clients[0].exchange(&mut server, &mut got, &mut now, SECOND / 5);
    assert_eq!(clients[0].down, Some(PeerError::Closed));
    clients[3].call(&mut server, &mut got, &mut now);
    assert_eq!((got.messages.len(), clients[3].down), (3, None));
    assert_ne!(server.peer_by_address(clients[3].address).unwrap(), first);
    server.reconnect(first);
    let sent = server.send(
        Instant::from_nanos(now),
        first,
        0,
        &message(0, 0),
        Payload::Copy(b"who?"),
    );
    assert!(matches!(sent, Err(SendError::Peer(..))), "{sent:?}");
    assert_eq!(server.peer_by_address(clients[0].address), None);
}

/// The places of many that have left are not looked at.
#[test]
fn a_newcomer_hears_so_at_once_after_a_flood() {
    let (mut server, mut got, mut now, mut rng) = (server(2), Got::default(), SECOND, Prng::new(4));
    for number in 1..=20_000 {
        now += SECOND / CHALLENGED;
        call_and_vanish(&mut server, now, address(number), &mut rng);
    }
    let mut clients = [30_001, 30_002, 30_003].map(Client::new);
    for client in &mut clients {
        client.call(&mut server, &mut got, &mut now);
    }
    assert_eq!(clients.map(|client| client.down), [None, None, Some(PeerError::NoRoom)]);
    assert_eq!(got.messages.len(), 2);
}

/// A stranger that has gone without a word is asked when somebody needs its place, and gives way when it does not answer.
#[test]
fn a_silent_stranger_is_asked_whether_it_lives() {
    let (mut server, mut got, mut now) = (server(1), Got::default(), SECOND);
    let mut clients = [1, 2, 3, 4].map(Client::new);
    for client in &mut clients {
        client.call(&mut server, &mut got, &mut now);
        client.exchange(&mut server, &mut got, &mut now, 10 * SECOND);
    }
    let refused = Some(PeerError::NoRoom);
    assert_eq!(clients.map(|client| client.down), [None, refused, None, refused]);
    assert_eq!(got.messages.len(), 2);
}

/// A server whose only place a stranger has, which was silent for long, has been asked when another one called, and has
/// answered. `watched`: the server's application watches it.
fn asked(watched: bool) -> (Endpoint, Client, Got, u64) {
    let (mut server, mut got, mut now) = (server(1), Got::default(), SECOND);
    let [mut client, mut newcomer] = [1, 2].map(Client::new);
    client.call(&mut server, &mut got, &mut now);
    let peer = server.peer_by_address(client.address).unwrap();
    server.watch(Instant::from_nanos(now), peer, watched);
    client.exchange(&mut server, &mut got, &mut now, 10 * SECOND);
    client.arrived = 0;
    newcomer.call(&mut server, &mut got, &mut now);
    assert_eq!(newcomer.down, Some(PeerError::NoRoom));
    client.exchange(&mut server, &mut got, &mut now, 2 * SECOND);
    assert!(client.arrived > 0, "it was never asked");
    client.arrived = 0;
    (server, client, got, now)
}

#[test]
fn a_stranger_that_has_answered_is_asked_no_more() {
    let (mut server, mut client, mut got, mut now) = asked(false);
    client.exchange(&mut server, &mut got, &mut now, 60 * SECOND);
    assert_eq!((client.arrived, server.poll_timeout()), (0, None));
    client.call(&mut server, &mut got, &mut now);
    assert_eq!((got.messages.len(), client.down), (2, None));
}

#[test]
fn a_stranger_that_the_application_watches_stays_watched() {
    let (mut server, mut client, mut got, mut now) = asked(true);
    client.exchange(&mut server, &mut got, &mut now, 60 * SECOND);
    assert!(client.arrived > 0, "it is watched no more");
    // It vanishes.
    let peer = server.peer_by_address(client.address).unwrap();
    client.address = address(9);
    client.exchange(&mut server, &mut got, &mut now, 10 * SECOND);
    assert!(
        matches!(server.down(peer), Some(PeerError::TimedOut { .. })),
        "{:?}",
        server.down(peer)
    );
}

#[test]
fn a_question_under_way_ends_with_the_watch() {
    let (mut server, mut client, mut got, mut now) = asked(true);
    let peer = server.peer_by_address(client.address).unwrap();
    client.address = address(9);
    client.exchange(&mut server, &mut got, &mut now, 2 * SECOND);
    assert!(server.is_asking(peer));
    server.watch(Instant::from_nanos(now), peer, false);
    client.exchange(&mut server, &mut got, &mut now, 10 * SECOND);
    assert_eq!((server.down(peer), server.poll_timeout()), (None, None));
}

/// The same if it had just been heard when the first newcomer was refused for its sake.
#[test]
fn a_stranger_that_falls_silent_after_a_refusal_is_asked_too() {
    let (mut server, mut got, mut now) = (server(1), Got::default(), SECOND);
    let mut clients = [1, 2, 3, 4].map(Client::new);
    for (n, client) in clients.iter_mut().enumerate() {
        client.call(&mut server, &mut got, &mut now);
        if n > 0 {
            client.exchange(&mut server, &mut got, &mut now, 10 * SECOND);
        }
    }
    let refused = Some(PeerError::NoRoom);
    assert_eq!(clients.map(|client| client.down), [None, refused, refused, None]);
    assert_eq!(got.messages.len(), 2);
}

/// A client sends a first message and answers its challenge, but hears nothing else: the datagrams of its that arrived.
fn call_unheard(client: &mut Client, server: &mut Endpoint, got: &mut Got, now: u64, number: u32) -> Vec<Vec<u8>> {
    let at = Instant::from_nanos(now);
    let queued = client
        .endpoint
        .send(at, PeerId(0), 0, &message(1, number), Payload::Copy(b"once"));
    assert!(queued.is_ok(), "{:?}", queued.err());
    let mut all = Vec::new();
    for _ in 0..2 {
        for (_, bytes) in sent(&mut client.endpoint, now) {
            hand_in(server, now, client.address, &bytes, got);
            all.push(bytes);
        }
        for (to, bytes) in sent(server, now) {
            let kind = Packet::new_checked(&bytes[..]).unwrap().kind();
            if to == client.address && kind == Kind::Challenge {
                hand_in(&mut client.endpoint, now, address(0), &bytes, &mut Got::default());
            }
        }
    }
    all
}

/// A stranger that gives way before it has heard the server says its opening again, with the cookie that is still good: it
/// is told that there is no room, and its message, which has been delivered, does not come twice. A new call is let in.
#[test]
fn a_message_of_a_stranger_that_gave_way_does_not_come_twice() {
    let (mut server, mut got, mut now, mut rng) = (server(1), Got::default(), SECOND, Prng::new(4));
    let mut client = Client::new(1);
    let mut old = call_unheard(&mut client, &mut server, &mut got, now, 0);
    for round in 1..=3 {
        assert_eq!(got.messages.len(), round, "the first flight is delivered");
        let first = server.peer_by_address(client.address).unwrap();
        call_and_vanish(&mut server, now, address(1_000 + round as u32), &mut rng);
        assert_eq!(server.peer_by_address(client.address), None);
        assert_eq!(server.down(first), Some(PeerError::NoRoom));
        for bytes in &old {
            hand_in(&mut server, now, client.address, bytes, &mut got);
        }
        sent(&mut server, now);
        // The client does not know that it has given way, and hears so when its time-out makes it say its opening again.
        client.exchange(&mut server, &mut got, &mut now, SECOND);
        assert_eq!(
            (got.messages.len(), client.down.take()),
            (round, Some(PeerError::NoRoom))
        );
        client.endpoint.reconnect(PeerId(0));
        old.extend(call_unheard(&mut client, &mut server, &mut got, now, round as u32));
    }
    assert_eq!(got.messages.len(), 4);
}

/// The same if the server adds the address as a peer after the stranger has given way.
#[test]
fn a_message_of_a_stranger_does_not_come_twice_when_it_is_added() {
    let (mut server, mut got, mut now, mut rng) = (server(2), Got::default(), SECOND, Prng::new(4));
    let mut client = Client::new(1);
    call_unheard(&mut client, &mut server, &mut got, now, 0);
    for number in [1_001, 1_002] {
        call_and_vanish(&mut server, now, address(number), &mut rng);
    }
    let added = server.add_peer(client.address, 1).unwrap();
    assert_eq!(server.peer_by_address(client.address), Some(added));
    client.exchange(&mut server, &mut got, &mut now, SECOND);
    assert_eq!((got.messages.len(), client.down), (1, Some(PeerError::Reset)));
}

/// A peer with the number of one that left long ago has sessions with other numbers, and so with other tokens.
#[test]
fn sessions_of_a_number_are_counted_on() {
    let (mut server, mut got, mut now) = (server(1), Got::default(), SECOND);
    let session = |server: &mut Endpoint, got: &mut Got, now: &mut u64, number: u32| {
        let mut client = Client::new(number);
        client.call(server, got, now);
        let peer = server.peer_by_address(client.address).unwrap();
        let session = server.session(peer);
        client.endpoint.close(Instant::from_nanos(*now), PeerId(0));
        client.exchange(server, got, now, SECOND / 5);
        assert_eq!(client.down, Some(PeerError::Closed));
        (peer, session)
    };
    let first = session(&mut server, &mut got, &mut now, 1);
    // The first one leaves for the sake of the second one, which gets a number of its own.
    let second = session(&mut server, &mut got, &mut now, 2);
    assert_ne!(second.0, first.0);
    now += 100 * SECOND;
    let third = session(&mut server, &mut got, &mut now, 3);
    assert_eq!(third.0, first.0);
    assert_ne!(third.1, first.1);
    assert_eq!(got.messages.len(), 3);
}

/// However many openings come, challenges are as many as the setting says, and those that come from addresses of peers
/// cost others nothing.
#[test]
fn challenges_are_limited() {
    const RATE: u32 = 100;
    const TIME: u64 = 10;
    let config = Config {
        accept_strangers: true,
        challenges_per_second: RATE,
        ..Config::default()
    };
    let mut server = Endpoint::new(config, LIMITS, 7, 7).unwrap();
    let (mut got, mut now, mut rng) = (Got::default(), SECOND, Prng::new(4));
    let mut client = Client::new(1);
    client.call(&mut server, &mut got, &mut now);
    let mut challenges = |server: &mut Endpoint, now: u64, from: SocketAddr| {
        let bytes = opening(&mut rng);
        hand_in(server, now, from, &bytes, &mut Got::default());
        let sent = sent(server, now);
        let to_it = sent.iter().filter(|(to, bytes)| {
            let packet = Packet::new_checked(&bytes[..]).unwrap();
            *to == from && packet.kind() == Kind::Challenge
        });
        to_it.count() as u64
    };
    for known in [false, true] {
        let (mut sent, openings) = (0, 10_000);
        for number in 0..openings {
            now += TIME * SECOND / openings;
            let from = if known {
                client.address
            } else {
                address(100 + number as u32)
            };
            sent += challenges(&mut server, now, from);
        }
        let expected = TIME * u64::from(RATE);
        // As many as in a tenth of a second may come in a row.
        assert!(
            (expected..=expected + u64::from(RATE) / 10 + 1).contains(&sent),
            "{sent}"
        );
        let other = if known { address(2) } else { client.address };
        assert_eq!(challenges(&mut server, now, other), 1, "known: {known}");
    }
    client.call(&mut server, &mut got, &mut now);
    assert_eq!((got.messages.len(), client.down), (2, None));
}

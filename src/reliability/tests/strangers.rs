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
        let mut octets = Vec::new();
        endpoint.gather(&burst, |part| octets.extend_from_slice(part));
        all.extend(
            octets
                .chunks(burst.segment_size())
                .map(|octets| (burst.destination(), octets.to_vec())),
        );
    }
    all
}

fn hand_in(endpoint: &mut Endpoint, now: u64, from: SocketAddr, octets: &[u8], got: &mut Got) {
    let (mut octets, len) = (octets.to_vec(), octets.len());
    endpoint.handle_datagrams(Instant::from_nanos(now), from, &mut octets, len, got);
}

/// Opens a session, answers the challenge, and is never heard again.
fn call_and_vanish(server: &mut Endpoint, now: u64, from: SocketAddr, rng: &mut Prng) {
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
    let octets = forge(form, base, rng);
    hand_in(server, now, from, &octets, &mut Got::default());
    let cookie = sent(server, now).iter().find_map(|(to, octets)| {
        let packet = Packet::new_checked(&octets[..]).unwrap();
        (*to == from && packet.kind() == Kind::Challenge).then(|| packet.open().unwrap().token)
    });
    hand_in(
        server,
        now,
        from,
        &with_token(&octets, cookie.unwrap()),
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
                for (to, octets) in sent(&mut self.endpoint, *now) {
                    assert_eq!(to, address(0));
                    hand_in(server, *now, self.address, &octets, got);
                }
                for (to, octets) in sent(server, *now) {
                    if to == self.address {
                        hand_in(&mut self.endpoint, *now, address(0), &octets, &mut self.got);
                    }
                }
            }
            while let Some(event) = self.endpoint.poll_event() {
                if let Event::Down { error, .. } = event {
                    self.down = Some(error);
                }
            }
        }
    }
}

/// 200,000 strangers in 100 s, all of which live where they say and vanish: the honest pair beside them goes on, memory is
/// bounded, nobody gets the number of one that has just left, and an honest stranger is let in at once.
#[test]
fn strangers_that_vanish_give_way() {
    const ROOM: u32 = 50;
    let mut rng = Prng::new(4);
    let (mut pair, ..) = Pair::of([Endpoint::new(Config::default(), LIMITS, 5, 5).unwrap(), server(ROOM)]);
    talk(&mut pair, 0);
    for number in 1..=200_000 {
        pair.now += SECOND / 2_000;
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
    assert!(server.peers() as u32 <= ROOM + 65 * 2_000, "{}", server.peers());
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

//! An attacker that knows everything but secrets: it guesses, replays, and sends from addresses of others.

use super::*;
use crate::{
    Contact, DropReason,
    prng::Prng,
    reliability::{flow::FlowKey, peer::token_of},
    wire::{Base, Credit, Features, Header, Kind, Open, Sack, Token, checksum},
};

const ATTACKER: SocketAddr = SocketAddr::new(core::net::IpAddr::V4(core::net::Ipv4Addr::new(10, 6, 6, 6)), 666);

/// A kind of packet, and what it carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) kind: Kind,
    /// An opening comes with it.
    pub(super) opens: bool,
    /// Credit, acknowledgements of single packets, and a wish for an answer.
    pub(super) more: bool,
}

fn forms() -> impl Iterator<Item = Form> {
    let kinds = (0..=u8::MAX).map_while(Kind::from_bits);
    kinds.flat_map(|kind| {
        [(false, false), (false, true), (true, false), (true, true)].map(|(opens, more)| Form { kind, opens, more })
    })
}

/// A packet of that form. `base` has the numbers that were guessed, or known.
pub(super) fn forge(form: Form, base: Base, rng: &mut Prng) -> Vec<u8> {
    let mut header = Header::new(Base {
        kind: form.kind,
        ..base
    });
    header.checksum = Some(0);
    if form.opens || form.kind == Kind::Challenge {
        header.open = Some(Open {
            epoch: rng.next_u64() | 1,
            token: Token {
                index: if form.kind == Kind::Challenge { Token::COOKIE } else { 1 },
                secret: rng.next_u64(),
            },
            features: Features::empty(),
            credit: Credit {
                limit: 1 << 24,
                window: 1 << 20,
            },
            ack_delay: 0,
            max_datagram: 1_472,
            port: 0,
        });
    }
    if form.more {
        header.flags |= Flags::ACK_REQUEST | Flags::NACK;
        header.credit = Some(Credit {
            limit: u32::MAX / 2,
            window: 1,
        });
        if !form.kind.is_sequenced() {
            header.sack = Sack::from_words(&[!0; 4]).unwrap();
        }
    }
    let payload: &[u8] = match form.kind {
        Kind::Data => b"forged",
        Kind::Probe => &[0; 1_000],
        _ => &[],
    };
    let mut bytes = vec![0; header.len()];
    header.emit(payload.len() as u16, &mut bytes);
    bytes.extend_from_slice(payload);
    checksum::fill(&mut bytes);
    bytes
}

/// The same packet with another token.
pub(super) fn with_token(bytes: &[u8], token: Token) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[12..16].copy_from_slice(&token.index.to_be_bytes());
    bytes[16..24].copy_from_slice(&token.secret.to_be_bytes());
    checksum::fill(&mut bytes);
    bytes
}

fn endpoint(config: &Config, rng: &mut Prng) -> Endpoint {
    let key = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
    Endpoint::new(config.clone(), LIMITS, rng.next_u64(), key).unwrap()
}

/// Two ends, with secrets that were drawn, that have talked.
fn live(config: &Config, rng: &mut Prng) -> Pair {
    let (mut pair, ..) = Pair::of([endpoint(config, rng), endpoint(config, rng)]);
    pair.tape = Some(Vec::new());
    talk(&mut pair, 0);
    pair
}

const PEER: PeerId = PeerId(0);

/// Messages go both ways, the first with this number. Nothing else arrives, and nothing happens to the session.
pub(super) fn talk(pair: &mut Pair, first: u32) {
    let sizes = [8, 2_000, 0, 30_000, 64];
    for (number, len) in (first..).zip(sizes) {
        for from in 0..2 {
            pair.send(from, PEER, number, Payload::Copy(&data(number, len)));
        }
    }
    pair.settle();
    for end in &mut pair.ends {
        end.2.messages.sort_by_key(|(number, _)| *number);
        let expected = (first..).zip(sizes).map(|(number, len)| (number, data(number, len)));
        assert!(core::mem::take(&mut end.2.messages).into_iter().eq(expected));
        assert!(end.2.partial.is_empty());
    }
}

/// Nothing is told but that sessions are up.
fn assert_nothing_ended(pair: &mut Pair) {
    for end in &mut pair.ends {
        while let Some(event) = end.0.poll_event() {
            assert!(matches!(event, Event::Up { .. }), "{event:?}");
        }
    }
}

/// The next packet of the first end to the second.
fn next_base(pair: &Pair) -> Base {
    let endpoint = &pair.ends[0].0;
    let flow = &endpoint.flows[endpoint.find_flow(0, FlowKey::FIRST).unwrap() as usize];
    Base {
        kind: Kind::Data,
        channel: 0,
        source: 0,
        destination: 1,
        session: token_of(0, pair.ends[1].0.peers[0].local_secret),
        sequence: flow.send_next(),
        acknowledgement: flow.expected(),
        rail: 0,
        message: Seq(5),
    }
}

/// What an endpoint knows, without counters and answers that wait.
fn knowledge(endpoint: &Endpoint) -> Endpoint {
    let mut endpoint = endpoint.clone();
    endpoint.stats = crate::Stats::default();
    endpoint.control.clear();
    (endpoint.resets, endpoint.challenges) = Default::default();
    endpoint
}

/// Takes in a datagram at the second end.
fn inject(pair: &mut Pair, from: SocketAddr, bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let (now, len) = (Instant::from_nanos(pair.now), bytes.len());
    let end = &mut pair.ends[1];
    end.0.handle_datagrams(now, from, &mut bytes, len, &mut end.2);
}

/// Sends what the second end has to send: kinds and bytes of what goes to each of two addresses.
fn drain(endpoint: &mut Endpoint, now: u64, to: SocketAddr) -> Vec<(Kind, usize)> {
    let mut burst = Burst::default();
    let mut sent = Vec::new();
    while endpoint.poll_transmit(Instant::from_nanos(now), &mut burst) {
        let mut bytes = Vec::new();
        endpoint.gather(&burst, |part| bytes.extend_from_slice(part));
        if burst.destination() == to {
            let datagrams = bytes.chunks(burst.segment_size());
            sent.extend(datagrams.map(|bytes| (Packet::new_checked(bytes).unwrap().kind(), bytes.len())));
        }
    }
    sent
}

/// 4,096 guesses of each form of packet, all that differ from the token in one bit, and the right secret in other places:
/// nothing changes, and answers are resets and challenges, within their budgets.
#[test]
fn guessed_tokens_do_nothing() {
    for seed in 0..2 {
        let mut rng = Prng::new(seed);
        let mut pair = live(&Config::default(), &mut rng);
        let (base, peer) = (next_base(&pair), pair.ends[0].1);
        let token = base.session;
        let mut guesses: Vec<Token> = (0..4_096)
            .map(|_| Token {
                secret: rng.next_u64(),
                ..token
            })
            .collect();
        guesses.extend((0..64).map(|bit| Token {
            secret: token.secret ^ 1 << bit,
            ..token
        }));
        guesses.extend([0, 2, u32::MAX - 1, Token::COOKIE].map(|index| Token { index, ..token }));
        inject(&mut pair, peer, b"nothing");
        let before = knowledge(&pair.ends[1].0);
        let mut received = 0;
        for form in forms() {
            let bytes = forge(form, base, &mut rng);
            for guess in &guesses {
                let bytes = with_token(&bytes, *guess);
                received += bytes.len();
                inject(&mut pair, peer, &bytes);
                inject(&mut pair, ATTACKER, &bytes);
            }
        }
        assert_same(&knowledge(&pair.ends[1].0), &before);
        assert_eq!(pair.ends[1].2, Got::default());
        let answers = drain(&mut pair.ends[1].0, pair.now, ATTACKER);
        assert!(answers.iter().all(|(kind, _)| *kind == Kind::Reset), "{answers:?}");
        assert!(answers.len() <= 101 && answers.iter().map(|answer| answer.1).sum::<usize>() <= received);
        talk(&mut pair, 5);
        assert_nothing_ended(&mut pair);
    }
}

/// A million guesses in a second: answers keep their budgets, and the session goes on.
#[test]
fn a_million_guesses_do_nothing() {
    let mut rng = Prng::new(7);
    let mut pair = live(&Config::default(), &mut rng);
    let (base, peer) = (next_base(&pair), pair.ends[0].1);
    let bytes: Vec<Vec<u8>> = forms().map(|form| forge(form, base, &mut rng)).collect();
    let (mut answers, mut to_peer) = (0, 0);
    for number in 0..1 << 20 {
        let guess = Token {
            secret: rng.next_u64(),
            ..base.session
        };
        let bytes = with_token(&bytes[number / 2 % bytes.len()], guess);
        let from = if number % 2 == 0 { peer } else { ATTACKER };
        inject(&mut pair, from, &bytes);
        if number % 1_000 == 0 {
            pair.now += 1_000_000;
            let mut twin = pair.ends[1].0.clone();
            answers += drain(&mut pair.ends[1].0, pair.now, ATTACKER).len();
            to_peer += drain(&mut twin, pair.now, peer).len();
        }
    }
    assert!((500..1_200).contains(&answers), "{answers}");
    assert!((500..4_000).contains(&to_peer), "{to_peer}");
    assert_eq!(pair.ends[1].2, Got::default());
    talk(&mut pair, 5);
    assert_nothing_ended(&mut pair);
}

/// All packets of a session that has ended, recorded and played again, from the addresses where they came from and from
/// another: the session of now goes on, and nothing arrives.
#[test]
fn an_ended_session_played_again_does_nothing() {
    for (seed, restarts) in [(1, true), (2, false)] {
        let mut rng = Prng::new(seed);
        let mut pair = live(&Config::default(), &mut rng);
        if restarts {
            pair.ends[1].0 = endpoint(&Config::default(), &mut rng);
            pair.ends[1].0.add_peer(pair.ends[0].1, 0).unwrap();
        } else {
            let now = Instant::from_nanos(pair.now);
            pair.ends[0].0.close(now, PEER);
            pair.pump();
            pair.ends.iter_mut().for_each(|end| end.0.reconnect(PEER));
        }
        let tape = pair.tape.take().unwrap();
        assert!(tape.len() > 20, "{}", tape.len());
        pair.send(1, PEER, 0, Payload::Copy(b"here I am"));
        pair.pump();
        pair.send(0, PEER, 0, Payload::Copy(b"here I am"));
        pair.pump();
        pair.ends.iter_mut().for_each(|end| end.3.clear());
        assert!(
            pair.ends
                .iter_mut()
                .all(|end| core::mem::take(&mut end.2.messages).len() == 1)
        );
        let opened = [0, 1].map(|n: usize| pair.ends[n].0.stats().sessions_opened);
        for from_peer in [true, false] {
            for (to, bytes) in &tape {
                pair.now += 10_000;
                let from = if from_peer { pair.ends[1 - to].1 } else { ATTACKER };
                let (now, len) = (Instant::from_nanos(pair.now), bytes.len());
                let end = &mut pair.ends[*to];
                end.0.handle_datagrams(now, from, &mut bytes.clone(), len, &mut end.2);
                if !from_peer {
                    let answers = drain(&mut end.0, pair.now, ATTACKER);
                    assert!(
                        answers
                            .iter()
                            .all(|answer| answer.0 == Kind::Reset && answer.1 <= len + 8),
                        "{answers:?}"
                    );
                }
                pair.settle();
            }
        }
        assert!(pair.ends.iter().all(|end| end.2 == Got::default()));
        assert_eq!(opened, [0, 1].map(|n: usize| pair.ends[n].0.stats().sessions_opened));
        talk(&mut pair, 1);
        assert_nothing_ended(&mut pair);
        assert!(pair.ends.iter().all(|end| end.3.is_empty()), "{:?}", pair.ends[0].3);
    }
}

/// Every form of packet, from an address that has never been heard to answer: in 20 s no more than three times as much goes
/// there (RFC 9000, section 8), be it nobody's, or that of a peer that has not called.
#[test]
fn nothing_is_amplified() {
    let mut rng = Prng::new(3);
    for accept_strangers in [false, true] {
        let config = Config {
            accept_strangers,
            ..Config::default()
        };
        let pair = live(&config, &mut rng);
        let base = next_base(&pair);
        for (form, known) in forms().flat_map(|form| [(form, false), (form, true)]) {
            let secret = rng.next_u64();
            for session in [0, 1, 2, Token::COOKIE]
                .map(|index| Token { index, secret })
                .into_iter()
                .chain([Token::NONE])
            {
                let mut endpoint = pair.ends[1].0.clone();
                if known {
                    endpoint.add_peer(ATTACKER, 7).unwrap();
                }
                let mut bytes = with_token(&forge(form, base, &mut rng), session);
                let len = bytes.len();
                let mut now = pair.now;
                endpoint.handle_datagrams(Instant::from_nanos(now), ATTACKER, &mut bytes, len, &mut Got::default());
                let mut sent = 0;
                let end = now + 20_000_000_000;
                while now < end {
                    sent += drain(&mut endpoint, now, ATTACKER)
                        .iter()
                        .map(|packet| packet.1)
                        .sum::<usize>();
                    while endpoint.poll_event().is_some() {}
                    let Some(next) = endpoint.poll_timeout() else { break };
                    now = now.max(next.as_nanos());
                    endpoint.handle_timeout(Instant::from_nanos(now));
                }
                assert!(
                    sent <= 3 * len,
                    "{sent} bytes for {len}: {form:?}, {session:?}, known: {known}"
                );
            }
        }
    }
}

/// What an opening must say in a job is looked at before anything else: without it nothing is begun and nothing is sent,
/// and with it a session begins at once.
#[test]
fn an_opening_must_know_the_job() {
    let mut rng = Prng::new(9);
    let config = Config {
        contact: Contact::of_job(&[5; 16]),
        ..Config::default()
    };
    let mut victim = endpoint(&config, &mut rng);
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    victim.add_peer(address, 0).unwrap();
    let open = Form {
        kind: Kind::Data,
        opens: true,
        more: false,
    };
    let base = Base {
        kind: Kind::Data,
        channel: 0,
        source: 0,
        destination: 1,
        session: Token::NONE,
        sequence: Seq(0),
        acknowledgement: Seq(0),
        rail: 0,
        message: Seq(0),
    };
    let other = Contact::of_job(&[6; 16]);
    let mut got = Got::default();
    for secret in [0, other.0, rng.next_u64(), config.contact.0 ^ 1] {
        let mut bytes = with_token(&forge(open, base, &mut rng), Token { index: 0, secret });
        let len = bytes.len();
        victim.handle_datagrams(Instant::ZERO, address, &mut bytes, len, &mut got);
    }
    assert_eq!(victim.stats().dropped.of(DropReason::Stranger), 4);
    assert_eq!((victim.stats().sessions_opened, victim.poll_timeout()), (0, None));
    // Whoever knows it is let in with its first flight.
    let (mut pair, ..) = Pair::of([endpoint(&config, &mut rng), victim]);
    talk(&mut pair, 0);
    assert_eq!(pair.ends[1].0.stats().sessions_opened, 1);
    assert_eq!(pair.ends[1].0.stats().dropped.of(DropReason::Unvalidated), 0);
}

//! Any bytes may come from the network: they are counted and dropped, and no other peer is harmed.

use std::{net::SocketAddr, time::Duration};

use hikyaku::{
    Contact, DropReason,
    wire::{ANY_PROCESSOR, Base, Builder, Credit, Features, Kind, MAX_HEADER_LEN, Open, Seq, Token, checksum::compute},
};

use crate::{
    exactly_once::{config, traffic},
    harness::{App, Job, NodeOptions, Prng, World, scenario, seal::IS_ON},
};

const MS: Duration = Duration::from_millis(1);

pub(crate) fn stranger(number: u32) -> SocketAddr {
    SocketAddr::from((
        (0xc0a8_0000 | number >> 12).to_be_bytes(),
        1_024 + (number & 0xfff) as u16,
    ))
}

/// A packet with a payload and whatever extensions `extend` adds. Resets have a checksum, and so has what `extend` gives
/// one.
pub(crate) fn packet(base: &Base, payload: &[u8], extend: impl FnOnce(&mut Builder<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; MAX_HEADER_LEN];
    let mut builder = Builder::new(&mut bytes, base);
    if base.kind == Kind::Reset {
        builder.checksum();
    }
    extend(&mut builder);
    let checksum = builder.checksum_offset();
    let len = builder.finish(payload.len() as u16);
    bytes.truncate(len);
    bytes.extend_from_slice(payload);
    if let Some(at) = checksum {
        let crc = compute(&bytes, at, []);
        bytes[at..at + 4].copy_from_slice(&crc.to_be_bytes());
    }
    bytes
}

/// A guess: the index is that of a peer or says that there is none, the secret may be anything.
fn any_token(rng: &mut Prng) -> Token {
    Token {
        index: rng.pick(&[0, 1, 2, 3, Token::COOKIE]),
        secret: rng.next(),
    }
}

fn some_open(rng: &mut Prng) -> Open {
    Open {
        epoch: rng.next() | 1,
        token: Token {
            index: rng.between(1, 4) as u32,
            secret: rng.next(),
        },
        features: Features::from_bits_retain(rng.next() as u32 & 0xffff),
        credit: Credit {
            limit: rng.next() as u32,
            window: rng.next() as u32,
        },
        ack_delay: rng.next() as u32,
        max_datagram: rng.next() as u16,
        port: 0,
    }
}

pub(crate) fn open_packet(rng: &mut Prng) -> Vec<u8> {
    let mut open = some_open(rng);
    if rng.chance(300) {
        open.features |= Features::from_bits_retain(rng.next() as u32);
    }
    let base = Base {
        kind: Kind::Data,
        channel: 0,
        source: rng.next() as u32,
        destination: ANY_PROCESSOR,
        session: Token::NONE,
        sequence: Seq(0),
        acknowledgement: Seq(0),
        rail: 0,
        message: Seq(0),
    };
    packet(&base, &[7; 100], |builder| {
        builder.checksum().open(&open);
    })
}

/// Three nodes; whatever hits node 1, it and node 2 must be able to talk.
pub(crate) fn three(seed: u64, options: &NodeOptions) -> World {
    let mut world = World::new(seed);
    for _ in 0..3 {
        world.add(options.clone());
    }
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        world.connect(a, b);
        world.send(a, b, Job::new(100));
    }
    world.run_idle(Duration::from_secs(5));
    world
}

/// Nodes 1 and 2 talk as if nothing were the matter.
pub(crate) fn bystander_is_unharmed(world: &mut World) {
    let before = world.nodes[1].log.len();
    let start = world.now;
    for _ in 0..10 {
        world.send(2, 1, Job::new(1_000));
    }
    world.run_for(5 * MS);
    let log = &world.nodes[1].log[before..];
    assert_eq!(log.iter().filter(|entry| entry.1 == 2).count(), 10);
    assert!(log.iter().all(|entry| entry.1 != 2 || entry.0 - start < MS));
    assert!(world.downs(1).iter().all(|down| down.1 != 2));
}

#[test]
fn flood_of_strangers() {
    if IS_ON {
        return; // An attacker without the secret opens nothing.
    }
    scenario("attack::flood_of_strangers", 2, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = three(seed, &NodeOptions::default());
        let before = world.nodes[1].endpoint().stats();
        for number in 0..20_000 {
            let bytes = match rng.below(3) {
                0 => open_packet(&mut rng),
                1 => packet(&any_base(&mut rng), b"hello", |_| {}),
                _ => packet(
                    &Base {
                        kind: Kind::Reset,
                        ..any_base(&mut rng)
                    },
                    b"",
                    |_| {},
                ),
            };
            world.inject(1, stranger(number), bytes);
            if number % 50 == 0 {
                world.run_for(Duration::from_micros(100));
            }
        }
        bystander_is_unharmed(&mut world);
        let after = world.nodes[1].endpoint().stats();
        assert_eq!(after.sessions_opened, before.sessions_opened);
        assert!(after.dropped.total() >= before.dropped.total() + 20_000, "{after:?}");
        assert!(after.dropped.of(DropReason::Stranger) > 0, "{after:?}");
        // 1,000 a second, in 40 ms, and what had been saved up.
        let resets = after.resets_sent - before.resets_sent;
        assert!(resets <= 1_100, "{resets} resets");
        world.finish(Duration::from_secs(5));
    });
}

fn any_base(rng: &mut Prng) -> Base {
    Base {
        kind: rng.pick(&[
            Kind::Data,
            Kind::Ack,
            Kind::Reset,
            Kind::Goodbye,
            Kind::Probe,
            Kind::ProbeAck,
        ]),
        channel: rng.next() as u8,
        source: rng.below(64) as u32,
        destination: rng.below(64) as u32,
        session: any_token(rng),
        sequence: Seq(rng.next() as u32),
        acknowledgement: Seq(rng.next() as u32),
        rail: 0,
        message: Seq(rng.next() as u32),
    }
}

/// Strangers are allowed, and most never answer their challenge: they take no place, and what is sent to them is no more
/// than they have sent.
#[test]
fn flood_of_allowed_strangers() {
    if IS_ON {
        return; // An attacker without the secret opens nothing.
    }
    scenario("attack::flood_of_allowed_strangers", 2, |seed| {
        let mut rng = Prng::new(seed);
        let options = NodeOptions {
            config: config(|config| {
                config.accept_strangers = true;
                config.max_peers = 100;
                config.open_timeout = Duration::from_secs(1);
            }),
            ..NodeOptions::default()
        };
        let mut world = three(seed, &options);
        world.model.ignore_strangers();
        for number in 0..5_000 {
            world.inject(1, stranger(number), open_packet(&mut rng));
            if number % 50 == 0 {
                world.run_for(Duration::from_micros(100));
            }
        }
        bystander_is_unharmed(&mut world);
        let endpoint = world.nodes[1].endpoint();
        assert_eq!(endpoint.peers(), 2);
        let stats = endpoint.stats();
        assert!(stats.dropped.of(DropReason::Unvalidated) > 1_000, "{stats:?}");
        world.run_idle(Duration::from_secs(30));
        assert_eq!(world.model.missing(), 0);
    });
}

/// Guessed tokens, old tokens, other versions, from the peer's own address.
#[test]
fn forged_from_the_peers_address() {
    scenario("attack::forged_from_the_peers_address", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = three(seed, &NodeOptions::default());
        let address = world.nodes[0].address;
        for round in 0..5_000 {
            let mut bytes = packet(&any_base(&mut rng), b"", |_| {});
            if rng.chance(100) {
                bytes[0] = rng.next() as u8;
            }
            world.inject(1, address, bytes);
            if round % 500 == 0 {
                traffic(&mut world, &mut rng, 3, 5_000);
            }
        }
        bystander_is_unharmed(&mut world);
        world.finish(Duration::from_secs(10));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
    });
}

/// Resets quote a token: an attacker that does not know it cannot end a session, nor can one that replays an old reset.
#[test]
fn forged_resets() {
    scenario("attack::forged_resets", 2, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = three(seed, &NodeOptions::default());
        let address = world.nodes[0].address;
        for _ in 0..2_000 {
            let base = Base {
                kind: Kind::Reset,
                ..any_base(&mut rng)
            };
            world.inject(1, address, packet(&base, b"", |_| {}));
        }
        world.send(1, 0, Job::new(100));
        world.finish(Duration::from_secs(5));
        assert_eq!(world.downs(1), []);
    });
}

/// Opens in the peer's name: an attacker that merely knows its address does not end a live session.
#[test]
fn forged_opens_in_a_peers_name() {
    scenario("attack::forged_opens_in_a_peers_name", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = three(seed, &NodeOptions::default());
        let address = world.nodes[0].address;
        for _ in 0..500 {
            world.inject(1, address, open_packet(&mut rng));
            if rng.chance(100) {
                traffic(&mut world, &mut rng, 3, 5_000);
            }
        }
        world.finish(Duration::from_secs(30));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
    });
}

/// A peer that has restarted comes in while an attacker opens sessions in its name all the time.
#[test]
fn forged_opens_do_not_keep_a_restarted_peer_out() {
    scenario("attack::forged_opens_do_not_keep_a_restarted_peer_out", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = three(seed, &NodeOptions::default());
        let address = world.nodes[0].address;
        world.crash(0);
        world.restart(0);
        world.send(0, 1, Job::new(100));
        for _ in 0..5_000 {
            world.inject(1, address, open_packet(&mut rng));
            world.run_for(Duration::from_micros(rng.below(20)));
        }
        assert_eq!(world.model.missing(), 0, "kept out");
        bystander_is_unharmed(&mut world);
        // The old session has ended, and no other.
        assert_eq!(world.downs(1).len(), 1, "{:?}", world.downs(1));
        world.finish(Duration::from_secs(10));
    });
}

/// A stranger that opens in the name of a peer that has not called yet has a session only until that peer calls.
#[test]
fn a_forged_first_open_gives_way_to_the_peer() {
    if IS_ON {
        return; // An attacker without the secret opens nothing.
    }
    scenario("attack::a_forged_first_open_gives_way_to_the_peer", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::pair(seed, &NodeOptions::default());
        let address = world.nodes[0].address;
        let base = Base {
            kind: Kind::Ack,
            session: Token::NONE,
            ..any_base(&mut rng)
        };
        let open = some_open(&mut rng);
        let forged = packet(&base, b"", |builder| {
            builder.checksum().open(&open);
        });
        world.inject(1, address, forged);
        world.run_for(MS);
        assert_eq!(world.nodes[1].endpoint().stats().sessions_opened, 1);
        world.send(0, 1, Job::new(100));
        world.send(1, 0, Job::new(100));
        world.run_idle(Duration::from_secs(5));
        traffic(&mut world, &mut rng, 10, 5_000);
        world.finish(Duration::from_secs(10));
        assert_eq!(world.downs(1).len(), 1, "{:?}", world.downs(1));
    });
}

/// The processes of a job know what an opening must say: an attacker that does not cannot come before the peer.
#[test]
fn a_forged_first_open_does_nothing_in_a_job() {
    if IS_ON {
        return; // An attacker without the secret opens nothing.
    }
    scenario("attack::a_forged_first_open_does_nothing_in_a_job", 4, |seed| {
        let mut rng = Prng::new(seed);
        let options = NodeOptions {
            config: config(|config| config.contact = Contact::of_job(&[7; 16])),
            ..NodeOptions::default()
        };
        let mut world = World::pair(seed, &options);
        let address = world.nodes[0].address;
        for number in 0..1_000 {
            let base = Base {
                kind: rng.pick(&[Kind::Data, Kind::Ack, Kind::Goodbye, Kind::Probe]),
                session: Token {
                    index: 0,
                    secret: if number % 2 == 0 { 0 } else { rng.next() },
                },
                ..any_base(&mut rng)
            };
            let open = some_open(&mut rng);
            let payload: &[u8] = if base.kind == Kind::Data { b"forged" } else { b"" };
            let forged = packet(&base, payload, |builder| {
                builder.checksum().open(&open);
            });
            world.inject(1, address, forged);
            world.run_for(Duration::from_micros(rng.below(20)));
        }
        let stats = world.nodes[1].endpoint().stats();
        assert_eq!(stats.dropped.of(DropReason::Stranger), 1_000, "{stats:?}");
        assert_eq!((stats.sessions_opened, stats.packets_sent), (0, 0), "{stats:?}");
        world.send(0, 1, Job::new(100));
        world.send(1, 0, Job::new(100));
        world.run_idle(Duration::from_secs(5));
        traffic(&mut world, &mut rng, 10, 5_000);
        world.finish(Duration::from_secs(10));
        assert_eq!((world.downs(0), world.downs(1)), (vec![], vec![]));
    });
}

#[test]
fn byte_soup() {
    scenario("attack::byte_soup", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = three(seed, &NodeOptions::default());
        for number in 0..5_000 {
            let bytes: Vec<u8> = (0..rng.skewed(2_000)).map(|_| rng.next() as u8).collect();
            let from = if rng.chance(500) {
                world.nodes[0].address
            } else {
                stranger(number)
            };
            world.inject(1, from, bytes);
            if rng.chance(5) {
                world.inject(1, from, Vec::new());
                traffic(&mut world, &mut rng, 2, 5_000);
            }
        }
        bystander_is_unharmed(&mut world);
        world.finish(Duration::from_secs(10));
        assert_eq!(world.downs(1), []);
    });
}

/// Receive-offload buffers with strides that do not fit their bytes.
#[test]
fn wrong_strides() {
    let mut rng = Prng::new(5);
    let mut world = three(5, &NodeOptions::default());
    let address = world.nodes[0].address;
    for _ in 0..2_000 {
        let mut bytes: Vec<u8> = (0..rng.below(3_000)).map(|_| rng.next() as u8).collect();
        let stride = rng.pick(&[0, 1, 39, 40, 41, 1_000, 65_535, usize::MAX]);
        let now = world.now;
        world.nodes[1]
            .stack_mut()
            .handle_datagrams(now, address.into(), &mut bytes, stride);
    }
    world.touch(1);
    bystander_is_unharmed(&mut world);
    world.finish(Duration::from_secs(5));
}

/// Valid packets with a few bits changed, under checksums: all are dropped.
#[test]
fn mutated_packets() {
    scenario("attack::mutated_packets", 6, mutate_packets);
}

/// Here the traffic is drawn without any time between its messages: nothing has left when it has all been queued.
#[test]
fn mutated_packets_of_traffic_that_takes_no_time() {
    mutate_packets(7_700_241);
}

fn mutate_packets(seed: u64) {
    let mut rng = Prng::new(seed);
    let options = NodeOptions {
        config: config(|config| config.checksum = true),
        ..NodeOptions::default()
    };
    let mut world = three(seed, &options);
    world.tap = Some(Vec::new());
    traffic(&mut world, &mut rng, 30, 5_000);
    // The rest of the traffic is under way while packets of its beginning are mutated.
    while world.tap.as_ref().is_some_and(Vec::is_empty) {
        world.run_for(Duration::from_micros(1));
    }
    let captured = world.tap.take().unwrap_or_default();
    for _ in 0..3_000 {
        let captured = &captured[rng.below(captured.len() as u64) as usize];
        let mut bytes = captured.bytes.clone();
        for _ in 0..rng.between(1, 8) {
            let len = bytes.len() as u64;
            bytes[rng.below(len) as usize] ^= 1 << rng.below(8);
        }
        let (to, from) = (captured.to, world.nodes[captured.from].address);
        world.inject(to, from, bytes);
    }
    traffic(&mut world, &mut rng, 30, 5_000);
    world.finish(Duration::from_secs(10));
    assert_eq!(world.downs(0), []);
    assert_eq!(world.downs(1), []);
}

/// 10,000 peers on one endpoint, all of them talking.
#[test]
fn ten_thousand_peers() {
    let mut world = World::new(1);
    let options = NodeOptions {
        config: config(|config| config.path_mtu_discovery = false),
        ..NodeOptions::default()
    };
    let server = world.add(NodeOptions {
        app: App::Echo,
        ..options.clone()
    });
    for _ in 0..10_000 {
        let client = world.add(options.clone());
        world.connect(client, server);
        world.send(client, server, Job::new(100));
    }
    world.network.ingress.insert(server, (1_250_000_000, 4 << 20));
    world.finish(Duration::from_secs(20));
    assert_eq!(world.model.received(), 20_000);
}

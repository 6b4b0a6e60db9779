//! A peer with a valid session that sends what a correct peer never sends.

use std::time::Duration;

use hikyaku::{
    DropReason, PeerError,
    wire::{Base, Credit, Fragment, Kind, Packet, Seq, Timestamp, Token},
};

use crate::{
    attack::{bystander_is_unharmed, packet, three},
    exactly_once::config,
    harness::{Job, NodeOptions, Prng, World, scenario},
};

const MS: Duration = Duration::from_millis(1);

/// A base as the node 0 would send it to node 1 in the session that they have: taken from the wire.
fn valid_base(world: &mut World) -> Base {
    world.tap = Some(Vec::new());
    world.send(0, 1, Job::new(10));
    world.send(1, 0, Job::new(10));
    world.run_idle(Duration::from_secs(5));
    let captured = world.tap.take().unwrap_or_default();
    let last = captured
        .iter()
        .rfind(|captured| captured.from == 0 && !session_of(&captured.bytes).is_first());
    let Some(packet) = last.and_then(|last| Packet::new_checked(&last.bytes[..]).ok()) else {
        panic!("no packet of node 0 in a session");
    };
    let mut base = packet.base();
    if base.kind.is_sequenced() {
        base.sequence = base.sequence.plus(1);
    }
    base.kind = Kind::Data;
    base
}

fn session_of(bytes: &[u8]) -> Token {
    Packet::new_checked(bytes).map_or(Token::NONE, |packet| packet.session())
}

/// A misaddressed packet is dropped; the processor that is meant never gets it.
#[test]
fn misaddressed() {
    let mut world = three(1, &NodeOptions::default());
    let base = valid_base(&mut world);
    let wrong = Base {
        destination: 99_999,
        ..base
    };
    let address = world.nodes[0].address;
    world.inject(1, address, packet(&wrong, b"for somebody else", |_| {}));
    world.run_for(MS);
    let stats = world.nodes[1].endpoint().stats();
    assert_eq!(stats.dropped.of(DropReason::Misaddressed), 1, "{stats:?}");
    bystander_is_unharmed(&mut world);
}

/// With checksums on, a packet cannot do without by having the flag that announces it flipped.
#[test]
fn checksum_can_not_be_flipped_away() {
    let options = NodeOptions {
        config: config(|config| config.checksum = true),
        ..NodeOptions::default()
    };
    let mut world = three(1, &options);
    let base = valid_base(&mut world);
    let address = world.nodes[0].address;
    // As if the checksum's flag had become the timestamp's: both have 8 bytes.
    let flipped = packet(&base, b"corrupted", |builder| {
        builder.timestamp(Timestamp { value: 1, echo: 1 });
    });
    let before = world.nodes[1].endpoint().stats().packets_delivered;
    world.inject(1, address, flipped);
    world.run_for(MS);
    let stats = world.nodes[1].endpoint().stats();
    assert_eq!(stats.packets_delivered, before, "delivered without its checksum");
    bystander_is_unharmed(&mut world);
}

/// A peer with a valid session sends absurd values: it may lose its session, and nothing else happens.
#[test]
fn absurd_values_in_a_valid_session() {
    scenario("misbehaviour::absurd_values_in_a_valid_session", 20, |seed| {
        let mut rng = Prng::new(seed);
        let options = NodeOptions {
            bare: false,
            config: config(|config| config.unexpected_bytes = 256 << 10),
            ..NodeOptions::default()
        };
        let mut world = three(seed, &options);
        let base = valid_base(&mut world);
        let address = world.nodes[0].address;
        // From here on the real node 0 is gone: the attacker speaks in its name.
        world.crash(0);
        let next = base.sequence;
        for round in 0..2_000 {
            let bytes = absurd(
                &mut rng,
                &Base {
                    sequence: next.plus(round),
                    ..base
                },
            );
            // What the attacker sends is no message of anybody's: it may only be dropped or end the session.
            world.inject(1, address, bytes);
            if round % 100 == 0 {
                world.send(1, 0, Job::new(1_000));
                world.run_for(MS);
            }
        }
        bystander_is_unharmed(&mut world);
        world.run_idle(Duration::from_secs(60));
        assert_eq!(world.model.missing(), 0);
        for (_, peer, error) in world.downs(1) {
            assert_eq!(peer, 0);
            assert!(
                matches!(
                    error,
                    PeerError::Misbehaved | PeerError::TimedOut { .. } | PeerError::Closed | PeerError::Reset
                ),
                "{error:?}"
            );
        }
    });
}

/// A packet of the right session with something wrong in it, and that never makes a whole message.
fn absurd(rng: &mut Prng, base: &Base) -> Vec<u8> {
    let any = |rng: &mut Prng| rng.next() as u32;
    let near = |rng: &mut Prng, seq: Seq| seq.plus(rng.skewed(4_000) as u32).minus(2_000);
    let base = Base {
        channel: rng.pick(&[0, 0, 1, 255]),
        sequence: if rng.chance(500) {
            near(rng, base.sequence)
        } else {
            Seq(any(rng))
        },
        acknowledgement: if rng.chance(500) {
            near(rng, base.acknowledgement)
        } else {
            Seq(any(rng))
        },
        // Never the next message, so that nothing of it is ever admitted.
        message: base.message.plus(1_000_000 + rng.below(1 << 30) as u32),
        kind: rng.pick(&[
            Kind::Data,
            Kind::Data,
            Kind::Data,
            Kind::Ack,
            Kind::ProbeAck,
            Kind::Probe,
        ]),
        ..*base
    };
    let data = base.kind == Kind::Data;
    let (len, what) = (rng.skewed(1_400) as usize, rng.below(6));
    let total = rng.pick(&[len as u32, len as u32 + 1, 1 << 20, 1 << 30, u32::MAX]);
    let offset = rng.pick(&[0, 1, total.saturating_sub(len as u32)]);
    let fragment = Fragment {
        offset: offset.min(total - len as u32),
        total,
    };
    let (value, echo) = (any(rng), any(rng));
    let credit = Credit {
        limit: any(rng),
        window: rng.pick(&[0, 1, u32::MAX]),
    };
    let words: Vec<u64> = (0..rng.between(1, 16))
        .map(|_| rng.pick(&[0, u64::MAX, 1 << 63]))
        .collect();
    packet(&base, if data { &[9; 1_400][..len] } else { &[] }, |builder| {
        if data && what != 0 {
            builder.fragment(fragment);
        }
        if what & 1 == 1 {
            builder.timestamp(Timestamp { value, echo });
        }
        if what & 2 == 2 {
            builder.credit(credit);
        }
        if what >= 3 {
            builder.sack(&words);
        }
    })
}

/// Fragments of many messages, none ever whole: the memory held for one peer stays within its bound.
#[test]
fn hoarding_fragments() {
    scenario("misbehaviour::hoarding_fragments", 4, |seed| {
        let options = NodeOptions {
            config: config(|config| config.unexpected_bytes = 256 << 10),
            ..NodeOptions::default()
        };
        let mut world = three(seed, &options);
        let base = valid_base(&mut world);
        let address = world.nodes[0].address;
        world.crash(0);
        let fragment = Fragment {
            offset: 0,
            total: 1 << 20,
        };
        for round in 0..10_000u32 {
            let base = Base {
                sequence: base.sequence.plus(round),
                message: base.message.plus(1 + round),
                ..base
            };
            world.inject(
                1,
                address,
                packet(&base, &[1; 1_000], |builder| {
                    builder.fragment(fragment);
                }),
            );
            world.run_for(Duration::from_micros(1));
        }
        bystander_is_unharmed(&mut world);
        let delivered = world.nodes[1].endpoint().stats().payload_received;
        assert!(
            delivered <= 512 << 10,
            "{delivered} bytes taken of a peer that may send 256 KiB"
        );
        world.run_idle(Duration::from_secs(60));
    });
}

/// Acknowledgements of what was never sent do not complete anything.
#[test]
fn optimistic_acks() {
    let mut world = three(1, &NodeOptions::default());
    // The attacker is node 1's peer 0 and wants node 1 to believe that all has arrived.
    let base = valid_base(&mut world);
    let address = world.nodes[0].address;
    world.network.cut(0, 1);
    world.send(1, 0, Job::new(50_000).shared());
    world.pump(1);
    let before = world.nodes[1].endpoint().stats().dropped.of(DropReason::BadAck);
    for ahead in [100_000, 1 << 30, 1 << 31, u32::MAX - 5] {
        let base = Base {
            kind: Kind::Ack,
            acknowledgement: base.acknowledgement.plus(ahead),
            ..base
        };
        world.inject(1, address, packet(&base, b"", |_| {}));
    }
    world.run_for(MS);
    let stats = world.nodes[1].endpoint().stats();
    assert!(stats.dropped.of(DropReason::BadAck) > before, "{stats:?}");
    world.network.heal();
    world.finish(Duration::from_secs(5));
}

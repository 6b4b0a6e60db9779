//! The features that two sides agree on when a session opens.

use std::time::Duration;

use hikyaku::{
    DropReason, PeerError,
    wire::{Base, Credit, Features, Flags, Kind, Open, Packet, Seq, Token, checksum},
};

use crate::{
    attack::packet,
    exactly_once::{config, traffic},
    harness::{Job, NodeOptions, Prng, World, scenario},
};

const MS: Duration = Duration::from_millis(1);

/// Two nodes, of which node 0 wants checksums if `wants.0`, and node 1 if `wants.1`.
fn pair(seed: u64, wants: (bool, bool)) -> World {
    let mut world = World::new(seed);
    for wants in [wants.0, wants.1] {
        world.add(NodeOptions {
            bare: false,
            config: config(|config| config.checksum = wants),
            ..NodeOptions::default()
        });
    }
    world.connect(0, 1);
    world
}

fn is_checked(bytes: &[u8]) -> bool {
    Packet::new_checked(bytes)
        .is_ok_and(|packet| packet.flags().contains(Flags::CHECKSUM) && checksum::verify(&packet, bytes))
}

/// One side wants checksums: every packet has one, of either side, whichever begins, from the first to the last.
#[test]
fn one_side_wants_checksums() {
    scenario("agreement::one_side_wants_checksums", 8, |seed| {
        let mut rng = Prng::new(seed);
        let wants = rng.pick(&[(true, false), (false, true), (true, true)]);
        let mut world = pair(seed, wants);
        world.min_len = 8;
        world.network.usual.loss = rng.pick(&[0, 100]);
        world.tap = Some(Vec::new());
        let first = rng.below(2) as usize;
        world.send(first, 1 - first, Job::new(50_000));
        world.run_for(Duration::from_micros(rng.below(200)));
        traffic(&mut world, &mut rng, 50, 20_000);
        world.finish(Duration::from_secs(20));
        let all = world.tap.take().unwrap_or_default();
        assert!(
            all.iter().all(|captured| is_checked(&captured.bytes)),
            "{} packets",
            all.len()
        );
        assert_eq!((world.downs(0), world.downs(1)), (vec![], vec![]));
        for node in 0..2 {
            let dropped = world.nodes[node].endpoint().stats().dropped;
            assert_eq!(dropped.of(DropReason::Checksum), 0);
        }
    });
}

/// Nobody wants them: only openings have them.
#[test]
fn nobody_wants_checksums() {
    let mut rng = Prng::new(1);
    let mut world = pair(1, (false, false));
    world.tap = Some(Vec::new());
    traffic(&mut world, &mut rng, 50, 20_000);
    world.finish(Duration::from_secs(5));
    let (mut openings, mut others) = (0, 0);
    for captured in world.tap.take().unwrap_or_default() {
        let checked = is_checked(&captured.bytes);
        let Ok(packet) = Packet::new_checked(&captured.bytes[..]) else {
            panic!("sent what is no packet");
        };
        let opens = packet.flags().contains(Flags::OPEN);
        assert_eq!(checked, opens);
        *if opens { &mut openings } else { &mut others } += 1;
    }
    assert!(openings > 0 && others > 0);
}

/// On a link that corrupts, it is enough that one side asks.
#[test]
fn one_side_is_enough_on_a_corrupting_link() {
    scenario(
        "agreement::one_side_is_enough_on_a_corrupting_link",
        8,
        talk_over_a_corrupting_link,
    );
}

/// Here the first traffic fits into so few packets that the link spoils none of them.
#[test]
fn one_side_is_enough_when_the_link_spoils_late() {
    talk_over_a_corrupting_link(7_700_128);
}

fn talk_over_a_corrupting_link(seed: u64) {
    let mut rng = Prng::new(seed);
    let wants = rng.chance(500);
    let mut world = pair(seed, (wants, !wants));
    world.min_len = 8;
    world.network.usual.corrupt = 100;
    let dropped = |world: &World| -> u64 {
        let of = |node: usize| world.nodes[node].endpoint().stats().dropped.of(DropReason::Checksum);
        of(0) + of(1)
    };
    // One packet in ten is spoiled, of as many as it takes until one is.
    for _ in 0..20 {
        traffic(&mut world, &mut rng, 100, 20_000);
        world.finish(Duration::from_secs(30));
        if dropped(&world) > 0 {
            return;
        }
    }
    panic!("nothing was corrupted");
}

/// The side that does not care drops what has none as well, and says in its statistics what was agreed.
#[test]
fn a_packet_without_the_agreed_checksum_is_dropped() {
    let mut world = pair(1, (true, false));
    world.tap = Some(Vec::new());
    world.send(0, 1, Job::new(10));
    world.send(1, 0, Job::new(10));
    world.run_idle(Duration::from_secs(5));
    let captured = world.tap.take().unwrap_or_default();
    let last = captured
        .iter()
        .rfind(|captured| captured.from == 0)
        .map(|last| &last.bytes[..]);
    let Some(Ok(last)) = last.map(Packet::new_checked) else {
        panic!("no packet of node 0");
    };
    let endpoint = world.nodes[1].endpoint();
    let peer = world.nodes[1].peer_of[&0];
    assert!(endpoint.peer_stats(peer).is_some_and(|stats| stats.checksum));
    let before = endpoint.stats();
    let bare = Base {
        kind: Kind::Data,
        ..last.base()
    };
    let address = world.nodes[0].address;
    world.inject(1, address, packet(&bare, b"without", |_| {}));
    world.run_for(MS);
    let after = world.nodes[1].endpoint().stats();
    assert_eq!(after.packets_delivered, before.packets_delivered);
    assert_eq!(
        after.dropped.of(DropReason::Checksum),
        before.dropped.of(DropReason::Checksum) + 1
    );
    world.finish(Duration::from_secs(5));
}

/// That of an [`opening`].
const TOKEN: Token = Token { index: 7, secret: 77 };

fn opening(features: u32, checked: bool) -> Vec<u8> {
    let open = Open {
        epoch: 99,
        token: TOKEN,
        features: Features::from_bits_retain(features),
        credit: Credit {
            limit: 1 << 20,
            window: 1 << 20,
        },
        ack_delay: 0,
        max_datagram: 1_472,
        port: 0,
    };
    let base = Base {
        kind: Kind::Ack,
        channel: 0,
        source: 0,
        destination: 1,
        session: Token::NONE,
        sequence: Seq(0),
        acknowledgement: Seq(0),
        rail: 0,
        message: Seq(0),
    };
    packet(&base, b"", |builder| {
        if checked {
            builder.checksum();
        }
        builder.open(&open);
    })
}

/// Unknown features are ignored and reported if they are in the lower half; if not, the session is refused, and the
/// other side hears why.
#[test]
fn features_of_later_releases() {
    let mut world = pair(1, (false, false));
    let address = world.nodes[0].address;
    let peer = world.nodes[1].peer_of[&0];
    world.tap = Some(Vec::new());
    world.inject(1, address, opening(0x8001_8000, true));
    world.run_for(MS);
    let stats = world.nodes[1].endpoint().stats();
    assert_eq!(
        (stats.dropped.of(DropReason::Incompatible), stats.sessions_opened),
        (1, 0)
    );
    let answers = world.tap.take().unwrap_or_default();
    let [answer] = &answers[..] else {
        panic!("{} answers", answers.len());
    };
    let Ok(answer) = Packet::new_checked(&answer.bytes[..]) else {
        panic!("the answer is no packet");
    };
    let base = answer.base();
    assert_eq!(
        (base.kind, base.session, base.sequence),
        (Kind::Reset, TOKEN, Seq(0x8001_0000))
    );

    world.inject(1, address, opening(0x8000, true));
    world.run_for(MS);
    let endpoint = world.nodes[1].endpoint();
    assert_eq!(endpoint.stats().sessions_opened, 1);
    let unknown = endpoint.peer_stats(peer).map(|stats| stats.unknown_features.bits());
    assert_eq!(unknown, Some(0x8000));
}

/// A peer that is refused for its features learns so, and for which.
#[test]
fn a_refused_opening_is_an_error_that_says_why() {
    let mut world = pair(1, (false, false));
    world.network.cut(0, 1);
    world.tap = Some(Vec::new());
    world.send(1, 0, Job::new(10));
    world.run_for(MS);
    let sent = world.tap.take().unwrap_or_default();
    let Some(Ok(first)) = sent.first().map(|first| Packet::new_checked(&first.bytes[..])) else {
        panic!("nothing was sent");
    };
    let token = first.open().map_or(Token::NONE, |open| open.token);
    let refusal = Base {
        kind: Kind::Reset,
        session: token,
        sequence: Seq(0x0002_0000),
        message: Seq(1),
        ..first.base()
    };
    let address = world.nodes[0].address;
    world.inject(1, address, packet(&refusal, b"", |_| {}));
    world.run_for(MS);
    let downs = world.downs(1);
    let [(_, 0, error)] = downs[..] else {
        panic!("{downs:?}");
    };
    assert_eq!(error, PeerError::Incompatible { features: 0x0002_0000 });
    assert!(error.to_string().contains("0x00020000"), "{error}");
}

/// An opening without a checksum is none: what is agreed there must not be agreed by a flipped bit.
#[test]
fn openings_have_checksums() {
    let mut world = pair(1, (false, false));
    let address = world.nodes[0].address;
    world.inject(1, address, opening(0, false));
    world.run_for(MS);
    let stats = world.nodes[1].endpoint().stats();
    assert_eq!((stats.dropped.of(DropReason::Checksum), stats.sessions_opened), (1, 0));
}

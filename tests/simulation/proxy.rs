//! Messengers whose endpoints are elsewhere: nothing that anybody sees is different.

use std::time::Duration;

use hikyaku::PeerError;

use crate::{
    exactly_once::traffic,
    harness::{NodeOptions, Prng, World, note, scenario, talk::Talk},
    swarm::{draw_link, draw_options},
};

/// A messenger with its endpoint elsewhere, and a peer that may be of either kind.
#[test]
fn every_message_once_in_order() {
    scenario("proxy::every_message_once_in_order", 24, |seed| {
        let mut rng = Prng::new(seed ^ 0xde1e);
        let mut options = draw_options(&mut rng, false, 1);
        options.config.death_timeout = Duration::from_secs(60);
        options.bare = false;
        // Endpoints of a poller have no sealer.
        options.sealed = None;
        note(format!("{options:?}"));
        let mut world = World::new(seed);
        world.network.usual = draw_link(&mut rng, false);
        note(format!("{:?}", world.network.usual));
        world.add(NodeOptions {
            proxy: true,
            ..options.clone()
        });
        world.add(NodeOptions {
            proxy: rng.chance(500),
            ..options
        });
        world.connect(0, 1);
        traffic(&mut world, &mut rng, 300, 30_000);
        world.finish(Duration::from_secs(120));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
    });
}

/// Messages by way of hosts, placements from process to process. One of three processes dies, or its host with it (which to
/// the others is the same), at any instant of messages that ask first. Whatever it had to do with ends, and the others do not
/// notice.
#[test]
fn a_process_with_placements_of_its_own_dies() {
    scenario("proxy::a_process_with_placements_of_its_own_dies", 100, |seed| {
        let mut rng = Prng::new(seed ^ 0x5911);
        let mut options = draw_options(&mut rng, false, 1);
        options.config.max_payload = options.config.max_payload.max(500);
        options.bare = false;
        (options.proxy, options.split) = (true, true);
        options.eager_limit = Some(rng.pick(&[0, 100, 4_096]));
        note(format!("{options:?}"));
        let mut world = World::new(seed);
        world.network.usual = draw_link(&mut rng, false);
        note(format!("{:?}", world.network.usual));
        (0..3).for_each(|_| _ = world.add(options.clone()));
        [(0, 1), (0, 2), (1, 2)].iter().for_each(|&(a, b)| world.connect(a, b));
        let mut talk = Talk::new(world);
        let exchange = |talk: &mut Talk, rng: &mut Prng, nodes: u64, count: u64| {
            for bits in 0..count {
                let from = rng.below(nodes);
                let to = (from + rng.between(1, nodes - 1)) % nodes;
                let (from, to) = (from as usize, to as usize);
                talk.send(from, to, bits, rng.skewed(100_000) as usize, rng.chance(300));
                talk.receive(to, Some(from), bits, 0, 200_000);
                talk.world.run_for(Duration::from_nanos(rng.skewed(5_000_000)));
            }
        };
        let count = rng.between(1, 30);
        exchange(&mut talk, &mut rng, 3, count);
        let away = Duration::from_millis(1) + Duration::from_nanos(rng.skewed(100_000_000));
        talk.restart(2, away);
        // As those do who wait for something of it.
        let watch = |talk: &mut Talk, on: bool| {
            for node in 0..2 {
                let (now, peer) = (talk.world.now, talk.world.nodes[node].peer_of[&2]);
                talk.world.nodes[node].stack_mut().watch(now, peer, on);
                talk.world.touch(node);
            }
        };
        watch(&mut talk, true);
        exchange(&mut talk, &mut rng, 2, count);
        talk.world.network.heal();
        talk.world.run_for(Duration::from_secs(10));
        watch(&mut talk, false);
        talk.begin_again();
        exchange(&mut talk, &mut rng, 2, 10);
        talk.check_all_received();
        for node in 0..2 {
            let lost = talk.world.downs(node);
            assert!(
                lost.len() <= 1 && lost.iter().all(|(_, other, _)| *other == 2),
                "{lost:?}"
            );
        }
    });
}

/// Two processes with both ways: messages by that of their hosts, placements by one of their own.
fn split_pair(seed: u64) -> World {
    let options = NodeOptions {
        proxy: true,
        split: true,
        eager_limit: Some(4_096),
        ..NodeOptions::default()
    };
    World::pair(seed, &options)
}

/// Messages sent before a goodbye arrive, whichever of the two ways is the slower one.
#[test]
fn a_goodbye_by_two_ways() {
    scenario("proxy::a_goodbye_by_two_ways", 40, |seed| {
        let mut rng = Prng::new(seed ^ 0xb7e);
        let mut world = split_pair(seed);
        world.network.usual.loss = 200;
        world.network.usual.jitter = rng.below(500_000);
        let mut talk = Talk::new(world);
        let mut bits = 0;
        let mut say = |talk: &mut Talk, from: usize, len: usize| {
            bits += 1;
            talk.send(from, 1 - from, bits, len, false);
            talk.receive(1 - from, Some(from), bits, 0, 200_000);
        };
        // Both ways are open before.
        for from in [0, 1] {
            say(&mut talk, from, 50_000);
            say(&mut talk, from, 100);
        }
        talk.world.run_idle(Duration::from_secs(10));
        for _ in 0..rng.between(1, 20) {
            say(&mut talk, 0, rng.skewed(4_000) as usize);
        }
        let (now, peer) = (talk.world.now, talk.world.nodes[0].peer_of[&1]);
        talk.world.nodes[0].stack_mut().close(now, peer);
        talk.world.touch(0);
        talk.world.run_idle(Duration::from_secs(60));
        talk.check_all_received();
        for node in 0..2 {
            let downs = talk.world.downs(node);
            assert!(matches!(downs[..], [(_, _, PeerError::Closed)]), "{downs:?}");
        }
    });
}

/// One process says something and goes, or both do, while large messages begin to come for it: by a way of their own, on
/// which nothing may have been said before. What it has said arrives all the same, and it has gone, not failed.
#[test]
fn a_goodbye_among_placements() {
    scenario("proxy::a_goodbye_among_placements", 60, |seed| {
        let mut rng = Prng::new(seed ^ 0x90e);
        let mut world = split_pair(seed);
        world.network.usual.loss = rng.pick(&[0, 20, 200]);
        world.network.usual.jitter = rng.below(500_000);
        let mut talk = Talk::new(world);
        // Whoever goes can lose what others send it.
        talk.hostile = true;
        let both = rng.chance(300);
        let mut bits = 0;
        for from in [0, 1] {
            // Who goes before anything was said has nobody to say goodbye to.
            if from == 0 || rng.chance(500) {
                talk.send(from, 1 - from, bits, 100, false);
                talk.receive(1 - from, Some(from), bits, 0, 200_000);
                bits += 1;
            }
        }
        talk.world.run_for(Duration::from_nanos(rng.skewed(10_000_000)));
        for _ in 0..rng.between(1, 20) {
            let from = usize::from(rng.chance(300));
            let len = if from == 1 || both {
                rng.skewed(200_000)
            } else {
                rng.skewed(4_000)
            };
            talk.send(from, 1 - from, bits, len as usize, false);
            talk.receive(1 - from, Some(from), bits, 0, 400_000);
            bits += 1;
            talk.world.run_for(Duration::from_nanos(rng.skewed(1_000_000)));
        }
        for node in if both { vec![0, 1] } else { vec![0] } {
            let (now, peer) = (talk.world.now, talk.world.nodes[node].peer_of[&(1 - node)]);
            talk.world.nodes[node].stack_mut().close(now, peer);
            talk.world.touch(node);
            talk.world.run_for(Duration::from_nanos(rng.skewed(1_000_000)));
        }
        talk.world.run_for(Duration::from_secs(60));
        if !both {
            let (missing, all) = talk.missing(0, 1);
            assert_eq!(missing, 0, "of {all}");
        }
        for node in 0..2 {
            // Who goes before it was answered may have gone twice.
            let downs = talk.world.downs(node);
            let closed = downs.iter().all(|(_, _, error)| *error == PeerError::Closed);
            assert!(closed && !downs.is_empty(), "{node}: {downs:?}");
        }
    });
}

//! Peers that are declared dead, when, and peers that are not.

use std::time::Duration;

use hikyaku::PeerError;

use crate::harness::{Job, Link, NodeOptions, World, scenario};

const DEATH: Duration = Duration::from_secs(4);
const MS: Duration = Duration::from_millis(1);

pub(crate) fn three(seed: u64) -> World {
    three_at(seed, Link::default().delay)
}

/// So far from each other, ns.
pub(crate) fn three_at(seed: u64, delay: u64) -> World {
    let mut world = World::new(seed);
    world.network.usual.delay = delay;
    for _ in 0..3 {
        world.add(NodeOptions::default());
    }
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        world.connect(a, b);
        world.send(a, b, Job::new(100));
    }
    world.run_idle(Duration::from_secs(5));
    world
}

#[test]
fn silent_peer_is_dead_in_the_stated_time_and_only_it() {
    scenario("death::silent_peer_is_dead_in_the_stated_time_and_only_it", 4, |seed| {
        let mut world = three(seed);
        world.network.cut(0, 1);
        let start = world.now;
        world.send(0, 1, Job::new(5_000).shared());
        for _ in 0..600 {
            world.send(0, 2, Job::new(500));
            world.send(2, 1, Job::new(500));
            world.run_for(10 * MS);
        }
        let downs = world.downs(0);
        let [(at, 1, PeerError::TimedOut { resends, silence })] = downs[..] else {
            panic!("expected the time-out of node 1, got {downs:?}");
        };
        assert!(resends >= 8, "only {resends} resends");
        assert!(silence >= DEATH, "declared dead after {silence:?}");
        let after = at - start;
        assert!(
            after >= DEATH && after < DEATH + 500 * MS,
            "declared dead after {after:?}"
        );
        assert_eq!(world.downs(1), [], "node 1 has nothing to say to node 0");
        assert_eq!(world.downs(2), []);
        // A send to the dead is refused with a typed error and keeps no memory.
        world.send(0, 1, Job::new(100).shared());
        world.finish(Duration::from_secs(5));
        assert_eq!(world.nodes[0].refused.len(), 1);
    });
}

#[test]
fn never_answering_peer_has_the_opening_time() {
    scenario("death::never_answering_peer_has_the_opening_time", 2, |seed| {
        let mut world = World::pair(seed, &NodeOptions::default());
        world.network.cut(0, 1);
        let start = world.now;
        world.send(0, 1, Job::new(100));
        world.finish(Duration::from_secs(20));
        let downs = world.downs(0);
        let [(at, 1, PeerError::TimedOut { .. })] = downs[..] else {
            panic!("expected a time-out, got {downs:?}");
        };
        let after = at - start;
        assert!(
            after >= Duration::from_secs(10) && after < Duration::from_secs(11),
            "{after:?}"
        );
    });
}

#[test]
fn peer_that_starts_late_is_waited_for() {
    scenario("death::peer_that_starts_late_is_waited_for", 2, |seed| {
        let mut world = World::pair(seed, &NodeOptions::default());
        world.network.cut(0, 1);
        world.send(0, 1, Job::new(100));
        world.send(0, 1, Job::new(100_000).shared());
        world.run_for(Duration::from_secs(9));
        world.network.heal();
        world.finish(Duration::from_secs(20));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.model.received(), 2);
    });
}

#[test]
fn peer_that_computes_is_not_buried() {
    scenario("death::peer_that_computes_is_not_buried", 4, |seed| {
        let mut world = three(seed);
        world.stall(1, Duration::from_millis(3_900));
        for _ in 0..10 {
            world.send(0, 1, Job::new(3_000));
            world.run_for(MS);
        }
        world.finish(Duration::from_secs(10));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
    });
}

/// Stopped for a minute with data outstanding: when it runs again its peers are not to blame.
#[test]
fn own_freeze_buries_nobody() {
    scenario("death::own_freeze_buries_nobody", 4, |seed| {
        let mut world = three(seed);
        // The acknowledgements are lost, so that time-outs are due when it wakes.
        world.network.cut_one_way(1, 0);
        world.network.cut_one_way(2, 0);
        world.send(0, 1, Job::new(30_000).shared());
        world.send(0, 2, Job::new(200));
        world.run_for(Duration::from_micros(10 + 97 * (seed % 100)));
        world.stall(0, Duration::from_secs(60));
        world.run_for(MS);
        world.network.heal();
        world.finish(Duration::from_secs(70));
        assert_eq!(world.downs(0), []);
    });
}

/// The same, but resends have been going on for nearly as long as the limit before the freeze.
#[test]
fn freeze_does_not_count_towards_silence() {
    scenario("death::freeze_does_not_count_towards_silence", 4, |seed| {
        let mut world = three(seed);
        world.network.cut(0, 1);
        world.send(0, 1, Job::new(3_000));
        world.run_for(3 * Duration::from_secs(1));
        world.stall(0, Duration::from_secs(60));
        world.run_for(MS);
        world.network.heal();
        world.finish(Duration::from_secs(70));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.model.received(), 4);
    });
}

#[test]
fn idle_peer_is_not_watched() {
    scenario("death::idle_peer_is_not_watched", 1, |seed| {
        let mut world = three(seed);
        world.network.cut(0, 1);
        world.run_for(Duration::from_secs(100));
        world.network.heal();
        world.send(0, 1, Job::new(100));
        world.finish(Duration::from_secs(5));
        assert_eq!(world.downs(0), []);
    });
}

#[test]
fn watched_idle_peer_is_found_dead() {
    scenario("death::watched_idle_peer_is_found_dead", 2, |seed| {
        let mut world = three(seed);
        let peer = world.nodes[0].peer_of[&1];
        let now = world.now;
        world.nodes[0].stack_mut().watch(now, peer, true);
        world.touch(0);
        world.run_for(Duration::from_secs(20));
        assert_eq!(world.downs(0), [], "alive and watched");
        world.network.cut(0, 1);
        let start = world.now;
        world.run_for(Duration::from_secs(7));
        let downs = world.downs(0);
        let [(at, 1, PeerError::TimedOut { .. })] = downs[..] else {
            panic!("expected a time-out, got {downs:?}");
        };
        let after = at - start;
        assert!(
            after >= Duration::from_secs(3) && after < Duration::from_secs(6),
            "{after:?}"
        );
        world.finish(Duration::from_secs(5));
    });
}

/// A program that waits for something may ask for it in every round of its loop.
#[test]
fn watching_again_does_not_put_it_off() {
    scenario("death::watching_again_does_not_put_it_off", 2, |seed| {
        let mut world = three(seed);
        let peer = world.nodes[0].peer_of[&1];
        world.network.cut(0, 1);
        for _ in 0..200 {
            let now = world.now;
            world.nodes[0].stack_mut().watch(now, peer, true);
            world.touch(0);
            world.run_for(Duration::from_millis(50));
        }
        let downs = world.downs(0);
        assert!(matches!(downs[..], [(_, 1, PeerError::TimedOut { .. })]), "{downs:?}");
        world.finish(Duration::from_secs(5));
    });
}

#[test]
fn watching_can_be_stopped() {
    scenario("death::watching_can_be_stopped", 1, |seed| {
        let mut world = three(seed);
        let peer = world.nodes[0].peer_of[&1];
        let now = world.now;
        world.nodes[0].stack_mut().watch(now, peer, true);
        world.touch(0);
        world.run_for(Duration::from_secs(5));
        let now = world.now;
        world.nodes[0].stack_mut().watch(now, peer, false);
        world.touch(0);
        world.finish(Duration::from_secs(5));
        assert_eq!(world.downs(0), []);
    });
}

/// A fault that eats a counted number of datagrams eats the packets that are sent again as well, one by one.
#[test]
fn living_peer_survives_a_counted_burst_of_losses() {
    scenario("death::living_peer_survives_a_counted_burst_of_losses", 8, |seed| {
        let mut world = three(seed);
        let mut left = 50;
        world.filter = Some(Box::new(move |from, to, _| {
            let lost = left > 0 && (from, to) == (0, 1);
            left -= i32::from(lost);
            !lost
        }));
        let mut job = Job::new([10, 1_000, 30_000, 200_000][seed as usize % 4]);
        job.shared = seed.is_multiple_of(3);
        world.send(0, 1, job);
        world.finish(Duration::from_secs(20));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.model.received(), 4);
    });
}

//! Hosts that say "nobody listens there" (ICMP port unreachable), truly or not.

use std::{net::SocketAddr, time::Duration};

use hikyaku::PeerError;

use crate::{
    death::{three, three_at},
    harness::{Job, NodeOptions, Prng, World, note, scenario},
};

const MS: Duration = Duration::from_millis(1);
/// The bytes of a packet that Linux quotes.
const QUOTE: usize = 520;

#[test]
fn dead_process_is_noticed_at_once() {
    scenario("refused::dead_process_is_noticed_at_once", 8, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = three_at(seed, rng.between(1, 2_000_000));
        world.quote = Some(QUOTE);
        world.crash(1);
        let start = world.now;
        let mut job = Job::new(rng.between(1, 1_000) as usize);
        job.shared = rng.chance(500);
        world.send(0, 1, job);
        // Meanwhile it has much to say to another.
        world.send(0, 2, Job::new(100_000).shared());
        world.finish(Duration::from_secs(5));
        let downs = world.downs(0);
        let [(at, 1, PeerError::Refused)] = downs[..] else {
            panic!("expected that node 1 has refused, got {downs:?}");
        };
        let after = at - start;
        assert!(after >= 100 * MS && after < 200 * MS, "lost after {after:?}");
        assert_eq!(world.downs(2), []);
    });
}

/// Packets under way use up all refusals that the dead peer's host may send in a second.
#[test]
fn dead_process_is_noticed_soon_under_load() {
    scenario("refused::dead_process_is_noticed_soon_under_load", 4, |seed| {
        let mut world = three(seed);
        world.quote = Some(QUOTE);
        world.network.usual.rate = 100_000_000;
        world.send(0, 1, Job::new(1_000_000).shared());
        world.run_for(MS);
        world.crash(1);
        let start = world.now;
        world.finish(Duration::from_secs(5));
        let downs = world.downs(0);
        assert!(matches!(downs[..], [(_, 1, PeerError::Refused)]), "{downs:?}");
        let after = downs[0].0 - start;
        assert!(after < 1_300 * MS, "lost after {after:?}");
    });
}

/// Where nothing is quoted, anybody could have said it: the peer is asked, and has the usual time to answer.
#[test]
fn dead_process_has_the_usual_time_if_nothing_is_quoted() {
    scenario(
        "refused::dead_process_has_the_usual_time_if_nothing_is_quoted",
        2,
        |seed| {
            let mut world = three(seed);
            world.quote = Some(0);
            world.crash(1);
            let start = world.now;
            world.send(0, 1, Job::new(100));
            world.finish(Duration::from_secs(10));
            let downs = world.downs(0);
            assert!(matches!(downs[..], [(_, 1, PeerError::TimedOut { .. })]), "{downs:?}");
            assert!(downs[0].0 - start >= Duration::from_secs(4));
        },
    );
}

/// An attacker says all the time that the peer is not there, while the peer computes.
#[test]
fn forged_refusals_lose_nobody() {
    scenario("refused::forged_refusals_lose_nobody", 8, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = three(seed);
        world.network.usual.loss = rng.pick(&[0, 100]);
        let peer = world.nodes[0].peer_of[&1];
        if rng.chance(500) {
            let now = world.now;
            world.nodes[0].stack_mut().watch(now, peer, true);
        }
        world.stall(1, Duration::from_secs(1));
        world.send(0, 1, Job::new(rng.pick(&[100, 100_000])).shared());
        world.network.reset_counts();
        // Packets of the session as an attacker may know them: all but the token.
        let seen: [u8; 64] = std::array::from_fn(|_| rng.below(256) as u8);
        let lens = [0, 0, 8, seen.len()];
        for _ in 0..2_000 {
            let (now, address) = (world.now, world.nodes[1].address);
            let quoted = &seen[..rng.pick(&lens)];
            world.nodes[0].stack_mut().handle_unreachable(now, address, quoted);
            world.touch(0);
            world.run_for(MS / 2);
        }
        let asked = world.network.counts(0, 1).acks_alone;
        assert!(asked <= 230, "asked {asked} times within a second");
        if world.downs(0).is_empty() {
            let now = world.now;
            world.nodes[0].stack_mut().watch(now, peer, false);
        }
        world.finish(Duration::from_secs(10));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
    });
}

/// A peer sends from another address from now on. Until we hear of that, what goes to the old one is refused.
#[test]
fn peer_that_has_moved_survives() {
    scenario("refused::peer_that_has_moved_survives", 10, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = three(seed);
        world.quote = Some(rng.pick(&[0, QUOTE]));
        world.network.usual.loss = rng.pick(&[0, 100]);
        world.network.usual.delay = rng.pick(&[20_000, 1_000_000, 60_000_000]);
        let silence = rng.between(0, 80) as u32 * MS;
        note(format!("it says nothing for {silence:?}"));
        world.send(0, 1, Job::new(200_000).shared());
        world.run_for(MS / 10);
        world.relocate(1, SocketAddr::from(([10, 9, 9, 9], 9_999)));
        for _ in 0..10 {
            world.send(0, 1, Job::new(500));
        }
        world.run_for(silence);
        for _ in 0..20 {
            world.send(1, 0, Job::new(500));
            world.run_for(10 * MS);
        }
        world.finish(Duration::from_secs(20));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
        let peer = world.nodes[0].peer_of[&1];
        assert_eq!(
            world.nodes[0].endpoint().address(peer),
            Some(world.nodes[1].address),
            "where it is"
        );
    });
}

/// A peer that was never heard may start later, where that is allowed; where all listen from the start, it is gone.
#[test]
fn refused_before_it_was_heard() {
    for late_peers in [false, true] {
        scenario("refused::refused_before_it_was_heard", 2, |seed| {
            let mut options = NodeOptions::default();
            options.config.late_peers = late_peers;
            let mut world = World::pair(seed, &options);
            world.quote = Some(QUOTE);
            world.crash(1);
            let start = world.now;
            world.send(0, 1, Job::new(100).shared());
            world.run_for(Duration::from_secs(2));
            world.restart(1);
            world.finish(Duration::from_secs(5));
            match world.downs(0)[..] {
                [] => assert!(late_peers && world.model.received() == 1),
                [(at, 1, PeerError::Refused)] => assert!(!late_peers && at - start < 200 * MS),
                ref downs => panic!("{downs:?}"),
            }
        });
    }
}

/// One forged refusal of nothing, and one of another's opening, before a peer is heard.
#[test]
fn forged_refusals_before_it_was_heard() {
    scenario("refused::forged_refusals_before_it_was_heard", 2, |seed| {
        let mut options = NodeOptions::default();
        options.config.late_peers = false;
        let mut world = World::pair(seed, &options);
        world.tap = Some(Vec::new());
        world.send(1, 0, Job::new(10));
        world.pump(1);
        let foreign = world.tap.take().unwrap_or_default().remove(0).bytes;
        world.stall(1, Duration::from_secs(1));
        world.send(0, 1, Job::new(100).shared());
        for _ in 0..100 {
            let (now, address) = (world.now, world.nodes[1].address);
            for quoted in [&[][..], &foreign[..]] {
                world.nodes[0].stack_mut().handle_unreachable(now, address, quoted);
            }
            world.touch(0);
            world.run_for(10 * MS);
        }
        world.finish(Duration::from_secs(5));
        assert_eq!(world.downs(0), []);
    });
}

/// A side that has said goodbye does not wait for the answer of a peer that has gone.
#[test]
fn goodbye_to_a_dead_process_ends() {
    scenario("refused::goodbye_to_a_dead_process_ends", 2, |seed| {
        let mut world = three(seed);
        world.quote = Some(QUOTE);
        world.crash(1);
        let (start, peer) = (world.now, world.nodes[0].peer_of[&1]);
        world.nodes[0].stack_mut().close(start, peer);
        world.touch(0);
        world.finish(Duration::from_secs(5));
        let downs = world.downs(0);
        assert!(matches!(downs[..], [(_, 1, PeerError::Closed)]), "{downs:?}");
        assert!(downs[0].0 - start < MS, "{:?}", downs[0].0 - start);
    });
}

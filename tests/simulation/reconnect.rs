//! Processes that live on both sides of a pause, and find each other again.

use std::{collections::BTreeSet, time::Duration};

use hikyaku::{
    PeerError,
    reliability::{Event, LostMessages},
};

use crate::harness::{Job, NodeOptions, Prng, World, note, scenario};

const SECOND: Duration = Duration::from_secs(1);
/// An answer to the first call after at most a second, and what is lost on the way.
const SOON: Duration = Duration::from_secs(4);

/// Two that have talked; `who` wants its peer back, always.
fn pair(seed: u64, rng: &mut Prng, who: [bool; 2]) -> World {
    pair_of(seed, rng, who, &NodeOptions::default())
}

/// The same, but they send nothing by themselves: no probe for the path's MTU stands in for a call.
fn quiet_pair(seed: u64, rng: &mut Prng, who: [bool; 2]) -> World {
    let mut options = NodeOptions::default();
    options.config.path_mtu_discovery = false;
    pair_of(seed, rng, who, &options)
}

fn pair_of(seed: u64, rng: &mut Prng, who: [bool; 2], options: &NodeOptions) -> World {
    let mut world = World::new(seed);
    world.retries = false;
    let bare = rng.chance(500);
    for always in who {
        let mut options = NodeOptions {
            bare,
            ..options.clone()
        };
        options.config.reconnect = always;
        world.add(options);
    }
    world.connect(0, 1);
    world.min_len = 8;
    world.send(0, 1, Job::new(100));
    world.send(1, 0, Job::new(100));
    world.run_idle(5 * SECOND);
    world
}

fn sessions(world: &World, node: usize) -> usize {
    let ups = world.nodes[node].events.iter();
    ups.filter(|(_, event)| matches!(event, Event::Up { .. })).count()
}

fn reconnect(world: &mut World, node: usize) {
    let peer = world.nodes[node].peer_of[&(1 - node)];
    world.nodes[node].stack_mut().reconnect(peer);
    world.touch(node);
}

/// Both hear of a new session, and what is sent in it arrives.
fn expect_new_session(world: &mut World, rng: &mut Prng, before: [usize; 2]) {
    world.run_for(SOON);
    for (node, before) in before.into_iter().enumerate() {
        let now = sessions(world, node);
        assert_eq!(
            now,
            before + 1,
            "sessions of node {node}: {:?}",
            world.nodes[node].events
        );
        let peer = world.nodes[node].peer_of[&(1 - node)];
        assert_eq!(world.nodes[node].endpoint().down(peer), None);
    }
    let received = world.model.received();
    for _ in 0..10 {
        for node in 0..2 {
            world.send(node, 1 - node, Job::new(rng.between(8, 20_000) as usize).shared());
        }
    }
    world.finish(20 * SECOND);
    assert_eq!(world.model.received(), received + 20);
}

/// Sides that want each other back are back soon after a partition, however long it was.
#[test]
fn partitions_heal() {
    scenario("reconnect::partitions_heal", 12, |seed| {
        let mut rng = Prng::new(seed);
        let who = rng.pick(&[[true, false], [false, true], [true, true]]);
        let mut world = pair(seed, &mut rng, who);
        let time = rng.pick(&[8, 20, 60]) * SECOND;
        let loss = rng.pick(&[0, 0, 200]);
        note(format!(
            "{who:?} want each other, apart for {time:?}, then {loss} of 1000 are lost"
        ));
        world.network.cut(0, 1);
        // A side that wants to hear of it must have something to say, and the other one may.
        for (node, wants) in who.into_iter().enumerate() {
            if wants || rng.chance(500) {
                world.send(node, 1 - node, Job::new(rng.between(8, 50_000) as usize).shared());
            }
        }
        world.run_for(time);
        world.network.usual.loss = loss;
        world.network.join(0, 1);
        expect_new_session(&mut world, &mut rng, [1, 1]);
    });
}

/// One does not run for so long that the other takes it for dead. A side that asks for a new session gets it, at any
/// time.
#[test]
fn stalls_end() {
    scenario("reconnect::stalls_end", 16, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = pair(seed, &mut rng, [false, false]);
        world.stall(1, 8 * SECOND);
        world.send(0, 1, Job::new(rng.between(8, 50_000) as usize).shared());
        world.run_for(8 * SECOND);
        let downs = world.downs(0);
        assert!(matches!(downs[..], [(_, 1, PeerError::TimedOut { .. })]), "{downs:?}");
        // The one that was stopped hears that its session is over when it says something.
        world.run_for(SECOND);
        world.send(1, 0, Job::new(100).shared());
        world.run_for(SECOND);
        let downs = world.downs(1);
        assert!(matches!(downs[..], [(_, 0, PeerError::Reset)]), "{downs:?}");
        world.run_for(Duration::from_millis(rng.skewed(100_000)));
        world.network.usual.loss = rng.pick(&[0, 0, 200]);
        let who = rng.pick(&[[true, false], [false, true], [true, true]]);
        note(format!("{who:?} ask"));
        for (node, asks) in who.into_iter().enumerate() {
            if asks {
                reconnect(&mut world, node);
                world.run_for(Duration::from_nanos(rng.skewed(2_000_000)));
            }
        }
        expect_new_session(&mut world, &mut rng, [1, 1]);
    });
}

/// Only one asks, and neither has anything to say: the other one hears of the new session because it calls back. Then
/// both fall silent.
#[test]
fn a_side_that_is_called_calls_back() {
    scenario("reconnect::a_side_that_is_called_calls_back", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = quiet_pair(seed, &mut rng, [false; 2]);
        world.network.cut(0, 1);
        for node in 0..2 {
            world.send(node, 1 - node, Job::new(100).shared());
        }
        world.run_for(8 * SECOND);
        world.network.join(0, 1);
        reconnect(&mut world, 0);
        world.run_for(SOON);
        let sent = |world: &World| [(0, 1), (1, 0)].map(|(from, to)| world.network.counts(from, to).datagrams);
        let before = sent(&world);
        world.run_for(4 * SECOND);
        assert_eq!(sent(&world), before, "the calls go on");
        expect_new_session(&mut world, &mut rng, [1, 1]);
    });
}

/// The one that was stopped hears by a reset that its session is over, and it alone wants another.
#[test]
fn a_reset_is_followed_by_a_call() {
    scenario("reconnect::a_reset_is_followed_by_a_call", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = quiet_pair(seed, &mut rng, [false, true]);
        world.stall(1, 8 * SECOND);
        world.send(0, 1, Job::new(100).shared());
        world.run_for(8 * SECOND);
        assert_eq!(world.downs(0).len(), 1);
        expect_new_session(&mut world, &mut rng, [1, 1]);
        let downs = world.downs(1);
        assert!(matches!(downs[..], [(_, 0, PeerError::Reset)]), "{downs:?}");
    });
}

/// The one that was stopped never knew, and says nothing by itself.
#[test]
fn who_was_stopped_need_not_know() {
    scenario("reconnect::who_was_stopped_need_not_know", 8, |seed| {
        let mut rng = Prng::new(seed);
        let always = rng.chance(500);
        let mut world = pair(seed, &mut rng, [always, false]);
        world.stall(1, 8 * SECOND);
        world.send(0, 1, Job::new(rng.between(8, 50_000) as usize).shared());
        world.run_for(9 * SECOND);
        if !always {
            reconnect(&mut world, 0);
        }
        expect_new_session(&mut world, &mut rng, [1, 1]);
        let downs = world.downs(1);
        assert!(matches!(downs[..], [(_, 0, PeerError::Reset)]), "{downs:?}");
    });
}

/// A side asks, answers the challenge, and is cut off. The other one has let it in, and calls for a while; then it notices
/// that nobody is there only when it has something to say.
#[test]
fn a_side_that_was_let_in_and_has_gone_is_not_missed_in_silence() {
    scenario(
        "reconnect::a_side_that_was_let_in_and_has_gone_is_not_missed_in_silence",
        4,
        |seed| {
            let mut rng = Prng::new(seed);
            let mut world = quiet_pair(seed, &mut rng, [false; 2]);
            world.network.cut(0, 1);
            for node in 0..2 {
                world.send(node, 1 - node, Job::new(100).shared());
            }
            world.run_for(8 * SECOND);
            world.network.join(0, 1);
            world.network.usual.delay = 10_000_000;
            let opened = |world: &World| world.nodes[1].endpoint().stats().sessions_opened;
            let before = opened(&world);
            reconnect(&mut world, 0);
            for _ in 0..1_000 {
                if opened(&world) == before {
                    world.run_for(Duration::from_millis(1));
                }
            }
            assert_eq!(opened(&world), before + 1, "it was let in");
            world.network.cut(0, 1);
            world.run_for(30 * SECOND);
            assert_eq!((sessions(&world, 1), world.downs(1).len()), (1, 1));
            world.send(1, 0, Job::new(100).shared());
            world.run_for(30 * SECOND);
            let downs = world.downs(1);
            assert!(
                matches!(downs[..], [_, (_, 0, PeerError::TimedOut { .. })]),
                "{downs:?}"
            );
        },
    );
}

/// A call has an end, unless it is wanted always; sends are refused as long as the session has not begun.
#[test]
fn calls_in_vain_end() {
    scenario("reconnect::calls_in_vain_end", 2, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = pair(seed, &mut rng, [false, true]);
        world.network.cut(0, 1);
        for node in 0..2 {
            world.send(node, 1 - node, Job::new(100).shared());
        }
        world.run_for(6 * SECOND);
        reconnect(&mut world, 0);
        world.send(1, 0, Job::new(100));
        world.run_for(100 * SECOND);
        let [asked, always] = [0, 1].map(|node| world.downs(node));
        assert_eq!((asked.len(), always.len()), (2, 1), "{asked:?} {always:?}");
        let [(first, ..), (second, ..)] = asked[..] else {
            panic!()
        };
        assert!(
            second - first >= 10 * SECOND && second - first < 14 * SECOND,
            "{asked:?}"
        );
        assert_eq!(world.nodes[1].refused.len(), 1);
        let calls = world.network.counts(1, 0).acks_alone;
        assert!((80..200).contains(&calls), "{calls} calls in 100 s");
        // It is still called.
        world.network.join(0, 1);
        expect_new_session(&mut world, &mut rng, [1, 1]);
    });
}

/// Closing ends the calls.
#[test]
fn closing_ends_the_calls() {
    scenario("reconnect::closing_ends_the_calls", 2, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = pair(seed, &mut rng, [true, false]);
        world.network.cut(0, 1);
        world.send(0, 1, Job::new(100).shared());
        world.run_for(20 * SECOND);
        let (now, peer) = (world.now, world.nodes[0].peer_of[&1]);
        world.nodes[0].stack_mut().close(now, peer);
        world.finish(5 * SECOND);
    });
}

/// Whatever did not arrive is among what is said to be lost, and what was acknowledged long ago is not.
#[test]
fn what_is_lost_is_named() {
    scenario("reconnect::what_is_lost_is_named", 12, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = pair(seed, &mut rng, [true, seed.is_multiple_of(2)]);
        let mut lens = vec![100];
        let send = |world: &mut World, rng: &mut Prng, lens: &mut Vec<usize>| {
            // Each has a length of its own.
            let len = rng.pick(&[200, 2_000, 20_000]) + lens.len();
            lens.push(len);
            let job = Job {
                shared: rng.chance(300),
                channel: rng.below(3) as u8,
                ..Job::new(len)
            };
            world.send(0, 1, job);
        };
        for _ in 0..rng.between(0, 50) {
            send(&mut world, &mut rng, &mut lens);
        }
        world.run_for(SECOND);
        let safe = lens.len();
        // Some arrive and are acknowledged, of some only the acknowledgement is lost.
        world.network.usual.loss = rng.pick(&[0, 300]);
        for _ in 0..rng.between(1, 100) {
            send(&mut world, &mut rng, &mut lens);
        }
        world.run_for(Duration::from_nanos(rng.skewed(500_000)));
        if rng.chance(500) {
            world.network.cut_one_way(1, 0);
        } else {
            world.network.cut(0, 1);
        }
        for _ in 0..rng.between(1, 20) {
            send(&mut world, &mut rng, &mut lens);
        }
        world.run_for(20 * SECOND);
        assert_eq!(world.downs(0).len(), 1);
        let peer = world.nodes[0].peer_of[&1];
        let lost = world.nodes[0].stack_mut().take_lost(peer);
        assert!(world.nodes[0].stack_mut().take_lost(peer).is_empty(), "told once");
        let [LostMessages { session: 1, first, .. }] = lost[..] else {
            panic!("{lost:?}");
        };
        note(format!("lost from {first} on, of {}", lens.len()));
        assert!(safe as u32 <= first, "what was acknowledged long ago is lost");
        let arrived: BTreeSet<usize> = world.nodes[1].log.iter().map(|&(_, _, len)| len).collect();
        for (number, len) in (0..first).zip(&lens) {
            assert!(
                arrived.contains(len),
                "message {number} has not arrived, and is not named"
            );
        }
        assert!((first as usize) < lens.len(), "what was never sent is lost");
        world.network.heal();
        expect_new_session(&mut world, &mut rng, [1, 1]);
    });
}

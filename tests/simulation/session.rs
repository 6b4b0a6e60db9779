//! Opening, closing, and coming back as another incarnation.

use std::time::Duration;

use hikyaku::{PeerError, reliability::Event};

use crate::{
    exactly_once::traffic,
    harness::{Job, NodeOptions, Prng, World, note, scenario},
};

const MS: Duration = Duration::from_millis(1);

fn options(rng: &mut Prng) -> NodeOptions {
    let kind = rng.below(4);
    NodeOptions {
        bare: kind == 0,
        proxy: kind == 1 || kind == 3,
        split: kind == 3,
        ..NodeOptions::default()
    }
}

#[test]
fn simultaneous_open() {
    scenario("session::simultaneous_open", 10, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::pair(seed, &options(&mut rng));
        world.min_len = 8;
        world.network.usual.jitter = rng.below(100_000);
        world.network.usual.loss = rng.pick(&[0, 0, 300]);
        for _ in 0..rng.between(1, 20) {
            world.send(0, 1, Job::new(1_000));
        }
        for _ in 0..rng.between(1, 20) {
            world.send(1, 0, Job::new(2_000).shared());
        }
        world.finish(Duration::from_secs(30));
        for node in 0..2 {
            assert_eq!(world.downs(node), []);
            let stats = world.nodes[node].endpoint().stats();
            assert_eq!(
                (stats.sessions_opened, stats.resets_sent),
                (1, 0),
                "node {node}: {stats:?}"
            );
        }
    });
}

/// A receiver that has a message may say goodbye at once: its sender knows that it has arrived before it hears the
/// goodbye, whatever the message's size and channel.
#[test]
fn a_goodbye_comes_after_the_acknowledgement_of_what_came_before() {
    scenario(
        "session::a_goodbye_comes_after_the_acknowledgement_of_what_came_before",
        20,
        |seed| {
            let mut rng = Prng::new(seed);
            let mut world = World::pair(seed, &options(&mut rng));
            world.min_len = 8;
            world.send(0, 1, Job::new(10));
            world.send(1, 0, Job::new(10));
            world.run_idle(Duration::from_secs(5));
            for channel in [0, 7, 3] {
                let len = rng.pick(&[8, 1_000, 1 << 20]);
                world.send(
                    1,
                    0,
                    Job {
                        channel,
                        ..Job::new(len).shared()
                    },
                );
            }
            while world.nodes[0].log.len() < 4 {
                world.run_for(Duration::from_nanos(100));
            }
            let (now, peer) = (world.now, world.nodes[0].peer_of[&1]);
            world.nodes[0].stack_mut().close(now, peer);
            world.touch(0);
            world.run_idle(Duration::from_secs(5));
            let events: Vec<Event> = world.nodes[1].events.iter().map(|&(_, event)| event).collect();
            let sent = events
                .iter()
                .filter(|event| matches!(event, Event::Sent { .. }))
                .count();
            let closed = |event: &Event| {
                matches!(
                    event,
                    Event::Down {
                        error: PeerError::Closed,
                        lost: false,
                        ..
                    }
                )
            };
            assert!(sent == 3 && events.iter().any(closed), "{events:?}");
        },
    );
}

/// Opening under every single loss: the n-th datagram is lost.
#[test]
fn open_with_any_one_datagram_lost() {
    for lost in 0..12 {
        let mut world = World::pair(7, &NodeOptions::default());
        let mut count = 0;
        world.filter = Some(Box::new(move |_, _, _| {
            count += 1;
            count - 1 != lost
        }));
        for _ in 0..3 {
            world.send(0, 1, Job::new(100));
            world.send(1, 0, Job::new(100));
            world.run_for(Duration::from_micros(300));
        }
        world.finish(Duration::from_secs(5));
    }
}

#[test]
fn goodbye() {
    scenario("session::goodbye", 8, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::pair(seed, &options(&mut rng));
        world.min_len = 8;
        world.network.usual.loss = rng.pick(&[0, 200]);
        traffic(&mut world, &mut rng, 50, 20_000);
        world.run_idle(Duration::from_secs(20));
        // What is queued when it closes still arrives.
        world.send(0, 1, Job::new(50_000).shared());
        world.pump(0);
        close(&mut world, 0, 1);
        world.run_idle(Duration::from_secs(30));
        assert_eq!(world.model.missing(), 0, "lost by closing");
        let closed = |downs: Vec<(_, usize, PeerError)>| matches!(downs[..], [(_, _, PeerError::Closed)]);
        assert!(closed(world.downs(0)), "{:?}", world.downs(0));
        assert!(closed(world.downs(1)), "{:?}", world.downs(1));
        assert_eq!(world.nodes[0].memory.outstanding(), 0);
    });
}

fn close(world: &mut World, node: usize, peer: usize) {
    let (now, id) = (world.now, world.nodes[node].peer_of[&peer]);
    world.nodes[node].stack_mut().close(now, id);
    world.touch(node);
}

#[test]
fn both_say_goodbye() {
    scenario("session::both_say_goodbye", 8, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::pair(seed, &NodeOptions::default());
        world.network.usual.loss = rng.pick(&[0, 200]);
        traffic(&mut world, &mut rng, 20, 20_000);
        world.run_idle(Duration::from_secs(20));
        close(&mut world, 0, 1);
        world.run_for(Duration::from_nanos(rng.skewed(200_000)));
        close(&mut world, 1, 0);
        world.finish(Duration::from_secs(30));
    });
}

/// Nothing that the peer answers to a goodbye arrives: the goodbye ends all the same, in bounded time.
#[test]
fn last_acknowledgement_lost() {
    scenario("session::last_acknowledgement_lost", 4, |seed| {
        let mut world = World::pair(seed, &NodeOptions::default());
        world.send(0, 1, Job::new(100));
        world.run_idle(Duration::from_secs(5));
        world.network.cut_one_way(1, 0);
        close(&mut world, 0, 1);
        let start = world.now;
        world.finish(Duration::from_secs(6));
        assert_eq!(world.downs(0).len(), 1);
        assert_eq!(world.downs(1).len(), 1);
        let took = world.downs(0)[0].0 - start;
        assert!(took < Duration::from_secs(5), "closing took {took:?}");
    });
}

#[test]
fn receiver_restarts() {
    scenario("session::receiver_restarts", 8, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::pair(seed, &options(&mut rng));
        world.min_len = 8;
        world.network.usual.jitter = rng.below(200_000);
        traffic(&mut world, &mut rng, 50, 20_000);
        world.crash(1);
        world.run_for(MS + Duration::from_nanos(rng.skewed(100_000_000)));
        world.restart(1);
        world.send(0, 1, Job::new(2_000));
        world.run_idle(Duration::from_secs(30));
        let downs = world.downs(0);
        assert!(
            matches!(downs[..], [(_, 1, PeerError::Reset | PeerError::Restarted)]),
            "{downs:?}"
        );
        let before = world.model.received();
        traffic(&mut world, &mut rng, 50, 20_000);
        world.finish(Duration::from_secs(30));
        assert!(world.model.received() >= before + 50, "the new session works");
    });
}

#[test]
fn sender_restarts() {
    scenario("session::sender_restarts", 8, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::pair(seed, &options(&mut rng));
        world.min_len = 8;
        world.network.usual.jitter = rng.below(200_000);
        traffic(&mut world, &mut rng, 50, 20_000);
        world.crash(0);
        // Nobody starts faster than what is under way arrives.
        world.run_for(MS);
        world.restart(0);
        for _ in 0..20 {
            world.send(0, 1, Job::new(500));
        }
        world.finish(Duration::from_secs(30));
        let downs = world.downs(1);
        assert!(
            matches!(downs[..], [(_, 0, PeerError::Reset | PeerError::Restarted)]),
            "{downs:?}"
        );
        assert_eq!(world.downs(0), [], "the new incarnation has lost nobody");
    });
}

/// Crashes at random again and again; in the end every node can talk to every other.
#[test]
fn restarts_again_and_again() {
    scenario("session::restarts_again_and_again", 8, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::pair(seed, &options(&mut rng));
        world.min_len = 8;
        world.network.usual.loss = rng.pick(&[0, 100]);
        world.network.usual.jitter = rng.below(500_000);
        for _ in 0..10 {
            traffic(&mut world, &mut rng, 10, 20_000);
            let node = rng.below(2) as usize;
            world.crash(node);
            // Nobody starts faster than what is under way arrives.
            world.run_for(MS + Duration::from_nanos(rng.skewed(10_000_000)));
            world.restart(node);
        }
        world.network.heal();
        // Whoever still has an old session to end does so on the first of these.
        for (from, to) in [(0, 1), (1, 0), (0, 1), (1, 0)] {
            world.send(from, to, Job::new(500));
            world.run_idle(Duration::from_secs(30));
        }
        let before = world.model.received();
        traffic(&mut world, &mut rng, 50, 20_000);
        world.finish(Duration::from_secs(30));
        assert!(world.model.received() >= before + 50);
    });
}

/// Everything ever sent arrives once more, in order, after a side has restarted: nothing is delivered twice and
/// nobody is harmed.
#[test]
fn old_session_replayed_after_restart() {
    scenario("session::old_session_replayed_after_restart", 8, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::pair(seed, &options(&mut rng));
        world.min_len = 8;
        world.tap = Some(Vec::new());
        traffic(&mut world, &mut rng, 60, 20_000);
        world.run_idle(Duration::from_secs(10));
        let old = world.tap.take().unwrap_or_default();
        // Node 0 restarts; node 1 knows that the old incarnation is dead and takes nothing of it any more.
        world.crash(0);
        world.restart(0);
        world.send(0, 1, Job::new(300));
        world.run_idle(Duration::from_secs(10));
        note(format!("{} datagrams to replay", old.len()));
        let received = world.model.received();
        for captured in old {
            let from = world.nodes[captured.from].address;
            world.inject(captured.to, from, captured.bytes);
            if rng.chance(100) {
                world.run_for(Duration::from_micros(50));
            }
        }
        world.run_idle(Duration::from_secs(10));
        assert_eq!(world.model.received(), received, "a replayed message was delivered");
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1).len(), 1, "{:?}", world.downs(1));
        traffic(&mut world, &mut rng, 50, 20_000);
        world.finish(Duration::from_secs(10));
        assert_eq!(world.model.received(), received + 50);
    });
}

/// The same within one session.
#[test]
fn session_replayed_in_itself() {
    scenario("session::session_replayed_in_itself", 8, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::pair(seed, &options(&mut rng));
        world.min_len = 8;
        world.tap = Some(Vec::new());
        traffic(&mut world, &mut rng, 60, 20_000);
        world.run_for(2 * MS);
        let old = world.tap.take().unwrap_or_default();
        for captured in old {
            let from = world.nodes[captured.from].address;
            world.inject(captured.to, from, captured.bytes);
            if rng.chance(300) {
                traffic(&mut world, &mut rng, 1, 2_000);
            }
        }
        world.finish(Duration::from_secs(10));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
    });
}

//! How many datagrams things take: bundles, acknowledgements, and when they are sent.

use std::time::Duration;

use hikyaku::Congestion;

use crate::{
    exactly_once::config,
    harness::{App, Job, NodeOptions, World, scenario},
};

fn open(seed: u64, options: &NodeOptions) -> World {
    let mut world = World::pair(seed, options);
    world.send(0, 1, Job::new(8));
    world.send(1, 0, Job::new(8));
    world.run_idle(Duration::from_secs(5));
    world.network.reset_counts();
    world
}

#[test]
fn burst_of_small_messages_shares_datagrams() {
    scenario("discipline::burst_of_small_messages_shares_datagrams", 2, |seed| {
        let options = NodeOptions {
            bare: seed == 1,
            ..NodeOptions::default()
        };
        let mut world = open(seed, &options);
        for _ in 0..200 {
            world.send(0, 1, Job::new(16));
        }
        world.finish(Duration::from_secs(5));
        let data = world.network.counts(0, 1).data;
        // 200 records of 20 bytes are 4,000.
        assert!(data <= 4, "{data} datagrams for 200 messages of 16 bytes");
    });
}

#[test]
fn bundles_can_be_turned_off() {
    scenario("discipline::bundles_can_be_turned_off", 1, |seed| {
        let options = NodeOptions {
            config: config(|config| config.bundle = false),
            ..NodeOptions::default()
        };
        let mut world = open(seed, &options);
        for _ in 0..200 {
            world.send(0, 1, Job::new(16));
        }
        world.finish(Duration::from_secs(5));
        assert_eq!(world.network.counts(0, 1).data, 200);
    });
}

#[test]
fn lone_message_is_not_delayed() {
    scenario("discipline::lone_message_is_not_delayed", 1, |seed| {
        let mut world = open(seed, &NodeOptions::default());
        for round in 0..20 {
            let start = world.now;
            world.send(0, 1, Job::new(100));
            world.run_for(Duration::from_micros(100 * round));
            world.run_idle(Duration::from_secs(5));
            let took = world.nodes[1].log.last().map(|last| last.0 - start);
            assert_eq!(took, Some(Duration::from_nanos(world.network.usual.delay)));
        }
    });
}

/// A second message must not wait for the acknowledgement of the first (Nagle's and the delayed ack's old quarrel).
#[test]
fn second_message_does_not_wait_for_an_ack() {
    scenario("discipline::second_message_does_not_wait_for_an_ack", 1, |seed| {
        let mut world = open(seed, &NodeOptions::default());
        world.send(0, 1, Job::new(100));
        world.run_for(Duration::from_micros(5));
        let start = world.now;
        world.send(0, 1, Job::new(100));
        world.finish(Duration::from_secs(5));
        let took = world.nodes[1].log.last().map(|last| last.0 - start);
        assert_eq!(took, Some(Duration::from_nanos(world.network.usual.delay)));
    });
}

#[test]
fn ping_pong_has_no_standalone_acks() {
    scenario("discipline::ping_pong_has_no_standalone_acks", 2, |seed| {
        let mut world = World::new(seed);
        world.add(NodeOptions::default());
        world.add(NodeOptions {
            app: App::Echo,
            ..NodeOptions::default()
        });
        world.connect(0, 1);
        let rounds = 200;
        for _ in 0..rounds {
            let had = world.nodes[0].log.len();
            world.send(0, 1, Job::new(64));
            while world.nodes[0].log.len() == had {
                world.run_for(Duration::from_micros(1));
            }
        }
        world.finish(Duration::from_secs(5));
        let (there, back) = (world.network.counts(0, 1), world.network.counts(1, 0));
        assert_eq!(there.data, rounds);
        assert_eq!(back.data, rounds);
        // The very last one has nothing to ride on.
        assert!(there.acks_alone <= 2, "{there:?}");
        assert!(back.acks_alone <= 1, "{back:?}");
    });
}

#[test]
fn one_way_stream_has_few_acks() {
    scenario("discipline::one_way_stream_has_few_acks", 2, |seed| {
        let mut world = open(seed, &NodeOptions::default());
        world.network.usual.rate = 1_250_000_000;
        world.network.usual.queue = 4 << 20;
        world.network.usual.mtu = 1_472;
        for _ in 0..200 {
            world.send(0, 1, Job::new(100_000).shared());
        }
        world.finish(Duration::from_secs(5));
        let (there, back) = (world.network.counts(0, 1), world.network.counts(1, 0));
        assert!(there.data >= 20_000_000 / 1_472);
        assert!(
            back.acks_alone * 20 <= there.data,
            "{} acknowledgements for {} packets",
            back.acks_alone,
            there.data
        );
    });
}

/// One receive burst is acknowledged by at most one packet of its own.
#[test]
fn one_ack_per_receive_burst() {
    scenario("discipline::one_ack_per_receive_burst", 2, |seed| {
        let options = NodeOptions {
            config: config(|config| {
                config.congestion = Congestion::Fixed;
                config.ack_bytes = 1;
            }),
            budget: 4_096,
            ..NodeOptions::default()
        };
        let mut world = open(seed, &options);
        for _ in 0..50 {
            let before = world.network.counts(1, 0).acks_alone;
            world.stall(1, Duration::from_micros(150));
            for _ in 0..20 {
                world.send(0, 1, Job::new(1_000));
                world.run_for(Duration::from_micros(1));
            }
            world.run_for(Duration::from_micros(400));
            let acks = world.network.counts(1, 0).acks_alone - before;
            assert!(acks <= 1, "{acks} acknowledgements for one receive burst");
        }
        world.finish(Duration::from_secs(5));
    });
}

/// Flushing: acknowledgements come at once, not after the acknowledgement delay.
#[test]
fn requested_acks_come_at_once() {
    scenario("discipline::requested_acks_come_at_once", 1, |seed| {
        let options = NodeOptions {
            config: config(|config| {
                config.ack_delay = Duration::from_millis(50);
                config.min_rto = Duration::from_secs(1);
                config.max_rto = Duration::from_secs(1);
                config.initial_rto = Duration::from_secs(1);
            }),
            ..NodeOptions::default()
        };
        let mut world = open(seed, &options);
        world.send(0, 1, Job::new(100));
        world.pump(0);
        let now = world.now;
        world.nodes[0].stack_mut().request_acks(now);
        world.touch(0);
        world.run_for(Duration::from_micros(45));
        assert!(
            world.nodes[0].endpoint().all_idle(),
            "not acknowledged within a round trip"
        );
        world.finish(Duration::from_secs(5));
    });
}

/// Nothing is sent again on a network that loses nothing, whatever its delay and the receiver's habits.
#[test]
fn nothing_is_resent_without_loss() {
    scenario("discipline::nothing_is_resent_without_loss", 6, |seed| {
        let mut world = World::pair(seed, &NodeOptions::default());
        world.network.usual.rate = 1_250_000_000;
        world.network.usual.queue = 16 << 20;
        world.network.usual.delay = 1_000 * 4u64.pow(seed as u32 % 6);
        world.send(0, 1, Job::new(8));
        world.run_idle(Duration::from_secs(5));
        for burst in 0..50 {
            for _ in 0..10 {
                world.send(0, 1, Job::new(1 << (burst % 16)));
            }
            world.run_for(Duration::from_micros(50 * burst));
        }
        world.finish(Duration::from_secs(5));
        let stats = world.nodes[0].endpoint().stats();
        // A tail-loss probe may fire while the delay is still being learnt.
        assert!(stats.resends <= 2, "{stats:?}");
        assert_eq!(stats.lost_by_order + stats.lost_by_nack, 0, "{stats:?}");
    });
}

//! Flow control: a receiver that does not take its messages bounds what it must hold, and recovers.

use std::time::Duration;

use crate::{
    exactly_once::config,
    harness::{App, Job, NodeOptions, World, scenario},
};

fn holding(seed: u64, unexpected: u32) -> World {
    let options = NodeOptions {
        config: config(|config| {
            config.unexpected_bytes = unexpected;
            config.path_mtu_discovery = false;
        }),
        bare: seed.is_multiple_of(2),
        ..NodeOptions::default()
    };
    let mut world = World::pair(seed, &options);
    world.send(0, 1, Job::new(10));
    world.run_idle(Duration::from_secs(5));
    world.nodes[1].options.app = App::Hold;
    world
}

fn take(world: &mut World) {
    world.nodes[1].options.app = App::Take;
    world.touch(1);
}

#[test]
fn exhaustion_and_recovery() {
    scenario("credit::exhaustion_and_recovery", 4, |seed| {
        let mut world = holding(seed, 64 << 10);
        for _ in 0..1_000 {
            world.send(0, 1, Job::new(1_000).shared());
        }
        world.run_for(Duration::from_secs(20));
        let held = world.peer_stats(1, 0).unexpected;
        assert!(held > 16 << 10, "only {held} bytes were let through");
        assert!(world.nodes[0].endpoint().stats().blocked_on_credit > 0);
        assert_eq!(world.downs(0), [], "a slow receiver is not dead");
        assert_eq!(world.downs(1), []);
        take(&mut world);
        world.finish(Duration::from_secs(10));
    });
}

/// Small messages cost more memory than their bytes.
#[test]
fn small_messages_count() {
    scenario("credit::small_messages_count", 4, |seed| {
        let mut world = holding(seed, 64 << 10);
        world.nodes[0].options.config.bundle = false;
        for _ in 0..20_000 {
            world.send(0, 1, Job::new(1));
        }
        world.run_for(Duration::from_secs(1));
        let held = world.nodes[1].endpoint().stats().packets_delivered;
        assert!(held < 20_000, "20,000 messages held against 64 KiB");
        take(&mut world);
        world.finish(Duration::from_secs(10));
    });
}

#[test]
fn credit_update_lost() {
    scenario("credit::credit_update_lost", 6, |seed| {
        let mut world = holding(seed, 64 << 10);
        for _ in 0..50 {
            world.send(0, 1, Job::new(10_000).shared());
        }
        world.run_for(Duration::from_millis(500));
        // Every word of new credit gets lost for a while.
        world.network.cut_one_way(1, 0);
        take(&mut world);
        world.run_for(Duration::from_millis(1 << (seed % 11)));
        world.network.heal();
        world.finish(Duration::from_secs(10));
        assert_eq!(world.downs(0), []);
    });
}

#[test]
fn one_slow_receiver_does_not_slow_another() {
    scenario("credit::one_slow_receiver_does_not_slow_another", 2, |seed| {
        let mut world = World::new(seed);
        for _ in 0..3 {
            world.add(NodeOptions::default());
        }
        world.connect(0, 1);
        world.connect(0, 2);
        world.nodes[1].options.app = App::Hold;
        for _ in 0..300 {
            world.send(0, 1, Job::new(50_000).shared());
            world.send(0, 2, Job::new(50_000).shared());
        }
        world.run_for(Duration::from_secs(1));
        assert_eq!(world.nodes[2].log.len(), 300);
        take(&mut world);
        world.finish(Duration::from_secs(10));
    });
}

/// A message larger than all the credit there is must still pass (the receiver assembles it under the same bound).
#[test]
fn message_larger_than_the_credit() {
    scenario("credit::message_larger_than_the_credit", 2, |seed| {
        let mut world = holding(seed, 64 << 10);
        take(&mut world);
        for _ in 0..5 {
            world.send(0, 1, Job::new(300_000).shared());
            world.send(0, 1, Job::new(10));
        }
        world.finish(Duration::from_secs(10));
    });
}

#[test]
fn back_pressure_and_writable() {
    scenario("credit::back_pressure_and_writable", 4, |seed| {
        let options = NodeOptions {
            config: config(|config| {
                config.send_queue_bytes = 8 << 10;
                config.send_queue_messages = 4;
            }),
            ..NodeOptions::default()
        };
        let mut world = World::pair(seed, &options);
        world.network.usual.loss = if seed % 2 == 0 { 100 } else { 0 };
        // The harness sends on only after `Writable`.
        for i in 0..500 {
            let job = Job::new(1 + i * 37 % 5_000);
            world.send(0, 1, if i % 3 == 0 { job.shared() } else { job });
        }
        world.finish(Duration::from_secs(60));
    });
}

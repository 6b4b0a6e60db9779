//! Paths whose round trip takes longer than the largest time-out, and time-outs that prove to be spurious.

use std::time::Duration;

use hikyaku::Congestion;

use crate::{
    exactly_once::config,
    harness::{Job, NodeOptions, World, scenario},
};

const MB: usize = 1_000_000;
const WINDOW: u32 = 1 << 20;
/// One way, ns.
const FAR: u64 = 300_000_000;

fn pair(seed: u64, delay: u64) -> World {
    let mut options = NodeOptions {
        config: config(|config| {
            config.congestion = if seed.is_multiple_of(2) {
                Congestion::Fixed
            } else {
                Congestion::Aimd
            };
            config.window_bytes = WINDOW;
        }),
        ..NodeOptions::default()
    };
    options.limits.max_datagram = 1_472;
    let mut world = World::pair(seed, &options);
    world.network.usual.delay = delay;
    (world.network.usual.rate, world.network.usual.queue) = (125_000_000, 8 << 20);
    world.send(0, 1, Job::new(8));
    world.run_idle(Duration::from_secs(20));
    world
}

/// Streams `bytes`. Gives bytes per second, and the packets sent again.
fn stream(world: &mut World, bytes: usize) -> (f64, u64) {
    let resends = |world: &World| world.nodes[0].endpoint().stats().resends;
    let (start, before) = (world.now, resends(world));
    for _ in 0..bytes / 100_000 {
        world.send(0, 1, Job::new(100_000).shared());
    }
    world.finish(Duration::from_secs(600));
    assert_eq!(world.downs(0), []);
    assert_eq!(world.downs(1), []);
    let end = world.nodes[1].log.last().map_or(start, |last| last.0);
    (bytes as f64 / (end - start).as_secs_f64(), resends(world) - before)
}

/// A stream takes no longer than its windows do, and nearly no packet is sent again.
fn assert_window_is_used(world: &mut World) {
    let (rate, resends) = stream(world, 20 * MB);
    let full = f64::from(WINDOW) / (2e-9 * FAR as f64);
    assert!(
        rate > 0.8 * full,
        "{:.2} MB/s, a window each round trip is {:.2}",
        rate / 1e6,
        full / 1e6
    );
    assert!(resends < 10, "{resends} packets sent again, though none is lost");
}

#[test]
fn window_is_used_where_a_round_trip_takes_longer_than_the_largest_timeout() {
    scenario(
        "long_path::window_is_used_where_a_round_trip_takes_longer_than_the_largest_timeout",
        4,
        |seed| {
            let mut world = pair(seed, FAR);
            // Until the window has grown.
            stream(&mut world, 20 * MB);
            assert_window_is_used(&mut world);
        },
    );
}

/// The round trip becomes 600 ms from one moment to the next: all time-outs are spurious until it is known.
#[test]
fn path_that_becomes_long_costs_a_few_packets() {
    scenario("long_path::path_that_becomes_long_costs_a_few_packets", 4, |seed| {
        let mut world = pair(seed, 500_000);
        stream(&mut world, 20 * MB);
        for _ in 0..10 {
            world.send(0, 1, Job::new(100_000).shared());
        }
        world.run_for(Duration::from_micros(200 + 300 * (seed % 4)));
        world.network.usual.delay = FAR;
        let (_, resends) = stream(&mut world, 20 * MB);
        assert!(resends < 60, "{resends} packets sent again, though none is lost");
        assert_window_is_used(&mut world);
    });
}

/// The peer does not run for a while and then acknowledges what it had all the time.
#[test]
fn spurious_timeout_is_undone() {
    scenario("long_path::spurious_timeout_is_undone", 8, |seed| {
        let mut world = pair(seed, 1_000_000);
        stream(&mut world, 20 * MB);
        for _ in 0..50 {
            world.send(0, 1, Job::new(100_000).shared());
        }
        world.run_for(Duration::from_millis(5 + seed % 4));
        world.network.usual.delay = 60_000_000;
        world.run_for(Duration::from_millis(1));
        let before = world.nodes[0].endpoint().stats().resends;
        let window = world.peer_stats(0, 1).window;
        world.run_for(Duration::from_millis(300));
        let resends = world.nodes[0].endpoint().stats().resends - before;
        assert!(resends < 30, "{resends} packets sent again, though none is lost");
        assert!(world.peer_stats(0, 1).window >= window, "the window stays shrunk");
        world.finish(Duration::from_secs(600));
    });
}

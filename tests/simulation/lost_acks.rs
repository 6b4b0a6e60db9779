//! Most acknowledgements are lost, while all data arrives.

use std::time::Duration;

use crate::harness::{Job, NodeOptions, World, note, scenario};

/// Bytes per second that arrive when `lost` of 1,000 datagrams on the way back are lost.
fn goodput(seed: u64, lost: u32, bytes: usize) -> f64 {
    let mut options = NodeOptions::default();
    options.limits.max_datagram = if seed.is_multiple_of(2) { 1_472 } else { 65_507 };
    // What Linux gives by default.
    options.limits.receive_buffer = 212_992;
    note(format!("{options:?}"));
    let mut world = World::pair(seed, &options);
    world.network.usual.rate = 1_250_000_000;
    world.network.usual.queue = 4 << 20;
    world.send(0, 1, Job::new(8));
    world.run_idle(Duration::from_secs(5));
    let back = world.network.link_mut(1, 0);
    (back.loss, back.loss_run) = (lost, lost);
    let start = world.now;
    for _ in 0..bytes / 100_000 {
        world.send(0, 1, Job::new(100_000).shared());
    }
    world.finish(Duration::from_secs(600));
    assert_eq!(world.downs(0), []);
    assert_eq!(world.downs(1), []);
    let end = world.nodes[1].log.last().map_or(start, |last| last.0);
    bytes as f64 / (end - start).as_secs_f64()
}

#[test]
fn nine_of_ten_neither_end_a_session_nor_throttle_it() {
    scenario(
        "lost_acks::nine_of_ten_neither_end_a_session_nor_throttle_it",
        6,
        |seed| {
            let goodput = goodput(seed, 900, 50_000_000);
            assert!(goodput > 20e6, "{:.1} MB/s", goodput / 1e6);
        },
    );
}

/// Few that are lost do not make many of them.
#[test]
fn few_losses_cost_few_acknowledgements() {
    scenario("lost_acks::few_losses_cost_few_acknowledgements", 4, |seed| {
        let acks = |lost| {
            let mut options = NodeOptions::default();
            options.limits.max_datagram = 1_472;
            let mut world = World::pair(seed, &options);
            world.network.usual.rate = 1_250_000_000;
            world.network.link_mut(1, 0).loss = lost;
            for _ in 0..200 {
                world.send(0, 1, Job::new(100_000).shared());
            }
            world.finish(Duration::from_secs(60));
            world.network.counts(1, 0).acks_alone
        };
        let (clean, lossy) = (acks(0), acks(10));
        assert!(lossy < 2 * clean, "{clean} acknowledgements, {lossy} where 1 % is lost");
    });
}

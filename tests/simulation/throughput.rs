//! Goodput in virtual time: what the link gives, and what is left of it under loss.

use std::time::Duration;

use hikyaku::Congestion;

use crate::{
    exactly_once::config,
    harness::{Job, NodeOptions, World},
};

/// 10 Gb/s, in bytes a second.
const RATE: u64 = 1_250_000_000;

/// Bytes a second that arrive at the application when `bytes` are streamed one way.
fn goodput(loss: u32, window: u32, congestion: Congestion, bytes: usize) -> f64 {
    let mut options = NodeOptions {
        config: config(|config| {
            config.window_bytes = window;
            config.congestion = congestion;
        }),
        coalesce: 1_000,
        ..NodeOptions::default()
    };
    options.limits.max_datagram = 1_472;
    let mut world = World::pair(1 + u64::from(loss), &options);
    let link = &mut world.network.usual;
    (link.delay, link.rate, link.queue) = (50_000, RATE, 2 << 20);
    world.send(0, 1, Job::new(8));
    world.run_idle(Duration::from_secs(5));
    world.network.usual.loss = loss;
    let start = world.now;
    for _ in 0..bytes / 100_000 {
        world.send(0, 1, Job::new(100_000).shared());
    }
    world.finish(Duration::from_secs(100));
    let end = world.nodes[1].log.last().map_or(start, |last| last.0);
    bytes as f64 / (end - start).as_secs_f64()
}

#[test]
fn link_is_filled() {
    let clean = goodput(0, 1 << 20, Congestion::Delay, 10_000_000);
    assert!(
        clean > 0.8 * RATE as f64,
        "{:.0} MB/s of {:.0}",
        clean / 1e6,
        RATE as f64 / 1e6
    );
}

#[test]
fn one_percent_of_loss_costs_at_most_a_tenth() {
    let clean = goodput(0, 1 << 20, Congestion::Delay, 20_000_000);
    let lossy = goodput(10, 1 << 20, Congestion::Delay, 20_000_000);
    assert!(
        lossy >= 0.9 * clean,
        "{:.0} MB/s at 1 % of loss, {:.0} without",
        lossy / 1e6,
        clean / 1e6
    );
}

/// `cargo test --test simulation throughput::table -- --ignored --nocapture`
#[test]
#[ignore = "prints a table"]
fn table() {
    println!("MB/s over 10 Gb/s and 50 µs each way, by random loss");
    for congestion in [Congestion::Fixed, Congestion::Delay, Congestion::Aimd] {
        println!(
            "{congestion:?}\n{:>12} {:>8} {:>8} {:>8} {:>8}",
            "window KiB", "0 %", "1 %", "5 %", "10 %"
        );
        for window in [16, 64, 256, 1_024, 4_096] {
            print!("{window:>12}");
            for loss in [0, 10, 50, 100] {
                let goodput = goodput(loss, window << 10, congestion, 5_000_000);
                print!(" {:>8.1}", goodput / 1e6);
            }
            println!();
        }
    }
}

//! Cases whose instructions `cargo xtask callgrind` counts and compares with `instructions.toml`.
//!
//! To add one: write a function that prepares everything and returns the closure to count, name it in [`CASES`], and
//! run `cargo xtask callgrind --bless`. The closure should do the same thing often enough (at least 10,000
//! instructions) that the call around it is nothing, and its result must depend on the work, or the compiler removes
//! it. Nothing in it may depend on time, addresses or hash order.
//!
//! `cargo bench --bench instructions` only runs every case once, to see that it works.

use std::hint::black_box;

use hikyaku::{Config, Congestion, reliability::Payload, time::Instant};

#[path = "support/cases.rs"]
mod cases;
mod support;
use cases::{Case, Work};
use support::Pair;

const CASES: &[Case] = &[
    ("time_arithmetic_x1000", time_arithmetic),
    ("core_1k_by_reference_x1600", || core(&Pair::shared(1_024), 8_972)),
    ("core_1k_copied_x1600", || core(&Payload::Copy(&[3; 1_024]), 8_972)),
    ("core_64b_bundled_x1600", || core(&Payload::Copy(&[3; 64]), 8_972)),
    ("core_64b_answered_x800", || answered(&[3; 64])),
    ("core_64k_fragmented_x1600", || core(&Pair::shared(65_536), 1_472)),
];

/// Messages one way in windows of 16, both ends and the acknowledgements included.
fn core(payload: &Payload<'static>, max_datagram: usize) -> Work {
    let config = Config {
        congestion: Congestion::Fixed,
        ..Config::default()
    };
    let mut pair = Pair::new(&config, max_datagram);
    let payload = payload.clone();
    // Once, so that what an allocator does for the first blocks, which differs with what it did before, is not counted.
    pair.exchange(&payload, 16);
    Box::new(move || {
        for _ in 0..100 {
            pair.exchange(&payload, 16);
        }
        pair.got.bytes
    })
}

/// Requests and answers in turn, both ends: 1,600 messages.
fn answered(data: &'static [u8]) -> Work {
    let mut pair = Pair::quiet(8_972);
    Box::new(move || {
        (0..800).for_each(|_| pair.answer(data));
        pair.got.bytes
    })
}

/// Adding an interval to an instant and taking the difference, 1000 times.
fn time_arithmetic() -> Work {
    Box::new(|| {
        let mut now = Instant::ZERO;
        let mut sum = 0_u64;
        for step_ns in 0..1000 {
            let later = now.plus_nanos(black_box(step_ns));
            sum = sum.wrapping_add(later.nanos_since(now));
            now = later;
        }
        sum
    })
}

fn main() {
    cases::run(CASES);
}

//! How long a cache line takes from one core to another.
//!
//! Where a machine is shared, that changes from one minute to the next: two virtual cores are at one time cores that share
//! a cache, at another time cores that do not, or even threads of one core. Figures of memory are comparable only if it is the same for both.

use std::{
    hint,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use serde::Serialize;

use crate::{
    machine::{clock, pin},
    report::median,
};

/// Where a cache line takes less than so many nanoseconds, there is one core, of which each has a thread.
const SIBLING: f64 = 33.0;
/// Cores whose cache line takes less than so many nanoseconds are near.
const NEAR: f64 = 100.0;
/// Round trips of a batch.
const TURNS: u32 = 500;
/// Batches, of which the median is taken.
const BATCHES: u32 = 20;

/// How far the cores were from each other before and after something was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cores {
    /// They are threads of one core.
    Sibling,
    /// They share a cache.
    Near,
    /// They do not.
    Far,
    /// Before it was otherwise than after.
    Moved,
}

impl Cores {
    /// From nanoseconds of a cache line, before and after.
    pub fn of(before: f64, after: f64) -> Self {
        let one = |nanos: f64| match nanos {
            _ if nanos < SIBLING => Self::Sibling,
            _ if nanos < NEAR => Self::Near,
            _ => Self::Far,
        };
        if one(before) == one(after) {
            one(before)
        } else {
            Self::Moved
        }
    }

    /// Name as in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sibling => "sibling",
            Self::Near => "near",
            Self::Far => "far",
            Self::Moved => "moved",
        }
    }
}

/// On a cache line of its own.
#[repr(align(128))]
struct Line(AtomicU32);

impl Line {
    fn set(&self, value: u32) {
        self.0.store(value, Ordering::Release);
    }

    fn await_value(&self, value: u32) {
        while self.0.load(Ordering::Acquire) != value {
            hint::spin_loop();
        }
    }
}

/// Measures how many nanoseconds a cache line takes, one way, between the first two cores of this process. Takes a few
/// milliseconds, in which both should be idle. Nothing where there is one core only, or threads cannot be pinned.
pub fn probe() -> Option<f64> {
    let &[first, second, ..] = &pin::places()[..] else {
        return None;
    };
    let line = Line(AtomicU32::new(0));
    thread::scope(|scope| {
        let answering = scope.spawn(|| {
            let pinned = pin::pin(second);
            for turn in 0..TURNS * BATCHES {
                line.await_value(2 * turn + 1);
                line.set(2 * turn + 2);
            }
            pinned
        });
        let asking = scope.spawn(|| {
            let pinned = pin::pin(first);
            let mut times = Vec::new();
            let mut turn = 0;
            for _ in 0..BATCHES {
                let start = clock::now();
                for _ in 0..TURNS {
                    line.set(2 * turn + 1);
                    line.await_value(2 * turn + 2);
                    turn += 1;
                }
                times.push((clock::now() - start) as f64 / f64::from(2 * TURNS));
            }
            pinned.and_then(|_| median(&times))
        });
        let (pinned, time) = (answering.join().ok()?, asking.join().ok()?);
        pinned.and(time)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_near_or_far_as_both_its_ends_are() {
        assert_eq!(Cores::of(20.0, 24.0), Cores::Sibling);
        assert_eq!(Cores::of(45.0, 60.0), Cores::Near);
        assert_eq!(Cores::of(250.0, 180.0), Cores::Far);
        assert_eq!(Cores::of(45.0, 180.0), Cores::Moved);
    }

    #[test]
    fn a_cache_line_takes_its_time() {
        match probe() {
            Some(nanos) => assert!(nanos > 1.0, "{nanos}"),
            None => assert!(pin::places().len() < 2),
        }
    }
}

//! The one place that reads a clock.

use std::time;

use crate::time::Instant;

/// A clock that counts nanoseconds since its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: time::Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the driver's clock is where `now` comes from")]
    pub(crate) fn new() -> Self {
        Self {
            origin: time::Instant::now(),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        let elapsed = self.origin.elapsed();
        Instant::from_nanos(elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos()))
    }

    /// The same point in time on the system's clock; `None` if that cannot express it.
    pub(crate) fn to_std(self, at: Instant) -> Option<time::Instant> {
        self.origin.checked_add(at.saturating_since(Instant::ZERO))
    }
}

/// Time for which the counter extends one reading of the clock, ns. Whatever happens to the counter meanwhile (the
/// thread moves to another processor, the machine stops for a while), the time is wrong by at most this much, and for
/// at most this long.
const TRUSTED: u64 = 20_000;
/// Shortest interval over which the counter's speed is measured, ns.
const SHORTEST: u64 = 1_000_000;
/// After this interval, ns, the measurement starts anew: the speed may change.
const LONGEST: u64 = 1_000_000_000;

/// A clock for callers that read it all the time. For some microseconds after a reading, the counter of the CPU tells
/// how much time has passed since, which takes a third of the time of a reading.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    clock: Clock,
    /// Last reading of the clock.
    last: Reading,
    /// An earlier reading, from which the counter's speed is measured.
    first: Reading,
    /// Duration of one tick, in units of 2^-32 ns.
    per_tick: u64,
    /// Ticks for which the counter extends `last`; 0: not at all.
    trusted: u64,
    /// The time returned last: later calls return no earlier time.
    said: u64,
}

/// Counter and clock, read at the same time.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Ticks of the counter.
    ticks: u64,
    /// Nanoseconds of the clock.
    nanos: u64,
}

impl Stopwatch {
    pub(crate) fn new(clock: Clock) -> Self {
        let reading = Reading {
            ticks: counter(),
            nanos: clock.now().as_nanos(),
        };
        Self {
            clock,
            last: reading,
            first: reading,
            per_tick: 0,
            trusted: 0,
            said: reading.nanos,
        }
    }

    /// The clock that this stopwatch extends.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The time of the clock, read or extended by the counter.
    #[inline]
    pub(crate) fn now(&mut self) -> Instant {
        let passed = counter().wrapping_sub(self.last.ticks);
        let nanos = if passed < self.trusted {
            self.last.nanos + ((passed * self.per_tick) >> 32)
        } else {
            self.read()
        };
        self.said = self.said.max(nanos);
        Instant::from_nanos(self.said)
    }

    #[inline(never)]
    fn read(&mut self) -> u64 {
        let (ticks, nanos) = (counter(), self.clock.now().as_nanos());
        self.last = Reading { ticks, nanos };
        let passed = nanos - self.first.nanos;
        if passed >= 2 * LONGEST {
            self.first = self.last;
        } else if passed >= SHORTEST {
            let ticked = ticks.wrapping_sub(self.first.ticks);
            let per_tick = (passed << 32) / ticked.max(1);
            // A plausible counter runs at 62 MHz to 16 GHz; any other is not used.
            let plausible = (1 << 28..1 << 36).contains(&per_tick);
            (self.per_tick, self.trusted) = match plausible {
                true => (per_tick, (TRUSTED << 32) / per_tick),
                false => (0, 0),
            };
            if passed >= LONGEST || !plausible {
                self.first = self.last;
            }
        }
        nanos
    }
}

/// A CPU counter of nearly constant speed; 0 on CPUs without one that is cheap to read.
#[inline]
fn counter() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return super::counter::ticks();
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopwatch_goes_with_its_clock_and_never_back() {
        let clock = Clock::new();
        let mut watch = Stopwatch::new(clock);
        let mut last = Instant::ZERO;
        // Long enough for the counter to be trusted.
        while last.as_nanos() < 5_000_000 {
            let before = clock.now();
            let now = watch.now();
            let after = clock.now();
            assert!(now >= last, "{now:?} after {last:?}");
            assert!(
                now.as_nanos() + TRUSTED >= before.as_nanos(),
                "{now:?} is before {before:?}"
            );
            assert!(
                now.as_nanos() <= after.as_nanos() + TRUSTED,
                "{now:?} is after {after:?}"
            );
            last = now;
        }
    }
}

//! Sleeps: the way to wait for a poll-mode port, which cannot wake a thread.

use std::time::{Duration, Instant};

/// Looks before the first sleep. They take some tens of microseconds.
const SPINS: u32 = 2_000;
/// The requested length of a sleep. The actual sleep is longer: the kernel's timers have slack, and other threads use the
/// core.
const SLEEP: Duration = Duration::from_micros(50);

/// A wait with a time limit. It spins between the first looks, and sleeps between later ones.
pub(super) struct Sleeps {
    looks: u32,
    end: Option<Instant>,
}

impl Sleeps {
    /// Begins a wait of at most `timeout`.
    pub(super) fn new(timeout: Option<Duration>) -> Self {
        Self {
            looks: 0,
            end: timeout.and_then(|timeout| now().checked_add(timeout)),
        }
    }

    /// Spins or sleeps before the next look. `false`: the time is over.
    pub(super) fn next(&mut self) -> bool {
        self.looks = self.looks.saturating_add(1);
        let Some(sleep) = sleep(self.end, now) else {
            return false;
        };
        if self.looks < SPINS {
            std::hint::spin_loop();
        } else {
            pause(sleep);
        }
        true
    }
}

/// The length of the next sleep in a wait until `end`. `None`: the wait is over.
fn sleep(end: Option<Instant>, now: impl FnOnce() -> Instant) -> Option<Duration> {
    let left = end.map_or(SLEEP, |end| end.saturating_duration_since(now()));
    (!left.is_zero()).then(|| left.min(SLEEP))
}

#[expect(clippy::disallowed_methods, reason = "ends a wait; no protocol depends on it")]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a poll-mode port has nothing to sleep on; a wait for it sleeps for short times, with a deadline"
)]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that wakes up too late for its deadline would take its own sleep for time in which it did not run.
    #[test]
    fn a_wait_ends_in_time_though_sleeps_take_longer_than_they_say() {
        for longer in [1, 3, 20] {
            let mut time = now();
            let end = time + Duration::from_millis(200);
            while let Some(sleep) = sleep(Some(end), || time) {
                time += sleep * longer;
            }
            assert!(time >= end && time - end < SLEEP * longer, "{longer}");
        }
    }

    #[test]
    fn no_time_is_no_wait() {
        assert!(!Sleeps::new(Some(Duration::ZERO)).next());
        assert!(Sleeps::new(None).next());
        assert!(Sleeps::new(Some(Duration::MAX)).next(), "for ever");
    }
}

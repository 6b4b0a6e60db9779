//! The one place that reads a clock.

use std::time;

use crate::time::Instant;

/// Nanoseconds since it was made.
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

    /// The same point in time on the system's clock; `None` if that can not express it.
    pub(crate) fn to_std(self, at: Instant) -> Option<time::Instant> {
        self.origin.checked_add(at.saturating_since(Instant::ZERO))
    }
}

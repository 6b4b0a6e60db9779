//! Deadlines. The only file of this room that reads a clock.

use std::time::{Duration, Instant};

use super::error::Cause;

/// The moment when a wait ends, and how long it was allowed to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    #[expect(
        clippy::disallowed_methods,
        reason = "waits for other processes; no protocol depends on it"
    )]
    pub(super) fn after(limit: Duration) -> Self {
        Self {
            at: Instant::now() + limit,
            limit,
        }
    }

    /// The remaining time; never zero, which sockets take for "for ever".
    #[expect(
        clippy::disallowed_methods,
        reason = "waits for other processes; no protocol depends on it"
    )]
    pub(super) fn remaining(&self) -> Result<Duration, Cause> {
        match self.at.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left.max(Duration::from_micros(1))),
            _ => Err(self.missed()),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.remaining().is_err()
    }

    /// The error of a missed deadline.
    pub(super) const fn missed(&self) -> Cause {
        Cause::TimedOut(self.limit)
    }
}

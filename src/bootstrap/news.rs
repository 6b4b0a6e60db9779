//! Where reports of failed ranks come from.

use std::time::Duration;

/// The value of [`ON_FAILURE`](super::environment::names::ON_FAILURE) if the job goes on.
pub(super) const CONTINUE: &str = "continue";

/// The source of reports, and the rank that wants them.
#[derive(Clone, Debug)]
pub(super) struct News {
    pub(super) address: String,
    pub(super) ticket: String,
    pub(super) rank: u32,
    pub(super) timeout: Duration,
}

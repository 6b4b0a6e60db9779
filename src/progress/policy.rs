//! How to wait, and whether to acknowledge messages before the caller has seen them.

use std::time::Duration;

/// How a driver waits while it has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Poll without a break: the lowest latency, for a thread that has a core of its own.
    Spin,
    /// Sleep until something arrives: the least CPU time.
    Block,
    /// Spin for a while, then sleep.
    Adaptive {
        /// How long to spin.
        spin: Duration,
    },
    /// Poll, and yield the core between two polls; after a while, sleep. For more processes than processors: a
    /// turn of all processes costs less than putting one to sleep and waking it up.
    Yield {
        /// How long to poll before sleeping.
        spin: Duration,
    },
}

impl WaitPolicy {
    /// The default of [`WaitPolicy::Adaptive`]: a few times the cost of a wake-up.
    pub const SPIN: Duration = Duration::from_micros(50);
    /// The default of [`WaitPolicy::Yield`]: time for many turns of all processes.
    pub const TURNS: Duration = Duration::from_millis(2);

    /// How long to spin; `None`: for ever.
    pub(crate) fn spin(self) -> Option<Duration> {
        match self {
            Self::Spin => None,
            Self::Block => Some(Duration::ZERO),
            Self::Adaptive { spin } | Self::Yield { spin } => Some(spin),
        }
    }

    /// Whether to yield the core between two polls.
    pub(crate) fn yields(self) -> bool {
        matches!(self, Self::Yield { .. })
    }
}

impl Default for WaitPolicy {
    fn default() -> Self {
        Self::Adaptive { spin: Self::SPIN }
    }
}

/// Whether the driver returns before it acknowledges the datagrams that made messages ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// The caller is about to look at the messages, and its reply may carry the acknowledgement.
    Later,
    /// The caller will not reply now.
    Now,
}

//! How to wait, and whether to acknowledge messages before the caller has seen them.

use std::time::Duration;

/// How a driver waits while it has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Poll without a break: the lowest latency, for a thread that has a core of its own.
    Spin,
    /// Sleep until something arrives: the least CPU time.
    Block,
    /// Spin for a while, then yield the core after each few polls for a while, then sleep.
    Adaptive {
        /// How long to spin.
        spin: Duration,
        /// How long to poll and yield after that; zero: not at all. For a program that has a core of its own, mostly: a
        /// wake-up takes longer than many messages, and what else there is to run on that core is not held up.
        turns: Duration,
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
    /// The default of MPI programs with a core for each rank: few waits are longer, but for those that others compute in.
    pub const RANK: Self = Self::Adaptive {
        spin: Self::SPIN,
        turns: Self::TURNS,
    };

    /// How long to poll without a break; `None`: for ever.
    pub(crate) fn spin(self) -> Option<Duration> {
        match self {
            Self::Spin => None,
            Self::Block | Self::Yield { .. } => Some(Duration::ZERO),
            Self::Adaptive { spin, .. } => Some(spin),
        }
    }

    /// How long to yield between two polls after that, before sleeping.
    pub(crate) fn turns(self) -> Duration {
        match self {
            Self::Spin | Self::Block => Duration::ZERO,
            Self::Adaptive { turns, .. } => turns,
            Self::Yield { spin } => spin,
        }
    }

    #[cfg(feature = "mpi")]
    /// Whether to yield the core between any two polls.
    pub(crate) fn yields(self) -> bool {
        matches!(self, Self::Yield { .. })
    }
}

impl Default for WaitPolicy {
    fn default() -> Self {
        Self::Adaptive {
            spin: Self::SPIN,
            turns: Duration::ZERO,
        }
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

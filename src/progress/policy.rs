//! How to wait, and whether to acknowledge before the caller has seen what came.

use std::time::Duration;

/// What to do while there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Ask again and again: the lowest latency, for a core of one's own.
    Spin,
    /// Sleep until something arrives: the least processor time.
    Block,
    /// Spin for a while, then sleep.
    Adaptive {
        /// How long to spin.
        spin: Duration,
    },
    /// Ask again and again and let others have the processor in between; after a while, sleep. For more processes than
    /// processors: a turn of all of them costs less than putting one to sleep and waking it up.
    Yield {
        /// How long to ask before sleeping.
        spin: Duration,
    },
}

impl WaitPolicy {
    /// The default of [`WaitPolicy::Adaptive`]: what it costs to be woken up, a few times over.
    pub const SPIN: Duration = Duration::from_micros(50);
    /// The default of [`WaitPolicy::Yield`]: many turns of all processes.
    pub const TURNS: Duration = Duration::from_millis(2);

    /// How long to spin; `None`: for ever.
    pub(crate) fn spin(self) -> Option<Duration> {
        match self {
            Self::Spin => None,
            Self::Block => Some(Duration::ZERO),
            Self::Adaptive { spin } | Self::Yield { spin } => Some(spin),
        }
    }

    /// Whether to let others have the processor between two looks.
    pub(crate) fn yields(self) -> bool {
        matches!(self, Self::Yield { .. })
    }
}

impl Default for WaitPolicy {
    fn default() -> Self {
        Self::Adaptive { spin: Self::SPIN }
    }
}

/// Whether the driver returns before it acknowledges what made messages ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// The caller is about to look at the messages, and its answer may carry the acknowledgement.
    Later,
    /// The caller will not answer now.
    Now,
}

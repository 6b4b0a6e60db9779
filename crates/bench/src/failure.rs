//! Why a command ends without its result, and the exit code that says so.

use std::{fmt, io};

use crate::machine::interrupt;

/// The kinds of failure that a caller can tell apart by the exit code.
#[derive(Debug)]
pub enum Failure {
    /// The request cannot be carried out: exit code 2.
    Usage(String),
    /// It could have been done, and went wrong: exit code 1.
    Run(String),
    /// Ctrl-C has ended it before its time: exit code 130.
    Interrupted,
}

impl Failure {
    /// Exit code of the process.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Run(_) => 1,
            Self::Interrupted => interrupt::CODE,
        }
    }

    /// Wrong input.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// Something went wrong.
    pub fn run(message: impl Into<String>) -> Self {
        Self::Run(message.into())
    }

    /// The same, with what was being done in front.
    pub fn during(self, what: &str) -> Self {
        match self {
            Self::Usage(message) => Self::Usage(format!("{what}: {message}")),
            Self::Run(message) => Self::Run(format!("{what}: {message}")),
            Self::Interrupted => Self::Interrupted,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Run(message) => f.write_str(message),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// Says what was being done when an input or output error came.
pub trait While<T> {
    /// Turns the error into a [`Failure::Run`] with `what` in front.
    fn or_fail(self, what: &str) -> Result<T, Failure>;
}

impl<T> While<T> for io::Result<T> {
    fn or_fail(self, what: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::run(format!("{what}: {error}")))
    }
}

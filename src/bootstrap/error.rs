//! Errors of start-up.

use std::{fmt, io, time::Duration};

use super::{Launcher, address::AddressError, message::MessageError};

/// A failed step, with its launcher and cause.
pub struct BootstrapError {
    launcher: Launcher,
    doing: String,
    cause: Cause,
}

/// Why a step failed.
#[non_exhaustive]
pub enum Cause {
    /// An environment variable has a value that cannot be used, or is missing.
    Variable {
        /// Its name.
        name: String,
        /// Its value, if it is set.
        value: Option<String>,
        /// The expected kind of value.
        expected: &'static str,
    },
    /// An input or output error.
    Io(io::Error),
    /// No answer within this time.
    TimedOut(Duration),
    /// The other end closed the connection: the launcher has ended, or has given this job up.
    Closed,
    /// The received bytes are no message.
    Malformed {
        /// Their beginning, escaped.
        text: String,
        /// The error in them.
        error: MessageError,
    },
    /// A message of another kind than expected, or without a required field.
    Unexpected {
        /// The expected message.
        expected: String,
        /// The received message.
        text: String,
    },
    /// The launcher has refused; its reason.
    Refused(String),
    /// The rank has put nothing under the key before the last fence.
    NoSuchKey {
        /// The rank.
        rank: u32,
        /// The key.
        key: String,
    },
    /// An argument is out of range.
    Argument(String),
    /// A library that is loaded at run time could not be used.
    Library(String),
    /// No address could be chosen.
    Address(AddressError),
}

impl BootstrapError {
    pub(super) fn new(launcher: Launcher, doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self {
            launcher,
            doing: doing.into(),
            cause: cause.into(),
        }
    }

    /// The launcher.
    #[must_use]
    pub const fn launcher(&self) -> Launcher {
        self.launcher
    }

    /// The cause.
    #[must_use]
    pub const fn cause(&self) -> &Cause {
        &self.cause
    }
}

impl fmt::Display for BootstrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "start-up ({}): {}: {}", self.launcher, self.doing, self.cause)
    }
}

crate::debug_as_display!(BootstrapError);

impl std::error::Error for BootstrapError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Io(error) => Some(error),
            Cause::Address(error) => Some(error),
            Cause::Malformed { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable {
                name,
                value: Some(value),
                expected,
            } => write!(f, "{name}={value}: expected {expected}"),
            Self::Variable {
                name,
                value: None,
                expected,
            } => write!(f, "{name} is not set: expected {expected}"),
            Self::Io(error) => error.fmt(f),
            Self::TimedOut(limit) => write!(
                f,
                "nothing came within {} s (HIKYAKU_BOOTSTRAP_TIMEOUT)",
                limit.as_secs_f64()
            ),
            Self::Closed => f.write_str("the launcher has closed the connection"),
            Self::Malformed { text, error } => write!(f, "'{text}' is no message: {error}"),
            Self::Unexpected { expected, text } => write!(f, "expected {expected}, got '{text}'"),
            Self::Refused(reason) => write!(f, "the launcher says: {reason}"),
            Self::NoSuchKey { rank, key } => write!(f, "rank {rank} has put no '{key}' before the last fence"),
            Self::Argument(what) | Self::Library(what) => f.write_str(what),
            Self::Address(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<AddressError> for Cause {
    fn from(error: AddressError) -> Self {
        Self::Address(error)
    }
}

//! The status of a received message.

use std::fmt;

use hikyaku::mpi::{Rank, engine};

use crate::{Count, Tag, UNDEFINED, datatype::Datatype};

/// The envelope of a received message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(engine::Status);

impl Status {
    pub(crate) fn new(status: engine::Status) -> Self {
        Self(status)
    }

    /// The rank of the sender.
    #[must_use]
    pub fn source_rank(&self) -> Rank {
        self.0.source
    }

    /// The tag of the message.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.0.tag
    }

    /// The number of elements of a datatype in the message; [`UNDEFINED`] if that is not a whole number.
    #[must_use]
    pub fn count<D: Datatype>(&self, d: D) -> Count {
        let size = d.as_raw().size();
        match self.0.len.checked_rem(size) {
            Some(0) => (self.0.len / size) as Count,
            Some(_) => UNDEFINED,
            None if self.0.len == 0 => 0,
            None => UNDEFINED,
        }
    }

    /// Length of the message, bytes. Not in rsmpi.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Returns whether the message is empty. Not in rsmpi.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Returns whether the request was cancelled, so that no message was received. Not in rsmpi.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Status")
            .field("source_rank", &self.source_rank())
            .field("tag", &self.tag())
            .field("len", &self.len())
            .finish()
    }
}

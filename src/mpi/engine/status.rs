//! Statuses of messages, and the ranks and tags that stand for others.

use crate::mpi::Rank;

/// `MPI_ANY_SOURCE`: a message from any rank.
pub const ANY_SOURCE: Rank = -1;
/// `MPI_PROC_NULL`: no process; messages to and from it have no effect.
pub const PROC_NULL: Rank = -2;
/// `MPI_ANY_TAG`: a message with any tag.
pub const ANY_TAG: i32 = -1;
/// The largest tag (`MPI_TAG_UB`).
pub const TAG_UB: i32 = i32::MAX;

/// The status of a received message (MPI 3.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender; [`PROC_NULL`] for no message.
    pub source: Rank,
    /// Its tag; [`ANY_TAG`] for no message.
    pub tag: i32,
    /// Bytes of data.
    pub len: u64,
    /// Whether the request was cancelled.
    pub cancelled: bool,
}

impl Status {
    /// The status of an inactive or null request (MPI 3.7.3).
    pub const EMPTY: Self = Self {
        source: ANY_SOURCE,
        tag: ANY_TAG,
        len: 0,
        cancelled: false,
    };

    /// The status of a message to or from [`PROC_NULL`].
    pub const NULL: Self = Self {
        source: PROC_NULL,
        ..Self::EMPTY
    };
}

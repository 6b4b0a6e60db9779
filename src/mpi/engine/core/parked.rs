//! A receive that waits alone.

use super::request_id::RequestId;
use crate::{messaging::tagged::Selector, mpi::engine::buffer::PlainRun, reliability::PeerId};

/// A receive that is posted, and the only one, as long as calls are those of [`short`](super::short): it costs less than a place in the
/// queue. All others [unpark](super::Core::unpark) it first.
pub(super) struct Parked {
    pub(super) id: RequestId,
    pub(super) peer: PeerId,
    pub(super) selector: Selector,
    pub(super) room: PlainRun,
    /// What is kept for a caller that knows it by its number alone; else 0.
    pub(super) word: u64,
}

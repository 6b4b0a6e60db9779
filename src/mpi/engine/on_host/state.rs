//! What a communicator knows of memory that all of its ranks have mapped.

use alloc::boxed::Box;
use std::sync::Mutex;

use super::board::Board;

/// What a communicator knows of memory that all of its ranks have mapped.
#[derive(Debug, Default)]
pub(in crate::mpi::engine) struct OnHost(pub(super) Mutex<State>);

/// Blocking collectives of a communicator that go by messages before the memory is made.
const FIRST: u32 = 4;

#[derive(Debug)]
pub(super) enum State {
    /// So many collectives are left until it is made.
    Early(u32),
    /// There is none.
    Without,
    Made(Box<Board>),
}

impl Default for State {
    fn default() -> Self {
        Self::Early(FIRST)
    }
}

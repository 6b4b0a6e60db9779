//! What a communicator knows of memory that all of its ranks have mapped.

use std::sync::{Mutex, MutexGuard, TryLockError};

use super::board::Board;

/// What a communicator knows of memory that all of its ranks have mapped.
#[derive(Debug, Default)]
pub(in crate::mpi::engine) struct OnHost(Mutex<State>);

/// What it knows, for as long as a collective uses it.
pub(in crate::mpi::engine) type Borrowed<'a> = MutexGuard<'a, State>;

impl OnHost {
    /// `None`: a collective uses it.
    pub(super) fn try_lock(&self) -> Option<Borrowed<'_>> {
        match self.0.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Blocking collectives of a communicator that go by messages before the memory is made.
const FIRST: u32 = 4;

#[derive(Debug)]
pub(in crate::mpi::engine) enum State {
    /// So many collectives are left until it is made.
    Early(u32),
    /// There is none.
    Without,
    Made(Board),
}

impl Default for State {
    fn default() -> Self {
        Self::Early(FIRST)
    }
}

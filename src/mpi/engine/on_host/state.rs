//! What a communicator knows of memory that all of its ranks have mapped.

use alloc::boxed::Box;
use std::sync::Mutex;

use super::board::Board;

/// What a communicator knows of memory that all of its ranks have mapped.
#[derive(Debug, Default)]
pub(in crate::mpi::engine) struct OnHost(pub(super) Mutex<State>);

#[derive(Debug, Default)]
pub(super) enum State {
    /// No collective has asked for it.
    #[default]
    New,
    /// So many collectives are left until it is made.
    Early(u32),
    /// There is none.
    Without,
    Made(Box<Board>),
}

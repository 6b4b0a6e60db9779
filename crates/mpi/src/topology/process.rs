#![expect(unsafe_code, reason = "implements the traits of handles")]
//! Processes: destinations and sources of messages.

use hikyaku::mpi::engine;

use super::{
    Rank,
    handle::{AsHandle, Handle},
};
use crate::raw::AsRaw;

/// One process of a communicator.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    comm: AnyProcess<'a>,
    rank: Rank,
}

/// Any process of a communicator.
#[derive(Clone, Copy, Debug)]
pub struct AnyProcess<'a>(&'a Handle);

impl<'a> Process<'a> {
    pub(super) fn new(comm: &'a Handle, rank: Rank) -> Self {
        Self {
            comm: AnyProcess(comm),
            rank,
        }
    }

    /// All processes of its communicator.
    pub(super) fn any(&self) -> &AnyProcess<'a> {
        &self.comm
    }

    /// The rank of the process.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Returns whether it is this process.
    #[must_use]
    pub fn is_self(&self) -> bool {
        !self.comm.0.comm.is_inter() && self.rank == self.comm.0.comm.rank()
    }
}

impl<'a> AnyProcess<'a> {
    pub(super) fn new(comm: &'a Handle) -> Self {
        Self(comm)
    }
}

impl AsHandle for Process<'_> {
    fn as_handle(&self) -> &Handle {
        self.comm.0
    }
}

impl AsHandle for AnyProcess<'_> {
    fn as_handle(&self) -> &Handle {
        self.0
    }
}

// SAFETY: it is the same communicator every time.
unsafe impl AsRaw for Process<'_> {
    type Raw = engine::Communicator;

    fn as_raw(&self) -> engine::Communicator {
        self.comm.0.comm.clone()
    }
}

//! Communicators without a topology, and how others are split into them.

use std::sync::Arc;

use hikyaku::mpi::engine;

use super::handle::{AsHandle, Handle, Local};
use crate::environment;

/// A communicator without a topology.
#[derive(Debug)]
pub struct SimpleCommunicator(Handle);

/// A communicator that the program has made. The same type as all others without a topology.
pub type UserCommunicator = SimpleCommunicator;

impl SimpleCommunicator {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// All processes (`MPI_COMM_WORLD`).
    ///
    /// # Panics
    /// Before [`initialize`](crate::initialize), and after the end of its universe.
    #[must_use]
    pub fn world() -> Self {
        Self(environment::world())
    }

    /// This process alone (`MPI_COMM_SELF`).
    ///
    /// # Panics
    /// As [`world`](Self::world).
    #[must_use]
    pub fn self_comm() -> Self {
        Self(environment::own())
    }

    /// Wraps a communicator of the engine, for a program that sets up its own engine.
    #[must_use]
    pub fn from_raw(communicator: engine::Communicator) -> Self {
        Self(Handle::new(communicator, &Arc::<Local>::default()))
    }
}

impl AsHandle for SimpleCommunicator {
    fn as_handle(&self) -> &Handle {
        &self.0
    }
}

/// A number that selects the new communicator of a process ([`split_by_color`](crate::topology::Communicator::split_by_color)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(pub(super) Option<i32>);

impl Color {
    /// No new communicator.
    #[must_use]
    pub fn undefined() -> Self {
        Self(None)
    }

    /// The communicator of all processes that pass the same value.
    ///
    /// # Panics
    /// If the value is negative.
    #[must_use]
    pub fn with_value(value: i32) -> Self {
        assert!(value >= 0, "the value of a color is {value}, which is negative");
        Self(Some(value))
    }
}

/// The order of ranks in a new communicator.
pub type Key = i32;

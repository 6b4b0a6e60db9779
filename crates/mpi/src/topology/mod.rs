#![expect(unsafe_code, reason = "implements the trait of handles")]
//! Communicators, processes, groups and grids.
//!
//! ```
//! use mpi::{topology::Color, traits::*};
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let half = world.split_by_color(Color::with_value(world.rank() % 2))?;
//! let half = half.expect("everybody has a color");
//! assert_eq!(half.rank(), world.rank() / 2);
//! # Ok::<_, mpi::Error>(())
//! ```

mod cartesian;
mod communicator;
mod graph;
mod group;
mod handle;
mod inter;
mod process;

pub use hikyaku::mpi::Rank;

pub use self::{
    cartesian::{CartesianCommunicator, CartesianLayout, dimensions},
    communicator::{AnyCommunicator, AsCommunicator, Communicator, CommunicatorRelation},
    graph::{DistributedGraphCommunicator, GraphCommunicator},
    group::{Group, GroupRelation, SystemGroup, UserGroup},
    inter::{InterCommunicator, MergeOrder},
    process::{AnyProcess, Process},
};
pub(crate) use communicator::{exit, octets};
pub(crate) use handle::{AsHandle, Handle, Local, lock};

use std::sync::Arc;

use hikyaku::mpi::engine;

use crate::{environment, raw::AsRaw};

/// All traits.
pub mod traits {
    pub use super::{AnyCommunicator, AsCommunicator, Communicator, Group};
}

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
        Self(Handle::new(communicator, &Arc::<Local>::default(), ""))
    }
}

macro_rules! communicators {
    ($($name:ty)*) => {$(
        // SAFETY: it is the same communicator every time.
        unsafe impl AsRaw for $name {
            type Raw = engine::Communicator;

            fn as_raw(&self) -> engine::Communicator {
                self.as_handle().comm.clone()
            }
        }

        impl Communicator for $name {}

        impl AsCommunicator for $name {
            type Out = Self;

            fn as_communicator(&self) -> &Self {
                self
            }
        }
    )*};
}

communicators! {
    SimpleCommunicator
    CartesianCommunicator
    GraphCommunicator
    DistributedGraphCommunicator
    AnyProcess<'_>
}

impl AsHandle for SimpleCommunicator {
    fn as_handle(&self) -> &Handle {
        &self.0
    }
}

/// A number that selects the new communicator of a process ([`Communicator::split_by_color`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(Option<i32>);

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

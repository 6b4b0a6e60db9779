//! Communicators, processes, groups and grids.
//!
//! ```
//! use mpi::{topology::Color, traits::*};
//!
//! let universe = mpi::initialize().unwrap(); let world = universe.world(); let half =
//! world.split_by_color(Color::with_value(world.rank() % 2))?; let half = half.expect("every rank has a color");
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
mod simple;

pub use hikyaku::mpi::Rank;

pub use self::{
    cartesian::{CartesianCommunicator, CartesianLayout, dimensions},
    communicator::{AnyCommunicator, AsCommunicator, Communicator, CommunicatorRelation},
    graph::{DistributedGraphCommunicator, GraphCommunicator},
    group::{Group, GroupRelation, SystemGroup, UserGroup},
    inter::{InterCommunicator, MergeOrder},
    process::{AnyProcess, Process},
    simple::{Color, Key, SimpleCommunicator, UserCommunicator},
};
pub(crate) use self::{
    communicator::handle,
    handle::{AsHandle, Handle, Local},
};

/// All traits.
pub mod traits {
    pub use super::{AnyCommunicator, AsCommunicator, Communicator, Group};
}

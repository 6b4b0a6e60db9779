#![expect(unsafe_code, reason = "implements the trait of handles")]
//! Communicators between two groups.

use hikyaku::mpi::{engine, error::Error};

use super::{AsCommunicator, AsHandle, Communicator, Handle, Rank, SimpleCommunicator, UserGroup};
use crate::raw::AsRaw;

/// A communicator between two groups: messages go to and come from the other one, and collectives exchange between them. Of
/// those with a root, the root calls what [`as_root`](Self::as_root) gives, and the others of its group
/// [`stand_aside`](Self::stand_aside).
///
/// ```no_run
/// use mpi::{topology::{Color, MergeOrder}, traits::*};
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let (side, other) = (world.rank() % 2, 1 - world.rank() % 2);
/// let half = world.split_by_color(Color::with_value(side))?.unwrap();
/// // Rank 0 of the other half is rank 0 or 1 of the world.
/// let inter = half.create_intercommunicator(0, &world, other, 0)?;
/// if inter.rank() < inter.remote_size() {
///     let partner = inter.process_at_rank(inter.rank());
///     partner.send(&world.rank())?;
///     assert_eq!(partner.receive::<i32>()?.0 / 2, inter.rank());
/// }
/// let all = inter.merge(if side == 0 { MergeOrder::Low } else { MergeOrder::High })?;
/// assert_eq!(all.size(), world.size());
/// # Ok::<_, mpi::Error>(())
/// ```
#[derive(Debug)]
pub struct InterCommunicator(Handle);

/// Which group's ranks come first when two are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeOrder {
    /// Those of the processes that say this.
    Low,
    /// Those of the others.
    High,
}

impl InterCommunicator {
    pub(super) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// How many processes the other group has (`MPI_Comm_remote_size`).
    #[must_use]
    pub fn remote_size(&self) -> Rank {
        self.target_size()
    }

    /// The other group (`MPI_Comm_remote_group`).
    #[must_use]
    pub fn remote_group(&self) -> UserGroup {
        let comm = &self.0.comm;
        let group = comm.remote_group().unwrap_or_else(|| comm.group());
        UserGroup::new(group.clone(), comm.engine().process())
    }

    /// The same processes in a new context (`MPI_Comm_dup`). Collective over both groups. (It stands before the method of
    /// the same name that all communicators have.)
    ///
    /// # Errors
    /// A process is lost.
    pub fn duplicate(&self) -> Result<Self, Error> {
        let duplicate = self.0.sibling(self.0.comm.duplicate()?);
        self.0.attributes().clone_to(duplicate.attributes());
        Ok(Self(duplicate))
    }

    /// One communicator of both groups (`MPI_Intercomm_merge`). Collective over both; the processes of a group say the
    /// same. If both groups say the same, that of the process with the lowest number in the job comes first.
    ///
    /// # Errors
    /// A process is lost.
    pub fn merge(&self, merge_order: MergeOrder) -> Result<SimpleCommunicator, Error> {
        let merged = self.0.comm.merge(merge_order == MergeOrder::High)?;
        Ok(SimpleCommunicator::new(self.0.sibling(merged)))
    }
}

impl AsHandle for InterCommunicator {
    fn as_handle(&self) -> &Handle {
        &self.0
    }
}

// SAFETY: it is the same communicator every time.
unsafe impl AsRaw for InterCommunicator {
    type Raw = engine::Communicator;

    fn as_raw(&self) -> engine::Communicator {
        self.0.comm.clone()
    }
}

impl Communicator for InterCommunicator {}

impl AsCommunicator for InterCommunicator {
    type Out = Self;

    fn as_communicator(&self) -> &Self {
        self
    }
}

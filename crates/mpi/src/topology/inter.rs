//! Communicators between two groups.

use hikyaku::mpi::error::Error;

use super::{AsHandle, Handle, Rank, SimpleCommunicator, UserGroup};

/// A communicator between two groups: messages go to and come from the other group, and collectives exchange between
/// the groups. In a collective with a root, the root calls the methods of [`as_root`](Self::as_root), and the other
/// processes of its group call [`stand_aside`](Self::stand_aside).
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

/// The order of the two groups in a merged communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeOrder {
    /// The group that passes this comes first.
    Low,
    /// The group that passes this comes last.
    High,
}

impl InterCommunicator {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// Number of processes of the other group (`MPI_Comm_remote_size`).
    #[must_use]
    pub fn remote_size(&self) -> Rank {
        let comm = &self.0.comm;
        comm.remote_size().unwrap_or_else(|| comm.size())
    }

    /// The other group (`MPI_Comm_remote_group`).
    #[must_use]
    pub fn remote_group(&self) -> UserGroup {
        let comm = &self.0.comm;
        let group = comm.remote_group().unwrap_or_else(|| comm.group());
        UserGroup::new(group.clone(), comm.engine().process())
    }

    /// Creates a communicator of the same processes in a new context (`MPI_Comm_dup`). Collective over both groups. (It
    /// hides the method of the same name that all communicators have.)
    ///
    /// # Errors
    /// A process is lost.
    pub fn duplicate(&self) -> Result<Self, Error> {
        let duplicate = self.0.sibling(self.0.comm.duplicate()?);
        self.0.attributes().clone_to(duplicate.attributes());
        Ok(Self(duplicate))
    }

    /// Waits until all processes of both groups leave the communicator, and leaves it (`MPI_Comm_disconnect`).
    /// Collective over both groups.
    ///
    /// # Errors
    /// A process is lost.
    pub fn disconnect(self) -> Result<(), Error> {
        self.0.comm.barrier()
    }

    /// Creates one communicator of both groups (`MPI_Intercomm_merge`). Collective over both; all processes of a group
    /// pass the same order. If both groups pass the same, the group of the process with the lowest number in the job
    /// comes first.
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

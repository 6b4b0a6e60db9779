#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Rooted collectives between two groups: the methods for the root's group (MPI 6.2.3).

use hikyaku::mpi::error::Error;

use super::{
    Persistent,
    begin::{self, FACING, Rooted, Shares},
    methods::{either, methods},
};
use crate::{
    datatype::{Blocks, Buffer, BufferMut, PartitionedBuffer, PartitionedBufferMut, Place},
    request::{Found, Request, Running, Scope},
    topology::{AsHandle, InterCommunicator},
};

/// Methods for the root of a collective with the other group (`MPI_ROOT`); [`InterCommunicator::as_root`] returns it.
///
/// The processes of the other group call the methods of [`Root`](super::Root) for the rank that the root has there. The
/// other processes of the root's group call [`InterCommunicator::stand_aside`].
///
/// Errors: a process is lost, the communicator is revoked, or buffers do not fit.
pub trait FacingRoot {
    /// The communicator.
    #[doc(hidden)]
    fn inter(&self) -> &InterCommunicator;

    methods! {
        /// Sends this to all processes of the other group (`MPI_Bcast`).
        broadcast, immediate_broadcast, persistent_broadcast: "MPI_Bcast", "MPI_Ibcast";
        send sendbuf: Buffer as Place;
        |this, call| begin::broadcast(this.inter().as_handle(), facing(call), &sendbuf);

        /// Receives the values of all processes of the other group, in the order of ranks (`MPI_Gather`).
        gather_into, immediate_gather_into, persistent_gather_into: "MPI_Gather", "MPI_Igather";
        receive recvbuf: BufferMut as Place;
        |this, call| begin::gather(this.inter().as_handle(), facing(call), None, &Shares::Even(&recvbuf));

        /// The same, with different numbers of values (`MPI_Gatherv`).
        gather_varcount_into, immediate_gather_varcount_into, persistent_gather_varcount_into:
            "MPI_Gatherv", "MPI_Igatherv";
        receive recvbuf: PartitionedBufferMut as Blocks;
        |this, call| begin::gather(this.inter().as_handle(), facing(call), None, &Shares::Uneven(&recvbuf));

        /// Sends each process of the other group a part of this, in the order of ranks (`MPI_Scatter`).
        scatter, immediate_scatter, persistent_scatter: "MPI_Scatter", "MPI_Iscatter";
        send sendbuf: Buffer as Place;
        |this, call| begin::scatter(this.inter().as_handle(), facing(call), &Shares::Even(&sendbuf), None);

        /// The same, with parts of different sizes (`MPI_Scatterv`).
        scatter_varcount, immediate_scatter_varcount, persistent_scatter_varcount: "MPI_Scatterv", "MPI_Iscatterv";
        send sendbuf: PartitionedBuffer as Blocks;
        |this, call| begin::scatter(this.inter().as_handle(), facing(call), &Shares::Uneven(&sendbuf), None);

        /// Receives the reduction of the values of all processes of the other group (`MPI_Reduce`).
        reduce_into, immediate_reduce_into, persistent_reduce_into: "MPI_Reduce", "MPI_Ireduce";
        receive recvbuf: BufferMut as Place;
        |this, call| begin::reduce_facing(this.inter().as_handle(), facing(call), &recvbuf);
    }
}

fn facing(call: &'static str) -> Rooted {
    Rooted { call, root: FACING }
}

/// This process as the root of collectives with the other group.
#[derive(Clone, Copy, Debug)]
pub struct InterRoot<'a>(&'a InterCommunicator);

impl FacingRoot for InterRoot<'_> {
    fn inter(&self) -> &InterCommunicator {
        self.0
    }
}

impl InterCommunicator {
    /// Returns this process as the root of collectives with the other group.
    ///
    /// ```no_run
    /// use mpi::{topology::InterCommunicator, traits::*};
    ///
    /// /// Rank 1 of the group that `has_it` tells all of the other group.
    /// fn tell(inter: &InterCommunicator, has_it: bool) -> Result<i32, mpi::Error> {
    ///     let mut news = 7 * i32::from(has_it);
    ///     match (has_it, inter.rank()) {
    ///         (true, 1) => inter.as_root().broadcast(&news)?,
    ///         (true, _) => inter.stand_aside()?,
    ///         (false, _) => inter.process_at_rank(1).broadcast_into(&mut news)?,
    ///     }
    ///     Ok(news)
    /// }
    /// ```
    #[must_use]
    pub fn as_root(&self) -> InterRoot<'_> {
        InterRoot(self)
    }

    /// Takes part in a collective whose root is another process of the same group (`MPI_PROC_NULL`), for any
    /// collective. The process has nothing to do and does not wait, but collectives are counted.
    ///
    /// # Errors
    /// The communicator is revoked.
    pub fn stand_aside(&self) -> Result<(), Error> {
        begin::stand_aside(self.as_handle(), "MPI_Bcast").wait().map(drop)
    }

    /// Like [`stand_aside`](Self::stand_aside), for a planned collective (`MPI_Bcast_init` and the like). The result
    /// need not be started.
    ///
    /// # Errors
    /// The communicator is revoked.
    pub fn persistent_stand_aside(&self) -> Result<Persistent<'static, (), ()>, Error> {
        let running: Running = begin::stand_aside(self.as_handle(), "MPI_Bcast_init");
        Persistent::nothing(running)
    }
}

#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Collectives between two groups that have a root: what its own group calls (MPI 6.2.3).

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

/// What the root of a collective with the other group calls (`MPI_ROOT`): [`InterCommunicator::as_root`] gives it.
///
/// The processes of the other group call the methods of [`Root`](super::Root) for the rank that the root has there, and the
/// others of its own group call [`InterCommunicator::stand_aside`].
///
/// Errors: a process is lost, the communicator revoked; buffers that do not fit.
pub trait FacingRoot {
    /// The communicator.
    #[doc(hidden)]
    fn inter(&self) -> &InterCommunicator;

    methods! {
        /// The other group gets this (`MPI_Bcast`).
        broadcast, immediate_broadcast, persistent_broadcast: "MPI_Bcast", "MPI_Ibcast";
        send sendbuf: Buffer as Place;
        |this, call| begin::broadcast(this.inter().as_handle(), facing(call), &sendbuf);

        /// Gets what all of the other group have, in the order of ranks (`MPI_Gather`).
        gather_into, immediate_gather_into, persistent_gather_into: "MPI_Gather", "MPI_Igather";
        receive recvbuf: BufferMut as Place;
        |this, call| begin::gather(this.inter().as_handle(), facing(call), None, &Shares::Even(&recvbuf));

        /// The same, when they have not as much each (`MPI_Gatherv`).
        gather_varcount_into, immediate_gather_varcount_into, persistent_gather_varcount_into:
            "MPI_Gatherv", "MPI_Igatherv";
        receive recvbuf: PartitionedBufferMut as Blocks;
        |this, call| begin::gather(this.inter().as_handle(), facing(call), None, &Shares::Uneven(&recvbuf));

        /// Each of the other group gets a part of this, in the order of ranks (`MPI_Scatter`).
        scatter, immediate_scatter, persistent_scatter: "MPI_Scatter", "MPI_Iscatter";
        send sendbuf: Buffer as Place;
        |this, call| begin::scatter(this.inter().as_handle(), facing(call), &Shares::Even(&sendbuf), None);

        /// The same, with parts of different sizes (`MPI_Scatterv`).
        scatter_varcount, immediate_scatter_varcount, persistent_scatter_varcount: "MPI_Scatterv", "MPI_Iscatterv";
        send sendbuf: PartitionedBuffer as Blocks;
        |this, call| begin::scatter(this.inter().as_handle(), facing(call), &Shares::Uneven(&sendbuf), None);

        /// Gets the reduction of what all of the other group have (`MPI_Reduce`).
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
    /// This process as the root of collectives with the other group.
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

    /// What a process calls when the root of a collective is another one of its own group (`MPI_PROC_NULL`), whichever
    /// collective it is. It has nothing to do and does not wait, but collectives are counted.
    ///
    /// # Errors
    /// The communicator is revoked.
    pub fn stand_aside(&self) -> Result<(), Error> {
        begin::stand_aside(self.as_handle(), "MPI_Bcast").wait().map(drop)
    }

    /// The same for one that is planned (`MPI_Bcast_init` and its sisters). What it gives need not be started.
    ///
    /// # Errors
    /// The communicator is revoked.
    pub fn persistent_stand_aside(&self) -> Result<Persistent<'static, (), ()>, Error> {
        let running: Running = begin::stand_aside(self.as_handle(), "MPI_Bcast_init");
        Persistent::nothing(running)
    }
}

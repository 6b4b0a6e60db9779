#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Rooted collectives between two groups: the methods for the root's group (MPI 6.2.3).

use hikyaku::mpi::{
    collectives::{Collective, NOBODY, ROOT},
    error::Error,
};

use super::{
    Persistent,
    begin::Ready,
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
        |this, call| facing(this, call, Collective::Bcast).from(&sendbuf);

        /// Receives the values of all processes of the other group, in the order of ranks (`MPI_Gather`).
        gather_into, immediate_gather_into, persistent_gather_into: "MPI_Gather", "MPI_Igather";
        receive recvbuf: BufferMut as Place;
        |this, call| facing(this, call, Collective::Gather).into(&recvbuf);

        /// The same, with different numbers of values (`MPI_Gatherv`).
        gather_varcount_into, immediate_gather_varcount_into, persistent_gather_varcount_into:
            "MPI_Gatherv", "MPI_Igatherv";
        receive recvbuf: PartitionedBufferMut as Blocks;
        |this, call| facing(this, call, Collective::Gatherv).into(&recvbuf);

        /// Sends each process of the other group a part of this, in the order of ranks (`MPI_Scatter`).
        scatter, immediate_scatter, persistent_scatter: "MPI_Scatter", "MPI_Iscatter";
        send sendbuf: Buffer as Place;
        |this, call| facing(this, call, Collective::Scatter).from(&sendbuf);

        /// The same, with parts of different sizes (`MPI_Scatterv`).
        scatter_varcount, immediate_scatter_varcount, persistent_scatter_varcount: "MPI_Scatterv", "MPI_Iscatterv";
        send sendbuf: PartitionedBuffer as Blocks;
        |this, call| facing(this, call, Collective::Scatterv).from(&sendbuf);

        /// Receives the reduction of the values of all processes of the other group (`MPI_Reduce`).
        reduce_into, immediate_reduce_into, persistent_reduce_into: "MPI_Reduce", "MPI_Ireduce";
        receive recvbuf: BufferMut as Place;
        |this, call| facing(this, call, Collective::Reduce).into(&recvbuf);
    }
}

/// A collective with this process as the root.
fn facing<'a, F: FacingRoot + ?Sized>(root: &'a F, call: &'static str, collective: Collective) -> Ready<'a> {
    Ready::of(root.inter().as_handle(), call, collective).rooted(ROOT)
}

/// The root is another process of this group.
fn aside(inter: &InterCommunicator, call: &'static str) -> Running {
    let ready = Ready::of(inter.as_handle(), call, Collective::Bcast).rooted(NOBODY);
    // SAFETY: there are no buffers.
    unsafe { ready.begin() }
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
        aside(self, "MPI_Bcast").wait().map(drop)
    }

    /// Like [`stand_aside`](Self::stand_aside), for a planned collective (`MPI_Bcast_init` and the like). The result
    /// need not be started.
    ///
    /// # Errors
    /// The communicator is revoked.
    pub fn persistent_stand_aside(&self) -> Result<Persistent<'static, (), ()>, Error> {
        Persistent::nothing(aside(self, "MPI_Bcast_init"))
    }
}

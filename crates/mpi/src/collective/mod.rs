#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Collectives: operations of all processes of a communicator.
//!
//! All processes must call the same collectives in the same order, with matching arguments.
//!
//! ```
//! use mpi::{collective::{SystemOperation, UserOperation}, traits::*};
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let (rank, size) = (world.rank(), world.size());
//!
//! let mut everybody = vec![0; size as usize];
//! world.all_gather_into(&rank, &mut everybody)?;
//! assert!(everybody.into_iter().eq(0..size));
//!
//! let mut greatest = 0;
//! world.all_reduce_into(&rank, &mut greatest, SystemOperation::max())?;
//! assert_eq!(greatest, size - 1);
//!
//! // An operation of one's own.
//! let add = UserOperation::commutative(|from, into| {
//!     let (from, into) = (from.downcast::<i32>().unwrap(), into.downcast::<i32>().unwrap());
//!     for (from, into) in from.iter().zip(into) {
//!         *into += from;
//!     }
//! });
//! let mut sum = 0;
//! world.all_reduce_into(&rank, &mut sum, &add)?;
//! assert_eq!(sum, size * (size - 1) / 2);
//! # Ok::<_, mpi::Error>(())
//! ```

mod begin;
mod inter;
mod methods;
mod neighborhood;
mod operation;
mod persistent;
mod root;
mod share;

use hikyaku::mpi::{collectives::Collective, error::Error};

use self::{
    begin::Ready,
    methods::{either, methods},
};

pub(crate) use self::share::share_names;
pub use self::{
    inter::{FacingRoot, InterRoot},
    neighborhood::NeighborhoodCollectives,
    operation::{
        Operation, SystemOperation, UnsafeUserFunction, UnsafeUserOperation, UserOperation, reduce_local_into,
    },
    persistent::Persistent,
    root::Root,
};
use crate::{
    datatype::{
        Blocks, Buffer, BufferMut, Buffers, BuffersMut, PartitionedBuffer, PartitionedBufferMut, Place, Places,
    },
    request::{Found, Request, Running, Scope, StaticScope},
    topology::{Communicator, Handle},
};

/// All traits.
pub mod traits {
    pub use super::{CommunicatorCollectives, FacingRoot, NeighborhoodCollectives, Operation, Root};
}

fn barrier(handle: &Handle, name: &'static str) -> Running {
    // SAFETY: a barrier has no buffers.
    unsafe { Ready::of(handle, name, Collective::Barrier).begin() }
}

/// Collectives in which all processes have the same part.
///
/// Between two groups ([`InterCommunicator`](crate::topology::InterCommunicator)) they exchange: each process gets the
/// values of the *other* group, or their reduction, and blocks belong to the ranks of the other group. (There are no
/// scans.)
///
/// Errors: a process is lost, the communicator is revoked, or buffers do not fit. If one process gets an error, the
/// others may get it as well, perhaps later.
pub trait CommunicatorCollectives: Communicator {
    /// Waits until all processes have called it (`MPI_Barrier`).
    ///
    /// # Errors
    /// See the trait.
    fn barrier(&self) -> Result<(), Error> {
        barrier(self.as_handle(), "MPI_Barrier").wait().map(drop)
    }

    /// Begins a [`barrier`](Self::barrier) (`MPI_Ibarrier`).
    fn immediate_barrier(&self) -> Request<'static, ()> {
        Request::new(barrier(self.as_handle(), "MPI_Ibarrier"), &(), StaticScope)
    }

    /// Plans a [`barrier`](Self::barrier) that can be started again and again (`MPI_Barrier_init`).
    ///
    /// # Errors
    /// See the trait.
    fn persistent_barrier(&self) -> Result<Persistent<'static, (), ()>, Error> {
        let running = barrier(self.as_handle(), "MPI_Barrier_init");
        Persistent::nothing(running)
    }

    methods! {
        /// Gives each process the values of all, in the order of ranks (`MPI_Allgather`).
        all_gather_into, immediate_all_gather_into, persistent_all_gather_into: "MPI_Allgather", "MPI_Iallgather";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        |this, call| Ready::of(this.as_handle(), call, Collective::Allgather).from(&sendbuf).into(&recvbuf);

        /// The same, with different numbers of values (`MPI_Allgatherv`).
        all_gather_varcount_into, immediate_all_gather_varcount_into, persistent_all_gather_varcount_into: "MPI_Allgatherv", "MPI_Iallgatherv";
        send sendbuf: Buffer as Place;
        receive recvbuf: PartitionedBufferMut as Blocks;
        |this, call| Ready::of(this.as_handle(), call, Collective::Allgatherv).from(&sendbuf).into(&recvbuf);

        /// Sends a part from each process to each process (`MPI_Alltoall`).
        all_to_all_into, immediate_all_to_all_into, persistent_all_to_all_into: "MPI_Alltoall", "MPI_Ialltoall";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        |this, call| Ready::of(this.as_handle(), call, Collective::Alltoall).from(&sendbuf).into(&recvbuf);

        /// The same with parts of different sizes (`MPI_Alltoallv`).
        all_to_all_varcount_into, immediate_all_to_all_varcount_into, persistent_all_to_all_varcount_into: "MPI_Alltoallv", "MPI_Ialltoallv";
        send sendbuf: PartitionedBuffer as Blocks;
        receive recvbuf: PartitionedBufferMut as Blocks;
        |this, call| Ready::of(this.as_handle(), call, Collective::Alltoallv).from(&sendbuf).into(&recvbuf);

        /// The same with parts anywhere and of different datatypes (`MPI_Alltoallw`): a buffer for each rank. Not in
        /// rsmpi.
        ///
        /// ```
        /// use mpi::{datatype::{DynBuffer, DynBufferMut}, traits::*};
        ///
        /// let universe = mpi::initialize().unwrap();
        /// let world = universe.world();
        /// let (from, mut into) = ([1.5, 2.5], [0.0; 2]);
        /// world.all_to_all_parts_into(&[DynBuffer::new(&from)], &mut [DynBufferMut::new(&mut into)])?;
        /// assert_eq!(into, from);
        /// # Ok::<_, mpi::Error>(())
        /// ```
        all_to_all_parts_into, immediate_all_to_all_parts_into, persistent_all_to_all_parts_into:
            "MPI_Alltoallw", "MPI_Ialltoallw";
        send sendbufs: Buffers as Places;
        receive recvbufs: BuffersMut as Places;
        |this, call| Ready::of(this.as_handle(), call, Collective::Alltoallv).from(&sendbufs).into(&recvbufs);

        /// Gives each process the reduction of the values of all, element by element (`MPI_Allreduce`). The operation
        /// must be defined for the elements.
        all_reduce_into, immediate_all_reduce_into, persistent_all_reduce_into: "MPI_Allreduce", "MPI_Iallreduce";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        operation op: Operation;
        |this, call| Ready::of(this.as_handle(), call, Collective::Allreduce).from(&sendbuf).into(&recvbuf).by(op);

        /// Gives each process a part of that reduction, in the order of ranks (`MPI_Reduce_scatter_block`).
        reduce_scatter_block_into, immediate_reduce_scatter_block_into, persistent_reduce_scatter_block_into:
            "MPI_Reduce_scatter_block", "MPI_Ireduce_scatter_block";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        operation op: Operation;
        |this, call| Ready::of(this.as_handle(), call, Collective::ReduceScatterBlock).from(&sendbuf).into(&recvbuf).by(op);

        /// The same with parts of different sizes (`MPI_Reduce_scatter`): `counts` has the number of elements of each
        /// rank's part, and is the same at all ranks. Not in rsmpi.
        ///
        /// ```
        /// use mpi::{Count, collective::SystemOperation, traits::*};
        ///
        /// let universe = mpi::initialize().unwrap();
        /// let world = universe.world();
        /// // One element for rank 0, two for rank 1, …
        /// let counts: Vec<Count> = (1..=world.size() as Count).collect();
        /// let vector = vec![1; counts.iter().sum::<Count>() as usize];
        /// let mut part = vec![0; world.rank() as usize + 1];
        /// world.reduce_scatter_varcount_into(&vector, &mut part, &counts, SystemOperation::sum())?;
        /// assert!(part.iter().all(|&sum| sum == world.size()));
        /// # Ok::<_, mpi::Error>(())
        /// ```
        reduce_scatter_varcount_into, immediate_reduce_scatter_varcount_into, persistent_reduce_scatter_varcount_into:
            "MPI_Reduce_scatter", "MPI_Ireduce_scatter";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        counts counts;
        operation op: Operation;
        |this, call| Ready::of(this.as_handle(), call, Collective::ReduceScatter)
            .from(&sendbuf)
            .into(&recvbuf)
            .divided(&begin::lengths(this.as_handle(), call, counts))
            .by(op);

        /// Gives each process the reduction of the values of the ranks up to its own (`MPI_Scan`).
        scan_into, immediate_scan_into, persistent_scan_into: "MPI_Scan", "MPI_Iscan";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        operation op: Operation;
        |this, call| Ready::of(this.as_handle(), call, Collective::Scan).from(&sendbuf).into(&recvbuf).by(op);

        /// Gives each process the reduction of the values of the ranks before its own; rank 0 gets none (`MPI_Exscan`).
        exclusive_scan_into, immediate_exclusive_scan_into, persistent_exclusive_scan_into: "MPI_Exscan", "MPI_Iexscan";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        operation op: Operation;
        |this, call| Ready::of(this.as_handle(), call, Collective::Exscan).from(&sendbuf).into(&recvbuf).by(op);
    }
}

impl<C: Communicator + ?Sized> CommunicatorCollectives for C {}

#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! What all processes of a communicator do together.
//!
//! All must call the same collectives in the same order, with arguments that fit.
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
mod neighborhood;
mod operation;
mod root;

use hikyaku::mpi::error::Error;

pub use self::{
    neighborhood::NeighborhoodCollectives,
    operation::{
        Operation, SystemOperation, UnsafeUserFunction, UnsafeUserOperation, UserOperation, reduce_local_into,
    },
    root::Root,
};
use crate::{
    datatype::{Blocks, Buffer, BufferMut, PartitionedBuffer, PartitionedBufferMut, Place},
    request::{Request, Scope, StaticScope},
    topology::{Communicator, Handle},
};

/// All traits.
pub mod traits {
    pub use super::{CommunicatorCollectives, NeighborhoodCollectives, Operation, Root};
}

/// What each rank says, in the order of ranks; lengths may differ.
pub(crate) fn share(handle: &Handle, call: &'static str, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let size = handle.comm.size() as usize;
    let len = own.len() as u64;
    let mut lens = vec![0_u64; size];
    // SAFETY: both are borrowed until the operation has ended.
    unsafe { begin::all_gather(handle, call, &Place::of(&len), &Place::of_mut(&mut lens)) }.wait()?;
    let widest = lens.iter().copied().max().unwrap_or(0) as usize;
    let mut padded = own.to_vec();
    padded.resize(widest, 0);
    let mut all = vec![0_u8; widest * size];
    // SAFETY: as above.
    unsafe { begin::all_gather(handle, call, &Place::of(&padded), &Place::of_mut(&mut all)) }.wait()?;
    let parts = lens
        .iter()
        .enumerate()
        .map(|(rank, len)| all[rank * widest..][..*len as usize].to_vec());
    Ok(parts.collect())
}

/// A buffer that an immediate operation writes to.
macro_rules! borrowed {
    ($of:ident $buffer:ident) => {{
        let data: *mut _ = $buffer;
        // SAFETY: just borrowed; what is derived from it is not used any more when `data` is.
        ($of::of_mut(unsafe { &mut *data }), data)
    }};
}
use borrowed;

/// Collectives in which all processes are alike.
///
/// Errors: a process is lost, the communicator revoked; buffers that do not fit. When one process gets an error, the
/// others may get it too, or later.
pub trait CommunicatorCollectives: Communicator {
    /// Waits until all are here (`MPI_Barrier`).
    ///
    /// # Errors
    /// See the trait.
    fn barrier(&self) -> Result<(), Error> {
        begin::barrier(self.as_handle(), "MPI_Barrier").wait().map(drop)
    }

    /// Everybody gets what all have, in the order of ranks (`MPI_Allgather`).
    ///
    /// # Errors
    /// See the trait.
    fn all_gather_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        let (from, into) = (Place::of(sendbuf), Place::of_mut(recvbuf));
        // SAFETY: both are borrowed until the operation has ended.
        unsafe { begin::all_gather(self.as_handle(), "MPI_Allgather", &from, &into) }
            .wait()
            .map(drop)
    }

    /// The same, when they have not as much each (`MPI_Allgatherv`).
    ///
    /// # Errors
    /// See the trait.
    fn all_gather_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: PartitionedBufferMut + ?Sized,
    {
        let (from, into) = (Place::of(sendbuf), Blocks::of_mut(recvbuf));
        // SAFETY: both are borrowed until the operation has ended.
        unsafe { begin::all_gather_varcount(self.as_handle(), "MPI_Allgatherv", &from, &into) }
            .wait()
            .map(drop)
    }

    /// Everybody sends a part to everybody (`MPI_Alltoall`).
    ///
    /// # Errors
    /// See the trait.
    fn all_to_all_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        let (from, into) = (Place::of(sendbuf), Place::of_mut(recvbuf));
        // SAFETY: both are borrowed until the operation has ended.
        unsafe { begin::all_to_all(self.as_handle(), "MPI_Alltoall", &from, &into) }
            .wait()
            .map(drop)
    }

    /// The same with parts of different sizes (`MPI_Alltoallv`).
    ///
    /// # Errors
    /// See the trait.
    fn all_to_all_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: PartitionedBuffer + ?Sized,
        R: PartitionedBufferMut + ?Sized,
    {
        let (from, into) = (Blocks::of(sendbuf), Blocks::of_mut(recvbuf));
        // SAFETY: both are borrowed until the operation has ended.
        unsafe { begin::all_to_all_varcount(self.as_handle(), "MPI_Alltoallv", &from, &into) }
            .wait()
            .map(drop)
    }

    /// The same with parts anywhere and of different datatypes (`MPI_Alltoallw`): a buffer for each rank. Not in rsmpi.
    ///
    /// # Errors
    /// See the trait.
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
    fn all_to_all_parts_into<S, R>(&self, sendbufs: &[S], recvbufs: &mut [R]) -> Result<(), Error>
    where
        S: Buffer,
        R: BufferMut,
    {
        let from: Vec<Place> = sendbufs.iter().map(Place::of).collect();
        let into: Vec<Place> = recvbufs.iter_mut().map(Place::of_mut).collect();
        // SAFETY: all are borrowed until the operation has ended.
        let ended = unsafe { begin::all_to_all_parts(self.as_handle(), "MPI_Alltoallw", &from, &into) }.wait();
        into.iter().for_each(Place::validate);
        ended.map(drop)
    }

    /// Everybody gets the reduction of what all have, element by element (`MPI_Allreduce`).
    ///
    /// # Errors
    /// See the trait; the operation is not defined for these elements.
    fn all_reduce_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
        O: Operation,
    {
        let (from, into) = (Place::of(sendbuf), Place::of_mut(recvbuf));
        // SAFETY: all are borrowed until the operation has ended.
        unsafe { begin::all_reduce(self.as_handle(), "MPI_Allreduce", &from, &into, &op.erased()) }
            .wait()
            .map(drop)
    }

    /// Everybody gets a part of that reduction, in the order of ranks (`MPI_Reduce_scatter_block`).
    ///
    /// # Errors
    /// See the trait; the operation is not defined for these elements.
    fn reduce_scatter_block_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
        O: Operation,
    {
        let (from, into) = (Place::of(sendbuf), Place::of_mut(recvbuf));
        let call = "MPI_Reduce_scatter_block";
        // SAFETY: all are borrowed until the operation has ended.
        unsafe { begin::reduce_scatter_block(self.as_handle(), call, &from, &into, &op.erased()) }
            .wait()
            .map(drop)
    }

    /// Everybody gets the reduction of what the ranks up to its own have (`MPI_Scan`).
    ///
    /// # Errors
    /// See the trait; the operation is not defined for these elements.
    fn scan_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
        O: Operation,
    {
        let (from, into) = (Place::of(sendbuf), Place::of_mut(recvbuf));
        // SAFETY: all are borrowed until the operation has ended.
        unsafe { begin::scan(self.as_handle(), "MPI_Scan", &from, &into, &op.erased(), false) }
            .wait()
            .map(drop)
    }

    /// Everybody gets the reduction of what the ranks before its own have; rank 0 gets nothing (`MPI_Exscan`).
    ///
    /// # Errors
    /// See the trait; the operation is not defined for these elements.
    fn exclusive_scan_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
        O: Operation,
    {
        let (from, into) = (Place::of(sendbuf), Place::of_mut(recvbuf));
        // SAFETY: all are borrowed until the operation has ended.
        unsafe { begin::scan(self.as_handle(), "MPI_Exscan", &from, &into, &op.erased(), true) }
            .wait()
            .map(drop)
    }

    /// Begins a [`barrier`](Self::barrier) (`MPI_Ibarrier`).
    fn immediate_barrier(&self) -> Request<'static, ()> {
        Request::new(begin::barrier(self.as_handle(), "MPI_Ibarrier"), &(), StaticScope)
    }

    /// Begins an [`all_gather_into`](Self::all_gather_into).
    fn immediate_all_gather_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (into, data) = borrowed!(Place recvbuf);
        // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
        let running = unsafe { begin::all_gather(self.as_handle(), "MPI_Iallgather", &Place::of(sendbuf), &into) };
        Request::new(running, data, scope)
    }

    /// Begins an [`all_gather_varcount_into`](Self::all_gather_varcount_into).
    fn immediate_all_gather_varcount_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + PartitionedBufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (into, data) = borrowed!(Blocks recvbuf);
        let call = "MPI_Iallgatherv";
        // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
        let running = unsafe { begin::all_gather_varcount(self.as_handle(), call, &Place::of(sendbuf), &into) };
        Request::new(running, data, scope)
    }

    /// Begins an [`all_to_all_into`](Self::all_to_all_into).
    fn immediate_all_to_all_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (into, data) = borrowed!(Place recvbuf);
        // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
        let running = unsafe { begin::all_to_all(self.as_handle(), "MPI_Ialltoall", &Place::of(sendbuf), &into) };
        Request::new(running, data, scope)
    }

    /// Begins an [`all_to_all_varcount_into`](Self::all_to_all_varcount_into).
    fn immediate_all_to_all_varcount_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + PartitionedBuffer + ?Sized,
        R: 'a + PartitionedBufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (into, data) = borrowed!(Blocks recvbuf);
        let call = "MPI_Ialltoallv";
        // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
        let running = unsafe { begin::all_to_all_varcount(self.as_handle(), call, &Blocks::of(sendbuf), &into) };
        Request::new(running, data, scope)
    }

    /// Begins an [`all_reduce_into`](Self::all_reduce_into).
    fn immediate_all_reduce_into<'a, S, R, O, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let (into, data) = borrowed!(Place recvbuf);
        let (call, from) = ("MPI_Iallreduce", Place::of(sendbuf));
        // SAFETY: all are borrowed for `'a`, and the scope ends the operation before that.
        let running = unsafe { begin::all_reduce(self.as_handle(), call, &from, &into, &op.erased()) };
        Request::new(running, data, scope)
    }

    /// Begins a [`reduce_scatter_block_into`](Self::reduce_scatter_block_into).
    fn immediate_reduce_scatter_block_into<'a, S, R, O, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let (into, data) = borrowed!(Place recvbuf);
        let (call, from) = ("MPI_Ireduce_scatter_block", Place::of(sendbuf));
        // SAFETY: all are borrowed for `'a`, and the scope ends the operation before that.
        let running = unsafe { begin::reduce_scatter_block(self.as_handle(), call, &from, &into, &op.erased()) };
        Request::new(running, data, scope)
    }

    /// Begins a [`scan_into`](Self::scan_into).
    fn immediate_scan_into<'a, S, R, O, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let (into, data) = borrowed!(Place recvbuf);
        let (call, from) = ("MPI_Iscan", Place::of(sendbuf));
        // SAFETY: all are borrowed for `'a`, and the scope ends the operation before that.
        let running = unsafe { begin::scan(self.as_handle(), call, &from, &into, &op.erased(), false) };
        Request::new(running, data, scope)
    }

    /// Begins an [`exclusive_scan_into`](Self::exclusive_scan_into).
    fn immediate_exclusive_scan_into<'a, S, R, O, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + Buffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let (into, data) = borrowed!(Place recvbuf);
        let (call, from) = ("MPI_Iexscan", Place::of(sendbuf));
        // SAFETY: all are borrowed for `'a`, and the scope ends the operation before that.
        let running = unsafe { begin::scan(self.as_handle(), call, &from, &into, &op.erased(), true) };
        Request::new(running, data, scope)
    }
}

impl<C: Communicator + ?Sized> CommunicatorCollectives for C {}

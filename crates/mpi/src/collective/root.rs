#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Collectives in which one process is not like the others.

use hikyaku::mpi::{
    Rank,
    error::{Detail, Error, ErrorClass},
};

use super::{
    Operation,
    begin::{self, Rooted, Shares},
    borrowed,
};
use crate::{
    datatype::{Blocks, Buffer, BufferMut, PartitionedBuffer, PartitionedBufferMut, Place},
    request::{Request, Running, Scope},
    topology::{AsCommunicator, AsHandle, Handle},
};

fn handle<P: AsCommunicator + ?Sized>(process: &P) -> &Handle {
    process.as_communicator().as_handle()
}

/// The root calls what is for the root, and the others what is for the others.
fn check<P: Root + ?Sized>(process: &P, call: &'static str, is_for_root: bool) -> Result<Rooted, Error> {
    let root = process.root_rank();
    if (handle(process).comm.rank() == root) == is_for_root {
        return Ok(Rooted { call, root });
    }
    let text = if is_for_root {
        "only the root may call this; the others call it without `_root`"
    } else {
        "the root must call this with `_root`"
    };
    Err(Error::new(ErrorClass::Root, call)
        .with_detail(Detail::Text(text))
        .with_peer(root))
}

fn refused(error: Error) -> Running {
    Running::new(Err(error))
}

/// Collectives that a process is the root of: it sends to all others or gets from them. The methods that end in
/// `_root` are for the root, those without it for all others.
///
/// Errors: a process is lost, the communicator revoked; buffers that do not fit; a method that is for the other side.
pub trait Root: AsCommunicator {
    /// Its rank.
    fn root_rank(&self) -> Rank;

    /// All get what the root has (`MPI_Bcast`).
    ///
    /// # Errors
    /// See the trait.
    fn broadcast_into<Buf: BufferMut + ?Sized>(&self, buffer: &mut Buf) -> Result<(), Error> {
        let rooted = Rooted {
            call: "MPI_Bcast",
            root: self.root_rank(),
        };
        // SAFETY: borrowed until the operation has ended.
        unsafe { begin::broadcast(handle(self), rooted, &Place::of_mut(buffer)) }
            .wait()
            .map(drop)
    }

    /// The root gets what all have (`MPI_Gather`). For the others.
    ///
    /// # Errors
    /// See the trait.
    fn gather_into<S: Buffer + ?Sized>(&self, sendbuf: &S) -> Result<(), Error> {
        let rooted = check(self, "MPI_Gather", false)?;
        let shares = Shares::Elsewhere { even: true };
        // SAFETY: borrowed until the operation has ended.
        unsafe { begin::gather(handle(self), rooted, &Place::of(sendbuf), &shares) }
            .wait()
            .map(drop)
    }

    /// The root gets what all have, in the order of ranks. For the root.
    ///
    /// # Errors
    /// See the trait.
    fn gather_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        let rooted = check(self, "MPI_Gather", true)?;
        let into = Place::of_mut(recvbuf);
        // SAFETY: borrowed until the operation has ended.
        unsafe { begin::gather(handle(self), rooted, &Place::of(sendbuf), &Shares::Even(&into)) }
            .wait()
            .map(drop)
    }

    /// The root gets what all have, which is not as much each (`MPI_Gatherv`). For the others.
    ///
    /// # Errors
    /// See the trait.
    fn gather_varcount_into<S: Buffer + ?Sized>(&self, sendbuf: &S) -> Result<(), Error> {
        let rooted = check(self, "MPI_Gatherv", false)?;
        let shares = Shares::Elsewhere { even: false };
        // SAFETY: borrowed until the operation has ended.
        unsafe { begin::gather(handle(self), rooted, &Place::of(sendbuf), &shares) }
            .wait()
            .map(drop)
    }

    /// The root gets what all have, which is not as much each. For the root.
    ///
    /// # Errors
    /// See the trait.
    fn gather_varcount_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: PartitionedBufferMut + ?Sized,
    {
        let rooted = check(self, "MPI_Gatherv", true)?;
        let into = Blocks::of_mut(recvbuf);
        // SAFETY: borrowed until the operation has ended.
        unsafe { begin::gather(handle(self), rooted, &Place::of(sendbuf), &Shares::Uneven(&into)) }
            .wait()
            .map(drop)
    }

    /// All get a part of what the root has (`MPI_Scatter`). For the others.
    ///
    /// # Errors
    /// See the trait.
    fn scatter_into<R: BufferMut + ?Sized>(&self, recvbuf: &mut R) -> Result<(), Error> {
        let rooted = check(self, "MPI_Scatter", false)?;
        let shares = Shares::Elsewhere { even: true };
        // SAFETY: borrowed until the operation has ended.
        unsafe { begin::scatter(handle(self), rooted, &shares, &Place::of_mut(recvbuf)) }
            .wait()
            .map(drop)
    }

    /// All get a part of what the root has, in the order of ranks. For the root.
    ///
    /// # Errors
    /// See the trait.
    fn scatter_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        let rooted = check(self, "MPI_Scatter", true)?;
        let from = Place::of(sendbuf);
        // SAFETY: borrowed until the operation has ended.
        unsafe { begin::scatter(handle(self), rooted, &Shares::Even(&from), &Place::of_mut(recvbuf)) }
            .wait()
            .map(drop)
    }

    /// All get a part of what the root has, of different sizes (`MPI_Scatterv`). For the others.
    ///
    /// # Errors
    /// See the trait.
    fn scatter_varcount_into<R: BufferMut + ?Sized>(&self, recvbuf: &mut R) -> Result<(), Error> {
        let rooted = check(self, "MPI_Scatterv", false)?;
        let shares = Shares::Elsewhere { even: false };
        // SAFETY: borrowed until the operation has ended.
        unsafe { begin::scatter(handle(self), rooted, &shares, &Place::of_mut(recvbuf)) }
            .wait()
            .map(drop)
    }

    /// All get a part of what the root has, of different sizes. For the root.
    ///
    /// # Errors
    /// See the trait.
    fn scatter_varcount_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: PartitionedBuffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        let rooted = check(self, "MPI_Scatterv", true)?;
        let from = Blocks::of(sendbuf);
        // SAFETY: borrowed until the operation has ended.
        unsafe { begin::scatter(handle(self), rooted, &Shares::Uneven(&from), &Place::of_mut(recvbuf)) }
            .wait()
            .map(drop)
    }

    /// The root gets the reduction of what all have (`MPI_Reduce`). For the others.
    ///
    /// # Errors
    /// See the trait; the operation is not defined for these elements.
    fn reduce_into<S, O>(&self, sendbuf: &S, op: O) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        O: Operation,
    {
        let rooted = check(self, "MPI_Reduce", false)?;
        // SAFETY: all are borrowed until the operation has ended.
        unsafe { begin::reduce(handle(self), rooted, &Place::of(sendbuf), None, &op.erased()) }
            .wait()
            .map(drop)
    }

    /// The root gets the reduction of what all have. For the root.
    ///
    /// # Errors
    /// See the trait; the operation is not defined for these elements.
    fn reduce_into_root<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
        O: Operation,
    {
        let rooted = check(self, "MPI_Reduce", true)?;
        let into = Place::of_mut(recvbuf);
        // SAFETY: all are borrowed until the operation has ended.
        unsafe { begin::reduce(handle(self), rooted, &Place::of(sendbuf), Some(&into), &op.erased()) }
            .wait()
            .map(drop)
    }

    /// Begins a [`broadcast_into`](Self::broadcast_into).
    fn immediate_broadcast_into<'a, Buf, Sc>(&self, scope: Sc, buf: &'a mut Buf) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let rooted = Rooted {
            call: "MPI_Ibcast",
            root: self.root_rank(),
        };
        let (place, data) = borrowed!(Place buf);
        // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
        let running = unsafe { begin::broadcast(handle(self), rooted, &place) };
        Request::new(running, data, scope)
    }

    /// Begins a [`gather_into`](Self::gather_into).
    fn immediate_gather_into<'a, S, Sc>(&self, scope: Sc, sendbuf: &'a S) -> Request<'a, S, Sc>
    where
        S: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        let shares = Shares::Elsewhere { even: true };
        let running = check(self, "MPI_Igather", false).map_or_else(refused, |rooted| {
            // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
            unsafe { begin::gather(handle(self), rooted, &Place::of(sendbuf), &shares) }
        });
        Request::new(running, sendbuf, scope)
    }

    /// Begins a [`gather_into_root`](Self::gather_into_root).
    fn immediate_gather_into_root<'a, S, R, Sc>(
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
        let running = check(self, "MPI_Igather", true).map_or_else(refused, |rooted| {
            // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
            unsafe { begin::gather(handle(self), rooted, &Place::of(sendbuf), &Shares::Even(&into)) }
        });
        Request::new(running, data, scope)
    }

    /// Begins a [`gather_varcount_into`](Self::gather_varcount_into).
    fn immediate_gather_varcount_into<'a, S, Sc>(&self, scope: Sc, sendbuf: &'a S) -> Request<'a, S, Sc>
    where
        S: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        let shares = Shares::Elsewhere { even: false };
        let running = check(self, "MPI_Igatherv", false).map_or_else(refused, |rooted| {
            // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
            unsafe { begin::gather(handle(self), rooted, &Place::of(sendbuf), &shares) }
        });
        Request::new(running, sendbuf, scope)
    }

    /// Begins a [`gather_varcount_into_root`](Self::gather_varcount_into_root).
    fn immediate_gather_varcount_into_root<'a, S, R, Sc>(
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
        let running = check(self, "MPI_Igatherv", true).map_or_else(refused, |rooted| {
            // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
            unsafe { begin::gather(handle(self), rooted, &Place::of(sendbuf), &Shares::Uneven(&into)) }
        });
        Request::new(running, data, scope)
    }

    /// Begins a [`scatter_into`](Self::scatter_into).
    fn immediate_scatter_into<'a, R, Sc>(&self, scope: Sc, recvbuf: &'a mut R) -> Request<'a, R, Sc>
    where
        R: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let shares = Shares::Elsewhere { even: true };
        let (into, data) = borrowed!(Place recvbuf);
        let running = check(self, "MPI_Iscatter", false).map_or_else(refused, |rooted| {
            // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
            unsafe { begin::scatter(handle(self), rooted, &shares, &into) }
        });
        Request::new(running, data, scope)
    }

    /// Begins a [`scatter_into_root`](Self::scatter_into_root).
    fn immediate_scatter_into_root<'a, S, R, Sc>(
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
        let running = check(self, "MPI_Iscatter", true).map_or_else(refused, |rooted| {
            // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
            unsafe { begin::scatter(handle(self), rooted, &Shares::Even(&Place::of(sendbuf)), &into) }
        });
        Request::new(running, data, scope)
    }

    /// Begins a [`scatter_varcount_into`](Self::scatter_varcount_into).
    fn immediate_scatter_varcount_into<'a, R, Sc>(&self, scope: Sc, recvbuf: &'a mut R) -> Request<'a, R, Sc>
    where
        R: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let shares = Shares::Elsewhere { even: false };
        let (into, data) = borrowed!(Place recvbuf);
        let running = check(self, "MPI_Iscatterv", false).map_or_else(refused, |rooted| {
            // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
            unsafe { begin::scatter(handle(self), rooted, &shares, &into) }
        });
        Request::new(running, data, scope)
    }

    /// Begins a [`scatter_varcount_into_root`](Self::scatter_varcount_into_root).
    fn immediate_scatter_varcount_into_root<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: 'a + PartitionedBuffer + ?Sized,
        R: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let (into, data) = borrowed!(Place recvbuf);
        let running = check(self, "MPI_Iscatterv", true).map_or_else(refused, |rooted| {
            // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
            unsafe { begin::scatter(handle(self), rooted, &Shares::Uneven(&Blocks::of(sendbuf)), &into) }
        });
        Request::new(running, data, scope)
    }

    /// Begins a [`reduce_into`](Self::reduce_into).
    fn immediate_reduce_into<'a, S, O, Sc>(&self, scope: Sc, sendbuf: &'a S, op: O) -> Request<'a, S, Sc>
    where
        S: 'a + Buffer + ?Sized,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let running = check(self, "MPI_Ireduce", false).map_or_else(refused, |rooted| {
            // SAFETY: all are borrowed for `'a`, and the scope ends the operation before that.
            unsafe { begin::reduce(handle(self), rooted, &Place::of(sendbuf), None, &op.erased()) }
        });
        Request::new(running, sendbuf, scope)
    }

    /// Begins a [`reduce_into_root`](Self::reduce_into_root).
    fn immediate_reduce_into_root<'a, S, R, O, Sc>(
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
        let running = check(self, "MPI_Ireduce", true).map_or_else(refused, |rooted| {
            // SAFETY: all are borrowed for `'a`, and the scope ends the operation before that.
            unsafe { begin::reduce(handle(self), rooted, &Place::of(sendbuf), Some(&into), &op.erased()) }
        });
        Request::new(running, data, scope)
    }
}

#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Collectives in which one process is not like the others.

use hikyaku::mpi::{Rank, error::Error};

use super::{
    Operation, Persistent,
    begin::{self, Rooted, Shares},
    methods::{either, methods},
};
use crate::{
    datatype::{Blocks, Buffer, BufferMut, PartitionedBuffer, PartitionedBufferMut, Place},
    request::{Found, Request, Scope},
    topology::{AsCommunicator, AsHandle, Handle},
};

fn handle<P: AsCommunicator + ?Sized>(process: &P) -> &Handle {
    process.as_communicator().as_handle()
}

fn rooted<P: Root + ?Sized>(process: &P, call: &'static str) -> Rooted {
    Rooted {
        call,
        root: process.root_rank(),
    }
}

/// Collectives that a process is the root of: it sends to all others or gets from them. The methods that end in
/// `_root` are for the root, those without it for all others.
///
/// Errors: a process is lost, the communicator revoked; buffers that do not fit; a method that is for the other side; an
/// operation that is not defined for the elements.
pub trait Root: AsCommunicator {
    /// Its rank.
    fn root_rank(&self) -> Rank;

    methods! {
        /// All get what the root has (`MPI_Bcast`).
        broadcast_into, immediate_broadcast_into, persistent_broadcast_into: "MPI_Bcast", "MPI_Ibcast";
        receive buffer: BufferMut as Place;
        |this, call| begin::broadcast(handle(this), rooted(this, call), &buffer);

        /// The root gets what all have (`MPI_Gather`). For the others.
        gather_into, immediate_gather_into, persistent_gather_into: "MPI_Gather", "MPI_Igather";
        send sendbuf: Buffer as Place;
        |this, call| begin::gather(handle(this), rooted(this, call), Some(&sendbuf), &Shares::Elsewhere { even: true });

        /// The root gets what all have, in the order of ranks. For the root.
        gather_into_root, immediate_gather_into_root, persistent_gather_into_root: "MPI_Gather", "MPI_Igather";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        |this, call| begin::gather(handle(this), rooted(this, call), Some(&sendbuf), &Shares::Even(&recvbuf));

        /// The root gets what all have, which is not as much each (`MPI_Gatherv`). For the others.
        gather_varcount_into, immediate_gather_varcount_into, persistent_gather_varcount_into: "MPI_Gatherv", "MPI_Igatherv";
        send sendbuf: Buffer as Place;
        |this, call| begin::gather(handle(this), rooted(this, call), Some(&sendbuf), &Shares::Elsewhere { even: false });

        /// The root gets what all have, which is not as much each. For the root.
        gather_varcount_into_root, immediate_gather_varcount_into_root, persistent_gather_varcount_into_root: "MPI_Gatherv", "MPI_Igatherv";
        send sendbuf: Buffer as Place;
        receive recvbuf: PartitionedBufferMut as Blocks;
        |this, call| begin::gather(handle(this), rooted(this, call), Some(&sendbuf), &Shares::Uneven(&recvbuf));

        /// All get a part of what the root has (`MPI_Scatter`). For the others.
        scatter_into, immediate_scatter_into, persistent_scatter_into: "MPI_Scatter", "MPI_Iscatter";
        receive recvbuf: BufferMut as Place;
        |this, call| begin::scatter(handle(this), rooted(this, call), &Shares::Elsewhere { even: true }, Some(&recvbuf));

        /// All get a part of what the root has, in the order of ranks. For the root.
        scatter_into_root, immediate_scatter_into_root, persistent_scatter_into_root: "MPI_Scatter", "MPI_Iscatter";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        |this, call| begin::scatter(handle(this), rooted(this, call), &Shares::Even(&sendbuf), Some(&recvbuf));

        /// All get a part of what the root has, of different sizes (`MPI_Scatterv`). For the others.
        scatter_varcount_into, immediate_scatter_varcount_into, persistent_scatter_varcount_into: "MPI_Scatterv", "MPI_Iscatterv";
        receive recvbuf: BufferMut as Place;
        |this, call| begin::scatter(handle(this), rooted(this, call), &Shares::Elsewhere { even: false }, Some(&recvbuf));

        /// All get a part of what the root has, of different sizes. For the root.
        scatter_varcount_into_root, immediate_scatter_varcount_into_root, persistent_scatter_varcount_into_root: "MPI_Scatterv", "MPI_Iscatterv";
        send sendbuf: PartitionedBuffer as Blocks;
        receive recvbuf: BufferMut as Place;
        |this, call| begin::scatter(handle(this), rooted(this, call), &Shares::Uneven(&sendbuf), Some(&recvbuf));

        /// The root gets the reduction of what all have (`MPI_Reduce`). For the others.
        reduce_into, immediate_reduce_into, persistent_reduce_into: "MPI_Reduce", "MPI_Ireduce";
        send sendbuf: Buffer as Place;
        operation op: Operation;
        |this, call| begin::reduce(handle(this), rooted(this, call), &sendbuf, None, op);

        /// The root gets the reduction of what all have. For the root.
        reduce_into_root, immediate_reduce_into_root, persistent_reduce_into_root: "MPI_Reduce", "MPI_Ireduce";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        operation op: Operation;
        |this, call| begin::reduce(handle(this), rooted(this, call), &sendbuf, Some(&recvbuf), op);
    }
}

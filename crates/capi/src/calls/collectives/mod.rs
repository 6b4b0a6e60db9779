//! Collectives (MPI 6, and 8.6 for those of neighbours). Each body prepares one; [`Then`](super::Then) says what becomes
//! of it.

mod among_all;
mod blocks;
mod buffers;
mod neighbours;
mod prepared;
mod reductions;
mod rooted;

pub(crate) use self::prepared::complete;
pub use self::{
    among_all::{allgather, allgatherv, alltoall, alltoallv, alltoallw},
    neighbours::{neighbor_allgather, neighbor_allgatherv, neighbor_alltoall, neighbor_alltoallv, neighbor_alltoallw},
    reductions::{allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan},
    rooted::{barrier, bcast, gather, gatherv, scatter, scatterv},
};

#[doc(hidden)]
#[macro_export]
macro_rules! collective_calls {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::collectives! { $abi;
                "Barrier" "barrier" => collectives::barrier(comm: Comm);
                "Bcast" "bcast" + c => collectives::bcast(
                    buffer: Buffer, count: Count, datatype: Type, root: Rank, comm: Comm);
                "Gather" "gather" + c => collectives::gather(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcount: Count,
                    recvtype: Type, root: Rank, comm: Comm);
                "Gatherv" "gatherv" + c => collectives::gatherv(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcounts: Counts,
                    displs: Counts, recvtype: Type, root: Rank, comm: Comm);
                "Scatter" "scatter" + c => collectives::scatter(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcount: Count,
                    recvtype: Type, root: Rank, comm: Comm);
                "Scatterv" "scatterv" + c => collectives::scatterv(
                    sendbuf: Buffer, sendcounts: Counts, displs: Counts, sendtype: Type, recvbuf: Buffer,
                    recvcount: Count, recvtype: Type, root: Rank, comm: Comm);
                "Allgather" "allgather" + c => collectives::allgather(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcount: Count,
                    recvtype: Type, comm: Comm);
                "Allgatherv" "allgatherv" + c => collectives::allgatherv(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcounts: Counts,
                    displs: Counts, recvtype: Type, comm: Comm);
                "Alltoall" "alltoall" + c => collectives::alltoall(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcount: Count,
                    recvtype: Type, comm: Comm);
                "Alltoallv" "alltoallv" + c => collectives::alltoallv(
                    sendbuf: Buffer, sendcounts: Counts, sdispls: Counts, sendtype: Type, recvbuf: Buffer,
                    recvcounts: Counts, rdispls: Counts, recvtype: Type, comm: Comm);
                "Alltoallw" "alltoallw" + c => collectives::alltoallw(
                    sendbuf: Buffer, sendcounts: Counts, sdispls: Counts, sendtypes: Handles<Datatype>,
                    recvbuf: Buffer, recvcounts: Counts, rdispls: Counts, recvtypes: Handles<Datatype>, comm: Comm);
                "Reduce" "reduce" + c => collectives::reduce(
                    sendbuf: Buffer, recvbuf: Buffer, count: Count, datatype: Type, op: Op, root: Rank, comm: Comm);
                "Allreduce" "allreduce" + c => collectives::allreduce(
                    sendbuf: Buffer, recvbuf: Buffer, count: Count, datatype: Type, op: Op, comm: Comm);
                "Reduce_scatter" "reduce_scatter" + c => collectives::reduce_scatter(
                    sendbuf: Buffer, recvbuf: Buffer, recvcounts: Counts, datatype: Type, op: Op, comm: Comm);
                "Reduce_scatter_block" "reduce_scatter_block" + c => collectives::reduce_scatter_block(
                    sendbuf: Buffer, recvbuf: Buffer, recvcount: Count, datatype: Type, op: Op, comm: Comm);
                "Scan" "scan" + c => collectives::scan(
                    sendbuf: Buffer, recvbuf: Buffer, count: Count, datatype: Type, op: Op, comm: Comm);
                "Exscan" "exscan" + c => collectives::exscan(
                    sendbuf: Buffer, recvbuf: Buffer, count: Count, datatype: Type, op: Op, comm: Comm);
                "Neighbor_allgather" "neighbor_allgather" + c => collectives::neighbor_allgather(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcount: Count,
                    recvtype: Type, comm: Comm);
                "Neighbor_allgatherv" "neighbor_allgatherv" + c => collectives::neighbor_allgatherv(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcounts: Counts,
                    displs: Counts, recvtype: Type, comm: Comm);
                "Neighbor_alltoall" "neighbor_alltoall" + c => collectives::neighbor_alltoall(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcount: Count,
                    recvtype: Type, comm: Comm);
                "Neighbor_alltoallv" "neighbor_alltoallv" + c => collectives::neighbor_alltoallv(
                    sendbuf: Buffer, sendcounts: Counts, sdispls: Counts, sendtype: Type, recvbuf: Buffer,
                    recvcounts: Counts, rdispls: Counts, recvtype: Type, comm: Comm);
                "Neighbor_alltoallw" "neighbor_alltoallw" + c => collectives::neighbor_alltoallw(
                    sendbuf: Buffer, sendcounts: Counts, sdispls: Addresses, sendtypes: Handles<Datatype>,
                    recvbuf: Buffer, recvcounts: Counts, rdispls: Addresses, recvtypes: Handles<Datatype>,
                    comm: Comm);
            }
        };
    };
}

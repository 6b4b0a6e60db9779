#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Collectives among neighbours (MPI 8.6).

use hikyaku::mpi::{Rank, collectives::Collective, error::Error};

use super::{
    Persistent,
    begin::{Neighbors, Ready},
    methods::{either, methods},
};
use crate::{
    datatype::{
        Blocks, Buffer, BufferMut, Buffers, BuffersMut, PartitionedBuffer, PartitionedBufferMut, Place, Places,
    },
    request::{Found, Request, Scope},
    topology::{AsHandle, CartesianCommunicator, Communicator, DistributedGraphCommunicator, GraphCommunicator},
};

/// Collectives in which each process exchanges with its neighbours in a grid or graph. Not in rsmpi.
///
/// In a grid the neighbours are, for each dimension, the one before and the one after; beyond an edge there is none,
/// and its part of the buffers stays unchanged. What one sends to the one before, that one receives from the one after,
/// also if both are one process.
///
/// Errors: a process is lost, the communicator is revoked, or buffers do not fit.
///
/// ```
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let ring = universe.world().create_cartesian_communicator(&[1], &[true], false)?.unwrap();
/// let mut around = [0; 2];
/// ring.neighbor_all_gather_into(&7, &mut around)?;
/// assert_eq!(around, [7, 7], "alone in a ring, one is one's own neighbour on both sides");
/// # Ok::<_, mpi::Error>(())
/// ```
pub trait NeighborhoodCollectives: Communicator {
    /// The neighbours of this process.
    #[doc(hidden)]
    fn neighborhood(&self) -> Neighbors;

    methods! {
        /// Gives each process the values of its neighbours, in their order (`MPI_Neighbor_allgather`).
        neighbor_all_gather_into, immediate_neighbor_all_gather_into, persistent_neighbor_all_gather_into:
            "MPI_Neighbor_allgather", "MPI_Ineighbor_allgather";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        |this, call| Ready::of(this.as_handle(), call, Collective::NeighborAllgather)
            .among(&this.neighborhood())
            .from(&sendbuf)
            .into(&recvbuf);

        /// The same, with different numbers of values (`MPI_Neighbor_allgatherv`).
        neighbor_all_gather_varcount_into, immediate_neighbor_all_gather_varcount_into, persistent_neighbor_all_gather_varcount_into:
            "MPI_Neighbor_allgatherv", "MPI_Ineighbor_allgatherv";
        send sendbuf: Buffer as Place;
        receive recvbuf: PartitionedBufferMut as Blocks;
        |this, call| Ready::of(this.as_handle(), call, Collective::NeighborAllgather)
            .among(&this.neighborhood())
            .from(&sendbuf)
            .into(&recvbuf);

        /// Sends a part from each process to each of its neighbours (`MPI_Neighbor_alltoall`).
        neighbor_all_to_all_into, immediate_neighbor_all_to_all_into, persistent_neighbor_all_to_all_into:
            "MPI_Neighbor_alltoall", "MPI_Ineighbor_alltoall";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        |this, call| Ready::of(this.as_handle(), call, Collective::NeighborAlltoall)
            .among(&this.neighborhood())
            .from(&sendbuf)
            .into(&recvbuf);

        /// The same with parts of different sizes (`MPI_Neighbor_alltoallv`).
        neighbor_all_to_all_varcount_into, immediate_neighbor_all_to_all_varcount_into, persistent_neighbor_all_to_all_varcount_into:
            "MPI_Neighbor_alltoallv", "MPI_Ineighbor_alltoallv";
        send sendbuf: PartitionedBuffer as Blocks;
        receive recvbuf: PartitionedBufferMut as Blocks;
        |this, call| Ready::of(this.as_handle(), call, Collective::NeighborAlltoall)
            .among(&this.neighborhood())
            .from(&sendbuf)
            .into(&recvbuf);

        /// The same with parts anywhere and of different datatypes (`MPI_Neighbor_alltoallw`): a buffer for each
        /// neighbour.
        neighbor_all_to_all_parts_into, immediate_neighbor_all_to_all_parts_into, persistent_neighbor_all_to_all_parts_into:
            "MPI_Neighbor_alltoallw", "MPI_Ineighbor_alltoallw";
        send sendbuf: Buffers as Places;
        receive recvbuf: BuffersMut as Places;
        |this, call| Ready::of(this.as_handle(), call, Collective::NeighborAlltoall)
            .among(&this.neighborhood())
            .from(&sendbuf)
            .into(&recvbuf);
    }
}

fn all(ranks: &[Rank]) -> Vec<Option<usize>> {
    ranks.iter().map(|rank| usize::try_from(*rank).ok()).collect()
}

impl NeighborhoodCollectives for CartesianCommunicator {
    fn neighborhood(&self) -> Neighbors {
        let rank = self.as_handle().comm.rank();
        let neighbors = self.topology().neighbors(rank);
        let neighbors: Vec<Option<usize>> = neighbors.map_or_else(
            |_| Vec::new(),
            |all| {
                all.map(|rank| rank.and_then(|rank| usize::try_from(rank).ok()))
                    .collect()
            },
        );
        Neighbors {
            sources: neighbors.clone(),
            destinations: neighbors,
            crossed: true,
        }
    }
}

impl NeighborhoodCollectives for GraphCommunicator {
    fn neighborhood(&self) -> Neighbors {
        Neighbors {
            sources: all(self.neighbors()),
            destinations: all(self.neighbors()),
            crossed: false,
        }
    }
}

impl NeighborhoodCollectives for DistributedGraphCommunicator {
    fn neighborhood(&self) -> Neighbors {
        Neighbors {
            sources: all(self.sources()),
            destinations: all(self.destinations()),
            crossed: false,
        }
    }
}

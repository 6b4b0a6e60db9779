#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Collectives among neighbours (MPI 8.6).

use hikyaku::mpi::{Rank, error::Error};

use super::begin::{self, Neighbors};
use crate::{
    datatype::{Blocks, Buffer, BufferMut, PartitionedBuffer, PartitionedBufferMut, Place},
    topology::{AsHandle, CartesianCommunicator, Communicator, DistributedGraphCommunicator, GraphCommunicator},
};

/// Collectives in which each process talks to its neighbours in a grid or graph. Not in rsmpi.
///
/// In a grid the neighbours are, for each dimension, the one before and the one after; beyond an edge there is none, and
/// its part of the buffers is left alone.
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

    /// Everybody gets what its neighbours have, in their order (`MPI_Neighbor_allgather`).
    ///
    /// # Errors
    /// A process is lost, the communicator revoked; buffers that do not fit.
    fn neighbor_all_gather_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        let (from, into) = (Place::of(sendbuf), Place::of_mut(recvbuf));
        let (call, neighbors) = ("MPI_Neighbor_allgather", self.neighborhood());
        // SAFETY: both are borrowed until the operation has ended.
        unsafe { begin::neighbor_all_gather(self.as_handle(), call, &neighbors, &from, &into) }
            .wait()
            .map(drop)
    }

    /// Everybody sends a part to each of its neighbours (`MPI_Neighbor_alltoall`).
    ///
    /// # Errors
    /// As [`neighbor_all_gather_into`](Self::neighbor_all_gather_into).
    fn neighbor_all_to_all_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: Buffer + ?Sized,
        R: BufferMut + ?Sized,
    {
        let (from, into) = (Place::of(sendbuf), Place::of_mut(recvbuf));
        let (call, neighbors) = ("MPI_Neighbor_alltoall", self.neighborhood());
        // SAFETY: both are borrowed until the operation has ended.
        unsafe { begin::neighbor_all_to_all(self.as_handle(), call, &neighbors, &from, &into) }
            .wait()
            .map(drop)
    }

    /// The same with parts of different sizes (`MPI_Neighbor_alltoallv`).
    ///
    /// # Errors
    /// As [`neighbor_all_gather_into`](Self::neighbor_all_gather_into).
    fn neighbor_all_to_all_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: PartitionedBuffer + ?Sized,
        R: PartitionedBufferMut + ?Sized,
    {
        let (from, into) = (Blocks::of(sendbuf), Blocks::of_mut(recvbuf));
        let (call, neighbors) = ("MPI_Neighbor_alltoallv", self.neighborhood());
        // SAFETY: both are borrowed until the operation has ended.
        unsafe { begin::neighbor_all_to_all_varcount(self.as_handle(), call, &neighbors, &from, &into) }
            .wait()
            .map(drop)
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
        }
    }
}

impl NeighborhoodCollectives for GraphCommunicator {
    fn neighborhood(&self) -> Neighbors {
        Neighbors {
            sources: all(self.neighbors()),
            destinations: all(self.neighbors()),
        }
    }
}

impl NeighborhoodCollectives for DistributedGraphCommunicator {
    fn neighborhood(&self) -> Neighbors {
        Neighbors {
            sources: all(self.sources()),
            destinations: all(self.destinations()),
        }
    }
}

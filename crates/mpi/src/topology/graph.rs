//! Graphs of processes.

use hikyaku::mpi::{
    error::Error,
    topology::{Adjacency, Graph},
};

use super::{AsHandle, Handle, Rank};

/// A communicator whose processes form a graph that each of them knows. (In rsmpi there is only the name.)
#[derive(Debug)]
pub struct GraphCommunicator {
    handle: Handle,
    neighbors: Vec<Rank>,
    graph: Graph,
}

/// A communicator whose processes form a graph in which each process knows its neighbours. (In rsmpi there is only the
/// name.)
#[derive(Debug)]
pub struct DistributedGraphCommunicator {
    handle: Handle,
    neighbors: Adjacency,
}

impl AsHandle for GraphCommunicator {
    fn as_handle(&self) -> &Handle {
        &self.handle
    }
}

impl AsHandle for DistributedGraphCommunicator {
    fn as_handle(&self) -> &Handle {
        &self.handle
    }
}

impl GraphCommunicator {
    pub(super) fn create(handle: &Handle, index: &[Rank], edges: &[Rank]) -> Result<Option<Self>, Error> {
        const CALL: &str = "MPI_Graph_create";
        let wrong = |error| Error::topology(CALL, error);
        let graph = Graph::new(handle.comm.size(), index, edges).map_err(wrong)?;
        let rank = handle.comm.rank();
        let comm = handle.comm.split_for(CALL, (rank < graph.size()).then_some(0), 0)?;
        let Some(comm) = comm else { return Ok(None) };
        let neighbors = graph.neighbors(rank).map_err(wrong)?.to_vec();
        Ok(Some(Self {
            handle: handle.sibling(comm),
            neighbors,
            graph,
        }))
    }

    /// The neighbours of this process (`MPI_Graph_neighbors`).
    #[must_use]
    pub fn neighbors(&self) -> &[Rank] {
        &self.neighbors
    }

    /// The neighbours of any process.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn neighbors_of(&self, rank: Rank) -> Result<&[Rank], Error> {
        let neighbors = self.graph.neighbors(rank);
        neighbors.map_err(|error| Error::topology("MPI_Graph_neighbors", error))
    }
}

impl DistributedGraphCommunicator {
    pub(super) fn create(handle: &Handle, sources: &[Rank], destinations: &[Rank]) -> Result<Self, Error> {
        const CALL: &str = "MPI_Dist_graph_create_adjacent";
        let neighbors = Adjacency::new(handle.comm.size(), (sources, &[]), (destinations, &[]));
        // All take part in what follows, whatever one of them has got wrong.
        let comm = handle.comm.duplicate_for(CALL)?;
        let neighbors = neighbors.map_err(|error| Error::topology(CALL, error))?;
        Ok(Self {
            handle: handle.sibling(comm),
            neighbors,
        })
    }

    /// The processes from which data come to this process, in the order of buffers.
    #[must_use]
    pub fn sources(&self) -> &[Rank] {
        self.neighbors.sources()
    }

    /// The processes to which data go from this process, in the order of buffers.
    #[must_use]
    pub fn destinations(&self) -> &[Rank] {
        self.neighbors.destinations()
    }
}

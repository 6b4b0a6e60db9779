//! Graphs (MPI 8.5.3, 8.5.4).

use alloc::vec::Vec;

use super::{Rank, TopologyError, same_length};

/// A graph that every process knows (`MPI_Graph_create`). Node numbers are ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    index: Vec<Rank>,
    edges: Vec<Rank>,
}

impl Graph {
    /// `index[i]` is the number of neighbours of the nodes 0 to i together; `edges` are the neighbours, node by node.
    /// `processes` is the size of the communicator; ranks from `index.len()` on are not part of the graph.
    ///
    /// # Errors
    /// [`TopologyError::TooLarge`], [`TopologyError::Index`], [`TopologyError::Rank`].
    pub fn new(processes: Rank, index: &[Rank], edges: &[Rank]) -> Result<Self, TopologyError> {
        if index.len() > usize::try_from(processes).unwrap_or(0) {
            return Err(TopologyError::TooLarge { processes });
        }
        let mut before = 0;
        for (node, &after) in index.iter().enumerate() {
            if after < before {
                return Err(TopologyError::Index { node });
            }
            before = after;
        }
        if edges.len() != before as usize {
            let node = index.len().saturating_sub(1);
            return Err(TopologyError::Index { node });
        }
        let size = index.len() as Rank;
        for &rank in edges {
            check(rank, size)?;
        }
        Ok(Self {
            index: index.to_vec(),
            edges: edges.to_vec(),
        })
    }

    /// Number of processes that are part of it.
    #[must_use]
    pub fn size(&self) -> Rank {
        self.index.len() as Rank
    }

    /// The arguments of [`new`](Self::new): index and edges (`MPI_Graph_get`).
    #[must_use]
    pub fn as_arrays(&self) -> (&[Rank], &[Rank]) {
        (&self.index, &self.edges)
    }

    /// The neighbours of `rank`, both sources and destinations, in the order given (`MPI_Graph_neighbors`).
    ///
    /// # Errors
    /// [`TopologyError::Rank`].
    pub fn neighbors(&self, rank: Rank) -> Result<&[Rank], TopologyError> {
        check(rank, self.size())?;
        let node = rank as usize;
        let begin = if node == 0 { 0 } else { self.index[node - 1] };
        Ok(&self.edges[begin as usize..self.index[node] as usize])
    }
}

/// Edges that a process contributes to a distributed graph (`MPI_Dist_graph_create`). They need not begin or end at it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edges<'a> {
    /// Ranks where edges begin.
    pub sources: &'a [Rank],
    /// Number of edges that begin at each of them.
    pub degrees: &'a [Rank],
    /// Ranks where they end, source by source.
    pub destinations: &'a [Rank],
    /// Weight of each edge; empty if the graph has no weights.
    pub weights: &'a [Rank],
}

/// The neighbours of one process in a distributed graph (`MPI_Dist_graph_create_adjacent`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adjacency {
    sources: Vec<Rank>,
    source_weights: Vec<Rank>,
    destinations: Vec<Rank>,
    destination_weights: Vec<Rank>,
}

impl Adjacency {
    /// The neighbours as given, for a communicator of `size`. No weights are empty slices.
    ///
    /// # Errors
    /// [`TopologyError::Rank`], [`TopologyError::Lengths`], [`TopologyError::Negative`].
    pub fn new(
        size: Rank,
        (sources, source_weights): (&[Rank], &[Rank]),
        (destinations, destination_weights): (&[Rank], &[Rank]),
    ) -> Result<Self, TopologyError> {
        for &rank in sources.iter().chain(destinations) {
            check(rank, size)?;
        }
        check_weights("sourceweights", source_weights, sources.len())?;
        check_weights("destweights", destination_weights, destinations.len())?;
        Ok(Self {
            sources: sources.to_vec(),
            source_weights: source_weights.to_vec(),
            destinations: destinations.to_vec(),
            destination_weights: destination_weights.to_vec(),
        })
    }

    /// The neighbours of `rank` among what all processes contribute, in that order: the same on all processes that
    /// gather the contributions by rank.
    ///
    /// # Errors
    /// [`TopologyError::Rank`], [`TopologyError::Lengths`], [`TopologyError::Negative`].
    pub fn collect<'a>(
        rank: Rank,
        size: Rank,
        contributions: impl IntoIterator<Item = Edges<'a>>,
    ) -> Result<Self, TopologyError> {
        check(rank, size)?;
        let mut adjacency = Self::default();
        for edges in contributions {
            edges.check(size)?;
            adjacency.extend(rank, edges);
        }
        Ok(adjacency)
    }

    /// Adds the edges that begin or end at `rank`.
    fn extend(&mut self, rank: Rank, edges: Edges<'_>) {
        let mut next = 0;
        for (&source, &degree) in edges.sources.iter().zip(edges.degrees) {
            for edge in next..next + degree as usize {
                let (destination, weight) = (edges.destinations[edge], edges.weights.get(edge));
                if source == rank {
                    self.destinations.push(destination);
                    self.destination_weights.extend(weight);
                }
                if destination == rank {
                    self.sources.push(source);
                    self.source_weights.extend(weight);
                }
            }
            next += degree as usize;
        }
    }

    /// Ranks from which data come, in the order of the buffers.
    #[must_use]
    pub fn sources(&self) -> &[Rank] {
        &self.sources
    }

    /// The weight of each source; empty without weights.
    #[must_use]
    pub fn source_weights(&self) -> &[Rank] {
        &self.source_weights
    }

    /// Ranks to which data go, in the order of the buffers.
    #[must_use]
    pub fn destinations(&self) -> &[Rank] {
        &self.destinations
    }

    /// The weight of each destination; empty without weights.
    #[must_use]
    pub fn destination_weights(&self) -> &[Rank] {
        &self.destination_weights
    }
}

impl Edges<'_> {
    fn check(&self, size: Rank) -> Result<(), TopologyError> {
        same_length("degrees", self.degrees.len(), self.sources.len())?;
        let mut total = 0_usize;
        for (index, &degree) in self.degrees.iter().enumerate() {
            let argument = "degrees";
            let degree = usize::try_from(degree).map_err(|_| TopologyError::Negative { argument, index })?;
            total = total.saturating_add(degree);
        }
        same_length("destinations", self.destinations.len(), total)?;
        for &rank in self.sources.iter().chain(self.destinations) {
            check(rank, size)?;
        }
        check_weights("weights", self.weights, total)
    }
}

fn check(rank: Rank, size: Rank) -> Result<(), TopologyError> {
    if (0..size).contains(&rank) {
        Ok(())
    } else {
        Err(TopologyError::Rank { rank, size })
    }
}

fn check_weights(argument: &'static str, weights: &[Rank], edges: usize) -> Result<(), TopologyError> {
    if weights.is_empty() {
        return Ok(());
    }
    same_length(argument, weights.len(), edges)?;
    match weights.iter().position(|weight| *weight < 0) {
        Some(index) => Err(TopologyError::Negative { argument, index }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn example_of_the_standard() {
        let graph = Graph::new(4, &[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2]).unwrap();
        let neighbors: Vec<_> = (0..4).map(|rank| graph.neighbors(rank).unwrap()).collect();
        assert_eq!(neighbors, [&[1, 3][..], &[0], &[3], &[0, 2]]);
        assert!(graph.neighbors(4).is_err());
    }

    #[test]
    fn bad_graphs_are_refused() {
        let new = |index: &[Rank], edges: &[Rank]| Graph::new(3, index, edges).map(|_| ());
        assert_eq!(new(&[1, 0], &[]), Err(TopologyError::Index { node: 1 }));
        assert_eq!(new(&[-1], &[]), Err(TopologyError::Index { node: 0 }));
        assert_eq!(new(&[1, 1], &[]), Err(TopologyError::Index { node: 1 }));
        assert_eq!(new(&[1, 1], &[2]), Err(TopologyError::Rank { rank: 2, size: 2 }));
        assert_eq!(new(&[0; 4], &[]), Err(TopologyError::TooLarge { processes: 3 }));
        assert_eq!(new(&[], &[]), Ok(()));
    }

    #[test]
    fn bad_adjacencies_are_refused() {
        let new = |sources: &[Rank], weights: &[Rank]| Adjacency::new(3, (sources, weights), (&[], &[])).map(|_| ());
        assert_eq!(new(&[3], &[]), Err(TopologyError::Rank { rank: 3, size: 3 }));
        assert!(matches!(
            new(&[1], &[1, 2]),
            Err(TopologyError::Lengths {
                argument: "sourceweights",
                ..
            })
        ));
        assert!(matches!(
            new(&[1, 2], &[1, -2]),
            Err(TopologyError::Negative { index: 1, .. })
        ));
        let collect = |degrees: &[Rank]| {
            let edges = Edges {
                sources: &[0, 1],
                degrees,
                destinations: &[2],
                weights: &[],
            };
            Adjacency::collect(0, 3, [edges])
        };
        assert!(collect(&[1, 0]).is_ok());
        assert!(collect(&[1]).is_err() && collect(&[2, -1]).is_err() && collect(&[1, 1]).is_err());
    }

    proptest! {
        #[test]
        fn every_edge_has_two_ends(
            contributions in prop::collection::vec(
                prop::collection::vec((0..5, prop::collection::vec((0..5, 0..9), 0..4)), 0..4), 0..4),
            weighted: bool,
        ) {
            let flat: Vec<_> = contributions
                .iter()
                .map(|lists| {
                    let ends: Vec<(Rank, Rank)> = lists.iter().flat_map(|(_, ends)| ends.iter().copied()).collect();
                    (
                        lists.iter().map(|(source, _)| *source).collect::<Vec<Rank>>(),
                        lists.iter().map(|(_, ends)| ends.len() as Rank).collect::<Vec<Rank>>(),
                        ends.iter().map(|(end, _)| *end).collect::<Vec<Rank>>(),
                        ends.iter().map(|(_, weight)| *weight).filter(|_| weighted).collect::<Vec<Rank>>(),
                    )
                })
                .collect();
            let edges = || flat.iter().map(|(sources, degrees, destinations, weights)| Edges {
                sources, degrees, destinations, weights,
            });
            let mut model = Vec::new();
            for (source, ends) in contributions.iter().flatten() {
                model.extend(ends.iter().map(|(end, weight)| (*source, *end, *weight)));
            }
            for rank in 0..5 {
                let found = Adjacency::collect(rank, 5, edges()).unwrap();
                let out = model.iter().filter(|(source, ..)| *source == rank);
                let into = model.iter().filter(|(_, end, _)| *end == rank);
                let weights = |weight: Rank| weighted.then_some(weight);
                prop_assert!(found.destinations().iter().eq(out.clone().map(|(_, end, _)| end)));
                prop_assert!(found.sources().iter().eq(into.clone().map(|(source, ..)| source)));
                prop_assert!(found.destination_weights().iter().copied().eq(out.filter_map(|edge| weights(edge.2))));
                prop_assert!(found.source_weights().iter().copied().eq(into.filter_map(|edge| weights(edge.2))));
            }
        }
    }
}

//! Topologies: which ranks are neighbours (MPI 8).
//!
//! [`Cartesian`] is a grid, [`Graph`] a graph that every process knows, [`Adjacency`] the part of a distributed graph
//! that one process knows. All are computations on ranks of one communicator. Ranks are never renumbered: a `reorder`
//! flag permits that, but does not demand it.
//!
//! The order of neighbours is the one that neighbourhood collectives use for their buffers (MPI 8.6).

mod cartesian;
mod dims;
mod graph;

use super::{Rank, class::ErrorClass};
pub use cartesian::{Cartesian, Shift, Sub};
pub use dims::dims_create;
pub use graph::{Adjacency, Edges, Graph};

/// Why a topology could not be made, or has no answer.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// A dimension whose size is not positive (or, for [`dims_create`], negative).
    Dimension {
        /// The dimension, from 0.
        dimension: usize,
        /// Its size.
        size: Rank,
    },
    /// Arrays that must have the same length differ.
    Lengths {
        /// The argument with the wrong length.
        argument: &'static str,
        /// Its length.
        len: usize,
        /// The required length.
        expected: usize,
    },
    /// The dimensions given do not divide the number of processes.
    Indivisible {
        /// The number of processes.
        processes: Rank,
        /// The product of the dimensions given.
        product: i64,
    },
    /// The topology needs more processes than there are.
    TooLarge {
        /// Number of processes.
        processes: Rank,
    },
    /// There is no such dimension.
    NoDimension {
        /// The requested dimension.
        dimension: usize,
        /// Number of dimensions.
        dimensions: usize,
    },
    /// A coordinate out of range in a dimension that is not periodic.
    Coordinate {
        /// The dimension.
        dimension: usize,
        /// The coordinate.
        coordinate: Rank,
        /// The size of the dimension.
        size: Rank,
    },
    /// A rank that the topology does not have.
    Rank {
        /// The rank.
        rank: Rank,
        /// Number of ranks of the topology.
        size: Rank,
    },
    /// The cumulated degrees of a graph begin negative, decrease, or do not end with the number of edges.
    Index {
        /// Index of the wrong element.
        node: usize,
    },
    /// A degree or weight below zero.
    Negative {
        /// The argument.
        argument: &'static str,
        /// Index of the wrong element.
        index: usize,
    },
}

impl TopologyError {
    /// Its MPI class.
    #[must_use]
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Dimension { .. } | Self::Indivisible { .. } | Self::NoDimension { .. } => ErrorClass::Dims,
            Self::Rank { .. } => ErrorClass::Rank,
            Self::TooLarge { .. } => ErrorClass::Topology,
            Self::Lengths { .. } | Self::Coordinate { .. } | Self::Index { .. } | Self::Negative { .. } => {
                ErrorClass::Arg
            }
        }
    }
}

impl core::fmt::Display for TopologyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Dimension { dimension, size } => write!(f, "dimension {dimension} cannot be of size {size}"),
            Self::Lengths {
                argument,
                len,
                expected,
            } => write!(f, "{argument} has {len} elements, {expected} are needed"),
            Self::Indivisible { processes, product } => {
                write!(
                    f,
                    "{processes} processes cannot be divided by the given dimensions, {product}"
                )
            }
            Self::TooLarge { processes } => write!(f, "more than the {processes} processes would be needed"),
            Self::NoDimension { dimension, dimensions } => {
                write!(f, "there is no dimension {dimension}, only {dimensions}")
            }
            Self::Coordinate {
                dimension,
                coordinate,
                size,
            } => write!(
                f,
                "coordinate {coordinate} in dimension {dimension}, which has {size} and is not periodic"
            ),
            Self::Rank { rank, size } => write!(f, "rank {rank}, and the topology has {size}"),
            Self::Index { node } => write!(f, "index[{node}] does not continue the sum of degrees"),
            Self::Negative { argument, index } => write!(f, "{argument}[{index}] is negative"),
        }
    }
}

crate::debug_as_display!(TopologyError);

impl core::error::Error for TopologyError {}

fn same_length(argument: &'static str, len: usize, expected: usize) -> Result<(), TopologyError> {
    if len == expected {
        Ok(())
    } else {
        Err(TopologyError::Lengths {
            argument,
            len,
            expected,
        })
    }
}

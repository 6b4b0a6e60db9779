//! Collectives of ranks of which several share a host: in two levels, within hosts and between them, or in one.

use super::collective::Collective;

/// Whether the collectives of a communicator know which of its ranks share a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Levels {
    /// They do where the model says that it is cheaper.
    #[default]
    Auto,
    /// They do not: all ranks are treated as if each had a host of its own.
    Off,
    /// They do wherever they can, and one rank of each host talks with other hosts.
    Leaders,
    /// The same, and all ranks of a host talk with other hosts, each for its share of the vector, where they can.
    Shares,
}

/// What ranks of one host do to each other through memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Within {
    /// Seconds until the others see what a rank writes.
    pub alpha: f64,
    /// Seconds per byte that a rank writes, while others read those before it.
    pub beta: f64,
}

impl Default for Within {
    /// Measured between two cores of one processor.
    fn default() -> Self {
        Self {
            alpha: 0.4e-6,
            beta: 0.04e-9,
        }
    }
}

/// How the ranks of a communicator lie on hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mpi) struct Shape {
    /// Ranks.
    pub(in crate::mpi) size: usize,
    /// Hosts; at least 2.
    pub(in crate::mpi) hosts: usize,
    /// Most ranks of a host; at least 2.
    pub(in crate::mpi) most: usize,
    /// All hosts have as many.
    pub(in crate::mpi) is_even: bool,
    /// Host after host has the next ranks.
    pub(in crate::mpi) is_ordered: bool,
}

/// The way of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mpi) enum Way {
    /// One level: messages between all ranks.
    Flat,
    /// Within hosts, and between one rank of each.
    Leaders,
    /// Within hosts, and between the ranks of the same place on each host, each for its share.
    Shares,
}

impl Way {
    /// Whether a collective can go so.
    pub(super) fn suits(self, collective: Collective, commutative: bool, shape: &Shape) -> bool {
        let keeps_order = commutative || shape.is_ordered;
        match (self, collective) {
            (Self::Flat, _) => true,
            (Self::Leaders, Collective::Barrier | Collective::Bcast) => true,
            (Self::Leaders, Collective::Gather | Collective::Scatter) => true,
            (Self::Leaders, Collective::Allgather | Collective::Allgatherv | Collective::Alltoall) => true,
            (Self::Leaders, Collective::Reduce | Collective::Allreduce) => keeps_order,
            (Self::Leaders, Collective::ReduceScatter | Collective::ReduceScatterBlock) => keeps_order,
            // Those before a rank are those of the hosts before its own, and some of its own.
            (Self::Leaders, Collective::Scan | Collective::Exscan) => shape.is_ordered,
            (Self::Shares, Collective::Bcast | Collective::Allgather | Collective::Allgatherv) => shape.is_even,
            (Self::Shares, Collective::Allreduce) => shape.is_even && keeps_order,
            (Self::Shares, Collective::ReduceScatter | Collective::ReduceScatterBlock) => shape.is_even && keeps_order,
            _ => false,
        }
    }
}

impl Collective {
    /// The collective of one rank of each host that stands for this one of all ranks: blocks have different lengths if the
    /// hosts have not as many ranks each.
    pub(in crate::mpi) fn among_hosts(self, is_even: bool) -> Self {
        match self {
            Self::Scan => Self::Exscan,
            _ if is_even => self,
            Self::Gather => Self::Gatherv,
            Self::Scatter => Self::Scatterv,
            Self::Allgather => Self::Allgatherv,
            Self::Alltoall => Self::Alltoallv,
            other => other,
        }
    }
}

//! Compact descriptions of calls, for errors that compare the calls of two ranks.

use core::fmt;

use super::{Rank, datatype::Kind, operation::Predefined};

/// Longest name of a function, bytes.
pub(crate) const NAME: usize = 32;

/// The collective functions: blocking, non-blocking and persistent. The first entry stands for any function that is not
/// listed.
const NAMES: &[&str] = &[
    "another function",
    "MPI_Barrier",
    "MPI_Ibarrier",
    "MPI_Barrier_init",
    "MPI_Bcast",
    "MPI_Ibcast",
    "MPI_Bcast_init",
    "MPI_Gather",
    "MPI_Igather",
    "MPI_Gather_init",
    "MPI_Gatherv",
    "MPI_Igatherv",
    "MPI_Gatherv_init",
    "MPI_Scatter",
    "MPI_Iscatter",
    "MPI_Scatter_init",
    "MPI_Scatterv",
    "MPI_Iscatterv",
    "MPI_Scatterv_init",
    "MPI_Allgather",
    "MPI_Iallgather",
    "MPI_Allgather_init",
    "MPI_Allgatherv",
    "MPI_Iallgatherv",
    "MPI_Allgatherv_init",
    "MPI_Alltoall",
    "MPI_Ialltoall",
    "MPI_Alltoall_init",
    "MPI_Alltoallv",
    "MPI_Ialltoallv",
    "MPI_Alltoallv_init",
    "MPI_Alltoallw",
    "MPI_Ialltoallw",
    "MPI_Alltoallw_init",
    "MPI_Reduce",
    "MPI_Ireduce",
    "MPI_Reduce_init",
    "MPI_Allreduce",
    "MPI_Iallreduce",
    "MPI_Allreduce_init",
    "MPI_Reduce_scatter",
    "MPI_Ireduce_scatter",
    "MPI_Reduce_scatter_init",
    "MPI_Reduce_scatter_block",
    "MPI_Ireduce_scatter_block",
    "MPI_Reduce_scatter_block_init",
    "MPI_Scan",
    "MPI_Iscan",
    "MPI_Scan_init",
    "MPI_Exscan",
    "MPI_Iexscan",
    "MPI_Exscan_init",
    "MPI_Neighbor_allgather",
    "MPI_Ineighbor_allgather",
    "MPI_Neighbor_allgather_init",
    "MPI_Neighbor_allgatherv",
    "MPI_Ineighbor_allgatherv",
    "MPI_Neighbor_allgatherv_init",
    "MPI_Neighbor_alltoall",
    "MPI_Ineighbor_alltoall",
    "MPI_Neighbor_alltoall_init",
    "MPI_Neighbor_alltoallv",
    "MPI_Ineighbor_alltoallv",
    "MPI_Neighbor_alltoallv_init",
    "MPI_Neighbor_alltoallw",
    "MPI_Ineighbor_alltoallw",
    "MPI_Neighbor_alltoallw_init",
    "MPI_Comm_create",
    "MPI_Comm_create_group",
    "MPI_Comm_dup",
    "MPI_Comm_idup",
    "MPI_Comm_split",
    "MPI_Comm_split_type",
    "MPI_Cart_create",
    "MPI_Cart_sub",
    "MPI_Graph_create",
    "MPI_Dist_graph_create",
    "MPI_Dist_graph_create_adjacent",
    "MPI_Intercomm_create",
    "MPI_Intercomm_merge",
    "MPI_Win_allocate",
    "MPI_Win_create",
    "MPI_Win_create_dynamic",
    "MPI_Win_fence",
    "MPI_Win_free",
];

/// The call of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallDescription {
    name: u8,
    /// Index in `Predefined::ALL` plus 1; 0 for none, 255 for a user operation.
    operation: u8,
    kind: Option<Kind>,
    /// −1: none.
    root: Rank,
    count: u64,
}

impl CallDescription {
    /// `operation` is as [`operation_code`] gives it; a negative root means none. `kind` is that of all `count`
    /// elements, if they have one.
    pub(crate) fn new(name: &str, root: Rank, operation: u8, count: u64, kind: Option<Kind>) -> Self {
        let place = NAMES.iter().position(|known| *known == name).unwrap_or(0);
        Self {
            name: place as u8,
            operation,
            kind,
            root,
            count,
        }
    }

    /// The MPI function.
    #[must_use]
    pub fn name(&self) -> &'static str {
        NAMES[usize::from(self.name)]
    }

    /// Its root, if it has one.
    #[must_use]
    pub fn root(&self) -> Option<Rank> {
        (self.root >= 0).then_some(self.root)
    }

    /// Number of elements, if all ranks must have the same number.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their kind, if they are of one predefined kind.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// The reduction by its name, or `a user operation`.
    #[must_use]
    pub fn operation(&self) -> Option<&'static str> {
        let predefined = usize::from(self.operation).checked_sub(1)?;
        let known = Predefined::ALL.get(predefined);
        Some(known.map_or("a user operation", |operation| operation.name()))
    }
}

/// A reduction in one byte.
pub(crate) fn operation_code(operation: Option<Option<Predefined>>) -> u8 {
    let place = |wanted| Predefined::ALL.iter().position(|known| *known == wanted);
    match operation {
        None => 0,
        Some(None) => u8::MAX,
        Some(Some(predefined)) => place(predefined).map_or(u8::MAX, |place| place as u8 + 1),
    }
}

impl fmt::Display for CallDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let mut between = " (";
        if let Some(root) = self.root() {
            write!(f, "{between}root {root}")?;
            between = ", ";
        }
        match self.kind {
            Some(kind) if self.count == 0 => write!(f, "{between}{}", kind.name())?,
            Some(kind) => write!(f, "{between}{} {}", self.count, kind.name())?,
            None if self.count > 0 => write!(f, "{between}{} elements of several kinds", self.count)?,
            None => {}
        }
        if self.kind.is_some() || self.count > 0 {
            between = ", ";
        }
        if let Some(operation) = self.operation() {
            write!(f, "{between}{operation}")?;
            between = ", ";
        }
        f.write_str(if between == ", " { ")" } else { "" })
    }
}

/// Two ranks have called collectives that do not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// A rank …
    pub rank: Rank,
    /// … and its call …
    pub call: CallDescription,
    /// … and another rank …
    pub other: Rank,
    /// … with its call.
    pub other_call: CallDescription,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rank {} called {} where rank {} called {}",
            self.rank, self.call, self.other, self.other_call
        )
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn both_ranks_and_both_calls_are_told() {
        let sum = operation_code(Some(Some(Predefined::Sum)));
        let mismatch = Mismatch {
            rank: 2,
            call: CallDescription::new("MPI_Bcast", 0, 0, 4, Some(Kind::I32)),
            other: 0,
            other_call: CallDescription::new("MPI_Allreduce", -1, sum, 8, Some(Kind::F64)),
        };
        assert_eq!(
            mismatch.to_string(),
            "rank 2 called MPI_Bcast (root 0, 4 MPI_INT32_T) where rank 0 called MPI_Allreduce (8 MPI_DOUBLE, MPI_SUM)"
        );
        let text = |name, count, operation| CallDescription::new(name, -1, operation, count, None).to_string();
        assert_eq!(text("MPI_Barrier", 0, 0), "MPI_Barrier");
        assert_eq!(
            text("MPI_Scan", 3, 255),
            "MPI_Scan (3 elements of several kinds, a user operation)"
        );
        assert_eq!(text("MPI_None", 0, 0), "another function");
    }

    #[test]
    fn names_fit() {
        assert!(NAMES.len() < 256 && NAMES.iter().all(|name| name.len() <= NAME));
    }
}

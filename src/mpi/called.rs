//! Compact descriptions of calls, for errors that compare the calls of two ranks.

use core::fmt;

use super::{
    Rank,
    collectives::{Collective, Function},
    datatype::Kind,
    operation::Predefined,
};

/// Longest name of a function, bytes.
pub(crate) const NAME: usize = 32;

/// The functions that a [`Called`] can name, by their numbers: first those of the collectives, in all three ways; then
/// others in which all processes of a communicator take part.
fn names() -> impl Iterator<Item = &'static str> {
    let functions = Collective::ALL.into_iter().flat_map(Collective::functions);
    functions.flat_map(Function::names).chain(OTHERS.iter().copied())
}

const OTHERS: &[&str] = &[
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
pub struct Called {
    name: u8,
    /// Index in `Predefined::ALL` plus 1; 0 for none, 255 for a user operation.
    operation: u8,
    kind: Option<Kind>,
    /// −1: none.
    root: Rank,
    count: u64,
}

impl Called {
    /// `operation` is as [`operation_code`] gives it; a negative root means none. `kind` is that of all `count`
    /// elements, if they have one.
    pub(crate) fn new(name: &str, root: Rank, operation: u8, count: u64, kind: Option<Kind>) -> Self {
        let place = names().position(|known| known == name);
        Self {
            name: place.map_or(u8::MAX, |place| place as u8),
            operation,
            kind,
            root,
            count,
        }
    }

    /// The MPI function.
    #[must_use]
    pub fn name(&self) -> &'static str {
        names().nth(self.name.into()).unwrap_or("another function")
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

impl fmt::Display for Called {
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
    pub called: Called,
    /// … and another rank …
    pub other: Rank,
    /// … with its call.
    pub other_called: Called,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rank {} called {} where rank {} called {}",
            self.rank, self.called, self.other, self.other_called
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
            called: Called::new("MPI_Bcast", 0, 0, 4, Some(Kind::I32)),
            other: 0,
            other_called: Called::new("MPI_Allreduce", -1, sum, 8, Some(Kind::F64)),
        };
        assert_eq!(
            mismatch.to_string(),
            "rank 2 called MPI_Bcast (root 0, 4 MPI_INT32_T) where rank 0 called MPI_Allreduce (8 MPI_DOUBLE, MPI_SUM)"
        );
        let text = |name, count, operation| Called::new(name, -1, operation, count, None).to_string();
        assert_eq!(text("MPI_Barrier", 0, 0), "MPI_Barrier");
        assert_eq!(
            text("MPI_Scan", 3, 255),
            "MPI_Scan (3 elements of several kinds, a user operation)"
        );
        assert_eq!(text("MPI_None", 0, 0), "another function");
    }

    #[test]
    fn names_fit() {
        assert!(names().count() <= usize::from(u8::MAX) && names().all(|name| name.len() <= NAME));
    }
}

//! The handle that every datatype holds: it refers to one of the engine's datatypes.

use hikyaku::mpi::datatype::Datatype as RawDatatype;

use crate::raw::AsRaw;

/// A datatype that messages may use.
pub trait Datatype: UncommittedDatatype {}

impl<D: Datatype> Datatype for &D {}

/// A datatype, committed or not. Here both are the same: there is nothing to commit.
pub trait UncommittedDatatype: AsRaw<Raw = RawDatatype> {
    /// The type that [`dup`](Self::dup) returns.
    type DuplicatedDatatype: From<RawDatatype>;

    /// Duplicates the datatype (`MPI_Type_dup`).
    #[must_use]
    fn dup(&self) -> Self::DuplicatedDatatype {
        self.as_raw().into()
    }
}

impl<D: UncommittedDatatype> UncommittedDatatype for &D {
    type DuplicatedDatatype = D::DuplicatedDatatype;
}

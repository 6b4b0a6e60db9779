//! The constructors of datatypes, by name.

/// Constructors of datatypes: MPI's combiners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Combiner {
    /// Predefined.
    Named,
    /// [`Datatype::duplicate`](super::Datatype::duplicate).
    Dup,
    /// [`Datatype::contiguous`](super::Datatype::contiguous).
    Contiguous,
    /// [`Datatype::vector`](super::Datatype::vector).
    Vector,
    /// [`Datatype::hvector`](super::Datatype::hvector).
    Hvector,
    /// [`Datatype::indexed`](super::Datatype::indexed).
    Indexed,
    /// [`Datatype::hindexed`](super::Datatype::hindexed).
    Hindexed,
    /// [`Datatype::indexed_block`](super::Datatype::indexed_block).
    IndexedBlock,
    /// [`Datatype::hindexed_block`](super::Datatype::hindexed_block).
    HindexedBlock,
    /// [`Datatype::structure`](super::Datatype::structure).
    Struct,
    /// [`Datatype::subarray`](super::Datatype::subarray).
    Subarray,
    /// [`Datatype::darray`](super::Datatype::darray).
    Darray,
    /// [`Datatype::resized`](super::Datatype::resized).
    Resized,
    /// [`Datatype::f90_real`](super::Datatype::f90_real).
    F90Real,
    /// [`Datatype::f90_complex`](super::Datatype::f90_complex).
    F90Complex,
    /// [`Datatype::f90_integer`](super::Datatype::f90_integer).
    F90Integer,
}

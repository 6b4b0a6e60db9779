#![expect(unsafe_code, reason = "implements the traits that answer for datatypes")]
//! Datatypes built from others, and references to datatypes.

use hikyaku::mpi::datatype::{Datatype as RawDatatype, DatatypeError, Order};

use super::{Datatype, UncommittedDatatype};
use crate::{Address, Count, raw::AsRaw};

macro_rules! references {
    ($($(#[$doc:meta])* $name:ident duplicates $duplicate:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a>(&'a RawDatatype);

        // SAFETY: it is the same datatype every time.
        unsafe impl AsRaw for $name<'_> {
            type Raw = RawDatatype;

            fn as_raw(&self) -> RawDatatype {
                self.0.clone()
            }
        }

        impl UncommittedDatatype for $name<'_> {
            type DuplicatedDatatype = $duplicate;
        }
    )*};
}

references! {
    /// A reference to a datatype.
    DatatypeRef duplicates UserDatatype;
    /// A reference to a datatype that may not have been committed.
    UncommittedDatatypeRef duplicates UncommittedUserDatatype;
}

impl Datatype for DatatypeRef<'_> {}

impl<'a> DatatypeRef<'a> {
    pub(super) fn new(datatype: &'a RawDatatype) -> Self {
        Self(datatype)
    }
}

impl<'a> From<DatatypeRef<'a>> for UncommittedDatatypeRef<'a> {
    fn from(datatype: DatatypeRef<'a>) -> Self {
        Self(datatype.0)
    }
}

/// A predefined datatype.
pub type SystemDatatype = DatatypeRef<'static>;

/// A datatype built from others. Cheap to clone.
///
/// ```
/// use mpi::{datatype::UserDatatype, traits::*};
///
/// let pairs = UserDatatype::contiguous(2, &f64::equivalent_datatype());
/// let both = UserDatatype::structured(&[1, 3], &[0, 16], &[pairs.as_ref(), i32::equivalent_datatype()]);
/// assert_eq!((both.size(), both.extent()), (28, 32));
/// ```
#[derive(Clone, Debug)]
pub struct UserDatatype(RawDatatype);

/// A datatype built from others that messages do not use directly.
#[derive(Clone, Debug)]
pub struct UncommittedUserDatatype(RawDatatype);

impl Datatype for UserDatatype {}

impl UserDatatype {
    /// A reference to the datatype.
    #[must_use]
    pub fn as_ref(&self) -> DatatypeRef<'_> {
        DatatypeRef(&self.0)
    }
}

impl<'a> From<&'a UserDatatype> for DatatypeRef<'a> {
    fn from(datatype: &'a UserDatatype) -> Self {
        Self(&datatype.0)
    }
}

impl<'a> From<&'a UserDatatype> for UncommittedDatatypeRef<'a> {
    fn from(datatype: &'a UserDatatype) -> Self {
        Self(&datatype.0)
    }
}

impl UncommittedUserDatatype {
    /// Makes the datatype usable for messages (`MPI_Type_commit`).
    #[must_use]
    pub fn commit(self) -> UserDatatype {
        UserDatatype(self.0)
    }

    /// A reference to the datatype.
    #[must_use]
    pub fn as_ref(&self) -> UncommittedDatatypeRef<'_> {
        UncommittedDatatypeRef(&self.0)
    }
}

impl<'a> From<&'a UncommittedUserDatatype> for UncommittedDatatypeRef<'a> {
    fn from(datatype: &'a UncommittedUserDatatype) -> Self {
        Self(&datatype.0)
    }
}

macro_rules! constructors {
    ($($name:ident)*) => {$(
        // SAFETY: it is the same datatype every time.
        unsafe impl AsRaw for $name {
            type Raw = RawDatatype;

            fn as_raw(&self) -> RawDatatype {
                self.0.clone()
            }
        }

        impl UncommittedDatatype for $name {
            type DuplicatedDatatype = Self;
        }

        impl From<RawDatatype> for $name {
            fn from(datatype: RawDatatype) -> Self {
                Self(datatype)
            }
        }

        /// Constructors.
        ///
        /// # Panics
        /// If a count or length is negative, or the result does not fit into 64 bits.
        /// ([`hikyaku::mpi::datatype::Datatype`] has the same constructors with results; `into` converts.)
        impl $name {
            /// `count` elements one after the other (`MPI_Type_contiguous`).
            #[must_use]
            pub fn contiguous<D: UncommittedDatatype>(count: Count, oldtype: &D) -> Self {
                made("contiguous", RawDatatype::contiguous(count, &oldtype.as_raw()))
            }

            /// `count` blocks of `blocklength` elements, `stride` elements apart (`MPI_Type_vector`).
            #[must_use]
            pub fn vector<D: UncommittedDatatype>(count: Count, blocklength: Count, stride: Count, oldtype: &D) -> Self {
                made("vector", RawDatatype::vector(count, blocklength, stride, &oldtype.as_raw()))
            }

            /// `count` blocks of `blocklength` elements, `stride` bytes apart (`MPI_Type_create_hvector`).
            #[must_use]
            pub fn heterogeneous_vector<D: UncommittedDatatype>(
                count: Count,
                blocklength: Count,
                stride: Address,
                oldtype: &D,
            ) -> Self {
                made("heterogeneous_vector", RawDatatype::hvector(count, blocklength, stride, &oldtype.as_raw()))
            }

            /// Blocks of `blocklengths[i]` elements, `displacements[i]` elements from the start (`MPI_Type_indexed`).
            #[must_use]
            pub fn indexed<D: UncommittedDatatype>(
                blocklengths: &[Count],
                displacements: &[Count],
                oldtype: &D,
            ) -> Self {
                made("indexed", RawDatatype::indexed(blocklengths, displacements, &oldtype.as_raw()))
            }

            /// Blocks of `blocklengths[i]` elements, `displacements[i]` bytes from the start
            /// (`MPI_Type_create_hindexed`).
            #[must_use]
            pub fn heterogeneous_indexed<D: UncommittedDatatype>(
                blocklengths: &[Count],
                displacements: &[Address],
                oldtype: &D,
            ) -> Self {
                let datatype = RawDatatype::hindexed(blocklengths, displacements, &oldtype.as_raw());
                made("heterogeneous_indexed", datatype)
            }

            /// Blocks of `blocklength` elements, `displacements[i]` elements from the start
            /// (`MPI_Type_create_indexed_block`).
            #[must_use]
            pub fn indexed_block<D: UncommittedDatatype>(
                blocklength: Count,
                displacements: &[Count],
                oldtype: &D,
            ) -> Self {
                let datatype = RawDatatype::indexed_block(blocklength, displacements, &oldtype.as_raw());
                made("indexed_block", datatype)
            }

            /// Blocks of `blocklength` elements, `displacements[i]` bytes from the start
            /// (`MPI_Type_create_hindexed_block`).
            #[must_use]
            pub fn heterogeneous_indexed_block<D: UncommittedDatatype>(
                blocklength: Count,
                displacements: &[Address],
                oldtype: &D,
            ) -> Self {
                let datatype = RawDatatype::hindexed_block(blocklength, displacements, &oldtype.as_raw());
                made("heterogeneous_indexed_block", datatype)
            }

            /// Blocks of `blocklengths[i]` elements of `types[i]`, `displacements[i]` bytes from the start
            /// (`MPI_Type_create_struct`).
            #[must_use]
            pub fn structured<D: UncommittedDatatype>(
                blocklengths: &[Count],
                displacements: &[Address],
                types: &[D],
            ) -> Self {
                let types: Vec<RawDatatype> = types.iter().map(AsRaw::as_raw).collect();
                made("structured", RawDatatype::structure(blocklengths, displacements, &types))
            }

            /// A part of an array with the extent of the whole, the last dimension contiguous
            /// (`MPI_Type_create_subarray`). Not in rsmpi.
            #[must_use]
            pub fn subarray<D: UncommittedDatatype>(
                sizes: &[Count],
                subsizes: &[Count],
                starts: &[Count],
                oldtype: &D,
            ) -> Self {
                made("subarray", RawDatatype::subarray(sizes, subsizes, starts, Order::C, &oldtype.as_raw()))
            }

            /// The same datatype with another lower bound and extent, in bytes (`MPI_Type_create_resized`). Not in
            /// rsmpi.
            #[must_use]
            pub fn resized<D: UncommittedDatatype>(lower_bound: Address, extent: Address, oldtype: &D) -> Self {
                made("resized", RawDatatype::resized(lower_bound, extent, &oldtype.as_raw()))
            }

            /// Bytes of data in an element (`MPI_Type_size`). Not in rsmpi.
            #[must_use]
            pub fn size(&self) -> Count {
                self.0.size() as Count
            }

            /// Bytes from one element to the next (`MPI_Type_get_extent`). Not in rsmpi.
            #[must_use]
            pub fn extent(&self) -> Address {
                self.0.extent()
            }
        }
    )*};
}

constructors! {
    UserDatatype
    UncommittedUserDatatype
}

fn made<T: From<RawDatatype>>(name: &str, datatype: Result<RawDatatype, DatatypeError>) -> T {
    datatype.unwrap_or_else(|error| panic!("{name}: {error}")).into()
}

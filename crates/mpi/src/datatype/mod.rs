#![expect(unsafe_code, reason = "datatypes say what may be done with memory")]
//! The layout of values in memory: datatypes, and buffers of them.
//!
//! [`Equivalence`] gives the MPI datatype of a Rust type. A [`Buffer`] is a number of elements of a datatype at an
//! address: a value, an array, a slice, a vector, or a [`View`] of memory with a chosen datatype.
//!
//! ```
//! use mpi::{datatype::{UserDatatype, View}, traits::*};
//!
//! #[derive(Equivalence, Clone, Copy, Debug, Default, PartialEq)]
//! struct Particle { place: [f64; 3], charge: (i8, bool) }
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let myself = world.this_process();
//! let sent = Particle { place: [1.0, 2.0, 3.0], charge: (-1, true) };
//! myself.send(&sent).unwrap();
//! let (received, _) = myself.receive::<Particle>().unwrap();
//! assert_eq!(received, sent);
//!
//! // Every second number.
//! let numbers = [1, 2, 3, 4, 5, 6];
//! let odd = UserDatatype::vector(3, 1, 2, &i32::equivalent_datatype());
//! // SAFETY: three numbers, each two after the other, are within six.
//! let view = unsafe { View::with_count_and_datatype(&numbers[..], 1, &odd) };
//! myself.send(&view).unwrap();
//! assert_eq!(myself.receive_vec::<i32>().unwrap().0, [1, 3, 5]);
//! ```

mod buffer;
mod check;
mod dynamic;
mod field;
mod partition;
mod place;
mod user;
mod view;

pub use self::{
    buffer::{AsDatatype, Buffer, BufferMut, Collection, Pointer, PointerMut},
    check::Check,
    dynamic::{DynBuffer, DynBufferMut},
    partition::{Partition, PartitionMut, Partitioned, PartitionedBuffer, PartitionedBufferMut},
    user::{DatatypeRef, SystemDatatype, UncommittedDatatypeRef, UncommittedUserDatatype, UserDatatype},
    view::{MutView, View},
};
pub(crate) use check::Validator;
pub(crate) use place::{Blocks, Place, Places};
pub use place::{Buffers, BuffersMut};

/// The engine's datatype, on which all datatypes of this crate stand.
pub use hikyaku::mpi::datatype::Datatype as RawDatatype;
use hikyaku::mpi::datatype::Kind;

use crate::{Address, raw::AsRaw};

/// All traits.
pub mod traits {
    pub use super::{
        AsDatatype, Buffer, BufferMut, Collection, Datatype, Equivalence, Partitioned, PartitionedBuffer,
        PartitionedBufferMut, Pointer, PointerMut, UncommittedDatatype,
    };
}

/// Items for the code that the derive macro generates.
#[doc(hidden)]
pub mod internal {
    pub use super::{
        check::{Check, Part, is_valid, make_valid},
        field::{Field, structure},
    };
}

/// A Rust type with an equivalent MPI datatype.
///
/// `#[derive(Equivalence)]` implements it for structs of such types, and of arrays and tuples of them. (Arrays and
/// slices of such types are buffers already; see [`Buffer`].)
///
/// A type for which some bytes are not values can not be received:
///
/// ```compile_fail
/// use mpi::traits::*;
///
/// #[derive(Equivalence)]
/// enum Choice { Yes, No }
/// ```
///
/// ```compile_fail,E0277
/// use mpi::traits::*;
///
/// #[derive(Equivalence)]
/// struct Letter { text: String }
/// ```
///
/// # Safety
/// - An element of the datatype at the address of a value lies within the value, and consecutive elements are as far
///   apart as values in an array.
/// - The bytes of the datatype are initialised in every value; the type has no interior mutability, and may be sent to
///   other threads.
/// - A value is valid after any bytes have been received into it, also if all its bytes were zero before.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not equivalent to an MPI datatype",
    label = "can not be sent or received",
    note = "for a struct of numbers, arrays and tuples, `#[derive(Equivalence)]`"
)]
pub unsafe trait Equivalence {
    /// The type of its datatype.
    type Out: Datatype;

    /// The check that makes received bytes a value. Only the derive macro and `bool` need it.
    #[doc(hidden)]
    const CHECK: Option<Check> = None;

    /// The equivalent datatype.
    fn equivalent_datatype() -> Self::Out;
}

/// The predefined datatypes, as statics, so that references to them live for ever.
static PREDEFINED: [RawDatatype; Kind::ALL.len()] = {
    let mut all = [const { RawDatatype::predefined(Kind::Byte) }; Kind::ALL.len()];
    let mut index = 0;
    while index < all.len() {
        // A datatype that is static: there is nothing to drop.
        std::mem::forget(std::mem::replace(
            &mut all[index],
            RawDatatype::predefined(Kind::ALL[index]),
        ));
        index += 1;
    }
    all
};

/// Returns a predefined datatype.
pub(crate) fn predefined(kind: Kind) -> SystemDatatype {
    DatatypeRef::new(&PREDEFINED[kind as usize])
}

macro_rules! equivalences {
    ($($type:ty: $kind:ident)*) => {$(
        // SAFETY: the kind has its size and alignment, and any bytes are a number.
        unsafe impl Equivalence for $type {
            type Out = SystemDatatype;

            fn equivalent_datatype() -> SystemDatatype {
                predefined(Kind::$kind)
            }
        }
    )*};
}

equivalences! {
    f32: F32
    f64: F64
    i8: I8
    i16: I16
    i32: I32
    i64: I64
    u8: U8
    u16: U16
    u32: U32
    u64: U64
}

#[cfg(target_pointer_width = "64")]
equivalences! {
    isize: I64
    usize: U64
}

#[cfg(target_pointer_width = "32")]
equivalences! {
    isize: I32
    usize: U32
}

#[cfg(feature = "complex")]
equivalences! {
    num_complex::Complex32: Complex32
    num_complex::Complex64: Complex64
}

// SAFETY: one byte; after a receive, `CHECK` makes it 0 or 1.
unsafe impl Equivalence for bool {
    type Out = SystemDatatype;

    const CHECK: Option<Check> = Some(Check::BOOL);

    fn equivalent_datatype() -> SystemDatatype {
        predefined(Kind::Bool)
    }
}

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

/// The address of a value; [`UserDatatype::structured`] takes differences of addresses (`MPI_Get_address`).
///
/// ```
/// let pair = [1_u16, 2];
/// assert_eq!(mpi::datatype::address_of(&pair[1]) - mpi::datatype::address_of(&pair[0]), 2);
/// ```
#[must_use]
pub fn address_of<T>(x: &T) -> Address {
    (&raw const *x).addr() as Address
}

#![expect(unsafe_code, reason = "answers for the datatypes of numbers")]
//! Rust types that have an MPI datatype.

use hikyaku::mpi::datatype::{Datatype as RawDatatype, Kind};

use super::{
    check::Check,
    handle::Datatype,
    user::{DatatypeRef, SystemDatatype},
};

/// A Rust type with an equivalent MPI datatype.
///
/// `#[derive(Equivalence)]` implements it for structs of such types, and of arrays and tuples of them. (Arrays and
/// slices of such types are buffers already; see [`Buffer`](crate::datatype::Buffer).)
///
/// A type for which some bytes are not values cannot be received:
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
    label = "cannot be sent or received",
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

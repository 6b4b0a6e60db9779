#![expect(unsafe_code, reason = "checks are made of the checks of parts")]
//! The types of fields that the derive macro accepts: equivalences, and arrays and tuples of them.

use std::mem::offset_of;

use hikyaku::mpi::datatype::{Datatype as RawDatatype, DatatypeError};

use super::{
    Equivalence, UserDatatype,
    check::{Check, Part, is_valid, make_valid},
};
use crate::raw::AsRaw;

/// The type of a field.
///
/// # Safety
/// As for [`Equivalence`]: the datatype has the size of the type; all its bytes lie in the type, are initialised in
/// every value, and are not changed through a shared reference; a value is valid when any bytes have been received into
/// it and [`CHECK`](Self::CHECK) has been satisfied. The derive macro relies on it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not equivalent to an MPI datatype",
    label = "a field of this type cannot be sent or received",
    note = "fields may be numbers, `bool`, types that derive `Equivalence`, and arrays and tuples of these"
)]
pub unsafe trait Field {
    /// See [`Equivalence::CHECK`].
    const CHECK: Option<Check>;

    /// The datatype of the field.
    fn datatype() -> RawDatatype;
}

// SAFETY: what it promises is what `Equivalence` does.
unsafe impl<T: Equivalence> Field for T {
    const CHECK: Option<Check> = T::CHECK;

    fn datatype() -> RawDatatype {
        T::equivalent_datatype().as_raw()
    }
}

// SAFETY: an array is its elements, one after the other, and the datatype and the check are those of each.
unsafe impl<T: Field, const N: usize> Field for [T; N] {
    const CHECK: Option<Check> = {
        unsafe fn valid<T: Field, const N: usize>(place: *const u8) -> bool {
            // SAFETY: the caller's contract, of an array.
            (0..N).all(|index| unsafe { is_valid(place.add(index * size_of::<T>()), &[(0, T::CHECK)]) })
        }
        unsafe fn make<T: Field, const N: usize>(place: *mut u8) {
            for index in 0..N {
                // SAFETY: the caller's contract, of an array.
                unsafe { make_valid(place.add(index * size_of::<T>()), &[(0, T::CHECK)]) };
            }
        }
        match T::CHECK {
            Some(_) => Some(Check {
                is_valid: valid::<T, N>,
                make_valid: make::<T, N>,
            }),
            None => None,
        }
    };

    fn datatype() -> RawDatatype {
        expect(RawDatatype::contiguous(N as i64, &T::datatype()))
    }
}

macro_rules! tuples {
    ($($tuple:ty: $($name:ident $index:tt)+;)*) => {$(
        // SAFETY: the datatype is made of those of the fields, where they are; and so is the check.
        unsafe impl<$($name: Field),+> Field for $tuple {
            const CHECK: Option<Check> = {
                struct Parts<Tuple>(Tuple);
                impl<$($name: Field),+> Parts<$tuple> {
                    const PARTS: &[Part] = &[$((offset_of!($tuple, $index), $name::CHECK)),+];

                    unsafe fn is_valid(place: *const u8) -> bool {
                        // SAFETY: the caller's contract, of a tuple.
                        unsafe { is_valid(place, Self::PARTS) }
                    }

                    unsafe fn make_valid(place: *mut u8) {
                        // SAFETY: the caller's contract, of a tuple.
                        unsafe { make_valid(place, Self::PARTS) }
                    }
                }
                if $($name::CHECK.is_some())||+ {
                    Some(Check {
                        is_valid: Parts::<$tuple>::is_valid,
                        make_valid: Parts::<$tuple>::make_valid,
                    })
                } else {
                    None
                }
            };

            fn datatype() -> RawDatatype {
                let fields = [$((offset_of!($tuple, $index), $name::datatype())),+];
                structure(size_of::<Self>(), &fields).as_raw()
            }
        }
    )*};
}

tuples! {
    (A,): A 0;
    (A, B,): A 0 B 1;
    (A, B, C,): A 0 B 1 C 2;
    (A, B, C, D,): A 0 B 1 C 2 D 3;
    (A, B, C, D, E,): A 0 B 1 C 2 D 3 E 4;
    (A, B, C, D, E, F,): A 0 B 1 C 2 D 3 E 4 F 5;
    (A, B, C, D, E, F, G,): A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    (A, B, C, D, E, F, G, H,): A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

/// The datatype of a struct of `size` bytes that has these fields at these offsets.
#[must_use]
pub fn structure(size: usize, fields: &[(usize, RawDatatype)]) -> UserDatatype {
    let lengths = vec![1; fields.len()];
    let (places, types): (Vec<i64>, Vec<RawDatatype>) = fields
        .iter()
        .map(|(place, field)| (*place as i64, field.clone()))
        .unzip();
    let structure = expect(RawDatatype::structure(&lengths, &places, &types));
    expect(RawDatatype::resized(0, size as i64, &structure)).into()
}

/// Unwraps a datatype. A type that exists in memory cannot be larger than memory, but it can be nested too deeply.
fn expect(made: Result<RawDatatype, DatatypeError>) -> RawDatatype {
    made.unwrap_or_else(|error| panic!("the datatype of a struct: {error}"))
}

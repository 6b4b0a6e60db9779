#![expect(unsafe_code, reason = "traits whose implementations answer for memory")]
//! Memory that messages come from and go to.

use std::ffi::c_void;

use super::{Datatype, Equivalence, check::Validator};
use crate::Count;

/// Something that has elements of a datatype.
///
/// # Safety
/// As [`Buffer`].
pub unsafe trait AsDatatype {
    /// The type of the datatype.
    type Out: Datatype;

    /// The datatype of the elements.
    fn as_datatype(&self) -> Self::Out;
}

/// Something that has a number of elements.
///
/// # Safety
/// As [`Buffer`].
pub unsafe trait Collection {
    /// How many.
    fn count(&self) -> Count;
}

/// Something that lies at an address.
///
/// # Safety
/// As [`Buffer`].
pub unsafe trait Pointer {
    /// The address.
    fn pointer(&self) -> *const c_void;
}

/// Something that lies at an address and may be written.
///
/// # Safety
/// As [`BufferMut`].
pub unsafe trait PointerMut {
    /// The address.
    fn pointer_mut(&mut self) -> *mut c_void;

    /// What is to be done when something has been received.
    #[doc(hidden)]
    fn validator(&mut self) -> Option<Validator> {
        None
    }
}

/// What can be sent: a value, an array, a slice, a vector of an [`Equivalence`], or a [`View`](super::View).
///
/// # Safety
/// As long as it is borrowed, `count` elements of the datatype at the address are initialised memory that is not written
/// to and may be read by any thread; and these three do not change.
pub unsafe trait Buffer: Pointer + Collection + AsDatatype {}

/// What can be received into.
///
/// # Safety
/// As long as it is borrowed mutably, `count` elements of the datatype at the address are initialised memory that may be
/// written by any thread with any octets, and is not used by others.
pub unsafe trait BufferMut: PointerMut + Collection + AsDatatype {}

macro_rules! buffers {
    ($({$($generics:tt)*} $type:ty, |$it:ident| $count:expr, $const:expr, $mut:expr;)*) => {$(
        // SAFETY: the elements are those of the value, by the contract of `Equivalence`.
        unsafe impl<$($generics)*> AsDatatype for $type {
            type Out = T::Out;

            fn as_datatype(&self) -> T::Out {
                T::equivalent_datatype()
            }
        }

        // SAFETY: as above.
        unsafe impl<$($generics)*> Collection for $type {
            fn count(&self) -> Count {
                let $it = self;
                $count
            }
        }

        // SAFETY: as above.
        unsafe impl<$($generics)*> Pointer for $type {
            fn pointer(&self) -> *const c_void {
                let $it = self;
                let place: *const T = $const;
                place.cast()
            }
        }

        // SAFETY: as above.
        unsafe impl<$($generics)*> PointerMut for $type {
            fn pointer_mut(&mut self) -> *mut c_void {
                let $it = self;
                let place: *mut T = $mut;
                place.cast()
            }

            fn validator(&mut self) -> Option<Validator> {
                let $it = self;
                let len: Count = $count;
                Validator::of::<T>($mut, len as usize)
            }
        }

        // SAFETY: as above.
        unsafe impl<$($generics)*> Buffer for $type {}
        // SAFETY: as above.
        unsafe impl<$($generics)*> BufferMut for $type {}
    )*};
}

buffers! {
    {T: Equivalence} T, |_it| 1, _it, _it;
    {T: Equivalence} [T], |it| it.len() as Count, it.as_ptr(), it.as_mut_ptr();
    {T: Equivalence} Vec<T>, |it| it.len() as Count, it.as_ptr(), it.as_mut_ptr();
    {T: Equivalence, const N: usize} [T; N], |_it| N as Count, _it.as_ptr(), _it.as_mut_ptr();
}

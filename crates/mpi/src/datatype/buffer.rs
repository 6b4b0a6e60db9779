#![expect(unsafe_code, reason = "traits whose implementations answer for memory")]
//! The memory from which messages are sent, and into which they are received.

use std::ffi::c_void;

use super::{Datatype, Equivalence, validator::Validator};
use crate::Count;

/// A buffer whose elements have a datatype.
///
/// # Safety
/// As [`Buffer`].
pub unsafe trait AsDatatype {
    /// The type of the datatype.
    type Out: Datatype;

    /// The datatype of the elements.
    fn as_datatype(&self) -> Self::Out;
}

/// A buffer that has a number of elements.
///
/// # Safety
/// As [`Buffer`].
pub unsafe trait Collection {
    /// The number of elements.
    fn count(&self) -> Count;
}

/// A buffer that lies at an address.
///
/// # Safety
/// As [`Buffer`].
pub unsafe trait Pointer {
    /// The address.
    fn pointer(&self) -> *const c_void;
}

/// A buffer that lies at an address and may be written.
///
/// # Safety
/// As [`BufferMut`].
pub unsafe trait PointerMut {
    /// The address.
    fn pointer_mut(&mut self) -> *mut c_void;

    /// The checks to make after receiving into the buffer.
    #[doc(hidden)]
    fn validator(&mut self) -> Option<Validator> {
        None
    }
}

/// A buffer to send from: a value, an array, a slice, a vector of an [`Equivalence`], or a [`View`](super::View).
///
/// # Safety
/// While the buffer is borrowed, `count` elements of the datatype at the address are initialised memory that is not
/// written to and that any thread may read; and address, count and datatype do not change.
pub unsafe trait Buffer: Pointer + Collection + AsDatatype {}

/// A buffer to receive into.
///
/// # Safety
/// While the buffer is borrowed mutably, `count` elements of the datatype at the address are initialised memory that
/// any thread may write with any bytes, and that is not used otherwise.
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

#![expect(unsafe_code, reason = "implements the traits that answer for memory")]
//! Views: memory as elements of a chosen datatype.

use std::ffi::c_void;

use super::{AsDatatype, Buffer, BufferMut, Collection, Datatype, Pointer, PointerMut, validator::Validator};
use crate::Count;

macro_rules! views {
    ($(#[$doc:meta])* $name:ident, $buffer:ty, $bound:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<'d, 'b, D, B: ?Sized> {
            datatype: &'d D,
            count: Count,
            buffer: $buffer,
        }

        impl<'d, 'b, D: Datatype, B: $bound + ?Sized> $name<'d, 'b, D, B> {
            /// `count` elements of `datatype` at the address of `buffer`.
            ///
            /// # Safety
            /// They lie within the buffer, and may be read (and, if they are received into, written with any bytes).
            ///
            /// # Panics
            /// If the count is negative.
            pub unsafe fn with_count_and_datatype(buffer: $buffer, count: Count, datatype: &'d D) -> Self {
                assert!(count >= 0, "a view of {count} elements");
                Self {
                    datatype,
                    count,
                    buffer,
                }
            }
        }

        // SAFETY: the contract of `with_count_and_datatype`.
        unsafe impl<'d, D: Datatype, B: ?Sized> AsDatatype for $name<'d, '_, D, B> {
            type Out = &'d D;

            fn as_datatype(&self) -> &'d D {
                self.datatype
            }
        }

        // SAFETY: as above.
        unsafe impl<D, B: ?Sized> Collection for $name<'_, '_, D, B> {
            fn count(&self) -> Count {
                self.count
            }
        }
    };
}

views! {
    /// A buffer to send from, as elements of another datatype.
    View, &'b B, Pointer
}

views! {
    /// A buffer to receive into, as elements of another datatype.
    MutView, &'b mut B, PointerMut
}

// SAFETY: as above.
unsafe impl<D, B: Pointer + ?Sized> Pointer for View<'_, '_, D, B> {
    fn pointer(&self) -> *const c_void {
        self.buffer.pointer()
    }
}

// SAFETY: as above.
unsafe impl<D: Datatype, B: Pointer + ?Sized> Buffer for View<'_, '_, D, B> {}

// SAFETY: as above.
unsafe impl<D, B: PointerMut + ?Sized> PointerMut for MutView<'_, '_, D, B> {
    fn pointer_mut(&mut self) -> *mut c_void {
        self.buffer.pointer_mut()
    }

    fn validator(&mut self) -> Option<Validator> {
        self.buffer.validator()
    }
}

// SAFETY: as above.
unsafe impl<D: Datatype, B: PointerMut + ?Sized> BufferMut for MutView<'_, '_, D, B> {}

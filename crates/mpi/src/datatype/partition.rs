#![expect(unsafe_code, reason = "traits whose implementations answer for memory")]
//! Buffers divided into a part for each rank.

use std::{borrow::Borrow, ffi::c_void, marker::PhantomData};

use super::{AsDatatype, Buffer, BufferMut, Pointer, PointerMut, validator::Validator};
use crate::Count;

/// A part for each rank: its length and its beginning, in elements.
pub trait Partitioned {
    /// Number of elements of each part.
    fn counts(&self) -> &[Count];
    /// Index of the first element of each part.
    fn displs(&self) -> &[Count];
}

/// A partitioned buffer to send from.
///
/// # Safety
/// As [`Buffer`], for all parts; they are not negative.
pub unsafe trait PartitionedBuffer: Partitioned + Pointer + AsDatatype {}

/// A partitioned buffer to receive into.
///
/// # Safety
/// As [`BufferMut`], for all parts; they are not negative.
pub unsafe trait PartitionedBufferMut: Partitioned + PointerMut + AsDatatype {}

macro_rules! partitions {
    ($(#[$doc:meta])* $name:ident, $buffer:ty, $bound:ident, $trait:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<'b, B: ?Sized, C, D> {
            buffer: $buffer,
            // Copies, so that what was checked stays as it was.
            counts: Vec<Count>,
            displs: Vec<Count>,
            given: PhantomData<(C, D)>,
        }

        impl<'b, B: $bound + ?Sized, C: Borrow<[Count]>, D: Borrow<[Count]>> $name<'b, B, C, D> {
            /// Divides `buffer` into parts, with a number of elements and a first element each.
            ///
            /// # Panics
            /// If a part is not within the buffer, or there are not as many counts as displacements.
            pub fn new(buffer: $buffer, counts: C, displs: D) -> Self {
                let (counts, displs) = (counts.borrow().to_vec(), displs.borrow().to_vec());
                check(buffer.count(), &counts, &displs);
                Self {
                    buffer,
                    counts,
                    displs,
                    given: PhantomData,
                }
            }
        }

        // SAFETY: as `B`.
        unsafe impl<B: AsDatatype + ?Sized, C, D> AsDatatype for $name<'_, B, C, D> {
            type Out = B::Out;

            fn as_datatype(&self) -> B::Out {
                self.buffer.as_datatype()
            }
        }

        impl<B: ?Sized, C, D> Partitioned for $name<'_, B, C, D> {
            fn counts(&self) -> &[Count] {
                &self.counts
            }

            fn displs(&self) -> &[Count] {
                &self.displs
            }
        }

        // SAFETY: all parts are within the buffer, as was checked.
        unsafe impl<B: $bound + ?Sized, C, D> $trait for $name<'_, B, C, D> {}
    };
}

partitions! {
    /// A buffer to send from, divided into parts.
    ///
    /// ```
    /// use mpi::{datatype::Partition, traits::*};
    ///
    /// let letters = [10, 11, 12, 13, 14];
    /// let parts = Partition::new(&letters[..], &[2, 3][..], &[0, 2][..]);
    /// assert_eq!(parts.counts(), [2, 3]);
    /// ```
    Partition, &'b B, Buffer, PartitionedBuffer
}

partitions! {
    /// A buffer to receive into, divided into parts.
    PartitionMut, &'b mut B, BufferMut, PartitionedBufferMut
}

fn check(elements: Count, counts: &[Count], displs: &[Count]) {
    assert_eq!(counts.len(), displs.len(), "as many counts as displacements");
    let within = |(&count, &place): (&Count, &Count)| {
        count >= 0 && place >= 0 && place.checked_add(count).is_some_and(|end| end <= elements)
    };
    let all = counts.iter().zip(displs).all(within);
    assert!(all, "parts {counts:?} at {displs:?} are not within {elements} elements");
}

// SAFETY: the address of the buffer.
unsafe impl<B: Pointer + ?Sized, C, D> Pointer for Partition<'_, B, C, D> {
    fn pointer(&self) -> *const c_void {
        self.buffer.pointer()
    }
}

// SAFETY: as above.
unsafe impl<B: PointerMut + ?Sized, C, D> PointerMut for PartitionMut<'_, B, C, D> {
    fn pointer_mut(&mut self) -> *mut c_void {
        self.buffer.pointer_mut()
    }

    fn validator(&mut self) -> Option<Validator> {
        self.buffer.validator()
    }
}

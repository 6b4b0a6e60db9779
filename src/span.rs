//! Bytes that are copied from where they lie, and never looked at there.
//!
//! A slice promises that nothing changes its bytes as long as it lives. No side of a link can promise that of memory
//! which it shares with another process: a process that misbehaves may write there at any time. So such bytes are handed
//! about as [`Span`]s. What is decided by is copied out of them, once, and then looked at; payload is copied once, to
//! where it stays. Bytes of a slice can be handed about in the same way, so there is one way for both.
#![expect(
    unsafe_code,
    reason = "memory that others may write has no reference; what makes each copy right is in this file"
)]

use alloc::{sync::Arc, vec::Vec};
use core::{fmt, marker::PhantomData, ops::Range, ptr};

/// Bytes that can be copied, and not looked at where they lie.
///
/// It has the layout of the C structure `iovec`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Span<'a> {
    start: *const u8,
    len: usize,
    lives: PhantomData<&'a [u8]>,
}

// SAFETY: bytes can be copied by any thread; `new` borrows them, and `from_raw`'s caller says that they can be read.
unsafe impl Send for Span<'_> {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for Span<'_> {}

impl<'a> Span<'a> {
    /// Those of a slice.
    #[must_use]
    #[inline(always)]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            start: bytes.as_ptr(),
            len: bytes.len(),
            lives: PhantomData,
        }
    }

    /// Those of a gather list's slices.
    #[cfg(all(feature = "dpdk", unix))]
    #[must_use]
    #[inline(always)]
    pub(crate) const fn of_slices<'b>(slices: &'b [std::io::IoSlice<'a>]) -> &'b [Self] {
        // SAFETY: both have the layout of `iovec`: `IoSlice` says so of itself on Unix.
        unsafe { core::slice::from_raw_parts(slices.as_ptr().cast(), slices.len()) }
    }

    /// `len` bytes from `start` on.
    ///
    /// # Safety
    ///
    /// For the whole of `'a` they are mapped and can be read. Another process may write them meanwhile; this one does so
    /// only where it copies raw memory, too. (What is copied then is some of both, and no more.)
    #[must_use]
    #[inline(always)]
    pub const unsafe fn from_raw(start: *const u8, len: usize) -> Self {
        Self {
            start,
            len,
            lives: PhantomData,
        }
    }

    /// How many there are.
    #[must_use]
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// There are none.
    #[must_use]
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where they begin: for a device or a kernel that reads them.
    #[must_use]
    #[inline(always)]
    pub const fn as_ptr(&self) -> *const u8 {
        self.start
    }

    /// Some of them.
    ///
    /// # Panics
    /// If they are not all in it.
    #[must_use]
    #[inline(always)]
    pub fn part(self, range: Range<usize>) -> Self {
        self.split_at(range.end).0.split_at(range.start).1
    }

    /// The first `at`, and the others.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    #[inline(always)]
    pub fn split_at(self, at: usize) -> (Self, Self) {
        assert!(at <= self.len, "{at} of {} bytes", self.len);
        let rest = Self {
            // SAFETY: inside of the bytes, or at their end.
            start: unsafe { self.start.add(at) },
            len: self.len - at,
            lives: PhantomData,
        };
        (Self { len: at, ..self }, rest)
    }

    /// Copies all of them.
    ///
    /// # Panics
    /// If `into` is not as long.
    #[inline(always)]
    pub fn copy_to(self, into: &mut [u8]) {
        assert!(into.len() == self.len, "{} bytes into {}", self.len, into.len());
        // SAFETY: as many can be read (`new`, `from_raw`) as can be written. `into` is this thread's alone, so it is other
        // memory: a slice that it overlapped could not have been borrowed, and `from_raw`'s caller makes no reference to
        // its bytes. They may be written meanwhile by another process, which Rust's rules are not about; no reference
        // to them is made, and any value is a byte.
        unsafe { ptr::copy_nonoverlapping(self.start, into.as_mut_ptr(), self.len) };
    }

    /// Appends a copy of all of them.
    #[inline(always)]
    pub fn append_to(self, into: &mut Vec<u8>) {
        into.reserve(self.len);
        // SAFETY: there is room for them behind what is in `into`; else as in `copy_to`.
        unsafe {
            ptr::copy_nonoverlapping(self.start, into.as_mut_ptr().add(into.len()), self.len);
            into.set_len(into.len() + self.len);
        }
    }

    /// A copy of all of them.
    #[must_use]
    #[inline(always)]
    pub fn to_vec(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.append_to(&mut bytes);
        bytes
    }
}

impl<'a> From<&'a [u8]> for Span<'a> {
    #[inline(always)]
    fn from(bytes: &'a [u8]) -> Self {
        Self::new(bytes)
    }
}

impl Default for Span<'_> {
    /// None.
    #[inline(always)]
    fn default() -> Self {
        Self::new(&[])
    }
}

impl fmt::Debug for Span<'_> {
    /// How many: what they are is not looked at.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Memory whose bytes lie where no slice can, and stay there as long as this lives.
pub trait Keeper: Send + Sync {
    /// The bytes: always the same place.
    fn span(&self) -> Span<'_>;
}

/// Bytes that lie where no slice can, to be referred to until the last of these is dropped.
#[derive(Clone)]
pub struct Foreign(Arc<dyn Keeper>);

impl Foreign {
    /// Those that `keeper` keeps.
    #[must_use]
    pub fn new(keeper: impl Keeper + 'static) -> Self {
        Self(Arc::new(keeper))
    }

    /// The bytes.
    #[must_use]
    #[inline]
    pub fn span(&self) -> Span<'_> {
        self.0.span()
    }
}

impl PartialEq for Foreign {
    /// The same bytes at the same place.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Foreign").field(&self.span()).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn copies_are_what_lies_there() {
        let bytes: Vec<u8> = (0..100).collect();
        let span = Span::new(&bytes);
        assert_eq!((span.len(), span.is_empty()), (100, false));
        let (first, rest) = span.split_at(30);
        let mut into = vec![0; 30];
        first.copy_to(&mut into);
        rest.append_to(&mut into);
        rest.part(70..70).append_to(&mut into);
        Span::default().append_to(&mut into);
        assert_eq!(into, bytes);
        assert_eq!(span.part(10..20).part(2..3).to_vec(), [12]);
    }

    #[cfg(all(feature = "dpdk", unix))]
    #[test]
    fn slices_of_a_gather_list_are_spans() {
        let bytes = [1, 2, 3, 4, 5];
        let slices = [0..2, 2..2, 2..5].map(|range| std::io::IoSlice::new(&bytes[range]));
        let mut copy = vec![];
        Span::of_slices(&slices)
            .iter()
            .for_each(|span| span.append_to(&mut copy));
        assert_eq!(copy, bytes);
    }

    #[test]
    #[should_panic(expected = "11 of 10 bytes")]
    fn no_part_is_longer_than_the_whole() {
        let _ = Span::new(&[0; 10]).part(5..11);
    }

    #[test]
    #[should_panic(expected = "10 bytes into 9")]
    fn a_copy_is_as_long() {
        Span::new(&[0; 10]).copy_to(&mut [0; 9]);
    }
}

#![expect(
    unsafe_code,
    reason = "two sides share what is in a cell; the user of each access says why it may"
)]
//! Memory that is written by one side and read by the other.

use core::{cell::UnsafeCell, ptr, ptr::NonNull};

use super::copies::Copies;

/// Bytes of a chunk: a cache line.
pub(super) const CHUNK: usize = 64;
/// Bytes of a long record: so many are copied out while the next ones are copied in. Whole chunks.
pub(crate) const PIECE: usize = 8 << 10;
pub(super) type Chunk = [u8; CHUNK];

#[repr(transparent)]
pub(super) struct Cell<T>(UnsafeCell<T>);

impl<T: Copy> Cell<T> {
    pub(super) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Lets `look` read the value in place.
    ///
    /// # Safety
    /// Nothing in this process writes to it meanwhile. (Another process may, against the rules.)
    #[inline(always)]
    pub(super) unsafe fn look<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        look(self.0.get())
    }

    /// Lets `fill` write the value in place.
    ///
    /// # Safety
    /// Nothing else in this process reads or writes it meanwhile.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, fill: impl FnOnce(*mut T)) {
        fill(self.0.get());
    }
}

/// Has this line brought here to be written.
#[inline(always)]
pub(super) fn expect_to_write<T>(line: NonNull<T>) {
    machine::prefetch_to_write(line.as_ptr().cast());
}

/// The same, to be read.
#[inline(always)]
pub(super) fn expect_to_read<T>(line: NonNull<T>) {
    machine::prefetch_to_read(line.as_ptr().cast());
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod machine {
    use core::arch::{
        asm,
        x86_64::{_MM_HINT_T0, _mm_prefetch},
    };

    #[inline(always)]
    pub(super) fn prefetch_to_read(at: *const u8) {
        // SAFETY: a hint, which no address makes fail.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }

    #[inline(always)]
    pub(super) fn prefetch_to_write(at: *const u8) {
        // SAFETY: as above. (Processors that do not know the instruction do nothing.)
        unsafe { asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod machine {
    pub(super) fn prefetch_to_read(_at: *const u8) {}
    pub(super) fn prefetch_to_write(_at: *const u8) {}
}

/// Copies bytes into chunks, from this one on, in a way that `copies` chooses.
///
/// # Safety
/// They have room for them, and nothing else in this process reads or writes them meanwhile.
#[inline(always)]
pub(super) unsafe fn write(chunks: NonNull<Cell<Chunk>>, bytes: &[u8], copies: &mut Copies) {
    // SAFETY: the caller's contract; a chunk is its bytes, and `bytes` are other memory.
    unsafe { copies.copy(bytes.as_ptr(), chunks.as_ptr().cast(), bytes.len()) };
}

/// Copies bytes out of chunks, from this one on.
///
/// # Safety
/// They hold as many, and nothing in this process writes to them meanwhile. (Another process may, against the rules.)
#[inline(always)]
pub(super) unsafe fn read(chunks: NonNull<Cell<Chunk>>, bytes: &mut [u8]) {
    // SAFETY: as in `write`.
    unsafe { ptr::copy_nonoverlapping(chunks.as_ptr().cast(), bytes.as_mut_ptr(), bytes.len()) };
}

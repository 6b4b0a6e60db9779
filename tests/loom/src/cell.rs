//! Memory that is written by one side and read by the other, so that loom finds a side that reads too early, or writes.

use std::ptr::NonNull;

/// Bytes of a chunk: a cache line.
pub(crate) const CHUNK: usize = 64;
/// Bytes that are copied out while the next ones are copied in: few, so that there are not many orders.
pub(crate) const PIECE: usize = CHUNK;
pub(crate) type Chunk = [u8; CHUNK];

pub(crate) struct Cell<T>(loom::cell::UnsafeCell<T>);

impl<T: Copy> Cell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    pub(crate) unsafe fn look<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        self.0.with(look)
    }

    pub(crate) unsafe fn fill(&self, fill: impl FnOnce(*mut T)) {
        self.0.with_mut(fill);
    }
}

/// A hint, which changes nothing.
pub(crate) fn expect_to_write<T>(_line: NonNull<T>) {}

/// As above.
pub(crate) fn expect_to_read<T>(_line: NonNull<T>) {}

/// Copies bytes into chunks, from this one on: each is one that loom knows.
pub(crate) unsafe fn write<Copies>(chunks: NonNull<Cell<Chunk>>, bytes: &[u8], _: &mut Copies) {
    for (index, part) in bytes.chunks(CHUNK).enumerate() {
        unsafe {
            let to = |chunk: *mut Chunk| chunk.cast::<u8>().copy_from_nonoverlapping(part.as_ptr(), part.len());
            chunks.add(index).as_ref().fill(to);
        }
    }
}

/// Copies bytes out of chunks, from this one on.
pub(crate) unsafe fn read(chunks: NonNull<Cell<Chunk>>, bytes: &mut [u8]) {
    for (index, part) in bytes.chunks_mut(CHUNK).enumerate() {
        unsafe {
            let from = |chunk: *const Chunk| part.as_mut_ptr().copy_from_nonoverlapping(chunk.cast(), part.len());
            chunks.add(index).as_ref().look(from);
        }
    }
}

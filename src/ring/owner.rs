//! The owner of the memory in which a ring lies.

use core::ptr::NonNull;

/// The owner of the memory in which a ring lies.
pub(crate) trait Owner: Send + Sync {
    /// Returns whether the other side reads what is written into this ring.
    fn is_read(&self) -> bool {
        true
    }

    /// Lets the producer go on in more memory: that for a stream, or less. It has it until [`take_back`](Self::take_back).
    fn lend(&self, is_for_stream: bool) -> bool {
        let _ = is_for_stream;
        true
    }

    /// The producer is about to write into memory that was lent for a stream, for the first time: `len` bytes there.
    fn prepare(&self, at: NonNull<u8>, len: usize) {
        let _ = (at, len);
    }

    /// The producer uses none of the memory that was lent any more, for now: `len` bytes there.
    fn take_back(&self, at: NonNull<u8>, len: usize) {
        let _ = (at, len);
    }
}

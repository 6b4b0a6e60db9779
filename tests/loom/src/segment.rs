//! Memory that two processes share, as a ring uses it: numbers that are atomic, and bytes that are not, so that loom finds
//! who reads them before they are there, or writes to them too early.

use loom::{cell::UnsafeCell, sync::atomic::AtomicU64};

const WORD: usize = 8;

/// As many bytes as are needed.
pub struct Segment {
    numbers: Vec<AtomicU64>,
    bytes: Vec<UnsafeCell<[u8; WORD]>>,
}

// SAFETY: loom ends the model when an access to a cell meets another one.
unsafe impl Sync for Segment {}

impl Segment {
    pub fn new(len: usize) -> Self {
        Self {
            numbers: (0..len / WORD).map(|_| AtomicU64::new(0)).collect(),
            bytes: (0..len / WORD).map(|_| UnsafeCell::new([0; WORD])).collect(),
        }
    }

    pub(crate) fn atomic(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(WORD));
        &self.numbers[at / WORD]
    }

    pub(crate) fn put<Copies>(&self, at: usize, bytes: &[u8], _: &mut Copies) {
        self.write(at, bytes);
    }

    /// Whole words only.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at.is_multiple_of(WORD));
        for (cell, word) in self.bytes[at / WORD..].iter().zip(bytes.as_chunks().0) {
            // SAFETY: loom has looked.
            cell.with_mut(|place| unsafe { *place = *word });
        }
    }

    pub(crate) fn read(&self, at: usize) -> u64 {
        // SAFETY: as above.
        self.bytes[at / WORD].with(|place| u64::from_le_bytes(unsafe { *place }))
    }
}

#![expect(unsafe_code, reason = "what was received is made valid in place")]
//! Makes received bytes valid before the program sees them.

use super::{check::Check, equivalence::Equivalence};

/// A run of elements that may hold invalid bytes after a receive.
#[derive(Clone, Copy, Debug)]
pub struct Validator {
    base: *mut u8,
    len: usize,
    size: usize,
    check: Check,
}

// SAFETY: an address; code that uses it answers for the memory.
unsafe impl Send for Validator {}

impl Validator {
    pub(crate) fn of<T: Equivalence>(values: *mut T, len: usize) -> Option<Self> {
        let check = T::CHECK?;
        (len > 0).then_some(Self {
            base: values.cast(),
            len,
            size: size_of::<T>(),
            check,
        })
    }

    /// # Safety
    /// The elements may be written, and are not used otherwise.
    pub(crate) unsafe fn run(&self) {
        for index in 0..self.len {
            // SAFETY: the caller's contract.
            unsafe { (self.check.make_valid)(self.base.add(index * self.size)) };
        }
    }
}

#![expect(
    unsafe_code,
    reason = "two sides share what is in a cell; the user of each access says why it may"
)]
//! Memory that is written by one side and read by the other.

use core::cell::UnsafeCell;

pub(super) struct Cell<T>(UnsafeCell<T>);

impl<T: Copy> Cell<T> {
    pub(super) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Copies the value, once: what another process writes meanwhile, against the rules, does not change the copy.
    ///
    /// # Safety
    /// Nothing in this process writes to it meanwhile.
    #[inline(always)]
    pub(super) unsafe fn read(&self) -> T {
        // SAFETY: the caller's contract.
        unsafe { self.0.get().read_volatile() }
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

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

    /// # Safety
    /// Nothing writes to it meanwhile.
    #[inline(always)]
    pub(super) unsafe fn read(&self) -> T {
        // SAFETY: the caller's contract.
        unsafe { *self.0.get() }
    }

    /// Changes the value in place.
    ///
    /// # Safety
    /// Nothing else reads or writes it meanwhile.
    #[inline(always)]
    pub(super) unsafe fn change(&self, change: impl FnOnce(&mut T)) {
        // SAFETY: the caller's contract.
        change(unsafe { &mut *self.0.get() });
    }
}

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

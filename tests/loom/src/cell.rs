//! Memory that is written by one side and read by the other, so that loom finds a side that reads too early, or writes.

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

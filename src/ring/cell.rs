#![expect(
    unsafe_code,
    reason = "two sides share what is in a cell; the user of each access says why it may"
)]
//! Memory that is written by one side and read by the other.

use core::{cell::UnsafeCell, mem::MaybeUninit};

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
        const { assert!(size_of::<T>() & 3 == 0 && align_of::<T>() == 4, "words without gaps") };
        let mut copy = MaybeUninit::<T>::uninit();
        let (from, to) = (self.0.get().cast::<u32>(), copy.as_mut_ptr().cast::<u32>());
        // (As a whole the compiler would copy it byte by byte.)
        for word in 0..size_of::<T>() / 4 {
            // SAFETY: the word is one of the value, which nothing in this process writes meanwhile.
            unsafe { to.add(word).write(from.add(word).read_volatile()) };
        }
        // SAFETY: all words have been written, with a value of `T`, or whatever another process has made of it: `T` is
        // plain numbers.
        unsafe { copy.assume_init() }
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

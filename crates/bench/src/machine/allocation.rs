//! The allocator of the command line: the system's, or that of simulations, with a count of what is in use during
//! [`heap_of`].
#![expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait; every call is passed on unchanged"
)]

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicBool, AtomicIsize, Ordering},
};

#[cfg(feature = "sim")]
use hikyaku::sim::Heap as Inner;
#[cfg(not(feature = "sim"))]
use std::alloc::System as Inner;

/// The allocator: a program that measures memory makes it its `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

static WANTED: AtomicBool = AtomicBool::new(false);
static IN_USE: AtomicIsize = AtomicIsize::new(0);

/// Adds to the count, if it is wanted.
fn count(bytes: usize, sign: isize) {
    if WANTED.load(Ordering::Relaxed) {
        IN_USE.fetch_add(sign * bytes.cast_signed(), Ordering::Relaxed);
    }
}

// SAFETY: every method passes its arguments on to the other allocator and gives back what that gives, so the
// contract of `GlobalAlloc` holds because it holds there; counting touches atomics only and never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        unsafe { Inner.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the same there.
        unsafe { Inner.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller keeps the contract of `dealloc`; the pointer came from there.
        unsafe { Inner.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(size, 1);
        // SAFETY: the caller keeps the contract of `realloc`; the pointer came from there.
        unsafe { Inner.realloc(pointer, layout, size) }
    }
}

/// Heap bytes in use since [`heap_of`] has begun, which is going on.
pub fn in_use() -> isize {
    IN_USE.load(Ordering::Relaxed)
}

/// Heap bytes that stay in use after `make`, as long as its result lives; with the result.
pub fn heap_of<T>(make: impl FnOnce() -> T) -> (T, isize) {
    IN_USE.store(0, Ordering::Relaxed);
    WANTED.store(true, Ordering::Relaxed);
    let made = make();
    WANTED.store(false, Ordering::Relaxed);
    (made, IN_USE.load(Ordering::Relaxed))
}

//! How much memory a thread has in use: a simulation is one thread.
#![expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait; every call is passed on unchanged"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// The system's allocator, counting.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static IN_USE: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread has taken and not given back.
pub(super) fn in_use() -> isize {
    IN_USE.get()
}

fn count(bytes: usize, sign: isize) {
    // (A thread that ends frees memory when this has gone.)
    let _ = IN_USE.try_with(|in_use| in_use.set(in_use.get() + sign * bytes.cast_signed()));
}

// SAFETY: every method passes its arguments on to the system's allocator and gives back what that gives, so the contract
// of `GlobalAlloc` holds because it holds there; counting touches a cell that needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the same there.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller keeps the contract of `dealloc`; the pointer came from there.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(size, 1);
        // SAFETY: the caller keeps the contract of `realloc`; the pointer came from there.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

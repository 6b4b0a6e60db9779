//! Links the core into a program without `std`. The panic handler below is a language item that `std` defines too, so
//! a crate that pulls `std` in by any way makes this fail to compile (E0152).
#![no_std]

use core::{
    alloc::{GlobalAlloc, Layout},
    panic::PanicInfo,
    ptr,
};

struct NoMemory;

// SAFETY: an allocator may fail always; nothing is ever handed out, so nothing comes back.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _layout: Layout) -> *mut u8 {
        ptr::null_mut()
    }
    unsafe fn dealloc(&self, _ptr: *mut u8, _layout: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Something of the core that an outsider calls, so that the linker has a reason to keep it.
#[unsafe(no_mangle)]
pub extern "C" fn hikyaku_no_std(nanos: u64) -> u64 {
    hikyaku::time::Instant::ZERO.plus_nanos(nanos).as_nanos()
}

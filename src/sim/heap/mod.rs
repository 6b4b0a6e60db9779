#![expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait, and hands out memory by pointers"
)]
//! A memory region per simulated process, so that its allocations lie together.
//!
//! With thousands of processes, nothing of a process is in a near cache when its turn comes: each packet misses about
//! 120 cache lines of its process, many of them reached only through pointers that miss, too. Since the blocks of a
//! process are in pages of its own, the lines that it will need are known in advance. They are prefetched while another
//! process has its turn ([`ask`]); and the pages are huge, so that address translation costs nothing.

mod pool;
mod region;
#[cfg(test)]
mod tests;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    marker::PhantomData,
    ptr::{self, NonNull},
};

use self::{
    pool::{LARGEST, Pool},
    region::Region,
};

/// The system's allocator, except for allocations of simulated processes: those of each process lie together. This
/// makes simulations of more than a hundred processes faster; nothing else changes.
///
/// ```
/// #[global_allocator]
/// static HEAP: hikyaku::sim::Heap = hikyaku::sim::Heap;
/// # fn main() {}
/// ```
///
/// Blocks of up to 64 KiB that are allocated while a simulated process runs, or the protocol for it, come from pages of
/// that process, 4 KiB at a time out of huge pages (where the system grants them: `madvise`); packets come from other
/// pages of this pool. All other blocks are the system's. A block may be freed in any thread and at any time. A page is
/// reused once all of its blocks are free, and memory is returned to the system when 2 MiB of pages are free and a
/// simulation ends. The first simulation reserves 32 GiB of address space; where that is not allowed, everything is the
/// system's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heap;

/// The simulation of this thread.
#[derive(Clone, Copy)]
struct Place {
    regions: *mut Region,
    count: usize,
    /// Region of allocations that belong to no process.
    common: *mut Region,
    /// Region of the process whose turn it is; null: none has its turn.
    current: *mut Region,
    /// Region of the process whose turn is next, as long as more of it is to be prefetched.
    next: *mut Region,
}

/// This many processes fit the caches near a core: nothing is prefetched.
const FEW: usize = 96;

thread_local! {
    static PLACE: Cell<Place> = const {
        Cell::new(Place::NOWHERE)
    };
}

impl Place {
    /// No simulation.
    const NOWHERE: Self = Self {
        regions: ptr::null_mut(),
        count: 0,
        common: ptr::null_mut(),
        current: ptr::null_mut(),
        next: ptr::null_mut(),
    };

    fn region(self, process: u32) -> *mut Region {
        match (process as usize) < self.count {
            // SAFETY: the index is below their number.
            true => unsafe { self.regions.add(process as usize) },
            false => ptr::null_mut(),
        }
    }
}

// SAFETY: a block is either the system's, to which everything is passed on, or the pool's, which its address tells as
// long as the program runs. The pool hands out each block once: by the region of the process whose turn it is in this
// thread, which no other thread can reach; or by the pool under its lock. Both give at least the requested size at an
// address that is a multiple of 16, and nothing with a larger alignment. Nothing here panics or unwinds.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        go_on();
        let current = PLACE.get().current;
        if !current.is_null() && layout.align() <= 16 && layout.size() <= LARGEST {
            // SAFETY: `Regions` keeps it as long as it may be current, and this is the only reference.
            if let Some(block) = unsafe { &mut *current }.take(layout.size()) {
                return block.as_ptr();
            }
        }
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if PLACE.get().current.is_null() || layout.size() > LARGEST {
            // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the same there.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the caller's contract; the allocated block has that size.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        go_on();
        if !Pool::owns(block) {
            // SAFETY: the caller keeps the contract of `dealloc`; it came from there.
            return unsafe { System.dealloc(block, layout) };
        }
        // SAFETY: it is the pool's, with this size, and the caller gives it up.
        let block = unsafe { NonNull::new_unchecked(block) };
        let current = PLACE.get().current;
        if current.is_null() {
            // SAFETY: the same.
            return unsafe { region::forget(block, layout.size()) };
        }
        // SAFETY: the same; and as in `alloc`.
        unsafe { (*current).put(block, layout.size()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !Pool::owns(block) {
            // SAFETY: the caller keeps the contract of `realloc`; it came from there.
            return unsafe { System.realloc(block, layout, size) };
        }
        if region::fits(layout.size(), size) {
            return block;
        }
        // SAFETY: the caller's contract: the layout is that of the block, and the new size is not too large.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(block, size.min(layout.size()));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

/// The regions of a simulation that this thread runs as long as this lives. At first no process has its turn.
pub(super) struct Regions {
    own: Place,
    before: Place,
    /// It stays in its thread.
    _thread: PhantomData<*mut ()>,
}

impl Regions {
    pub(super) fn new(processes: u32) -> Self {
        // (Some systems allocate a lock when it is first taken, which must not happen inside the allocator.)
        drop(Pool::lock());
        match is_installed() {
            true => Self::of(processes),
            false => Self::of(0),
        }
    }

    /// The same, even if the program's allocator is another one.
    fn of(processes: u32) -> Self {
        let before = PLACE.replace(Place::NOWHERE);
        let count = if processes > 0 && Pool::open() {
            processes as usize
        } else {
            0
        };
        // One more, if there are any, for allocations of no process.
        let all = count + usize::from(count > 0);
        let regions: Box<[Region]> = (0..all).map(|_| Region::default()).collect();
        let regions: *mut Region = Box::into_raw(regions).cast();
        let common = match count {
            0 => ptr::null_mut(),
            // SAFETY: it is the last of them.
            _ => unsafe { regions.add(count) },
        };
        let own = Place {
            regions,
            count,
            common,
            ..Place::NOWHERE
        };
        PLACE.set(own);
        Self {
            own,
            before,
            _thread: PhantomData,
        }
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        PLACE.set(Place::NOWHERE);
        let Place { regions, count, .. } = self.own;
        let all = count + usize::from(count > 0);
        // SAFETY: `of` made this many; nothing refers to them, as no process has its turn.
        let mut regions = unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(regions, all)) };
        regions.iter_mut().for_each(Region::end);
        drop(regions);
        if count > 0 {
            Pool::lock().give_back();
        }
        PLACE.set(self.before);
    }
}

/// This process has its turn: allocations are its own. `None`: no process has its turn.
#[inline]
pub(super) fn turn(process: Option<u32>) {
    let place = PLACE.get();
    let current = process.map_or(ptr::null_mut(), |process| place.region(process));
    PLACE.set(Place { current, ..place });
}

/// Allocations of `make` belong to no process, but come from huge pages as well.
pub(super) fn apart<R>(make: impl FnOnce() -> R) -> R {
    let before = PLACE.get();
    let current = before.common;
    PLACE.set(Place { current, ..before });
    let made = make();
    // (Prefetching may have gone on meanwhile.)
    let current = before.current;
    PLACE.set(Place { current, ..PLACE.get() });
    made
}

/// Notes that the process whose turn it is will need `what` soon and often.
pub(super) fn mark<T>(what: &T) {
    let (place, block) = (PLACE.get(), NonNull::from(what).cast());
    if !place.current.is_null() && Pool::owns(block.as_ptr()) {
        // SAFETY: as in `Heap::alloc`.
        unsafe { &mut *place.current }.mark_all(block, size_of::<T>());
    }
}

/// The program of the process whose turn it is has its stack below this address.
pub(super) fn begin_at(bottom: usize) {
    let current = PLACE.get().current;
    if !current.is_null() {
        // SAFETY: as in `Heap::alloc`.
        unsafe { &mut *current }.bottom = bottom - 1;
    }
}

/// The program of the process whose turn it is will be resumed here.
#[inline]
pub(super) fn suspend_at(stack: *const u8) {
    let current = PLACE.get().current;
    if !current.is_null() {
        // SAFETY: as in `Heap::alloc`.
        unsafe { &mut *current }.suspend_at(stack.addr());
    }
}

/// Announces the process whose turn comes after the next one's.
#[inline]
pub(super) fn announce(process: u32) {
    let place = PLACE.get();
    let region = place.region(process);
    if !region.is_null() && place.count > FEW {
        Region::ask_for(region);
    }
}

/// Prefetches the line at which `what` begins.
#[inline]
pub(super) fn ask_line<T>(what: *const T) {
    region::ask(what.cast());
}

/// Prefetches all of these bytes.
#[inline]
pub(super) fn ask_lines(first: *const u8, bytes: usize) {
    region::ask_all(first, bytes);
}

/// Whether prefetching pays.
#[inline]
pub(super) fn is_far() -> bool {
    PLACE.get().count > FEW
}

/// The next turn is this process's: starts to prefetch what it will need, a little at a time ([`go_on`]).
#[inline]
pub(super) fn ask(process: u32) {
    let place = PLACE.get();
    if place.count <= FEW {
        return;
    }
    while !place.next.is_null() && go_on_with(place.next) {}
    let next = place.region(process);
    if !next.is_null() {
        // SAFETY: as in `Heap::alloc`.
        unsafe { &mut *next }.begin();
    }
    PLACE.set(Place { next, ..place });
}

/// Prefetches a little more. Prefetching everything at once would be waiting for it: only so many misses can be
/// outstanding.
#[inline]
pub(super) fn go_on() {
    let place = PLACE.get();
    if !place.next.is_null() && !go_on_with(place.next) {
        PLACE.set(Place {
            next: ptr::null_mut(),
            ..place
        });
    }
}

#[inline(never)]
fn go_on_with(next: *mut Region) -> bool {
    /// Lines per step.
    const LITTLE: usize = 12;
    // SAFETY: as in `Heap::alloc`.
    unsafe { &mut *next }.go_on(LITTLE)
}

/// Whether [`Heap`] is the program's allocator.
fn is_installed() -> bool {
    let before = PLACE.get();
    let mut region = Region::default();
    let current = &raw mut region;
    PLACE.set(Place { current, ..before });
    drop(std::hint::black_box(Box::new([0_u64; 4])));
    PLACE.set(before);
    // SAFETY: no other code has it any more.
    let region = unsafe { &mut *current };
    let asked = region.asked;
    region.end();
    asked
}

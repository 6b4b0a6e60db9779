#![expect(unsafe_code, reason = "an allocator's memory is pointers")]
//! Where pages come from: one range of addresses, backed by huge pages.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr::{self, NonNull},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicPtr, Ordering},
    },
};

/// Octets of a page.
pub(super) const PAGE: usize = 4 << 10;
/// Octets of the largest block: 16 pages.
pub(super) const LARGEST: usize = PAGE * LONGEST;
/// Pages of the longest run.
const LONGEST: usize = 16;
/// What is made accessible, and given back, at once: a huge page.
const SPAN: usize = 2 << 20;
const SPAN_PAGES: u32 = (SPAN / PAGE) as u32;
/// Octets of addresses. Blocks are numbered by 16 octets, which 36 bits of addresses leave 32 for.
const RESERVE: usize = if cfg!(miri) {
    2 * SPAN
} else if usize::BITS == 64 {
    (32_u64 << 30) as usize
} else {
    0
};

/// No address that there is: nothing lies within [`RESERVE`] of it.
const NOWHERE: *mut u8 = ptr::without_provenance_mut(1 << (usize::BITS - 1));

/// Where the range begins.
static BASE: AtomicPtr<u8> = AtomicPtr::new(NOWHERE);
static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// What is known of a page.
#[derive(Clone, Copy)]
struct Page {
    /// If it begins a run that is free: the next such one; 0: there is none.
    next: u32,
    /// Octets of it that are free for ever, while others are not.
    free: u16,
}

pub(super) struct Pool {
    /// Of all pages up to `room`, from the system's allocator: whoever waits for the lock may not allocate.
    pages: *mut Page,
    room: u32,
    /// Pages that have been handed out at least once since all were free; page 0 never is.
    begun: u32,
    /// Pages that can be accessed.
    open: u32,
    /// Pages handed out.
    used: u32,
    /// Free runs of one page, two and so on; 0: there is none.
    runs: [u32; LONGEST],
}

// SAFETY: the table is the pool's alone.
unsafe impl Send for Pool {}

impl Pool {
    const fn new() -> Self {
        Self {
            pages: ptr::null_mut(),
            room: 0,
            begun: 1,
            open: 0,
            used: 0,
            runs: [0; LONGEST],
        }
    }

    /// It belongs to nobody else. (Nothing panics while it is held.)
    pub(super) fn lock() -> MutexGuard<'static, Self> {
        POOL.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves the range, if that has not been done. Gives whether there is one.
    pub(super) fn open() -> bool {
        let _pool = Self::lock();
        if BASE.load(Ordering::Relaxed) == NOWHERE && RESERVE > 0 {
            BASE.store(reserve().unwrap_or(NOWHERE), Ordering::Relaxed);
        }
        BASE.load(Ordering::Relaxed) != NOWHERE
    }

    /// A block is of the pool.
    #[inline]
    pub(super) fn owns(block: *mut u8) -> bool {
        // Whoever has got a block of the pool has seen `BASE` set; for others it does not matter.
        block.addr().wrapping_sub(BASE.load(Ordering::Relaxed).addr()) < RESERVE
    }

    /// The block with this number.
    #[inline]
    pub(super) fn block(number: u32) -> NonNull<u8> {
        // SAFETY: numbers are of blocks within the range.
        unsafe { NonNull::new_unchecked(BASE.load(Ordering::Relaxed).add(number as usize * 16)) }
    }

    /// Where a page begins.
    #[inline]
    pub(super) fn page_at(page: u32) -> *const u8 {
        BASE.load(Ordering::Relaxed).wrapping_add(page as usize * PAGE)
    }

    /// The number of a block.
    #[inline]
    pub(super) fn number(block: NonNull<u8>) -> u32 {
        ((block.addr().get() - BASE.load(Ordering::Relaxed).addr()) / 16) as u32
    }

    /// The number of the first block of a page.
    #[inline]
    pub(super) fn first(page: u32) -> u32 {
        page * (PAGE / 16) as u32
    }

    /// The page that a block is in, by its number.
    #[inline]
    pub(super) fn page(number: u32) -> u32 {
        number / (PAGE / 16) as u32
    }

    /// Pages of a block that is larger than one.
    pub(super) fn pages(octets: usize) -> u32 {
        octets.div_ceil(PAGE) as u32
    }

    fn entry(&mut self, page: u32) -> &mut Page {
        // SAFETY: the table has as many, and all have been written; nobody else has it.
        unsafe { &mut *self.pages.add(page as usize) }
    }

    /// The first of so many pages, which are the caller's now; `None`: there is no more memory.
    pub(super) fn take(&mut self, pages: u32) -> Option<u32> {
        let run = pages as usize - 1;
        let first = match self.runs[run] {
            0 => self.begin(pages)?,
            first => {
                self.runs[run] = self.entry(first).next;
                first
            }
        };
        self.used += pages;
        Some(first)
    }

    /// Pages that have not been in use.
    fn begin(&mut self, pages: u32) -> Option<u32> {
        let (first, end) = (self.begun, self.begun + pages);
        if end as usize > RESERVE / PAGE || BASE.load(Ordering::Relaxed) == NOWHERE {
            return None;
        }
        while self.open < end {
            make_accessible(self.open).then_some(())?;
            self.open += SPAN_PAGES;
        }
        if self.room < end {
            self.grow()?;
        }
        (first..end).for_each(|page| *self.entry(page) = Page { next: 0, free: 0 });
        self.begun = end;
        Some(first)
    }

    /// Makes the table twice as long.
    fn grow(&mut self) -> Option<()> {
        let room = (2 * self.room).max(2 * SPAN_PAGES);
        let new = Layout::array::<Page>(room as usize).ok()?;
        let old = Layout::array::<Page>(self.room as usize).ok()?;
        // SAFETY: the old table, if there is one, came from there with that layout; the new one is not empty.
        let pages = unsafe {
            match self.room {
                0 => System.alloc_zeroed(new),
                _ => System.realloc(self.pages.cast(), old, new.size()),
            }
        };
        if pages.is_null() {
            return None;
        }
        (self.pages, self.room) = (pages.cast(), room);
        // SAFETY: there is room for as many.
        (old.size() / size_of::<Page>()..room as usize)
            .for_each(|page| unsafe { self.pages.add(page).write(Page { next: 0, free: 0 }) });
        Some(())
    }

    /// Takes pages back.
    pub(super) fn put(&mut self, first: u32, pages: u32) {
        let run = pages as usize - 1;
        let next = self.runs[run];
        self.entry(first).next = next;
        self.runs[run] = first;
        self.used -= pages;
        if self.used == 0 {
            // From the beginning again, so that what is allocated together lies together.
            (self.begun, self.runs) = (1, [0; LONGEST]);
        }
    }

    /// Octets of a page are free, and nobody will ask for them before all of it is.
    pub(super) fn free(&mut self, page: u32, octets: usize) {
        let entry = self.entry(page);
        entry.free += octets as u16;
        if usize::from(entry.free) == PAGE {
            entry.free = 0;
            self.put(page, 1);
        }
    }

    /// Gives memory that nobody uses back to the system.
    pub(super) fn give_back(&mut self) {
        if self.used == 0 {
            release(0, self.open);
            return;
        }
        // Free pages of each huge one.
        let spans = self.open / SPAN_PAGES;
        let layout = Layout::array::<u32>(spans as usize);
        let Ok(layout) = layout else { return };
        // SAFETY: it is not empty, as pages are in use.
        let free: *mut u32 = unsafe { System.alloc_zeroed(layout) }.cast();
        if free.is_null() {
            return;
        }
        // SAFETY: there are as many, all 0.
        let counts = unsafe { std::slice::from_raw_parts_mut(free, spans as usize) };
        for (pages, run) in (1..).zip(self.runs) {
            let mut first = run;
            while first != 0 {
                (first..first + pages).for_each(|page| counts[(page / SPAN_PAGES) as usize] += 1);
                first = self.entry(first).next;
            }
        }
        for (span, count) in (0..).zip(&*counts) {
            let unused = ((span + 1) * SPAN_PAGES).saturating_sub(self.begun).min(SPAN_PAGES);
            let first = u32::from(span == 0);
            if count + unused + first == SPAN_PAGES {
                release(span * SPAN_PAGES, (span + 1) * SPAN_PAGES);
            }
        }
        // SAFETY: it came from there, and nobody uses it any more.
        unsafe { System.dealloc(free.cast(), layout) };
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> u32 {
        self.used
    }
}

#[cfg(not(miri))]
mod system {
    use std::ptr;

    use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

    use super::{BASE, Ordering, PAGE, RESERVE, SPAN};

    /// A range of addresses that begins with a huge page.
    pub(super) fn reserve() -> Option<*mut u8> {
        // SAFETY: nothing is there that the mapping could replace.
        let mapped = unsafe {
            mm::mmap_anonymous(
                ptr::null_mut(),
                RESERVE + SPAN,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let mapped: *mut u8 = mapped.ok()?.cast();
        let base = mapped.wrapping_add(mapped.align_offset(SPAN));
        #[cfg(target_os = "linux")]
        // SAFETY: it is within the mapping, and the advice changes no content. Without it pages are small.
        unsafe {
            _ = mm::madvise(base.cast(), RESERVE, Advice::LinuxHugepage);
        }
        Some(base)
    }

    /// The huge page that begins with this page can be accessed.
    pub(super) fn make_accessible(page: u32) -> bool {
        let start = BASE.load(Ordering::Relaxed).wrapping_add(page as usize * PAGE);
        // SAFETY: it is within the range, and nobody has referred to it before.
        unsafe { mm::mprotect(start.cast(), SPAN, MprotectFlags::READ | MprotectFlags::WRITE) }.is_ok()
    }

    /// These pages' octets are not needed any more.
    pub(super) fn release(from: u32, to: u32) {
        let start = BASE.load(Ordering::Relaxed).wrapping_add(from as usize * PAGE);
        #[cfg(target_os = "linux")]
        // SAFETY: they are within the range and nobody's. If that fails they stay where they are.
        unsafe {
            _ = mm::madvise(start.cast(), (to - from) as usize * PAGE, Advice::LinuxDontNeed);
        }
    }
}

/// Where system calls are not simulated.
#[cfg(miri)]
mod system {
    use super::{GlobalAlloc, Layout, RESERVE, SPAN, System};

    pub(super) fn reserve() -> Option<*mut u8> {
        // SAFETY: it is not empty.
        Some(unsafe { System.alloc_zeroed(Layout::from_size_align(RESERVE, SPAN).ok()?) })
    }

    pub(super) fn make_accessible(_: u32) -> bool {
        true
    }

    pub(super) fn release(_: u32, _: u32) {}
}

use system::{make_accessible, release, reserve};

#![expect(unsafe_code, reason = "an allocator's memory is pointers")]
//! The source of pages: one range of addresses, backed by huge pages.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr::{self, NonNull},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicPtr, Ordering},
    },
};

/// Bytes of a page.
pub(super) const PAGE: usize = 4 << 10;
/// Bytes of the largest block: 16 pages.
pub(super) const LARGEST: usize = PAGE * LONGEST;
/// Pages of the longest run.
const LONGEST: usize = 16;
/// Unit in which memory is made accessible and returned to the system: a huge page.
const SPAN: usize = 2 << 20;
const SPAN_PAGES: u32 = (SPAN / PAGE) as u32;
/// Bytes of address space. Blocks are numbered in units of 16 bytes, for which 36 bits of addresses leave 32.
const RESERVE: usize = if cfg!(miri) {
    2 * SPAN
} else if usize::BITS == 64 {
    (32_u64 << 30) as usize
} else {
    0
};

/// An impossible address: nothing lies within [`RESERVE`] of it.
const NOWHERE: *mut u8 = ptr::without_provenance_mut(1 << (usize::BITS - 1));

/// Beginning of the range.
static BASE: AtomicPtr<u8> = AtomicPtr::new(NOWHERE);
static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// State of a page.
#[derive(Clone, Copy)]
struct Page {
    /// For the first page of a free run: the next such run; 0: none.
    next: u32,
    /// Bytes of it that are free for ever, while others are in use.
    free: u16,
}

pub(super) struct Pool {
    /// Entries of all pages up to `room`, from the system's allocator: a thread that waits for the lock must not
    /// allocate.
    pages: *mut Page,
    room: u32,
    /// Pages that have been handed out at least once since all were free; page 0 never is.
    begun: u32,
    /// Number of accessible pages.
    open: u32,
    /// Number of pages handed out.
    used: u32,
    /// Heads of the lists of free runs of one page, two and so on; 0: none.
    runs: [u32; LONGEST],
}

// SAFETY: only the pool refers to the table.
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

    /// Locks the pool. (Nothing panics while it is locked.)
    pub(super) fn lock() -> MutexGuard<'static, Self> {
        POOL.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves the range, unless that has been done. Gives whether there is one.
    pub(super) fn open() -> bool {
        let _pool = Self::lock();
        if BASE.load(Ordering::Relaxed) == NOWHERE && RESERVE > 0 {
            BASE.store(reserve().unwrap_or(NOWHERE), Ordering::Relaxed);
        }
        BASE.load(Ordering::Relaxed) != NOWHERE
    }

    /// Whether a block is the pool's.
    #[inline]
    pub(super) fn owns(block: *mut u8) -> bool {
        // A thread that has a block of the pool has seen `BASE` set; to others it does not matter.
        block.addr().wrapping_sub(BASE.load(Ordering::Relaxed).addr()) < RESERVE
    }

    /// The block with this number.
    #[inline]
    pub(super) fn block(number: u32) -> NonNull<u8> {
        // SAFETY: numbers are those of blocks within the range.
        unsafe { NonNull::new_unchecked(BASE.load(Ordering::Relaxed).add(number as usize * 16)) }
    }

    /// Address of a page.
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

    /// The page of a block, by the block's number.
    #[inline]
    pub(super) fn page(number: u32) -> u32 {
        number / (PAGE / 16) as u32
    }

    /// Number of pages of a block that is larger than one.
    pub(super) fn pages(bytes: usize) -> u32 {
        bytes.div_ceil(PAGE) as u32
    }

    fn entry(&mut self, page: u32) -> &mut Page {
        // SAFETY: the table has that many entries, and all have been written; no other code has a reference.
        unsafe { &mut *self.pages.add(page as usize) }
    }

    /// Takes a run of pages for the caller, and gives the first one; `None`: there is no more memory.
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

    /// Takes pages that have not been in use.
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

    /// Doubles the table.
    fn grow(&mut self) -> Option<()> {
        let room = (2 * self.room).max(2 * SPAN_PAGES);
        let new = Layout::array::<Page>(room as usize).ok()?;
        let old = Layout::array::<Page>(self.room as usize).ok()?;
        // SAFETY: the old table, if there is one, was allocated by `System` with that layout; the new one is not empty.
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
        // SAFETY: there is room for that many.
        (old.size() / size_of::<Page>()..room as usize)
            .for_each(|page| unsafe { self.pages.add(page).write(Page { next: 0, free: 0 }) });
        Some(())
    }

    /// Takes a run of pages back.
    pub(super) fn put(&mut self, first: u32, pages: u32) {
        let run = pages as usize - 1;
        let next = self.runs[run];
        self.entry(first).next = next;
        self.runs[run] = first;
        self.used -= pages;
        if self.used == 0 {
            // Begins at the first page again, so that blocks that are allocated together lie together.
            (self.begun, self.runs) = (1, [0; LONGEST]);
        }
    }

    /// Bytes of a page are free, and will not be reused before the whole page is.
    pub(super) fn free(&mut self, page: u32, bytes: usize) {
        let entry = self.entry(page);
        entry.free += bytes as u16;
        if usize::from(entry.free) == PAGE {
            entry.free = 0;
            self.put(page, 1);
        }
    }

    /// Returns unused memory to the system.
    pub(super) fn give_back(&mut self) {
        if self.used == 0 {
            release(0, self.open);
            return;
        }
        // Number of free pages of each huge page.
        let spans = self.open / SPAN_PAGES;
        let layout = Layout::array::<u32>(spans as usize);
        let Ok(layout) = layout else { return };
        // SAFETY: the layout is not empty, as pages are in use.
        let free: *mut u32 = unsafe { System.alloc_zeroed(layout) }.cast();
        if free.is_null() {
            return;
        }
        // SAFETY: there are that many, all 0.
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
        // SAFETY: it was allocated by `System` with this layout, and is not used any more.
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

    /// Reserves a range of addresses that begins at a huge page.
    pub(super) fn reserve() -> Option<*mut u8> {
        // SAFETY: the mapping replaces nothing.
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
        // SAFETY: it is within the mapping, and the advice changes no contents. Without it pages are small.
        unsafe {
            _ = mm::madvise(base.cast(), RESERVE, Advice::LinuxHugepage);
        }
        Some(base)
    }

    /// Makes the huge page that begins with this page accessible.
    pub(super) fn make_accessible(page: u32) -> bool {
        let start = BASE.load(Ordering::Relaxed).wrapping_add(page as usize * PAGE);
        // SAFETY: it is within the range, and no reference to it has existed before.
        unsafe { mm::mprotect(start.cast(), SPAN, MprotectFlags::READ | MprotectFlags::WRITE) }.is_ok()
    }

    /// The contents of these pages are not needed any more.
    pub(super) fn release(from: u32, to: u32) {
        let start = BASE.load(Ordering::Relaxed).wrapping_add(from as usize * PAGE);
        #[cfg(target_os = "linux")]
        // SAFETY: they are within the range and unused. If the call fails, they stay as they are.
        unsafe {
            _ = mm::madvise(start.cast(), (to - from) as usize * PAGE, Advice::LinuxDontNeed);
        }
    }
}

/// For platforms whose system calls are not simulated (Miri).
#[cfg(miri)]
mod system {
    use super::{GlobalAlloc, Layout, RESERVE, SPAN, System};

    pub(super) fn reserve() -> Option<*mut u8> {
        // SAFETY: the layout is not empty.
        Some(unsafe { System.alloc_zeroed(Layout::from_size_align(RESERVE, SPAN).ok()?) })
    }

    pub(super) fn make_accessible(_: u32) -> bool {
        true
    }

    pub(super) fn release(_: u32, _: u32) {}
}

use system::{make_accessible, release, reserve};

#![expect(unsafe_code, reason = "free blocks have the number of the next one in them")]
//! The pages and free blocks of one simulated process.

use std::ptr::{self, NonNull};

use super::pool::{LARGEST, PAGE, Pool};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Sizes of blocks within pages: multiples of 16 up to 128, then four between each two powers of two, up to a page.
const CLASSES: usize = 8 + 4 * 5;
/// Number of pages whose lines are noted for prefetching.
const NOTED: usize = 16;
/// Number of lines that are noted of a block larger than two lines: its beginning. That is where the most used data
/// are, such as the first entries of lists.
const BEGINNING: u32 = 5;
/// The same for a block of more than half a page.
const LONG_BEGINNING: u32 = 5;
/// Blocks per size whose lines are noted, if they are larger than one line: where there are more, each is the state of
/// one of many peers ([`Locate`](crate::prefetch::Locate)).
const MARKED: u8 = 4;
/// Lines of a stack that a program needs when it is resumed: below the address where it is suspended, and above.
const STACK: (usize, usize) = (14, 36);
/// Lines above if the program is not resumed yet: only its condition is evaluated.
const WAITING: usize = 12;

/// Number of lines of a block's beginning that are noted.
fn beginning(bytes: usize) -> u32 {
    match bytes {
        _ if bytes <= PAGE / 2 => BEGINNING,
        _ => LONG_BEGINNING,
    }
}

/// The class of a block of up to a page.
#[inline]
fn class(bytes: usize) -> usize {
    let bytes = bytes.max(1);
    if bytes <= 128 {
        return (bytes - 1) / 16;
    }
    // The highest bit, and the two after it.
    let last = bytes - 1;
    let high = last.ilog2() as usize;
    8 + (high - 7) * 4 + (last >> (high - 2)) % 4
}

/// Bytes of the blocks of a class.
#[inline]
fn size(class: usize) -> usize {
    match class {
        0..8 => (class + 1) * 16,
        _ => (5 + class % 4) << (5 + (class - 8) / 4),
    }
}

/// Whether a block of `old` bytes is also as large as one of `new` bytes.
#[inline]
pub(super) fn fits(old: usize, new: usize) -> bool {
    match (old <= PAGE, new <= PAGE) {
        (true, true) => class(old) == class(new),
        (false, false) => new <= LARGEST && Pool::pages(old) == Pool::pages(new),
        _ => false,
    }
}

/// Frees a block while no process has its turn.
///
/// # Safety
/// It is a block of the pool, has `bytes` bytes, and nothing refers to it any more.
#[cold]
pub(super) unsafe fn forget(block: NonNull<u8>, bytes: usize) {
    let page = Pool::page(Pool::number(block));
    let mut pool = Pool::lock();
    match bytes <= PAGE {
        true => pool.free(page, size(class(bytes))),
        false => pool.put(page, Pool::pages(bytes)),
    }
}

/// Prefetches a line into the second-level cache: a hint, for which no address is wrong.
#[inline]
pub(super) fn ask(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every such CPU has the instruction, and it has no effect that a program could observe.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(line.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: the same.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = line;
}

/// Prefetches all lines of these bytes.
#[inline]
pub(super) fn ask_all(first: *const u8, bytes: usize) {
    let skipped = first.addr() % LINE;
    (0..bytes + skipped)
        .step_by(LINE)
        .for_each(|at| ask(first.wrapping_add(at).wrapping_sub(skipped)));
}

/// The pages of a process, its free blocks, and the lines to prefetch.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct Region {
    /// The page from which new blocks are cut, and how many bytes of it are in use.
    page: u32,
    filled: u32,
    /// Numbers of the most recently freed block of each class; each free block holds that of the one before. 0: none.
    free: [u32; CLASSES],
    /// Where the program's stack ends while it is suspended.
    stack: usize,
    /// Turns of the process since then, and in its previous suspension: this one is expected to be as long.
    waited: u32,
    waits: u32,
    /// The bottom of its stack, which each switch to and from it needs.
    pub(super) bottom: usize,
    noted: usize,
    /// Number of blocks of each class whose lines are noted.
    marked: [u8; CLASSES],
    /// First block numbers of the noted pages, and which of their lines.
    pages: [u32; NOTED],
    lines: [u64; NOTED],
    /// Prefetching in progress: the page, and the lines of it and of the stack that are left.
    asking: usize,
    left: u64,
    stack_left: usize,
    stack_last: usize,
    /// Whether a block has been requested of it.
    pub(super) asked: bool,
}

impl Region {
    /// Allocates a block of `bytes` bytes, up to [`LARGEST`].
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        if bytes > PAGE {
            return self.take_pages(bytes);
        }
        let class = class(bytes);
        match self.free[class] {
            0 => self.cut(class),
            number => {
                let block = Pool::block(number);
                // SAFETY: it is free, so it has the number of the next one.
                self.free[class] = unsafe { block.cast().read() };
                Some(block)
            }
        }
    }

    /// Frees a block, be it this region's or another one's: it becomes this region's.
    ///
    /// # Safety
    /// It is a block of the pool, has `bytes` bytes, and nothing refers to it any more.
    #[inline]
    pub(super) unsafe fn put(&mut self, block: NonNull<u8>, bytes: usize) {
        if bytes > PAGE {
            return self.put_pages(Pool::page(Pool::number(block)), Pool::pages(bytes));
        }
        self.push(Pool::number(block), class(bytes));
    }

    /// Puts a free block, by its number, on its list.
    #[inline]
    fn push(&mut self, number: u32, class: usize) {
        // SAFETY: it is a free block of the pool, with at least 16 bytes.
        unsafe { Pool::block(number).cast().write(self.free[class]) };
        self.free[class] = number;
    }

    /// Cuts a new block out of the page.
    #[cold]
    fn cut(&mut self, class: usize) -> Option<NonNull<u8>> {
        self.asked = true;
        let bytes = size(class);
        // Aligned so that it spans as few lines as possible.
        let line = self.filled as usize % LINE;
        let skipped = if line > 0 && line + bytes > LINE {
            LINE - line
        } else {
            0
        };
        if self.page != 0 && self.filled as usize + skipped + bytes <= PAGE {
            self.break_up(skipped);
            return Some(self.cut_next(bytes));
        }
        let page = Pool::lock().take(1)?;
        self.note(page);
        let before = (self.page, self.filled);
        if self.page != 0 && bytes >= self.filled as usize {
            // The previous page has more left.
            (self.page, self.filled) = (page, 0);
            let block = self.cut_next(bytes);
            self.break_up(PAGE - bytes);
            (self.page, self.filled) = before;
            return Some(block);
        }
        self.break_up(PAGE - self.filled as usize);
        (self.page, self.filled) = (page, 0);
        Some(self.cut_next(bytes))
    }

    /// The next bytes of the page, which has that many.
    fn cut_next(&mut self, bytes: usize) -> NonNull<u8> {
        let at = self.filled;
        self.filled += bytes as u32;
        let marked = &mut self.marked[class(bytes)];
        if *marked < MARKED || bytes <= LINE {
            *marked = marked.saturating_add(1);
            let lines = (bytes.div_ceil(LINE) as u32).min(beginning(bytes));
            self.mark(self.page, at / LINE as u32, lines);
        }
        Pool::block(Pool::first(self.page) + at / 16)
    }

    /// Turns the next bytes of the page into free blocks.
    fn break_up(&mut self, mut bytes: usize) {
        while self.page > 0 && bytes > 0 {
            let largest = (0..CLASSES).rev().find(|class| size(*class) <= bytes).unwrap_or(0);
            self.push(Pool::first(self.page) + self.filled / 16, largest);
            self.filled += size(largest) as u32;
            bytes -= size(largest);
        }
    }

    #[cold]
    fn take_pages(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        self.asked = true;
        let page = Pool::lock().take(Pool::pages(bytes))?;
        self.note(page);
        self.mark(page, 0, beginning(bytes));
        Some(Pool::block(Pool::first(page)))
    }

    #[cold]
    fn put_pages(&mut self, page: u32, pages: u32) {
        if let Some(noted) = self.pages[..self.noted].iter().position(|noted| *noted == page) {
            self.noted -= 1;
            self.pages[noted] = self.pages[self.noted];
            self.lines[noted] = self.lines[self.noted];
        }
        Pool::lock().put(page, pages);
    }

    /// Notes that lines of a page are worth prefetching.
    fn note(&mut self, page: u32) {
        if self.noted < NOTED {
            (self.pages[self.noted], self.lines[self.noted]) = (page, 0);
            self.noted += 1;
        }
    }

    /// Notes these lines.
    fn mark(&mut self, page: u32, first: u32, count: u32) {
        if let Some(noted) = self.pages[..self.noted].iter().rposition(|noted| *noted == page) {
            self.lines[noted] |= (u64::MAX >> (64 - count)) << first;
        }
    }

    /// Notes all lines of a value.
    pub(super) fn mark_all(&mut self, block: NonNull<u8>, bytes: usize) {
        let number = Pool::number(block);
        let page = Pool::page(number);
        let first = (number - Pool::first(page)) as usize * 16;
        let lines = (first % LINE + bytes).div_ceil(LINE).min((PAGE - first) / LINE);
        self.mark(page, (first / LINE) as u32, lines as u32);
    }

    /// Prefetches the region's own notes.
    #[inline]
    pub(super) fn ask_for(region: *const Self) {
        let first: *const u8 = region.cast();
        (0..size_of::<Self>())
            .step_by(LINE)
            .for_each(|at| ask(first.wrapping_add(at)));
    }

    /// Starts to prefetch the noted lines.
    pub(super) fn begin(&mut self) {
        (self.asking, self.left) = (0, self.lines[0]);
        ask(ptr::without_provenance(self.bottom));
        self.waited += 1;
        (self.stack_left, self.stack_last) = match self.stack {
            0 => (0, 0),
            _ if self.waited < self.waits => (STACK.0 + WAITING, STACK.0),
            _ => (STACK.0 + STACK.1, 0),
        };
    }

    /// Its program is suspended with this stack pointer.
    #[inline]
    pub(super) fn suspend_at(&mut self, stack: usize) {
        (self.stack, self.waits, self.waited) = (stack, self.waited, 0);
    }

    /// Prefetches `count` more lines. Gives whether there may be others.
    pub(super) fn go_on(&mut self, count: usize) -> bool {
        for _ in 0..count {
            while self.left == 0 && self.asking + 1 < self.noted {
                self.asking += 1;
                self.left = self.lines[self.asking];
            }
            if self.left != 0 {
                let line = self.left.trailing_zeros() as usize;
                self.left &= self.left - 1;
                ask(Pool::page_at(self.pages[self.asking]).wrapping_add(line * LINE));
            } else if self.stack_left > self.stack_last {
                self.stack_left -= 1;
                let line = self.stack + self.stack_left * LINE;
                let line = line.wrapping_sub(STACK.0 * LINE);
                ask(ptr::without_provenance(line));
            } else {
                return false;
            }
        }
        true
    }

    /// Nothing more will be allocated from it: its pages are reused when the last of their blocks is free.
    pub(super) fn end(&mut self) {
        self.break_up(if self.page > 0 { PAGE - self.filled as usize } else { 0 });
        let mut pool = Pool::lock();
        for class in 0..CLASSES {
            let mut number = self.free[class];
            while number != 0 {
                // SAFETY: it is free, so it has the number of the next one.
                let next = unsafe { Pool::block(number).cast().read() };
                pool.free(Pool::page(number), size(class));
                number = next;
            }
        }
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_for() {
        for bytes in 1..=PAGE {
            let class = class(bytes);
            assert!(class < CLASSES && bytes <= size(class), "{bytes} in {class}");
            assert!(class == 0 || size(class - 1) < bytes, "{bytes} in {class}");
        }
        assert_eq!(size(CLASSES - 1), PAGE);
    }
}

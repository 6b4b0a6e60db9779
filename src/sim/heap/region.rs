#![expect(unsafe_code, reason = "free blocks have the number of the next one in them")]
//! What one simulated process has of the pool.

use std::ptr::{self, NonNull};

use super::pool::{LARGEST, PAGE, Pool};

/// Octets of a cache line.
const LINE: usize = 64;
/// Sizes of blocks within pages: multiples of 16 up to 128, then four between each two powers of two, up to a page.
const CLASSES: usize = 8 + 4 * 5;
/// Pages whose lines are noted.
const NOTED: usize = 16;
/// Lines that are noted of a block larger than two of them: its beginning. What is used most lies there: the first entries
/// of lists that are as long as ever needed.
const BEGINNING: u32 = 5;
/// Of one of more than half a page.
const LONG_BEGINNING: u32 = 5;
/// Blocks of a size whose lines are noted, if they are larger than one: where there are more, each is what is known of one
/// of many peers ([`Endpoint::locate`](crate::reliability::Endpoint)).
const MARKED: u8 = 4;
/// Lines of a stack that its program needs to go on: below where it is suspended, and above.
const STACK: (usize, usize) = (14, 36);
/// Those above if it does not go on yet: what it waits for is looked at.
const WAITING: usize = 12;

/// Lines of a block's beginning that are noted.
fn beginning(octets: usize) -> u32 {
    match octets {
        _ if octets <= PAGE / 2 => BEGINNING,
        _ => LONG_BEGINNING,
    }
}

/// The class of a block of up to a page.
#[inline]
fn class(octets: usize) -> usize {
    let octets = octets.max(1);
    if octets <= 128 {
        return (octets - 1) / 16;
    }
    // The highest bit, and the two after it.
    let last = octets - 1;
    let high = last.ilog2() as usize;
    8 + (high - 7) * 4 + (last >> (high - 2)) % 4
}

/// Octets of the blocks of a class.
#[inline]
fn size(class: usize) -> usize {
    match class {
        0..8 => (class + 1) * 16,
        _ => (5 + class % 4) << (5 + (class - 8) / 4),
    }
}

/// A block of `new` octets is as large as one of `old`.
#[inline]
pub(super) fn fits(old: usize, new: usize) -> bool {
    match (old <= PAGE, new <= PAGE) {
        (true, true) => class(old) == class(new),
        (false, false) => new <= LARGEST && Pool::pages(old) == Pool::pages(new),
        _ => false,
    }
}

/// A block is free; it is nobody's turn.
///
/// # Safety
/// It is of the pool, has so many octets, and nobody refers to it any more.
#[cold]
pub(super) unsafe fn forget(block: NonNull<u8>, octets: usize) {
    let page = Pool::page(Pool::number(block));
    let mut pool = Pool::lock();
    match octets <= PAGE {
        true => pool.free(page, size(class(octets))),
        false => pool.put(page, Pool::pages(octets)),
    }
}

/// Asks for a line that will be needed, into the second cache: a hint, which no address is wrong for.
#[inline]
pub(super) fn ask(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every such processor has the instruction, and it reads nothing that a program could tell.
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

/// Asks for all lines of these octets.
#[inline]
pub(super) fn ask_all(first: *const u8, octets: usize) {
    let skipped = first.addr() % LINE;
    (0..octets + skipped)
        .step_by(LINE)
        .for_each(|at| ask(first.wrapping_add(at).wrapping_sub(skipped)));
}

/// The pages of a process, and which of their blocks are free.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct Region {
    /// The page that new blocks come from, and how many octets of it are in use.
    page: u32,
    filled: u32,
    /// Numbers of the blocks of each class that were freed last; each has that of the one before. 0: there is none.
    free: [u32; CLASSES],
    /// Where its program's stack ends while it is suspended.
    stack: usize,
    /// Turns of its process since then, and how many it was suspended for the last time: it will be for as many again.
    waited: u32,
    waits: u32,
    /// Where it begins: each switch to and from it needs that.
    pub(super) bottom: usize,
    noted: usize,
    /// Blocks of each class whose lines are.
    marked: [u8; CLASSES],
    /// The first octets of pages that are worth to be asked for, in numbers, and which of their lines.
    pages: [u32; NOTED],
    lines: [u64; NOTED],
    /// Of what is being asked for: which page, and lines of it and of the stack that have not been.
    asking: usize,
    left: u64,
    stack_left: usize,
    stack_last: usize,
    /// Something has been asked of it.
    pub(super) asked: bool,
}

impl Region {
    /// A block of so many octets, up to [`LARGEST`].
    #[inline]
    pub(super) fn take(&mut self, octets: usize) -> Option<NonNull<u8>> {
        if octets > PAGE {
            return self.take_pages(octets);
        }
        let class = class(octets);
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

    /// Takes back a block, or takes it from another one, to whom it will not go back.
    ///
    /// # Safety
    /// It is of the pool, has so many octets, and nobody refers to it any more.
    #[inline]
    pub(super) unsafe fn put(&mut self, block: NonNull<u8>, octets: usize) {
        if octets > PAGE {
            return self.put_pages(Pool::page(Pool::number(block)), Pool::pages(octets));
        }
        self.push(Pool::number(block), class(octets));
    }

    /// A block, by its number, is free.
    #[inline]
    fn push(&mut self, number: u32, class: usize) {
        // SAFETY: it is free and of the pool, with at least 16 octets.
        unsafe { Pool::block(number).cast().write(self.free[class]) };
        self.free[class] = number;
    }

    /// A block that has not been there before.
    #[cold]
    fn cut(&mut self, class: usize) -> Option<NonNull<u8>> {
        self.asked = true;
        let octets = size(class);
        // As few lines as can be.
        let line = self.filled as usize % LINE;
        let skipped = if line > 0 && line + octets > LINE {
            LINE - line
        } else {
            0
        };
        if self.page != 0 && self.filled as usize + skipped + octets <= PAGE {
            self.break_up(skipped);
            return Some(self.cut_next(octets));
        }
        let page = Pool::lock().take(1)?;
        self.note(page);
        let before = (self.page, self.filled);
        if self.page != 0 && octets >= self.filled as usize {
            // More is left of the page before.
            (self.page, self.filled) = (page, 0);
            let block = self.cut_next(octets);
            self.break_up(PAGE - octets);
            (self.page, self.filled) = before;
            return Some(block);
        }
        self.break_up(PAGE - self.filled as usize);
        (self.page, self.filled) = (page, 0);
        Some(self.cut_next(octets))
    }

    /// The next octets of the page, which has as many.
    fn cut_next(&mut self, octets: usize) -> NonNull<u8> {
        let at = self.filled;
        self.filled += octets as u32;
        let marked = &mut self.marked[class(octets)];
        if *marked < MARKED || octets <= LINE {
            *marked = marked.saturating_add(1);
            let lines = (octets.div_ceil(LINE) as u32).min(beginning(octets));
            self.mark(self.page, at / LINE as u32, lines);
        }
        Pool::block(Pool::first(self.page) + at / 16)
    }

    /// So many of the next octets of the page become free blocks.
    fn break_up(&mut self, mut octets: usize) {
        while self.page > 0 && octets > 0 {
            let largest = (0..CLASSES).rev().find(|class| size(*class) <= octets).unwrap_or(0);
            self.push(Pool::first(self.page) + self.filled / 16, largest);
            self.filled += size(largest) as u32;
            octets -= size(largest);
        }
    }

    #[cold]
    fn take_pages(&mut self, octets: usize) -> Option<NonNull<u8>> {
        self.asked = true;
        let page = Pool::lock().take(Pool::pages(octets))?;
        self.note(page);
        self.mark(page, 0, beginning(octets));
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

    /// Lines of a page will be worth to be asked for.
    fn note(&mut self, page: u32) {
        if self.noted < NOTED {
            (self.pages[self.noted], self.lines[self.noted]) = (page, 0);
            self.noted += 1;
        }
    }

    /// These are.
    fn mark(&mut self, page: u32, first: u32, count: u32) {
        if let Some(noted) = self.pages[..self.noted].iter().rposition(|noted| *noted == page) {
            self.lines[noted] |= (u64::MAX >> (64 - count)) << first;
        }
    }

    /// All lines of what lies there are.
    pub(super) fn mark_all(&mut self, block: NonNull<u8>, octets: usize) {
        let number = Pool::number(block);
        let page = Pool::page(number);
        let first = (number - Pool::first(page)) as usize * 16;
        let lines = (first % LINE + octets).div_ceil(LINE).min((PAGE - first) / LINE);
        self.mark(page, (first / LINE) as u32, lines as u32);
    }

    /// Asks for what tells which lines are worth to be asked for.
    #[inline]
    pub(super) fn ask_for(region: *const Self) {
        let first: *const u8 = region.cast();
        (0..size_of::<Self>())
            .step_by(LINE)
            .for_each(|at| ask(first.wrapping_add(at)));
    }

    /// Asks for the first of these lines.
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

    /// Its program is suspended: its stack ends here.
    #[inline]
    pub(super) fn suspend_at(&mut self, stack: usize) {
        (self.stack, self.waits, self.waited) = (stack, self.waited, 0);
    }

    /// Asks for so many more of these lines. Gives whether there may be others.
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

    /// Nothing more will be asked of it: pages are used again when the last of their blocks is free.
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
        for octets in 1..=PAGE {
            let class = class(octets);
            assert!(class < CLASSES && octets <= size(class), "{octets} in {class}");
            assert!(class == 0 || size(class - 1) < octets, "{octets} in {class}");
        }
        assert_eq!(size(CLASSES - 1), PAGE);
    }
}

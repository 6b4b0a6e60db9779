//! Memory that all ranks of a communicator have mapped, and what each writes there.
//!
//! A collective is one *step* or several, counted alike by all ranks. In a step a rank may post bytes, which others read.
//! For each rank there are so many *lines*, which its steps use in turn: the number of the step, what it is a step of, how
//! many bytes there are, and the bytes themselves if they fit. Others lie in one of its *slots*. A rank that posts waits
//! until all have done with the step whose line, or slot, it uses again.
//!
//! No reference to these bytes is ever made: numbers are atomic, bytes are copied.

use core::{fmt, ops::Range};

use super::medium::{LINES, Mapped, Ordering, PAGE, SLOT, SLOTS, Span, barrier_of_all, compiler_fence, fence};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes that lie in a line.
pub(super) const ROOM: usize = LINE - 16;
/// Steps in lines after which a rank says again how far it is, if nothing makes it say so before. A rank that is ahead of the
/// others looks at their numbers, and each look takes a cache line from the one that writes there.
const SAID: u64 = if LINES >= 8 { LINES / 4 } else { 1 };

/// For all ranks: how many have asked to be woken; why no rank goes on.
const WAITING: usize = 0;
const BROKEN: usize = 8;
/// Where the first rank's numbers begin, and how far it is to those of the next one.
const NUMBERS: usize = LINE;
const STRIDE: usize = (2 + LINES as usize) * LINE;
/// In the numbers of a rank: the last step that it has done with; whether it wants to be woken; its first line.
const DONE: usize = 0;
const ASLEEP: usize = LINE;
const FIRST_LINE: usize = 2 * LINE;

/// What a rank has posted in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    /// What this is a step of.
    pub(crate) mark: u32,
    /// How many bytes there are.
    pub(crate) len: usize,
}

/// The memory as one rank sees it.
pub(crate) struct Board {
    memory: Mapped,
    rank: usize,
    size: usize,
    /// The step that this rank is in.
    step: u64,
    /// All ranks are known to have done with this one.
    done_by_all: u64,
    /// This rank has done with this one.
    done: u64,
    /// And has said so of this one.
    said: u64,
    /// A rank that falls asleep has all others pass a fence, so that those that post need none.
    one_sided: bool,
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board")
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

/// Where the first slot is.
const fn slots(size: usize) -> usize {
    (NUMBERS + size * STRIDE).next_multiple_of(PAGE)
}

impl Board {
    /// Bytes for so many ranks. A page takes memory when it is first used.
    pub(crate) const fn bytes(size: usize) -> usize {
        slots(size) + size * SLOTS as usize * SLOT
    }

    /// `memory` has [`bytes`](Self::bytes) bytes, which were all 0 when the first rank took it.
    /// `one_sided`: all ranks are [registered](super::medium::register) for [`barrier_of_all`].
    pub(crate) fn new(memory: Mapped, (rank, size): (usize, usize), one_sided: bool) -> Self {
        Self {
            memory,
            rank,
            size,
            step: 0,
            done_by_all: 0,
            done: 0,
            said: 0,
            one_sided,
        }
    }

    #[inline(always)]
    pub(crate) const fn rank(&self) -> usize {
        self.rank
    }

    /// Ranks on it.
    #[inline(always)]
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    const fn numbers(rank: usize) -> usize {
        NUMBERS + rank * STRIDE
    }

    #[inline(always)]
    fn line(&self, rank: usize) -> usize {
        Self::numbers(rank) + FIRST_LINE + (self.step % LINES) as usize * LINE
    }

    /// Where the bytes of a step lie.
    #[inline(always)]
    fn place(&self, rank: usize, len: usize) -> usize {
        if len <= ROOM {
            self.line(rank) + LINE - ROOM
        } else {
            slots(self.size) + (rank * SLOTS as usize + (self.step % SLOTS) as usize) * SLOT
        }
    }

    // ---- steps

    /// The next step begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.step += 1;
    }

    /// Returns whether this rank may post so many bytes.
    #[inline(always)]
    pub(crate) fn has_room(&mut self, len: usize) -> bool {
        let kept = if len <= ROOM { LINES } else { SLOTS };
        let free_from = self.step.saturating_sub(kept);
        self.done_by_all >= free_from || self.look_who_has_done() >= free_from
    }

    #[cold]
    fn look_who_has_done(&mut self) -> u64 {
        let done = |rank| self.memory.atomic(Self::numbers(rank) + DONE).load(Ordering::Acquire);
        self.done_by_all = (0..self.size)
            .filter(|rank| *rank != self.rank)
            .map(done)
            .min()
            .unwrap_or(u64::MAX);
        self.done_by_all
    }

    /// The rank that has not done with what this one would write over, if there is one.
    pub(crate) fn slowest(&self) -> Option<usize> {
        let done = |rank: &usize| self.memory.atomic(Self::numbers(*rank) + DONE).load(Ordering::Relaxed);
        (0..self.size).filter(|rank| *rank != self.rank).min_by_key(done)
    }

    /// Writes a part of the bytes of this step, which has so many in all, `at` bytes behind the first. There must be
    /// [room](Self::has_room).
    ///
    /// # Panics
    /// If it does not lie within the step's bytes, or these are more than [`SLOT`].
    #[inline]
    pub(crate) fn write(&self, len: usize, at: usize, bytes: &[u8]) {
        assert!(len <= SLOT && at + bytes.len() <= len);
        self.memory.write(self.place(self.rank, len) + at, bytes);
    }

    /// Others may read what was written. Returns whether one of them wants to be [woken](Self::take_sleepers).
    #[inline(always)]
    pub(crate) fn post(&self, posted: Posted) -> bool {
        let line = self.line(self.rank);
        let said = u64::from(posted.mark) << 32 | posted.len as u64;
        self.memory.atomic(line + 8).store(said, Ordering::Relaxed);
        self.memory.atomic(line).store(self.step, Ordering::Release);
        self.wakes()
    }

    /// What a rank has posted in this step, if it has.
    #[inline(always)]
    pub(crate) fn posted(&self, rank: usize) -> Option<Posted> {
        let line = self.line(rank);
        if self.memory.atomic(line).load(Ordering::Acquire) != self.step {
            return None;
        }
        let said = self.memory.atomic(line + 8).load(Ordering::Relaxed);
        Some(Posted {
            mark: (said >> 32) as u32,
            len: said as u32 as usize,
        })
    }

    /// A part of what a rank has posted, which is `len` bytes in all.
    ///
    /// # Panics
    /// If it does not lie within these, or they are more than [`SLOT`].
    #[inline]
    pub(crate) fn read(&self, rank: usize, len: usize, part: Range<usize>) -> Span<'_> {
        assert!(len <= SLOT && part.end <= len && rank < self.size);
        let span = self.memory.span(self.place(rank, len) + part.start, part.len());
        span.unwrap_or(Span::new(&[]))
    }

    /// All ranks have posted in this step, so they have done with the one before.
    #[inline(always)]
    pub(crate) fn all_have_posted(&mut self) {
        self.done_by_all = self.done_by_all.max(self.step - 1);
    }

    /// This rank has done with the step. Returns whether another one wants to be [woken](Self::take_sleepers).
    #[inline(always)]
    pub(crate) fn end(&mut self) -> bool {
        self.done = self.step;
        self.say_done()
    }

    /// The same of a step in which no rank posts more than fits into a line, as all know. No rank can need the lines so soon,
    /// so the rank says so now and then.
    ///
    /// (In a step with slots, of which there are few, a rank waits for room that has not been said to be free only if another
    /// one has not come to this step yet. That one says how far it is when it waits, or has done with this step.)
    #[inline(always)]
    pub(crate) fn end_in_lines(&mut self) -> bool {
        self.done = self.step;
        self.done - self.said >= SAID && self.say_done()
    }

    /// This rank says how far it is: also before it waits, since others may wait for that. Returns whether one of them wants
    /// to be [woken](Self::take_sleepers).
    #[inline(always)]
    pub(crate) fn say_done(&mut self) -> bool {
        if self.said == self.done {
            return false;
        }
        self.said = self.done;
        let done = self.memory.atomic(Self::numbers(self.rank) + DONE);
        // Release: what this rank has read it has read before others may write over it.
        done.store(self.done, Ordering::Release);
        self.wakes()
    }

    // ---- ranks that sleep

    #[inline(always)]
    fn wakes(&self) -> bool {
        // Pairs with the fence in `sleep`: either this rank sees that the other one sleeps, or that one sees what this one
        // has written. If the one there is passed by all ranks, the compiler must keep the order here, and no more.
        if self.one_sided {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
        self.memory.atomic(WAITING).load(Ordering::Relaxed) > 0
    }

    /// From now on this rank wants to be woken when another one has posted, or has done with a step: it looks once more
    /// before it sleeps.
    pub(crate) fn sleep(&self) {
        let asleep = self.memory.atomic(Self::numbers(self.rank) + ASLEEP);
        if asleep.load(Ordering::Relaxed) != 0 {
            // Said before the fence of an earlier look; ranks that have posted since then have seen it.
            return;
        }
        asleep.store(1, Ordering::Relaxed);
        self.memory.atomic(WAITING).fetch_add(1, Ordering::Relaxed);
        // Pairs with the one in `wakes`.
        fence(Ordering::SeqCst);
        if self.one_sided {
            barrier_of_all();
        }
    }

    /// It does not any more.
    pub(crate) fn awake(&self) {
        self.take_sleeper(self.rank);
    }

    /// Ranks that want to be woken: each is told of once.
    #[cold]
    pub(crate) fn take_sleepers(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.size).filter(|rank| *rank != self.rank && self.take_sleeper(*rank))
    }

    fn take_sleeper(&self, rank: usize) -> bool {
        let asleep = self.memory.atomic(Self::numbers(rank) + ASLEEP);
        let taken = asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::Relaxed) != 0;
        if taken {
            self.memory.atomic(WAITING).fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }

    // ---- failures

    /// No rank goes on from here. The first reason stays; none is 0.
    pub(crate) fn give_up(&self, reason: u64) {
        let broken = self.memory.atomic(BROKEN);
        let _ = broken.compare_exchange(0, reason, Ordering::Relaxed, Ordering::Relaxed);
        // What this rank writes to its own memory afterwards, no rank has read that finds no reason here after it has read.
        fence(Ordering::SeqCst);
    }

    /// Why no rank goes on, if that is so.
    #[inline]
    pub(crate) fn given_up(&self) -> Option<u64> {
        let reason = self.memory.atomic(BROKEN).load(Ordering::Relaxed);
        (reason != 0).then_some(reason)
    }
}

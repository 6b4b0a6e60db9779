#![expect(
    unsafe_code,
    reason = "two sides share the lines; who may touch which line when is written at each use"
)]
//! The ring: its lines, and its two ends. It has no dependency but `primitives` and `cell`, so that `tests/loom` can
//! substitute loom's and try all orders in which the two sides may run and see each other's writes.

use alloc::boxed::Box;
use core::{fmt, ptr, ptr::NonNull};

use super::{
    cell::{self, CHUNK, Cell, Chunk, PIECE},
    copies::Copies,
    owner::Owner,
    pieces::Pieces,
    places::{LEVELS, Levels, OWN_LEVELS, PREPARED, Places, STREAM, STREAM_BYTES},
    primitives::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering, fence},
        hint,
    },
    record::{ROOM, Record, TWO, chunk_of, copy_data, copy_words, head, len_of},
};

/// Most bytes of a long record: those lie in chunks beside the lines.
pub const LONG: usize = 64 << 10;

const _: () = assert!(LONG * 2 <= LEVELS[1] as usize * CHUNK);

const _: () = assert!(PIECE.is_multiple_of(CHUNK));

/// So many lines before it is written, a line is brought: records that are written at once overlap so.
const AHEAD: u32 = 4;

/// Looks of a consumer that has begun to copy a record for the next piece: its producer takes a fraction of them if it runs.
const LOOKS: u32 = 1_000;

/// A cache line.
#[repr(C, align(64))]
struct Line {
    /// The number of the record that was written last, counted from 1; 0: none.
    count: AtomicU32,
    record: Cell<Record>,
}

impl Line {
    fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
            record: Cell::new(Record::EMPTY),
        }
    }
}

/// How far the two sides are, beside the flags.
#[repr(C, align(64))]
pub(super) struct Progress {
    /// Records taken, published now and then. The consumer writes this line, and the producer reads it.
    taken: AtomicU32,
    /// Not 0: the consumer sleeps.
    asleep: AtomicU32,
    filled: Filled,
}

/// What the producer writes of the last record with more than a [`PIECE`]: its flag, and how many of its bytes are there.
#[repr(C, align(64))]
struct Filled(AtomicU64);

impl Filled {
    fn store(&self, flag: u32, bytes: usize) {
        self.0.store(u64::from(flag) << 32 | bytes as u64, Ordering::Release);
    }

    /// The bytes that are there of the record with this flag, which has more than a piece.
    fn load(&self, flag: u32) -> u32 {
        let filled = self.0.load(Ordering::Acquire);
        match ((filled >> 32) as u32).wrapping_sub(flag) as i32 {
            0 => filled as u32,
            // A later one is being filled.
            1.. => u32::MAX,
            _ => 0,
        }
    }
}

impl Progress {
    fn new(taken: u32) -> Self {
        Self {
            taken: AtomicU32::new(taken),
            asleep: AtomicU32::new(0),
            filled: Filled(AtomicU64::new(0)),
        }
    }
}

/// A ring as one of its ends sees it.
struct Shared {
    progress: NonNull<Progress>,
    lines: NonNull<Line>,
    /// The number of lines less one: ones.
    mask: u32,
    /// Bytes of long records.
    chunks: NonNull<Cell<Chunk>>,
    levels: Levels,
    /// The owner of the memory in which they lie.
    owner: Box<dyn Owner>,
}

// SAFETY: the owner of the memory can be dropped by any thread. A line is written by the producer alone while it is not
// full, and read by the consumer alone while it is: its flag, written last and read first, hands it over, and `taken` hands
// it back. There is one producer and one consumer.
unsafe impl Send for Shared {}
// SAFETY: by shared references, both sides only read.
unsafe impl Sync for Shared {}

/// The chunks of all levels.
const fn count_of(levels: Levels) -> u32 {
    levels[0] + levels[1] + levels[2]
}

impl Shared {
    /// # Safety
    /// A `Progress`, `mask + 1` lines, a power of two, and the chunks of the `levels` lie there as long as `owner` lives, and no other
    /// references than those of the two ends lead there.
    unsafe fn new(
        progress: NonNull<Progress>,
        (lines, mask): (NonNull<Line>, u32),
        (chunks, levels): (NonNull<Cell<Chunk>>, Levels),
        owner: Box<dyn Owner>,
    ) -> Self {
        Self {
            progress,
            lines,
            mask,
            chunks,
            levels,
            owner,
        }
    }

    #[inline(always)]
    fn line(&self, at: u32) -> &Line {
        // SAFETY: the masked index is one of a line, which lives as long as `self`.
        unsafe { self.lines.add((at & self.mask) as usize).as_ref() }
    }

    /// The place of a chunk, of which there are more than `at`.
    #[inline(always)]
    fn chunk(&self, at: u32) -> NonNull<Cell<Chunk>> {
        // SAFETY: the chunks are one piece of memory, which lives as long as `self`.
        unsafe { self.chunks.add(at as usize) }
    }

    #[inline(always)]
    fn progress(&self) -> &Progress {
        // SAFETY: it lives as long as `self`.
        unsafe { self.progress.as_ref() }
    }
}

/// Lines in memory of this process, for both ends.
struct Own {
    progress: NonNull<Progress>,
    lines: NonNull<[Line]>,
    chunks: NonNull<[Cell<Chunk>]>,
}

// SAFETY: it only owns them.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}

impl Owner for Arc<Own> {}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: all come from boxes, and both ends are gone.
        drop(unsafe {
            (
                Box::from_raw(self.progress.as_ptr()),
                Box::from_raw(self.lines.as_ptr()),
                Box::from_raw(self.chunks.as_ptr()),
            )
        });
    }
}

/// Makes a ring of `lines` records: a power of two, from 4 to 2^16 (other numbers are rounded up, or cut). Long ones have
/// up to half of [`LONG`] bytes.
#[must_use]
pub fn ring(lines: u32) -> (Producer, Consumer) {
    ring_from(lines, OWN_LEVELS, 0)
}

/// The same with these chunks; the first record has the number `begin`.
pub(crate) fn ring_from(lines: u32, levels: Levels, begin: u32) -> (Producer, Consumer) {
    let lines = lines.clamp(4, 1 << 16).next_power_of_two();
    let own = Own {
        chunks: NonNull::from(Box::leak(
            (0..count_of(levels)).map(|_| Cell::new([0; CHUNK])).collect(),
        )),
        progress: NonNull::from(Box::leak(Box::new(Progress::new(begin)))),
        lines: NonNull::from(Box::leak((0..lines).map(|_| Line::new()).collect())),
    };
    let (progress, lines, chunks) = (own.progress, (own.lines.cast(), lines - 1), (own.chunks.cast(), levels));
    let own = Arc::new(own);
    // SAFETY: `own` keeps them.
    let end = || unsafe { Shared::new(progress, lines, chunks, Box::new(Arc::clone(&own))) };
    (Producer::new(end(), begin), Consumer::new(end(), begin))
}

/// Where a ring lies that another process made, or is to see, all bytes zero at first.
#[cfg(all(feature = "shm", target_os = "linux"))]
pub(crate) struct Place {
    /// [`Place::PROGRESS`] bytes.
    pub(crate) progress: NonNull<u8>,
    /// Cache lines.
    pub(crate) lines: NonNull<u8>,
    /// As many: a power of two.
    pub(crate) count: u32,
    /// [`Place::CHUNKS`] bytes.
    pub(crate) chunks: NonNull<u8>,
    /// The owner of that memory.
    pub(crate) owner: Box<dyn Owner>,
}

#[cfg(all(feature = "shm", target_os = "linux"))]
impl Place {
    /// Bytes for what the two sides say to each other.
    pub(crate) const PROGRESS: usize = size_of::<Progress>();
    /// Bytes for long records, in each direction.
    pub(crate) const CHUNKS: usize = count_of(LEVELS) as usize * CHUNK;

    /// # Safety
    /// All begin at a cache line, and are memory that lives as long as the owner. This process uses them for this ring
    /// only, whose one end another process has. (That one may write anything at any time.)
    unsafe fn shared(self) -> Shared {
        assert!(self.count.is_power_of_two());
        let lines = (self.lines.cast(), self.count - 1);
        let chunks = (self.chunks.cast(), LEVELS);
        // SAFETY: any bytes are a `Progress`, lines and chunks: numbers, all of them atomic or copied once.
        unsafe { Shared::new(self.progress.cast(), lines, chunks, self.owner) }
    }

    /// The end that writes, of a ring that nobody has used yet. A stream goes around in up to `stream` bytes. There is no
    /// room until the owner says that the other side [reads](Owner::is_read).
    ///
    /// # Safety
    /// See [`shared`](Self::shared).
    pub(crate) unsafe fn producer(self, stream: usize) -> Producer {
        let most = LEVELS[STREAM] as usize * CHUNK;
        let stream = 1 << stream.clamp(LONG * 2, most).ilog2();
        // SAFETY: the caller's contract.
        let mut shared = unsafe { self.shared() };
        shared.levels[STREAM] = (stream / CHUNK) as u32;
        Producer {
            taken: 0_u32.wrapping_sub(shared.mask + 1),
            ..Producer::new(shared, 0)
        }
    }

    /// The end that reads.
    ///
    /// # Safety
    /// See [`shared`](Self::shared).
    pub(crate) unsafe fn consumer(self) -> Consumer {
        // SAFETY: the caller's contract.
        Consumer::new(unsafe { self.shared() }, 0)
    }
}

/// The end that writes.
pub struct Producer {
    shared: Shared,
    written: u32,
    /// Records that the consumer has taken, as far as is known.
    taken: u32,
    long: Places,
    copies: Copies,
    /// The records written at the last [`rest`](Self::rest).
    rested: u32,
}

impl Producer {
    fn new(shared: Shared, begin: u32) -> Self {
        Self {
            shared,
            written: begin,
            taken: begin,
            long: Places::default(),
            copies: Copies::default(),
            rested: begin,
        }
    }

    /// Appends a record. `false`: there is no room now, or never for so many bytes.
    #[inline(always)]
    pub fn push(&mut self, bits: u64, number: u32, data: &[u8]) -> bool {
        self.push_pieces(bits, number, data)
    }

    /// The same of bytes that need not lie together.
    #[inline(always)]
    pub(crate) fn push_pieces(&mut self, bits: u64, number: u32, mut data: impl Pieces) -> bool {
        let (at, len) = (self.written, data.len());
        if len > TWO {
            return self.push_long(bits, number, data);
        }
        let data = data.piece(0, len);
        if len > ROOM {
            return self.push_two(bits, number, data);
        }
        if !self.has_room(1) {
            return false;
        }
        self.expect(AHEAD);
        let line = self.shared.line(at);
        // SAFETY: the consumer has taken what was in this line, and reads it again only after its flag has changed. The
        // bytes fit. No reference is made: another process may not keep to that.
        unsafe {
            line.record.fill(|record| {
                (&raw mut (*record).number).write(number);
                (&raw mut (*record).bits).write_unaligned(bits);
                (&raw mut (*record).len).write(data.len() as u32);
                let to = (&raw mut (*record).data).cast::<u8>();
                // (The most frequent length without a call.)
                match data.first_chunk::<8>() {
                    Some(eight) if data.len() == 8 => to.cast::<[u8; 8]>().write(*eight),
                    _ => ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()),
                }
            });
        }
        self.written = at.wrapping_add(1);
        line.count.store(self.written, Ordering::Release);
        true
    }

    /// Brings the line so far behind the next one, which is likely to be written soon: between cores that are far from each
    /// other that takes as long as several records. The consumer has taken what was in it, or it stays there.
    #[inline(always)]
    fn expect(&self, ahead: u32) {
        let at = self.written.wrapping_add(ahead);
        if at.wrapping_sub(self.taken) <= self.shared.mask {
            cell::expect_to_write(NonNull::from(self.shared.line(at)));
        }
    }

    /// The same for a record of two lines. The consumer does not look at the flag of the second one.
    #[inline(never)]
    fn push_two(&mut self, bits: u64, number: u32, data: &[u8]) -> bool {
        if !self.has_room(2) {
            return false;
        }
        let at = self.written;
        self.expect(AHEAD);
        self.expect(AHEAD + 1);
        let (line, second) = (self.shared.line(at), self.shared.line(at.wrapping_add(1)));
        let (begin, rest) = data.split_at(ROOM);
        // SAFETY: as in `push`, for both lines; the rest fits into the second one.
        unsafe {
            second
                .record
                .fill(|record| ptr::copy_nonoverlapping(rest.as_ptr(), record.cast(), rest.len()));
            line.record.fill(|record| {
                (&raw mut (*record).number).write(number);
                (&raw mut (*record).bits).write_unaligned(bits);
                (&raw mut (*record).len).write(data.len() as u32);
                ptr::copy_nonoverlapping(begin.as_ptr(), (&raw mut (*record).data).cast(), ROOM);
            });
        }
        // (So that no flag stays until its number is used again.)
        second.count.store(at.wrapping_add(2), Ordering::Relaxed);
        self.written = at.wrapping_add(2);
        line.count.store(at.wrapping_add(1), Ordering::Release);
        true
    }

    /// The same for a long record.
    #[inline(never)]
    fn push_long(&mut self, bits: u64, number: u32, mut data: impl Pieces) -> bool {
        let len = data.len();
        if len > LONG || !self.has_room(1) {
            return false;
        }
        let Some(chunk) = self.find_chunks(len.div_ceil(CHUNK) as u32) else {
            return false;
        };
        let at = self.written;
        self.written = at.wrapping_add(1);
        self.long.untaken.push_back((self.written, self.long.head));
        self.long.carried += len;
        let line = self.shared.line(at);
        let filled = &self.shared.progress().filled;
        let mut there = len.min(PIECE);
        // SAFETY: the chunks are free: the consumer has taken the records that were there, and reads them again only after
        // the flag of this line has changed. Else as in `push`.
        unsafe {
            cell::write(self.shared.chunk(chunk), data.piece(0, there), &mut self.copies);
            line.record.fill(|record| {
                (&raw mut (*record).number).write(number);
                (&raw mut (*record).bits).write_unaligned(bits);
                (&raw mut (*record).len).write(len as u32);
                (&raw mut (*record).data).cast::<u32>().write(chunk);
            });
        }
        if len > there {
            filled.store(self.written, there);
        }
        line.count.store(self.written, Ordering::Release);
        while there < len {
            let at = chunk + (there / CHUNK) as u32;
            let piece = data.piece(there, PIECE.min(len - there));
            // SAFETY: as above; the consumer reads the piece only after it has been told that it is there.
            unsafe { cell::write(self.shared.chunk(at), piece, &mut self.copies) };
            there += piece.len();
            filled.store(self.written, there);
        }
        true
    }

    /// Finds a place for the bytes of a long record: its first chunk.
    fn find_chunks(&mut self, chunks: u32) -> Option<u32> {
        let levels = self.shared.levels;
        if self.copies.is_far {
            self.look_for_room();
            if self.taken == self.written {
                self.long.begin_again();
            }
        }
        if self.long.carried >= STREAM_BYTES && self.long.level < STREAM {
            self.long.carried = 0;
            if levels[STREAM] > 0 && self.shared.owner.lend(true) {
                self.long.go_on_in(STREAM);
            }
        }
        loop {
            // (So that two of them always have room, wherever they begin.)
            let fits = 2 * chunks <= levels[self.long.level];
            if fits && let Some(chunk) = self.long.find(levels, chunks) {
                if self.long.level == STREAM {
                    self.prepare(chunk + chunks);
                }
                return Some(chunk);
            }
            let is_freed = fits && {
                self.look_for_room();
                self.long.free(self.taken)
            };
            if !is_freed {
                let next = self.long.level + 1;
                let is_large = next < STREAM && 2 * chunks <= levels[next];
                if !is_large || !self.shared.owner.lend(false) {
                    return None;
                }
                self.long.go_on_in(next);
            }
        }
    }

    /// The producer writes the memory of streams up to this chunk next.
    #[inline]
    fn prepare(&mut self, end: u32) {
        let below = count_of(self.shared.levels) - self.shared.levels[STREAM];
        if let Some((begin, chunks)) = self.long.unseen(end - below, PREPARED) {
            let at = self.shared.chunk(below + begin).cast();
            self.shared.owner.prepare(at, chunks as usize * CHUNK);
        }
    }

    /// Returns whether the two sides are far from each other, as far as copies have shown.
    pub(crate) fn is_far(&self) -> bool {
        self.copies.is_far
    }

    #[cfg(test)]
    pub(crate) fn set_far(&mut self) {
        self.copies.is_far = true;
    }

    /// How many times more memory was taken.
    #[cfg(test)]
    pub(super) fn level(&self) -> usize {
        self.long.level
    }

    /// Clears the flag of a line, as no producer does.
    #[cfg(test)]
    pub(super) fn take_back(&self, at: u32) {
        self.shared.line(at).count.store(0, Ordering::Release);
    }

    /// From now on, this owner is asked for memory, together with the one before.
    #[cfg(test)]
    pub(super) fn put_owner(&mut self, owner: impl FnOnce(Box<dyn Owner>) -> Box<dyn Owner>) {
        struct None;
        impl Owner for None {}
        let before = core::mem::replace(&mut self.shared.owner, Box::new(None));
        self.shared.owner = owner(before);
    }

    /// Is called about once a second: if nothing was pushed since the last call, the memory of the higher levels goes back.
    pub(crate) fn rest(&mut self) {
        if self.rested != self.written || self.long.level == 0 {
            self.rested = self.written;
            return;
        }
        self.look_for_room();
        if self.taken == self.written {
            let lowest = self.shared.levels[0];
            let len = (count_of(self.shared.levels) - lowest) as usize * CHUNK;
            self.long.go_on_in(0);
            self.shared.owner.take_back(self.shared.chunk(lowest).cast(), len);
        }
    }

    /// Returns whether so many lines are free.
    #[inline(always)]
    fn has_room(&mut self, lines: u32) -> bool {
        self.is_free(lines) || {
            self.look_for_room();
            self.is_free(lines)
        }
    }

    #[inline(always)]
    fn is_free(&self, lines: u32) -> bool {
        // (A consumer may say that it has taken more than was written: then records are lost, to itself alone.)
        self.written.wrapping_sub(self.taken).wrapping_add(lines) <= self.shared.mask + 1
    }

    /// Looks how far the consumer is, if there is one.
    #[cold]
    fn look_for_room(&mut self) {
        if self.shared.owner.is_read() {
            self.taken = self.shared.progress().taken.load(Ordering::Acquire);
        }
    }

    /// Returns whether the consumer sleeps, and has to be woken for what was pushed.
    #[must_use]
    #[inline(always)]
    pub fn wakes(&self) -> bool {
        // Either this side sees that the consumer sleeps, or the consumer sees the record before it does.
        fence(Ordering::SeqCst);
        self.shared.progress().asleep.load(Ordering::Relaxed) != 0
    }
}

/// The end that reads.
pub struct Consumer {
    shared: Shared,
    taken: u32,
    /// Bytes of long records that have been taken and not been told.
    untold: u32,
    /// The last record had two lines, so the next one is likely to have them: the second one is brought with the first.
    expects_two: bool,
}

impl Consumer {
    fn new(shared: Shared, begin: u32) -> Self {
        Self {
            shared,
            taken: begin,
            untold: 0,
            expects_two: false,
        }
    }

    /// Returns whether there is a record, of whose bytes some may not be there yet.
    #[inline(always)]
    pub(crate) fn has_begun(&self) -> bool {
        let has_begun = self.shared.line(self.taken).count.load(Ordering::Acquire) == self.taken.wrapping_add(1);
        if !has_begun && self.expects_two {
            cell::expect_to_read(NonNull::from(self.shared.line(self.taken.wrapping_add(1))));
        }
        has_begun
    }

    /// Returns whether there is a record.
    #[must_use]
    #[inline(always)]
    pub fn has_record(&self) -> bool {
        // SAFETY: as in `front_up_to`.
        self.has_begun() && self.is_whole(unsafe { self.shared.line(self.taken).record.look(|record| len_of(record)) })
    }

    /// The number of the next record, if there is one.
    #[inline]
    pub(crate) fn next_number(&self) -> Option<u32> {
        // SAFETY: as in `front_up_to`.
        self.has_record()
            .then(|| unsafe { self.shared.line(self.taken).record.look(|record| head(record)) }.0)
    }

    /// Returns whether all bytes of the next record, which has so many, are there.
    #[inline(always)]
    fn is_whole(&self, len: u32) -> bool {
        // (Models have pieces that are shorter than what two lines hold.)
        len <= TWO as u32 || len <= PIECE as u32 || self.filled() >= len
    }

    /// The bytes that are there of the next record, which has more than a piece.
    fn filled(&self) -> u32 {
        self.shared.progress().filled.load(self.taken.wrapping_add(1))
    }

    /// The next record, where it lies.
    #[inline(always)]
    pub fn front(&mut self) -> Option<Front<'_>> {
        self.front_up_to(LONG as u32).filter(Front::is_whole)
    }

    /// The same, also if some of its bytes are not there yet: [`Front::copy_to`] waits for them.
    #[cfg(feature = "mpi")]
    #[inline(always)]
    pub(crate) fn front_early(&mut self) -> Option<Front<'_>> {
        self.front_up_to(LONG as u32)
    }

    /// The same, if its bytes are in its lines. `None` also if they are not.
    #[cfg(feature = "mpi")]
    #[inline(always)]
    pub(crate) fn front_in_line(&mut self) -> Option<Front<'_>> {
        self.front_up_to(TWO as u32)
    }

    #[inline(always)]
    fn front_up_to(&mut self, most: u32) -> Option<Front<'_>> {
        let line = self.shared.line(self.taken);
        if line.count.load(Ordering::Acquire) != self.taken.wrapping_add(1) {
            return None;
        }
        // SAFETY: the flag says that the producer has written the line, and it writes there again only after `taken` has
        // been published beyond it.
        let (number, bits, len) = unsafe { line.record.look(|record| head(record)) };
        let (len, chunk) = match len <= TWO as u32 {
            true => (len, 0),
            false if most == TWO as u32 => return None,
            // SAFETY: as above.
            false => self.check(len, unsafe { line.record.look(|record| chunk_of(record)) }),
        };
        Some(Front {
            consumer: self,
            bits,
            number,
            len,
            chunk,
        })
    }

    /// The length and first chunk of a long record. The other side may be another process: they are not believed.
    #[inline(always)]
    fn check(&self, len: u32, chunk: u32) -> (u32, u32) {
        let count = count_of(self.shared.levels);
        if count == 0 {
            return (TWO as u32, 0);
        }
        let len = len.min(LONG as u32).min(count * CHUNK as u32);
        let fits = u64::from(chunk) + u64::from(len.div_ceil(CHUNK as u32)) <= u64::from(count);
        (len, if fits { chunk } else { 0 })
    }

    /// A long record of so many bytes has been taken: after a quarter of the first level the producer is told.
    #[inline(always)]
    fn take_long(&mut self, len: u32) {
        self.untold += len;
        if self.untold >= self.shared.levels[0] * (CHUNK / 4) as u32 {
            self.untold = 0;
            self.publish();
        }
    }

    /// Tells the producer how many records have been taken.
    pub(crate) fn publish(&self) {
        self.shared.progress().taken.store(self.taken, Ordering::Release);
    }

    #[cfg(test)]
    pub(super) fn position(&self) -> u32 {
        self.taken
    }

    /// Where the producer has left a line empty and has written others behind it: those would never come. No producer does
    /// that for longer than its processor takes to show what it has written.
    pub(crate) fn gap(&self) -> Option<u32> {
        // (The second line of two has its flag before the first.)
        let is_behind = (2..=self.shared.mask).any(|ahead| {
            let at = self.taken.wrapping_add(ahead);
            self.shared.line(at).count.load(Ordering::Acquire) == at.wrapping_add(1)
        });
        (is_behind && !self.has_begun()).then_some(self.taken)
    }

    /// Says that this side is about to sleep, or awake. After it has said so, it looks for records once more before it
    /// sleeps.
    pub fn set_asleep(&self, asleep: bool) {
        self.shared.progress().asleep.store(asleep.into(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// The next record of a ring, where it lies. Its fields have been read, once.
#[derive(Debug)]
pub struct Front<'a> {
    consumer: &'a mut Consumer,
    /// Match bits.
    pub bits: u64,
    /// Number of the message.
    pub number: u32,
    len: u32,
    /// The first chunk, if it is long.
    pub(super) chunk: u32,
}

impl Front<'_> {
    /// Number of its bytes, at most [`LONG`].
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn is_whole(&self) -> bool {
        self.consumer.is_whole(self.len)
    }

    /// Copies its bytes, as far as there is room, to the beginning of `to`. Returns `false` if some of them did not come in
    /// time: only of a record that was taken early, and has to be asked for again.
    #[inline(always)]
    pub fn copy_to(&self, to: &mut [u8]) -> bool {
        let len = self.len().min(to.len());
        if self.len > ROOM as u32 {
            return match self.len <= TWO as u32 {
                true => self.copy_two(&mut to[..len]),
                false => self.copy_long(&mut to[..len]),
            };
        }
        let line = self.consumer.shared.line(self.consumer.taken);
        // SAFETY: the line is full, see `Consumer::front_up_to`, and stays so as long as this borrows the consumer. There
        // are so many bytes in a record, and so much room.
        unsafe { line.record.look(|record| copy_data(record, to.as_mut_ptr(), len)) };
        true
    }

    /// The same for a record of two lines.
    #[inline(never)]
    fn copy_two(&self, to: &mut [u8]) -> bool {
        let (shared, at) = (&self.consumer.shared, self.consumer.taken);
        let (begin, rest) = to.split_at_mut(to.len().min(ROOM));
        // SAFETY: as in `copy_to`. The producer has written the second line before the flag of the first. Of two lines that
        // hold bytes there are as many (another process that writes meanwhile, against the rules, changes these alone).
        unsafe {
            let (line, second) = (shared.line(at), shared.line(at.wrapping_add(1)));
            line.record
                .look(|record| copy_words((&raw const (*record).data).cast(), begin.as_mut_ptr(), begin.len()));
            second
                .record
                .look(|record| copy_words(record.cast(), rest.as_mut_ptr(), rest.len()));
        }
        true
    }

    /// The same for a long record.
    #[inline(never)]
    fn copy_long(&self, to: &mut [u8]) -> bool {
        let (mut at, mut looks) = (0, 0);
        while at < to.len() {
            let there = match self.is_whole() {
                true => to.len(),
                false => (self.consumer.filled() as usize).min(to.len()) / CHUNK * CHUNK,
            };
            if there > at {
                let chunk = self.consumer.shared.chunk(self.chunk + (at / CHUNK) as u32);
                // SAFETY: the producer has said that these bytes are there, and they stay as long as this borrows the
                // consumer. There are so many (see `check`) from this chunk on.
                unsafe { cell::read(chunk, &mut to[at..there]) };
                (at, looks) = (there, 0);
                continue;
            }
            looks += 1;
            if looks > LOOKS {
                return false;
            }
            hint::spin_loop();
        }
        true
    }

    /// Takes it out of the ring.
    #[inline(always)]
    pub fn take(self) {
        let Self { consumer, len, .. } = self;
        let before = consumer.taken;
        let is_two = (ROOM as u32 + 1..=TWO as u32).contains(&len);
        consumer.taken = before.wrapping_add(1 + u32::from(is_two));
        consumer.expects_two = is_two;
        // (Of a burst, the lines after this record have been written, too.)
        cell::expect_to_read(NonNull::from(consumer.shared.line(consumer.taken.wrapping_add(1))));
        if len > TWO as u32 {
            consumer.take_long(len);
        }
        // (Another quarter of the lines has begun.)
        if (consumer.taken ^ before) & !(consumer.shared.mask >> 2) != 0 {
            consumer.publish();
        }
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

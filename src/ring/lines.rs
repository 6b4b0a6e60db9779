#![expect(
    unsafe_code,
    reason = "two sides share the lines; who may touch which line when is written at each use"
)]
//! The ring: its lines, and its two ends. It has no dependency but `primitives` and `cell`, so that `tests/loom` can
//! substitute loom's and try all orders in which the two sides may run and see each other's writes.

use alloc::boxed::Box;
use core::{any::Any, fmt, mem, ptr, ptr::NonNull};

use super::{
    cell::Cell,
    primitives::{
        Arc,
        atomic::{AtomicU32, Ordering, fence},
    },
};

/// Most bytes of a record.
pub const ROOM: usize = 44;

/// A small message.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub struct Record {
    /// Number of the message.
    pub number: u32,
    /// Match bits.
    pub bits: u64,
    data: [u8; ROOM],
    len: u32,
}

const _: () = assert!(size_of::<Record>() + 4 == 64, "with its flag, a record is a cache line");

impl Record {
    /// A record without bytes.
    pub const EMPTY: Self = Self {
        number: 0,
        bits: 0,
        data: [0; ROOM],
        len: 0,
    };

    /// The bytes.
    #[must_use]
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        // The other side may be another process: its length is not believed.
        &self.data[..(self.len as usize).min(ROOM)]
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("bits", &{ self.bits })
            .field("number", &self.number)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Number, match bits and length of a record, each read once: what another process writes meanwhile, against the rules,
/// does not change them.
///
/// # Safety
/// A record lies there, to which nothing in this process writes meanwhile.
#[inline(always)]
unsafe fn head(record: *const Record) -> (u32, u64, u32) {
    // SAFETY: the fields are those of a record, whose words are aligned to four bytes.
    unsafe {
        let bits = (&raw const (*record).bits).cast::<u32>();
        let bits = [bits.read_volatile(), bits.add(1).read_volatile()];
        (
            (&raw const (*record).number).read_volatile(),
            mem::transmute::<[u32; 2], u64>(bits),
            (&raw const (*record).len).read_volatile(),
        )
    }
}

/// Copies the first `len` bytes of a record, each read once.
///
/// # Safety
/// As for [`head`]. There are at most [`ROOM`] bytes, and so much room at `to`.
#[inline(always)]
unsafe fn copy_data(record: *const Record, to: *mut u8, len: usize) {
    // SAFETY: the bytes are those of the record, as words aligned to four bytes: `ROOM` is a multiple of four.
    unsafe {
        let from = (&raw const (*record).data).cast::<u32>();
        let word = |index: usize| from.add(index).read_volatile();
        let (whole, rest) = (len / 4, len % 4);
        if len == 8 {
            // (The most frequent length without a loop.)
            to.cast::<[u32; 2]>().write_unaligned([word(0), word(1)]);
            return;
        }
        for index in 0..whole {
            to.add(4 * index).cast::<u32>().write_unaligned(word(index));
        }
        if rest > 0 {
            to.add(4 * whole)
                .copy_from_nonoverlapping(word(whole).to_ne_bytes().as_ptr(), rest);
        }
    }
}

const _: () = assert!(ROOM.is_multiple_of(4) && mem::offset_of!(Record, data) % 4 == 0);

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

/// The consumer's position: it writes it, and the producer reads it.
#[repr(C, align(64))]
pub(super) struct Progress {
    /// Records taken, published now and then.
    taken: AtomicU32,
    /// Not 0: the consumer sleeps.
    asleep: AtomicU32,
}

impl Progress {
    fn new(taken: u32) -> Self {
        Self {
            taken: AtomicU32::new(taken),
            asleep: AtomicU32::new(0),
        }
    }
}

/// A ring as one of its ends sees it.
struct Shared {
    progress: NonNull<Progress>,
    lines: NonNull<Line>,
    /// The number of lines less one: ones.
    mask: u32,
    /// The owner of the memory in which they lie.
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the owner of the memory can be dropped by any thread. A line is written by the producer alone while it is not
// full, and read by the consumer alone while it is: its flag, written last and read first, hands it over, and `taken` hands
// it back. There is one producer and one consumer.
unsafe impl Send for Shared {}
// SAFETY: by shared references, both sides only read.
unsafe impl Sync for Shared {}

impl Shared {
    /// # Safety
    /// A `Progress` and `mask + 1` lines, a power of two, lie there as long as `owner` lives, and no other references
    /// than those of the two ends lead there.
    unsafe fn new(
        progress: NonNull<Progress>,
        lines: NonNull<Line>,
        mask: u32,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            progress,
            lines,
            mask,
            _owner: owner,
        }
    }

    #[inline(always)]
    fn line(&self, at: u32) -> &Line {
        // SAFETY: the masked index is one of a line, which lives as long as `self`.
        unsafe { self.lines.add((at & self.mask) as usize).as_ref() }
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
}

// SAFETY: it only owns them.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: both come from boxes, and both ends are gone.
        drop(unsafe {
            (
                Box::from_raw(self.progress.as_ptr()),
                Box::from_raw(self.lines.as_ptr()),
            )
        });
    }
}

/// Makes a ring of `lines` records: a power of two, from 4 to 2^16 (other numbers are rounded up, or cut).
#[must_use]
pub fn ring(lines: u32) -> (Producer, Consumer) {
    ring_from(lines, 0)
}

/// The same; the first record has the number `begin`.
pub(super) fn ring_from(lines: u32, begin: u32) -> (Producer, Consumer) {
    let lines = lines.clamp(4, 1 << 16).next_power_of_two();
    let own = Own {
        progress: NonNull::from(Box::leak(Box::new(Progress::new(begin)))),
        lines: NonNull::from(Box::leak((0..lines).map(|_| Line::new()).collect())),
    };
    let (progress, first) = (own.progress, own.lines.cast());
    let own = Arc::new(own);
    // SAFETY: `own` keeps them.
    let end = || unsafe { Shared::new(progress, first, lines - 1, Box::new(Arc::clone(&own))) };
    let producer = Producer {
        shared: end(),
        written: begin,
        taken: begin,
    };
    let consumer = Consumer {
        shared: end(),
        taken: begin,
    };
    (producer, consumer)
}

/// Where a ring lies that another process made, or is to see, all bytes zero at first.
#[cfg(all(feature = "shm", target_os = "linux"))]
pub(crate) struct Place {
    /// A cache line.
    pub(crate) progress: NonNull<u8>,
    /// As many cache lines.
    pub(crate) lines: NonNull<u8>,
    /// A power of two.
    pub(crate) count: u32,
    /// The owner of that memory.
    pub(crate) owner: Box<dyn Any + Send + Sync>,
}

#[cfg(all(feature = "shm", target_os = "linux"))]
impl Place {
    /// # Safety
    /// Both begin at a cache line, and are memory that lives as long as the owner. This process uses them for this ring
    /// only, whose one end another process has. (That one may write anything at any time.)
    unsafe fn shared(self) -> Shared {
        assert!(self.count.is_power_of_two());
        let (progress, lines) = (self.progress.cast(), self.lines.cast());
        // SAFETY: any bytes are a `Progress` and lines: numbers, all of them atomic or copied once.
        unsafe { Shared::new(progress, lines, self.count - 1, self.owner) }
    }

    /// The end that writes, of a ring that nobody has used yet.
    ///
    /// # Safety
    /// See [`shared`](Self::shared).
    pub(crate) unsafe fn producer(self) -> Producer {
        // SAFETY: the caller's contract.
        let shared = unsafe { self.shared() };
        let (written, taken) = (0, 0);
        Producer { shared, written, taken }
    }

    /// The end that reads.
    ///
    /// # Safety
    /// See [`shared`](Self::shared).
    pub(crate) unsafe fn consumer(self) -> Consumer {
        // SAFETY: the caller's contract.
        let shared = unsafe { self.shared() };
        Consumer { shared, taken: 0 }
    }
}

/// The end that writes.
pub struct Producer {
    shared: Shared,
    written: u32,
    /// Records that the consumer has taken, as far as is known.
    taken: u32,
}

impl Producer {
    /// Appends a record. `false`: the ring is full, or there are more than [`ROOM`] bytes.
    #[inline(always)]
    pub fn push(&mut self, bits: u64, number: u32, data: &[u8]) -> bool {
        let at = self.written;
        if data.len() > ROOM || !self.has_room() {
            return false;
        }
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

    #[inline(always)]
    fn has_room(&mut self) -> bool {
        let mask = self.shared.mask;
        if self.written.wrapping_sub(self.taken) <= mask {
            return true;
        }
        self.look_for_room()
    }

    /// Looks how far the consumer is.
    #[cold]
    fn look_for_room(&mut self) -> bool {
        self.taken = self.shared.progress().taken.load(Ordering::Acquire);
        self.written.wrapping_sub(self.taken) <= self.shared.mask
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
}

impl Consumer {
    /// Returns whether there is a record.
    #[must_use]
    #[inline(always)]
    pub fn has_record(&self) -> bool {
        self.shared.line(self.taken).count.load(Ordering::Acquire) == self.taken.wrapping_add(1)
    }

    /// The next record, where it lies.
    #[inline(always)]
    pub fn front(&mut self) -> Option<Front<'_>> {
        if !self.has_record() {
            return None;
        }
        let line = self.shared.line(self.taken);
        // SAFETY: the flag says that the producer has written the line, and it writes there again only after `taken` has
        // been published beyond it.
        let (number, bits, len) = unsafe { line.record.look(|record| head(record)) };
        Some(Front {
            consumer: self,
            bits,
            number,
            // The other side may be another process: its length is not believed.
            len: len.min(ROOM as u32),
        })
    }

    /// Takes the next record.
    #[inline]
    pub fn pop(&mut self) -> Option<Record> {
        let front = self.front()?;
        let mut record = Record {
            number: front.number,
            bits: front.bits,
            len: front.len,
            ..Record::EMPTY
        };
        front.copy_to(&mut record.data);
        front.take();
        Some(record)
    }

    /// Tells the producer how many records have been taken.
    fn publish(&self) {
        self.shared.progress().taken.store(self.taken, Ordering::Release);
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
}

impl Front<'_> {
    /// Number of its bytes, at most [`ROOM`].
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

    /// Copies its bytes, as far as there is room, to the beginning of `to`.
    #[inline(always)]
    pub fn copy_to(&self, to: &mut [u8]) {
        let len = self.len().min(to.len());
        let shared = &self.consumer.shared;
        // SAFETY: the line is full, see `Consumer::front`, and stays so as long as this borrows the consumer. There are so
        // many bytes in a record, and so much room.
        unsafe {
            let line = shared.line(self.consumer.taken);
            line.record.look(|record| copy_data(record, to.as_mut_ptr(), len));
        }
    }

    /// Takes it out of the ring.
    #[inline(always)]
    pub fn take(self) {
        let Self { consumer, .. } = self;
        consumer.taken = consumer.taken.wrapping_add(1);
        if consumer.taken & (consumer.shared.mask >> 2) == 0 {
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

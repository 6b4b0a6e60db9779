#![expect(
    unsafe_code,
    reason = "two sides share the lines; who may touch which line when is written at each use"
)]
//! The ring: its lines, and its two ends. It has no dependency but `primitives` and `cell`, so that `tests/loom` can
//! substitute loom's and try all orders in which the two sides may run and see each other's writes.

use alloc::boxed::Box;
use core::fmt;

use super::{
    cell::Cell,
    primitives::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering, fence},
    },
};

/// Most bytes of a record.
pub const ROOM: usize = 44;

/// A small message.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub struct Record {
    len: u32,
    /// Match bits.
    pub bits: u64,
    /// Number of the message.
    pub number: u32,
    data: [u8; ROOM],
}

const _: () = assert!(size_of::<Record>() + 4 == 64, "with its flag, a record is a cache line");

impl Record {
    /// A record without bytes.
    pub const EMPTY: Self = Self {
        len: 0,
        bits: 0,
        number: 0,
        data: [0; ROOM],
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

/// A cache line.
#[repr(C, align(64))]
struct Line {
    /// The lap on which the line was written last, from 1; 0: never.
    lap: AtomicU32,
    record: Cell<Record>,
}

impl Line {
    fn new() -> Self {
        Self {
            lap: AtomicU32::new(0),
            record: Cell::new(Record::EMPTY),
        }
    }
}

/// The consumer's position: it writes it, and the producer reads it.
#[repr(C, align(64))]
struct Progress {
    /// Records taken, published now and then.
    taken: AtomicU32,
    asleep: AtomicBool,
}

struct Shared {
    progress: Progress,
    lines: Box<[Line]>,
}

// SAFETY: a line is written by the producer alone while it is not full, and read by the consumer alone while it is: its
// flag, written last and read first, hands it over, and `taken` hands it back. There is one producer and one consumer.
unsafe impl Sync for Shared {}

impl Shared {
    #[inline(always)]
    fn lap(&self, at: u32) -> u32 {
        (at >> self.lines.len().trailing_zeros()) + 1
    }

    #[inline(always)]
    fn line(&self, at: u32) -> &Line {
        let index = at as usize & (self.lines.len() - 1);
        // SAFETY: the number of lines is a power of two, so the index is below it.
        unsafe { self.lines.get_unchecked(index) }
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
    let shared = Arc::new(Shared {
        progress: Progress {
            taken: AtomicU32::new(begin),
            asleep: AtomicBool::new(false),
        },
        lines: (0..lines).map(|_| Line::new()).collect(),
    });
    let producer = Producer {
        shared: Arc::clone(&shared),
        written: begin,
        taken: begin,
    };
    (producer, Consumer { shared, taken: begin })
}

/// The end that writes.
pub struct Producer {
    shared: Arc<Shared>,
    written: u32,
    /// Records that the consumer has taken, as far as is known.
    taken: u32,
}

impl Producer {
    /// Appends a record. `false`: the ring is full, or there are more than [`ROOM`] bytes.
    #[inline]
    pub fn push(&mut self, bits: u64, number: u32, data: &[u8]) -> bool {
        let at = self.written;
        if data.len() > ROOM || !self.has_room() {
            return false;
        }
        let line = self.shared.line(at);
        let write = |record: &mut Record| {
            record.len = data.len() as u32;
            record.bits = bits;
            record.number = number;
            record.data[..data.len()].copy_from_slice(data);
        };
        // SAFETY: the consumer has taken what was in this line, and reads it again only after its flag has changed.
        unsafe { line.record.change(write) };
        line.lap.store(self.shared.lap(at), Ordering::Release);
        self.written = at.wrapping_add(1);
        true
    }

    #[inline(always)]
    fn has_room(&mut self) -> bool {
        let lines = self.shared.lines.len() as u32;
        if self.written.wrapping_sub(self.taken) < lines {
            return true;
        }
        self.taken = self.shared.progress.taken.load(Ordering::Acquire);
        self.written.wrapping_sub(self.taken) < lines
    }

    /// Returns whether the consumer sleeps, and has to be woken for what was pushed.
    #[must_use]
    #[inline(always)]
    pub fn wakes(&self) -> bool {
        // Either this side sees that the consumer sleeps, or the consumer sees the record before it does.
        fence(Ordering::SeqCst);
        self.shared.progress.asleep.load(Ordering::Relaxed)
    }
}

/// The end that reads.
pub struct Consumer {
    shared: Arc<Shared>,
    taken: u32,
}

impl Consumer {
    /// Returns whether there is a record.
    #[must_use]
    #[inline(always)]
    pub fn has_record(&self) -> bool {
        self.shared.line(self.taken).lap.load(Ordering::Acquire) == self.shared.lap(self.taken)
    }

    /// Takes the next record.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Record> {
        if !self.has_record() {
            return None;
        }
        let line = self.shared.line(self.taken);
        // SAFETY: the flag says that the producer has written the line, and it writes there again only after `taken` has
        // been published beyond it.
        let record = unsafe { line.record.read() };
        self.taken = self.taken.wrapping_add(1);
        let quarter = self.shared.lines.len() as u32 / 4;
        if self.taken & (quarter - 1) == 0 {
            self.shared.progress.taken.store(self.taken, Ordering::Release);
        }
        Some(record)
    }

    /// Says that this side is about to sleep, or awake. After it has said so, it looks for records once more before it
    /// sleeps.
    pub fn set_asleep(&self, asleep: bool) {
        self.shared.progress.asleep.store(asleep, Ordering::Relaxed);
        fence(Ordering::SeqCst);
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

//! A ring of records in memory that two processes share: a producer and a consumer.
//!
//! ```text
//! control:  0 head (written by the producer)   64 tail (by the consumer)   128 armed: the consumer sleeps
//! data:     length(4) kind(4) bytes…, padded to 16; no record wraps around the end
//! ```
//!
//! Positions count the bytes since the ring was made. Each side keeps its own position, and accepts the other side's
//! only if it is possible. A broken process thus cannot make the other one read or write outside the ring.

use std::{fmt, io::IoSlice};

use super::{
    copies::Copies,
    primitives::{
        Arc,
        atomic::{Ordering, fence},
    },
    segment::Segment,
};

/// Bytes of the control block of a ring.
pub(crate) const CONTROL: usize = 192;
const TAIL: usize = 64;
const ARMED: usize = 128;
/// Records begin at multiples of this.
const GRAIN: usize = 16;
const HEADER: usize = 8;

/// The kind of the padding up to the end of the ring. The user of a ring chooses all other kinds.
const END: u32 = u32::MAX;

/// The other side has written a value that a correct process never writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// The place of a ring in the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) control: usize,
    pub(crate) data: usize,
    /// Bytes of the data: a power of two.
    pub(crate) size: usize,
}

/// Bytes that a record of `len` bytes takes in the ring.
pub(crate) const fn taken(len: usize) -> usize {
    (HEADER + len).next_multiple_of(GRAIN)
}

/// The producer's side of a ring.
pub(crate) struct Producer {
    memory: Arc<Segment>,
    place: Place,
    head: u64,
    /// The consumer's position when we last looked.
    tail: u64,
    /// The position up to which records are published.
    published: u64,
    copies: Copies,
}

impl Producer {
    pub(crate) fn new(memory: Arc<Segment>, place: Place) -> Self {
        Self {
            memory,
            place,
            head: 0,
            tail: 0,
            published: 0,
            copies: Copies::default(),
        }
    }

    /// Reads the consumer's position.
    #[inline]
    pub(crate) fn refresh(&mut self) -> Result<u64, Corrupt> {
        let tail = self.memory.atomic(self.place.control + TAIL).load(Ordering::Acquire);
        if tail < self.tail || tail > self.published {
            return Err(Corrupt);
        }
        self.tail = tail;
        Ok(tail)
    }

    /// The position of the next record.
    pub(crate) fn position(&self) -> u64 {
        self.head
    }

    /// Free bytes, as of the last look. They may lie in two parts, at the end and at the beginning of the ring.
    #[inline]
    pub(crate) fn free(&self) -> usize {
        self.place.size - (self.head - self.tail) as usize
    }

    /// Makes sure that there is room for a record of `len` bytes. Reads the consumer's position only if necessary.
    #[inline]
    pub(crate) fn has_room(&mut self, len: usize) -> Result<bool, Corrupt> {
        // Twice the record, because padding at the end of the ring may take almost as much again.
        let need = 2 * taken(len);
        if self.free() < need {
            self.refresh()?;
        }
        Ok(self.free() >= need)
    }

    /// Adds a record of a kind of the caller's, which is not `u32::MAX`. The caller has made sure that there is [room](Self::has_room).
    ///
    /// # Panics
    /// If there is no room.
    #[inline]
    pub(crate) fn push(&mut self, kind: u32, parts: &[IoSlice<'_>]) {
        let len = parts.iter().map(|part| part.len()).sum();
        let need = taken(len);
        let mask = self.place.size - 1;
        let mut at = self.head as usize & mask;
        let left = self.place.size - at;
        if left < need {
            self.header(at, END, left - HEADER);
            self.head += left as u64;
            at = 0;
        }
        assert!(need <= self.free());
        self.header(at, kind, len);
        let mut to = self.place.data + at + HEADER;
        for part in parts {
            self.memory.put(to, part, &mut self.copies);
            to += part.len();
        }
        self.head += need as u64;
    }

    #[inline]
    fn header(&self, at: usize, kind: u32, len: usize) {
        let header = u64::from(kind) << 32 | len as u64;
        self.memory
            .atomic(self.place.data + at)
            .store(header, Ordering::Relaxed);
    }

    /// Publishes the added records. Returns `true` if the consumer sleeps; the caller must then wake it up.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        if self.published == self.head {
            return false;
        }
        self.published = self.head;
        self.memory
            .atomic(self.place.control)
            .store(self.head, Ordering::Release);
        // Either the consumer sees the record before it sleeps, or we see that it is about to sleep.
        fence(Ordering::SeqCst);
        let armed = self.memory.atomic(self.place.control + ARMED);
        armed.load(Ordering::Relaxed) != 0 && armed.swap(0, Ordering::Relaxed) != 0
    }
}

/// A record in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) kind: u32,
    /// The offset of its bytes in the memory.
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// The consumer's side of a ring.
pub(crate) struct Consumer {
    memory: Arc<Segment>,
    place: Place,
    /// The position of the next record to read.
    next: u64,
    /// The position up to which records were given back.
    released: u64,
    /// The position up to which records can be read, as of the last look.
    head: u64,
    /// The position at which reading stops for good.
    last: u64,
}

impl Consumer {
    pub(crate) fn new(memory: Arc<Segment>, place: Place) -> Self {
        Self {
            memory,
            place,
            next: 0,
            released: 0,
            head: 0,
            last: u64::MAX,
        }
    }

    /// There is a record to read.
    #[inline]
    pub(crate) fn has_next(&mut self) -> Result<bool, Corrupt> {
        if self.next != self.head {
            return Ok(true);
        }
        let head = self.look()?.min(self.last);
        self.head = head;
        Ok(head > self.next)
    }

    /// Reads the producer's position.
    #[inline]
    fn look(&self) -> Result<u64, Corrupt> {
        let head = self.memory.atomic(self.place.control).load(Ordering::Acquire);
        let ahead = head.wrapping_sub(self.next);
        if ahead > self.place.size as u64 - (self.next - self.released) || !ahead.is_multiple_of(GRAIN as u64) {
            return Err(Corrupt);
        }
        Ok(head)
    }

    /// Limits reading to the records that are there now: later ones are never read.
    pub(crate) fn close(&mut self) -> Result<(), Corrupt> {
        self.last = self.look()?;
        Ok(())
    }

    /// Everything up to [`close`](Self::close) has been read.
    pub(crate) fn is_drained(&self) -> bool {
        self.next >= self.last
    }

    /// Returns the next record. Its bytes stay until [`release`](Self::release).
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<Found>, Corrupt> {
        while self.has_next()? {
            let at = self.next as usize & (self.place.size - 1);
            let header = self.memory.atomic(self.place.data + at).load(Ordering::Relaxed);
            let (kind, len) = ((header >> 32) as u32, header as u32 as usize);
            let need = taken(len);
            if need > self.place.size - at || need as u64 > self.head - self.next {
                return Err(Corrupt);
            }
            self.next += need as u64;
            if kind != END {
                let at = self.place.data + at + HEADER;
                return Ok(Some(Found { kind, at, len }));
            }
        }
        Ok(None)
    }

    /// Gives everything that has been read back to the producer.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.released != self.next {
            self.released = self.next;
            self.memory
                .atomic(self.place.control + TAIL)
                .store(self.next, Ordering::Release);
        }
    }

    /// Asks the producer to wake this side up. Returns `false`, and takes the request back, if there is a record
    /// already.
    pub(crate) fn arm(&mut self) -> Result<bool, Corrupt> {
        self.memory
            .atomic(self.place.control + ARMED)
            .store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.has_next()? {
            self.disarm();
            return Ok(false);
        }
        Ok(true)
    }

    pub(crate) fn disarm(&self) {
        self.memory
            .atomic(self.place.control + ARMED)
            .store(0, Ordering::Relaxed);
    }
}

macro_rules! debug {
    ($($name:ident: $at:ident,)*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field(stringify!($at), &self.$at).finish_non_exhaustive()
            }
        }
    )*};
}

debug! {
    Producer: head,
    Consumer: next,
}

//! A ring of records in memory that two processes share: one writes, the other reads.
//!
//! ```text
//! control:  0 head (who writes)   64 tail (who reads)   128 armed: who reads sleeps
//! data:     length(4) kind(4) octets…, padded to 16; nothing goes around the end
//! ```
//!
//! Positions count octets from the beginning of time. Each side keeps its own and believes the other's only within what
//! is possible, so a broken process can not make the other one look anywhere else.

use std::{fmt, io::IoSlice};

use super::{
    memory::Memory,
    primitives::{
        Arc,
        atomic::{Ordering, fence},
    },
};

/// Octets of a ring's control.
pub(crate) const CONTROL: usize = 192;
const TAIL: usize = 64;
const ARMED: usize = 128;
/// Records begin at multiples of this.
const GRAIN: usize = 16;
const HEADER: usize = 8;

/// What a record of the link is.
pub(crate) mod kind {
    /// The octets are a record for who is above.
    pub(crate) const WHOLE: u32 = 1;
    /// Two numbers of 8 octets: a record for who is above lies there, so long, in the memory for it.
    pub(crate) const AWAY: u32 = 2;
    /// A number of 8 octets: what lay there is not needed any more.
    pub(crate) const FREED: u32 = 3;
    /// Nothing, up to the end.
    pub(super) const END: u32 = 4;
}

/// The other side has done what it can not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// Where a ring is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) control: usize,
    pub(crate) data: usize,
    /// Octets: a power of two.
    pub(crate) size: usize,
}

/// Octets that a record of `len` takes.
pub(crate) const fn taken(len: usize) -> usize {
    (HEADER + len).next_multiple_of(GRAIN)
}

/// The side that writes.
pub(crate) struct Producer {
    memory: Arc<Memory>,
    place: Place,
    head: u64,
    /// As far as the other side has read, when we last looked.
    tail: u64,
    /// Published so far.
    published: u64,
}

impl Producer {
    pub(crate) fn new(memory: Arc<Memory>, place: Place) -> Self {
        Self {
            memory,
            place,
            head: 0,
            tail: 0,
            published: 0,
        }
    }

    /// Looks how far the other side has read.
    #[inline]
    pub(crate) fn refresh(&mut self) -> Result<u64, Corrupt> {
        let tail = self.memory.atomic(self.place.control + TAIL).load(Ordering::Acquire);
        if tail < self.tail || tail > self.published {
            return Err(Corrupt);
        }
        self.tail = tail;
        Ok(tail)
    }

    /// Where the next record begins.
    pub(crate) fn position(&self) -> u64 {
        self.head
    }

    /// Octets free, as far as is known. A record may find that less of them are together.
    #[inline]
    pub(crate) fn free(&self) -> usize {
        self.place.size - (self.head - self.tail) as usize
    }

    /// Makes sure that a record of `len` octets finds room, looking if need be.
    #[inline]
    pub(crate) fn has_room(&mut self, len: usize) -> Result<bool, Corrupt> {
        // As much again, for the end of the ring.
        let need = 2 * taken(len);
        if self.free() < need {
            self.refresh()?;
        }
        Ok(self.free() >= need)
    }

    /// Adds a record, for which there is [room](Self::has_room).
    ///
    /// # Panics
    /// If there is not.
    #[inline]
    pub(crate) fn push(&mut self, kind: u32, parts: &[IoSlice<'_>]) {
        let len = parts.iter().map(|part| part.len()).sum();
        let need = taken(len);
        let mask = self.place.size - 1;
        let mut at = self.head as usize & mask;
        let left = self.place.size - at;
        if left < need {
            self.header(at, kind::END, left - HEADER);
            self.head += left as u64;
            at = 0;
        }
        assert!(need <= self.free());
        self.header(at, kind, len);
        let mut to = self.place.data + at + HEADER;
        for part in parts {
            self.memory.write(to, part);
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

    /// Shows the other side what has been added. Gives whether it sleeps, and is to be woken up by who has asked.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        if self.published == self.head {
            return false;
        }
        self.published = self.head;
        self.memory
            .atomic(self.place.control)
            .store(self.head, Ordering::Release);
        // Either it sees the record before it sleeps, or we see that it is about to.
        fence(Ordering::SeqCst);
        let armed = self.memory.atomic(self.place.control + ARMED);
        armed.load(Ordering::Relaxed) != 0 && armed.swap(0, Ordering::Relaxed) != 0
    }
}

/// A record that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) kind: u32,
    /// Where its octets are in the memory.
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// The side that reads.
pub(crate) struct Consumer {
    memory: Arc<Memory>,
    place: Place,
    /// Where we read next.
    next: u64,
    /// What has been given back.
    released: u64,
    /// As far as there was something, when we last looked.
    head: u64,
    /// What comes behind this is not read.
    last: u64,
}

impl Consumer {
    pub(crate) fn new(memory: Arc<Memory>, place: Place) -> Self {
        Self {
            memory,
            place,
            next: 0,
            released: 0,
            head: 0,
            last: u64::MAX,
        }
    }

    /// There is something to read.
    #[inline]
    pub(crate) fn has_next(&mut self) -> Result<bool, Corrupt> {
        if self.next != self.head {
            return Ok(true);
        }
        let head = self.look()?.min(self.last);
        self.head = head;
        Ok(head > self.next)
    }

    /// How far the other side has written.
    #[inline]
    fn look(&self) -> Result<u64, Corrupt> {
        let head = self.memory.atomic(self.place.control).load(Ordering::Acquire);
        let ahead = head.wrapping_sub(self.next);
        if ahead > self.place.size as u64 - (self.next - self.released) || !ahead.is_multiple_of(GRAIN as u64) {
            return Err(Corrupt);
        }
        Ok(head)
    }

    /// Reads what there is by now, and nothing that comes later.
    pub(crate) fn close(&mut self) -> Result<(), Corrupt> {
        self.last = self.look()?;
        Ok(())
    }

    /// Everything before [`close`](Self::close) has been read.
    pub(crate) fn is_drained(&self) -> bool {
        self.next >= self.last
    }

    /// The next record. Its octets stay until [`release`](Self::release).
    #[inline]
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
            if kind != kind::END {
                let at = self.place.data + at + HEADER;
                return Ok(Some(Found { kind, at, len }));
            }
        }
        Ok(None)
    }

    /// Gives back everything that has been read.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.released != self.next {
            self.released = self.next;
            self.memory
                .atomic(self.place.control + TAIL)
                .store(self.next, Ordering::Release);
        }
    }

    /// Asks to be woken up, unless there is something already: then gives `false`.
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

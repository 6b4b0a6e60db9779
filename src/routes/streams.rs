//! How much memory the short messages of this process may take: a direction with a stream has a large ring, and there are
//! not many of those.

use std::{
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
};

use crate::{ring::Owner, shm::Segment};

/// Large rings of a host, of 2 MB each: its processes have equal shares, of one at least.
const OF_A_HOST: u32 = 64;

/// What the rings of a process have been lent. It is asked by one thread at a time.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Rings by which this process sends.
    rings: AtomicU32,
    /// Those with more memory than they begin with.
    grown: AtomicU32,
    /// Those with the memory for a stream.
    streams: AtomicU32,
}

impl Streams {
    /// Returns whether a ring has more memory than it began with.
    pub(super) fn have_grown(&self) -> bool {
        self.grown.load(Relaxed) > 0
    }

    /// Returns whether one more ring may have the memory for a stream.
    fn have_room(&self) -> bool {
        let processes = self.rings.load(Relaxed) + 1;
        self.streams.load(Relaxed) < (OF_A_HOST / processes).max(1)
    }
}

/// The owner of the memory in which a ring lies by which this process sends.
#[derive(Debug)]
pub(super) struct Lender {
    memory: Arc<Segment>,
    all: Arc<Streams>,
    has_grown: AtomicBool,
    is_stream: AtomicBool,
}

impl Lender {
    pub(super) fn new(memory: &Arc<Segment>, all: &Arc<Streams>) -> Self {
        all.rings.fetch_add(1, Relaxed);
        Self {
            memory: Arc::clone(memory),
            all: Arc::clone(all),
            has_grown: AtomicBool::new(false),
            is_stream: AtomicBool::new(false),
        }
    }

    fn offset(&self, at: NonNull<u8>) -> usize {
        at.as_ptr() as usize - self.memory.base() as usize
    }

    fn end_loan(&self) {
        if self.has_grown.swap(false, Relaxed) {
            self.all.grown.fetch_sub(1, Relaxed);
        }
        if self.is_stream.swap(false, Relaxed) {
            self.all.streams.fetch_sub(1, Relaxed);
        }
    }
}

impl Owner for Lender {
    fn lend(&self, is_for_stream: bool) -> bool {
        if is_for_stream && !self.all.have_room() {
            return false;
        }
        if !self.has_grown.swap(true, Relaxed) {
            self.all.grown.fetch_add(1, Relaxed);
        }
        if is_for_stream && !self.is_stream.swap(true, Relaxed) {
            self.all.streams.fetch_add(1, Relaxed);
        }
        true
    }

    fn prepare(&self, at: NonNull<u8>, len: usize) {
        self.memory.populate(self.offset(at), len);
    }

    fn take_back(&self, at: NonNull<u8>, len: usize) {
        self.end_loan();
        self.memory.give_back(self.offset(at), len);
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.end_loan();
        self.all.rings.fetch_sub(1, Relaxed);
    }
}

/// That of a ring by which this process receives.
impl Owner for Arc<Segment> {}

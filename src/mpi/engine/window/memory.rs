#![expect(unsafe_code, reason = "window memory is reached by addresses")]
//! Memory of windows that processes of one host share: how it is made, and how it is reached.

use alloc::{sync::Arc, vec::Vec};
use core::{ptr, sync::atomic::AtomicU64};

use crate::{
    mpi::{datatype::Datatype, engine::rma::Spot},
    span::Span,
};

/// Words by which processes of a host find each other. Zeros: a process that shares nothing.
pub(super) const WORDS: usize = 7;

/// What a window keeps for as long as it exists.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Memory of this process alone.
    pub(super) words: Vec<u64>,
    /// Memory in common with others.
    pub(super) segments: Vec<Arc<Mapped>>,
}

/// Bytes of the word of a lock, and of what must not lie beside it: a processor fetches cache lines in pairs.
const LINES: u64 = 128;

/// Bytes of memory that has `len` bytes of windows and then the words of so many locks. None: there is no such memory.
pub(super) fn with_words(len: u64, locks: u64) -> Option<u64> {
    len.checked_next_multiple_of(LINES)?
        .checked_add(locks.checked_mul(LINES)?)
}

/// The word of a lock.
#[derive(Clone, Debug)]
pub(super) struct Word {
    memory: Arc<Mapped>,
    at: usize,
}

impl Word {
    /// The word of this number behind the windows, which have `len` bytes, in memory that has [room](with_words) for it.
    pub(super) fn behind(memory: &Arc<Mapped>, len: u64, number: u64) -> Self {
        let at = with_words(len, number).unwrap_or(u64::MAX);
        let memory = Arc::clone(memory);
        Self {
            memory,
            at: at as usize,
        }
    }
}

impl Spot for Word {
    fn word(&self) -> &AtomicU64 {
        self.memory.atomic(self.at)
    }
}

#[cfg(all(feature = "shm", target_os = "linux"))]
pub(in crate::mpi::engine) use self::shared::{Mapped, Offer};
#[cfg(not(all(feature = "shm", target_os = "linux")))]
pub(in crate::mpi::engine) use self::unshared::{Mapped, Offer};

#[cfg(all(feature = "shm", target_os = "linux"))]
mod shared {
    use std::{
        os::fd::{AsFd, OwnedFd},
        string::String,
        thread,
        time::Duration,
    };

    use super::{AtomicU64, Span, Vec, WORDS};
    use crate::{
        mpi::engine::Engine,
        routes::Passing,
        shm::{Access, Segment},
        time::nanos,
    };

    /// Longest time that another process may need until it gives or takes memory.
    const LIMIT: Duration = Duration::from_secs(30);

    /// Memory that another process has mapped, too.
    #[derive(Debug)]
    pub(in crate::mpi::engine) struct Mapped(Segment);

    impl Mapped {
        fn new(segment: Segment) -> Self {
            segment.ask_for_huge_pages();
            Self(segment)
        }

        pub(in crate::mpi::engine) fn base(&self) -> *mut u8 {
            self.0.base()
        }

        /// [`Segment::atomic`].
        #[inline]
        pub(in crate::mpi::engine) fn atomic(&self, at: usize) -> &AtomicU64 {
            self.0.atomic(at)
        }

        /// [`Segment::span`].
        #[inline]
        pub(in crate::mpi::engine) fn span(&self, at: usize, len: usize) -> Option<Span<'_>> {
            self.0.span(at, len)
        }

        /// [`Segment::write`].
        #[inline]
        pub(in crate::mpi::engine) fn write(&self, at: usize, bytes: &[u8]) {
            self.0.write(at, bytes);
        }
    }

    /// A process that shares memory with others of its host.
    #[derive(Debug)]
    pub(in crate::mpi::engine) struct Offer {
        passing: Passing,
        given: Option<OwnedFd>,
    }

    impl Offer {
        /// `None`: this process cannot.
        pub(in crate::mpi::engine) fn open(engine: &Engine) -> Option<Self> {
            let passing = Passing::open(engine.process()).ok()?;
            Some(Self { passing, given: None })
        }

        /// Makes memory of `len` bytes, all 0, to give to others.
        pub(in crate::mpi::engine) fn make(&mut self, len: u64) -> Option<Mapped> {
            let len = usize::try_from(len.max(1)).ok()?;
            let (segment, given) = Segment::create("hikyaku-window", len, Access::Write).ok()?;
            self.given = Some(given);
            Some(Mapped::new(segment))
        }

        pub(in crate::mpi::engine) fn words(&self) -> [i64; WORDS] {
            self.passing.words()
        }

        /// What is the same for processes with these words that can have memory in common, and for no others.
        pub(in crate::mpi::engine) fn host_of(words: &[i64]) -> Option<String> {
            Passing::domain_of(words.try_into().ok()?)
        }

        /// Returns whether the process with these words is on this host, too.
        pub(in crate::mpi::engine) fn meets(&self, words: &[i64]) -> bool {
            words.try_into().is_ok_and(|words| self.passing.meets(words))
        }

        /// Gives memory to so many others, and maps what those with these words and lengths give. All of them do so at the
        /// same time. `None` in the place of one whose memory cannot be mapped.
        pub(in crate::mpi::engine) fn exchange(
            self,
            engine: &Engine,
            takers: usize,
            givers: &[(Vec<i64>, u64)],
        ) -> Vec<Option<Mapped>> {
            let words = |(words, _): &(Vec<i64>, u64)| words[..].try_into().unwrap_or_default();
            let words: Vec<_> = givers.iter().map(words).collect();
            let mut exchange = self.passing.begin(self.given, takers, &words);
            let begun = engine.now();
            // Others may need an answer of this process before they come.
            while !exchange.step() && engine.now().nanos_since(begun) < nanos(LIMIT) && engine.progress().is_ok() {
                thread::yield_now();
            }
            let map = |(taken, (_, len)): (Option<OwnedFd>, &(Vec<i64>, u64))| {
                let len = usize::try_from((*len).max(1)).ok()?;
                Some(Mapped::new(Segment::map(taken?.as_fd(), len, Access::Write).ok()?))
            };
            exchange.taken().into_iter().zip(givers).map(map).collect()
        }
    }
}

#[cfg(not(all(feature = "shm", target_os = "linux")))]
mod unshared {
    use super::{AtomicU64, Span, Vec, WORDS};
    use crate::mpi::engine::Engine;

    /// There is none in this build.
    #[derive(Debug)]
    pub(in crate::mpi::engine) enum Mapped {}

    impl Mapped {
        pub(in crate::mpi::engine) fn base(&self) -> *mut u8 {
            match *self {}
        }

        pub(in crate::mpi::engine) fn atomic(&self, _: usize) -> &AtomicU64 {
            match *self {}
        }

        pub(in crate::mpi::engine) fn span(&self, _: usize, _: usize) -> Option<Span<'_>> {
            match *self {}
        }

        pub(in crate::mpi::engine) fn write(&self, _: usize, _: &[u8]) {
            match *self {}
        }
    }

    /// As above.
    #[derive(Debug)]
    pub(in crate::mpi::engine) enum Offer {}

    impl Offer {
        pub(in crate::mpi::engine) fn open(_: &Engine) -> Option<Self> {
            None
        }

        pub(in crate::mpi::engine) fn make(&mut self, _: u64) -> Option<Mapped> {
            match *self {}
        }

        pub(in crate::mpi::engine) fn words(&self) -> [i64; WORDS] {
            match *self {}
        }

        pub(in crate::mpi::engine) fn host_of(_: &[i64]) -> Option<u32> {
            None
        }

        pub(in crate::mpi::engine) fn meets(&self, _: &[i64]) -> bool {
            match *self {}
        }

        pub(in crate::mpi::engine) fn exchange(
            self,
            _: &Engine,
            _: usize,
            _: &[(Vec<i64>, u64)],
        ) -> Vec<Option<Mapped>> {
            match self {}
        }
    }
}

/// Elements in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements<'a> {
    pub(super) base: *mut u8,
    pub(super) count: u64,
    pub(super) datatype: &'a Datatype,
}

/// Copies the bytes of elements to those of others, of the same length in all. Nothing refers to them meanwhile, so other
/// processes may write them, too: then the copy has bytes that make no sense.
///
/// # Safety
/// The data of both are memory that may be read, or written.
pub(super) unsafe fn copy(from: Elements<'_>, into: Elements<'_>) {
    let one_run = |of: Elements<'_>| of.datatype.begin_of_run(of.count);
    let at = |of: Elements<'_>, offset: i64| of.base.wrapping_offset(offset as isize);
    if let (Some(source), Some(target)) = (one_run(from), one_run(into)) {
        let len = (from.datatype.size() * from.count) as usize;
        // SAFETY: the caller's contract; both are runs of that length, which may overlap.
        return unsafe { ptr::copy(at(from, source), at(into, target), len) };
    }
    let mut sources = from.datatype.segments(from.count, 0..u64::MAX);
    let mut targets = into.datatype.segments(into.count, 0..u64::MAX);
    let (mut source, mut target) = (sources.next(), targets.next());
    while let (Some(a), Some(b)) = (&mut source, &mut target) {
        let len = a.len.min(b.len);
        // SAFETY: the caller's contract; both runs have that many bytes left.
        unsafe { ptr::copy(at(from, a.offset), at(into, b.offset), len as usize) };
        for run in [&mut *a, &mut *b] {
            run.offset += len as i64;
            run.len -= len;
        }
        if a.len == 0 {
            source = sources.next();
        }
        if b.len == 0 {
            target = targets.next();
        }
    }
}

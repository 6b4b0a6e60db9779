//! Memory that two processes share.
#![expect(
    unsafe_code,
    reason = "memory of the kernel's has no lifetime that the compiler knows; what makes each use right is in this file"
)]

use std::{
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::{self, NonNull},
    sync::atomic::{AtomicU64, Ordering},
};

#[cfg(feature = "shm")]
use rustix::mm::{Advice, madvise};
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};

use crate::{copies::Copies, span::Span};

/// The access that a process has to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A mapping of memory that another process has mapped too.
///
/// The memory is sealed against shrinking, so reading it never faults. If the other process is broken, the contents may
/// change at any time. Therefore no reference to its bytes is ever made: numbers are read once, as atomics
/// ([`number`](Self::number)), and bytes are copied ([`copy`](Self::copy), [`span`](Self::span)).
pub(crate) struct Segment {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the mapping, and nothing in the mapping is bound to a thread.
unsafe impl Send for Segment {}
// SAFETY: the memory is only changed through atomics, and by `write`, whose callers own the place that they write.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates memory of `len` bytes, all zero. A page takes memory when it is first used.
    pub(crate) fn create(name: &str, len: usize, others: Access) -> io::Result<(Self, OwnedFd)> {
        let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, len as u64)?;
        let this = Self::map_fd(fd.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE)?;
        let mut seals = SealFlags::SHRINK | SealFlags::GROW;
        if others == Access::Read {
            seals |= SealFlags::FUTURE_WRITE;
        }
        fcntl_add_seals(&fd, seals | SealFlags::SEAL)?;
        Ok((this, fd))
    }

    /// Maps memory that another process has created.
    pub(crate) fn map(fd: BorrowedFd<'_>, len: usize, access: Access) -> io::Result<Self> {
        let sealed = fcntl_get_seals(fd)?.contains(SealFlags::SHRINK);
        if !sealed || (fstat(fd)?.st_size as u64) < len as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the shared memory is not what it should be",
            ));
        }
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        Self::map_fd(fd, len, protection)
    }

    fn map_fd(fd: BorrowedFd<'_>, len: usize, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: this makes a new mapping, at an address that the kernel chooses.
        let base = unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, fd, 0) }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { base, len })
    }

    /// Keeps the memory out of core dumps, and out of the children that this process forks: those would use rings whose
    /// owner goes on using them.
    #[cfg(feature = "shm")]
    pub(crate) fn leave_out_of_dumps_and_children(&self) -> io::Result<()> {
        for advice in [Advice::LinuxDontDump, Advice::LinuxDontFork] {
            // SAFETY: the range is the mapping, and neither advice changes what this process sees of it.
            unsafe { madvise(self.base.as_ptr().cast(), self.len, advice) }?;
        }
        Ok(())
    }

    /// Asks for huge pages, which the system gives where it offers them to shared memory (`shmem_enabled` of
    /// `/sys/kernel/mm/transparent_hugepage` is `advise`; often it is `never`). If not, the pages are small ones.
    #[cfg(all(feature = "shm", feature = "mpi"))]
    pub(crate) fn ask_for_huge_pages(&self) {
        // SAFETY: the range is the mapping, and the advice does not change what this process sees of it.
        let _ = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxHugepage) };
    }

    /// Gives memory back to the system. It is zero when it is used next, in both processes. Whole pages are given; if the
    /// system does not take them, nothing is lost.
    ///
    /// # Panics
    /// If the range does not lie in this memory.
    #[cfg(feature = "shm")]
    pub(crate) fn give_back(&self, at: usize, len: usize) {
        assert!(self.holds(at, len));
        // SAFETY: the range lies in the mapping. Its bytes change, as they may at any time.
        let _ = unsafe { madvise(self.base.as_ptr().add(at).cast(), len, Advice::LinuxRemove) };
    }

    /// Has the system give memory for a range that is about to be written, all pages at once. If it does not, each page comes
    /// when it is written first.
    ///
    /// # Panics
    /// If the range does not lie in this memory.
    #[cfg(feature = "shm")]
    pub(crate) fn populate(&self, at: usize, len: usize) {
        assert!(self.holds(at, len));
        // SAFETY: the range lies in the mapping, and its bytes do not change.
        let _ = unsafe { madvise(self.base.as_ptr().add(at).cast(), len, Advice::LinuxPopulateWrite) };
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address at which the mapping begins in this process.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The offset of `bytes` in this memory. `None`: they do not lie in it.
    pub(crate) fn offset_of(&self, bytes: &[u8]) -> Option<usize> {
        let at = (bytes.as_ptr() as usize).checked_sub(self.base.as_ptr() as usize)?;
        (at.checked_add(bytes.len())? <= self.len).then_some(at)
    }

    /// A number that both sides read and write.
    ///
    /// # Panics
    /// If it does not lie in this memory, or its offset is no multiple of eight.
    #[inline]
    pub(crate) fn atomic(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len);
        // SAFETY: it lies in the mapping (page-aligned) and is aligned; every access to it is atomic.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// The range of `len` bytes at offset `at` lies in this memory.
    #[inline]
    pub(crate) fn holds(&self, at: usize, len: usize) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.len)
    }

    /// Reads once a number that the other process has written. `None`: it does not lie in this memory, or its offset is
    /// no multiple of eight.
    #[inline]
    pub(crate) fn number(&self, at: usize) -> Option<u64> {
        (at.is_multiple_of(8) && self.holds(at, 8)).then(|| self.atomic(at).load(Ordering::Relaxed))
    }

    /// Copies bytes that the other process may be writing; the copy does not change any more. `false`: the bytes do not
    /// lie in this memory.
    #[inline]
    pub(crate) fn copy(&self, at: usize, into: &mut [u8]) -> bool {
        let span = self.span(at, into.len());
        span.map(|span| span.copy_to(into)).is_some()
    }

    /// Lends bytes that the other process may be writing, for copying. `None`: they do not lie in this memory.
    #[inline]
    pub(crate) fn span(&self, at: usize, len: usize) -> Option<Span<'_>> {
        // SAFETY: it lies in the mapping, which lives as long as `self`. This process writes there only by raw copies.
        self.holds(at, len)
            .then(|| unsafe { Span::from_raw(self.base.as_ptr().add(at), len) })
    }

    /// Writes bytes to a place that belongs to this side by the rules between the two processes, in a way that `copies`
    /// chooses.
    ///
    /// # Panics
    /// If the place does not lie in this memory.
    #[inline]
    pub(crate) fn put(&self, at: usize, bytes: &[u8], copies: &mut Copies) {
        assert!(at <= self.len && bytes.len() <= self.len - at);
        // SAFETY: the destination lies in the mapping. `bytes` is memory of this process, or a place of the mapping
        // that this side does not write, so they do not overlap. This process holds no reference to a place that this
        // side writes.
        unsafe { copies.copy(bytes.as_ptr(), self.base.as_ptr().add(at), bytes.len()) };
    }

    /// The same, as a plain copy.
    ///
    /// # Panics
    /// If the place does not lie in this memory.
    #[inline]
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at <= self.len && bytes.len() <= self.len - at);
        // SAFETY: as in `put`, but that `bytes` may overlap the place.
        unsafe { ptr::copy(bytes.as_ptr(), self.base.as_ptr().add(at), bytes.len()) };
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the value owns the mapping, and nothing refers to it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

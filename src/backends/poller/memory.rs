//! Memory that two processes have at the same time.
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

use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};

use crate::span::Span;

/// What those may do who are given the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    Read,
    Write,
}

/// A mapping of memory that another process has too.
///
/// It never becomes smaller (it is sealed), so looking at it never fails. What is in it may change at any time if the
/// other process is broken. So no reference to its bytes is ever made: numbers are read once, as atomics
/// ([`number`](Self::number)), and bytes are copied ([`copy`](Self::copy), [`span`](Self::span)).
pub(crate) struct Memory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the value, and nothing in it is bound to a thread.
unsafe impl Send for Memory {}
// SAFETY: it is only changed through atomics, and by `write`, whose callers own the place.
unsafe impl Sync for Memory {}

impl Memory {
    /// Makes memory of `len` octets, zeros, which take room as they are used.
    pub(crate) fn create(name: &str, len: usize, others: Others) -> io::Result<(Self, OwnedFd)> {
        let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, len as u64)?;
        let this = Self::map_fd(fd.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE)?;
        let mut seals = SealFlags::SHRINK | SealFlags::GROW;
        if others == Others::Read {
            seals |= SealFlags::FUTURE_WRITE;
        }
        fcntl_add_seals(&fd, seals | SealFlags::SEAL)?;
        Ok((this, fd))
    }

    /// Maps memory that somebody else has made.
    pub(crate) fn map(fd: BorrowedFd<'_>, len: usize, access: Others) -> io::Result<Self> {
        let sealed = fcntl_get_seals(fd)?.contains(SealFlags::SHRINK);
        if !sealed || fstat(fd)?.st_size < len as i64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the shared memory is not what it should be",
            ));
        }
        let protection = match access {
            Others::Read => ProtFlags::READ,
            Others::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        Self::map_fd(fd, len, protection)
    }

    fn map_fd(fd: BorrowedFd<'_>, len: usize, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let base = unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, fd, 0) }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { base, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where it begins here.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The place of octets that lie in here.
    pub(crate) fn offset_of(&self, octets: &[u8]) -> Option<usize> {
        let at = (octets.as_ptr() as usize).checked_sub(self.base.as_ptr() as usize)?;
        (at.checked_add(octets.len())? <= self.len).then_some(at)
    }

    /// A number that both sides read and write.
    ///
    /// # Panics
    /// If it does not lie in here, or not at a multiple of eight.
    #[inline]
    pub(crate) fn atomic(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len);
        // SAFETY: in the mapping (page-aligned) and aligned; everybody uses it as an atomic.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// So many octets at this place lie in here.
    #[inline]
    pub(crate) fn holds(&self, at: usize, len: usize) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.len)
    }

    /// A number that the other process has written, read once. `None`: it does not lie in here, or not at a multiple of
    /// eight.
    #[inline]
    pub(crate) fn number(&self, at: usize) -> Option<u64> {
        (at.is_multiple_of(8) && self.holds(at, 8)).then(|| self.atomic(at).load(Ordering::Relaxed))
    }

    /// Copies octets that the other process may be writing, so that they do not change any more. `false`: they do not lie in
    /// here.
    #[inline]
    pub(crate) fn copy(&self, at: usize, into: &mut [u8]) -> bool {
        let span = self.span(at, into.len());
        span.map(|span| span.copy_to(into)).is_some()
    }

    /// Bytes that the other process may be writing, to be copied. `None`: they do not lie in here.
    #[inline]
    pub(crate) fn span(&self, at: usize, len: usize) -> Option<Span<'_>> {
        // SAFETY: in the mapping, which lives as long as `self`. Whatever this process writes there it writes raw.
        self.holds(at, len)
            .then(|| unsafe { Span::from_raw(self.base.as_ptr().add(at), len) })
    }

    /// Writes octets to a place that is ours by the rules between the two processes.
    ///
    /// # Panics
    /// If it does not lie in here.
    #[inline]
    pub(crate) fn write(&self, at: usize, octets: &[u8]) {
        assert!(at <= self.len && octets.len() <= self.len - at);
        // SAFETY: in the mapping; `octets` is memory of this process, or another place in here that is not ours to
        // write. Nobody here has a reference to a place that is ours to write.
        unsafe { ptr::copy(octets.as_ptr(), self.base.as_ptr().add(at), octets.len()) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("len", &self.len).finish_non_exhaustive()
    }
}

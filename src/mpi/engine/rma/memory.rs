#![expect(unsafe_code, reason = "windows are memory of the caller")]
//! Memory that other processes may read and write.

use alloc::vec::Vec;
use core::{ptr, slice};

use bytes::Bytes;

use super::{super::buffer::Pins, message::Run};
use crate::{messaging::MemoryRegion, span::Span};

/// Runs of at least this many bytes are sent from where they lie.
const LEND: u32 = 1 << 10;

/// Contiguous memory of the caller.
#[derive(Clone, Debug)]
pub(in crate::mpi::engine) struct Region {
    base: *mut u8,
    len: u64,
    /// References to it that are being sent: they must be back before the memory may be freed.
    pins: Pins,
}

// SAFETY: `Memory`'s constructors demand that the memory may be used from any thread.
unsafe impl Send for Region {}

impl Region {
    fn address(&self) -> u64 {
        self.base as u64
    }
}

/// The memory of a window. Every access is checked, whichever process requests it.
#[derive(Debug)]
pub(in crate::mpi::engine) enum Memory {
    /// One region; offsets count from its beginning.
    Static(Region),
    /// Regions that are attached and detached; offsets are addresses (MPI 12.2.4).
    Dynamic(Vec<Region>),
}

impl Memory {
    /// `len` bytes at `base`.
    ///
    /// # Safety
    /// Until this is dropped and [`is_back`](Self::is_back): initialised memory that may be read and written from any
    /// thread. (The program must synchronise conflicting accesses, as MPI demands.)
    pub(in crate::mpi::engine) unsafe fn new(base: *mut u8, len: u64) -> Self {
        Self::Static(Region {
            base,
            len,
            pins: Pins::default(),
        })
    }

    pub(in crate::mpi::engine) fn dynamic() -> Self {
        Self::Dynamic(Vec::new())
    }

    /// The region in which other processes place bytes: empty for a dynamic window, whose regions come and go.
    pub(super) fn region(&self) -> Target {
        match self {
            Self::Static(region) => Target(region.clone()),
            Self::Dynamic(_) => Target(Region {
                base: ptr::dangling_mut(),
                len: 0,
                pins: Pins::default(),
            }),
        }
    }

    /// Attaches a region. False if it overlaps another one, or ends beyond the address space.
    ///
    /// # Safety
    /// As [`new`](Self::new), until it is detached.
    pub(in crate::mpi::engine) unsafe fn attach(&mut self, base: *mut u8, len: u64) -> bool {
        let (start, Some(end)) = (base as u64, (base as u64).checked_add(len)) else {
            return false;
        };
        let Self::Dynamic(regions) = self else { return false };
        let overlaps = |other: &Region| start < other.address() + other.len && other.address() < end;
        if regions.iter().any(overlaps) {
            return false;
        }
        regions.push(Region {
            base,
            len,
            pins: Pins::default(),
        });
        true
    }

    /// Detaches the region at `base`; its memory may be freed when the pins are back.
    pub(in crate::mpi::engine) fn detach(&mut self, base: *mut u8) -> Option<Pins> {
        let Self::Dynamic(regions) = self else { return None };
        let at = regions.iter().position(|region| region.base == base)?;
        Some(regions.swap_remove(at).pins)
    }

    fn regions(&self) -> &[Region] {
        match self {
            Self::Static(region) => slice::from_ref(region),
            Self::Dynamic(regions) => regions,
        }
    }

    /// Whether nothing is being sent from this memory.
    pub(in crate::mpi::engine) fn is_back(&self) -> bool {
        self.regions().iter().all(|region| region.pins.are_released())
    }

    /// Address of the run, if all of it is in one region.
    fn find(&self, run: Run) -> Option<(*mut u8, &Pins)> {
        let (len, end) = (u64::from(run.len), run.offset.checked_add(run.len.into())?);
        match self {
            Self::Static(region) => {
                (end <= region.len).then(|| (region.base.wrapping_add(run.offset as usize), &region.pins))
            }
            Self::Dynamic(regions) => {
                let within = |region: &&Region| {
                    let at = run.offset.checked_sub(region.address());
                    at.is_some_and(|at| at <= region.len && len <= region.len - at)
                };
                let region = regions.iter().find(within)?;
                let at = (run.offset - region.address()) as usize;
                Some((region.base.wrapping_add(at), &region.pins))
            }
        }
    }

    /// Whether the run is in the window.
    pub(super) fn has(&self, run: Run) -> bool {
        self.find(run).is_some()
    }

    /// Appends the bytes of the run, which is in the window, to `out`.
    pub(super) fn read(&self, run: Run, out: &mut Vec<u8>) {
        if let Some((start, _)) = self.find(run) {
            let (filled, len) = (out.len(), run.len as usize);
            out.reserve(len);
            // SAFETY: the contract of `new` or `attach`; `out` is other memory, with room for `len` bytes, which are there
            // then. (No reference is made: another process of this host may be writing.)
            unsafe {
                ptr::copy_nonoverlapping(start, out.as_mut_ptr().add(filled), len);
                out.set_len(filled + len);
            }
        }
    }

    /// Writes `bytes` to the run, which is in the window and of the same length.
    pub(super) fn write(&mut self, run: Run, bytes: &[u8]) {
        if let Some((start, _)) = self.find(run) {
            let len = bytes.len().min(run.len as usize);
            // SAFETY: as in `read`; `bytes` belong to a message.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), start, len) };
        }
    }

    /// The bytes of the run by reference, if it is long enough.
    pub(super) fn lend(&self, run: Run) -> Option<Bytes> {
        let (start, pins) = self.find(run)?;
        // SAFETY: the memory stays until all pins are back; the program synchronises so that no write meets the read
        // (MPI 12.7).
        (run.len >= LEND).then(|| unsafe { pins.lend(start, run.len as usize, None) })
    }
}

/// The region of a window.
#[derive(Debug)]
pub(super) struct Target(Region);

impl MemoryRegion for Target {
    fn capacity(&self) -> u64 {
        self.0.len
    }

    fn place(&mut self, offset: u64, bytes: Span<'_>) {
        // SAFETY: `Memory::new`'s contract holds until the region is revoked; the range is inside the capacity
        // (`MemoryRegion`); `bytes` belong to a packet, and can be read.
        unsafe {
            let start = self.0.base.wrapping_add(offset as usize);
            ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;

    #[test]
    fn nothing_beyond_the_window_is_touched() {
        let mut bytes: Vec<u8> = (0..100).collect();
        // SAFETY: inside of `bytes`, which outlives it.
        let mut memory = unsafe { Memory::new(bytes.as_mut_ptr().add(10), 80) };
        for (offset, len, has) in [(0, 80, true), (79, 1, true), (79, 2, false), (u64::MAX, 2, false)] {
            assert_eq!(memory.has(Run { offset, len }), has, "{offset} {len}");
        }
        memory.write(Run { offset: 78, len: 4 }, &[0xff; 4]);
        memory.write(Run { offset: 78, len: 2 }, &[7, 7]);
        let mut read = vec![];
        memory.read(Run { offset: 77, len: 3 }, &mut read);
        memory.read(Run { offset: 80, len: 1 }, &mut read);
        assert_eq!(read, [87, 7, 7]);
        assert_eq!(bytes[87..92], [87, 7, 7, 90, 91]);
    }

    #[test]
    fn pieces_come_and_go() {
        let mut bytes = vec![0_u8; 5_000];
        let base = bytes.as_mut_ptr();
        let mut memory = Memory::dynamic();
        // SAFETY: parts of `bytes`, which outlives it.
        unsafe {
            assert!(memory.attach(base, 2_000));
            assert!(memory.attach(base.add(2_000), 2_000));
            assert!(!memory.attach(base.add(1_999), 10));
            assert!(!memory.attach(usize::MAX as *mut u8, 10));
        }
        let at = |offset: u64, len| Run {
            offset: base as u64 + offset,
            len,
        };
        // A run may not cross two regions, even if they are adjacent.
        assert_eq!((memory.has(at(1_990, 20)), memory.has(at(4_000, 1))), (false, false));
        let lent = memory.lend(at(10, 1_500)).unwrap();
        assert!(memory.lend(at(10, 15)).is_none());
        let pins = memory.detach(base).unwrap();
        assert!(memory.detach(base).is_none() && !memory.has(at(10, 15)) && memory.is_back());
        assert!(!pins.are_released());
        drop(lent);
        assert!(pins.are_released());
    }
}

#![expect(unsafe_code, reason = "data are where the caller's datatype says")]
//! Copies bytes between memory and messages.

use core::mem::MaybeUninit;

use super::{
    Datatype,
    cursor::{Batch, Elements},
    error::DatatypeError,
    layout::Run,
};
use crate::span::Span;

/// Turns that are copied run by run before the next ones, so that they stay in the cache.
const TURNS: u64 = 64;

impl Datatype {
    /// Packs: copies the packed bytes of `count` elements at `base`, from `packed_offset` on, to `out`. Gives the
    /// number of bytes, which is less than the length of `out` only where the data end.
    ///
    /// # Safety
    /// The requested data of `count` elements (see [`segments`](Self::segments)) are initialised memory that may be
    /// read through `base`, is not written to meanwhile, and is not within `out`.
    pub unsafe fn pack_at(
        &self,
        base: *const u8,
        count: u64,
        packed_offset: u64,
        out: &mut [MaybeUninit<u8>],
    ) -> usize {
        let len = out.len() as u64;
        // SAFETY: `out` is valid for its length; the rest is the caller's contract. Nothing is written to `base`.
        unsafe {
            transfer::<true>(
                self,
                base.cast_mut(),
                count,
                packed_offset,
                out.as_mut_ptr().cast(),
                len,
            )
        }
    }

    /// Unpacks: copies `bytes`, which are at `packed_offset` of the packed bytes of `count` elements, to where they
    /// belong. Gives the number of bytes; bytes beyond the data are left out.
    ///
    /// # Safety
    /// The covered data of `count` elements (see [`segments`](Self::segments)) are memory that may be written through
    /// `base`, is not used by other code meanwhile, and is not within `bytes`.
    pub unsafe fn unpack_at(&self, base: *mut u8, count: u64, packed_offset: u64, bytes: &[u8]) -> usize {
        // SAFETY: the caller's contract.
        unsafe { self.unpack_span_at(base, count, packed_offset, Span::new(bytes)) }
    }

    /// The same for bytes in memory to which there can be no slice.
    ///
    /// # Safety
    /// That of [`unpack_at`](Self::unpack_at).
    pub(crate) unsafe fn unpack_span_at(
        &self,
        base: *mut u8,
        count: u64,
        packed_offset: u64,
        bytes: Span<'_>,
    ) -> usize {
        let len = bytes.len() as u64;
        // SAFETY: `bytes` can be read for their length, and are only copied; the rest is the caller's contract.
        unsafe { transfer::<false>(self, base, count, packed_offset, bytes.as_ptr().cast_mut(), len) }
    }

    /// [`pack_at`](Self::pack_at) with checks: the elements are at `memory[origin]`, and the data of all `count` of
    /// them must be within `memory`.
    ///
    /// # Errors
    /// [`DatatypeError::Memory`] or [`DatatypeError::Overflow`] if they are not.
    pub fn pack(
        &self,
        memory: &[u8],
        origin: usize,
        count: u64,
        packed_offset: u64,
        out: &mut [u8],
    ) -> Result<usize, DatatypeError> {
        self.check_memory(memory.len(), origin, count)?;
        let len = out.len() as u64;
        let base = memory.as_ptr().wrapping_add(origin).cast_mut();
        // SAFETY: all data are within `memory`, which is only read; `out` is another slice, as it is borrowed mutably.
        Ok(unsafe { transfer::<true>(self, base, count, packed_offset, out.as_mut_ptr(), len) })
    }

    /// [`unpack_at`](Self::unpack_at) with checks, as those of [`pack`](Self::pack).
    ///
    /// # Errors
    /// [`DatatypeError::Memory`] or [`DatatypeError::Overflow`] if the data are not within `memory`.
    pub fn unpack(
        &self,
        memory: &mut [u8],
        origin: usize,
        count: u64,
        packed_offset: u64,
        bytes: &[u8],
    ) -> Result<usize, DatatypeError> {
        self.check_memory(memory.len(), origin, count)?;
        let base = memory.as_mut_ptr().wrapping_add(origin);
        // SAFETY: all data are within `memory`, which is borrowed mutably, so `bytes` is another slice.
        Ok(unsafe { self.unpack_at(base, count, packed_offset, bytes) })
    }

    /// Checks that the data of `count` elements at `origin` are within `len` bytes.
    ///
    /// # Errors
    /// [`DatatypeError::Memory`] or [`DatatypeError::Overflow`] if they are not.
    pub fn check_memory(&self, len: usize, origin: usize, count: u64) -> Result<(), DatatypeError> {
        let (low, high) = self.span(count)?;
        let after = len.saturating_sub(origin);
        let fits = i128::from(low) >= -(origin as i128) && i128::from(high) <= len as i128 - origin as i128;
        if low == high || fits {
            Ok(())
        } else {
            Err(DatatypeError::Memory {
                low,
                high,
                before: origin,
                after,
            })
        }
    }
}

/// Copies at most `len` bytes between the data of `count` elements at `memory`, from packed offset `position` on, and
/// `packed`: to `packed` if `PACK`, otherwise from it. Gives their number.
///
/// # Safety
/// The data concerned and `packed` are disjoint, and valid for reads or writes as the direction demands.
unsafe fn transfer<const PACK: bool>(
    datatype: &Datatype,
    memory: *mut u8,
    count: u64,
    position: u64,
    packed: *mut u8,
    len: u64,
) -> usize {
    let total = datatype.size().saturating_mul(count);
    let len = len.min(total.saturating_sub(position));
    if len == 0 {
        return 0;
    }
    if let Some(begin) = datatype.begin_of_run(count) {
        let from = memory.wrapping_offset(begin as isize).wrapping_add(position as usize);
        // SAFETY: all data are one run, and the caller's contract.
        unsafe { copy::<PACK>(from, packed, len as usize) };
        return len as usize;
    }
    let elements = Elements::new(datatype, count);
    let mut done = 0;
    while done < len {
        let mut batch = elements.locate(position + done);
        while done < len && !batch.is_done() {
            let to = packed.wrapping_add(done as usize);
            let whole = batch.turns.min((len - done) / batch.size).min(TURNS);
            if whole > 0 && batch.is_at_turn() {
                // SAFETY: these turns belong to the data concerned, and the bytes of `packed` to them.
                unsafe { copy_turns::<PACK>(&batch, memory, to, whole as usize) };
                batch.skip(whole);
                done += whole * batch.size;
                continue;
            }
            let runs = batch.whole_runs(len - done);
            if let [.., last] = runs {
                // SAFETY: these runs belong to the data concerned, and the bytes of `packed` to them.
                unsafe { copy_runs::<PACK>(runs, memory.wrapping_offset(batch.base as isize), to) };
                done += last.start + last.len - runs[0].start;
                batch.skip_runs(runs.len());
            } else {
                let segment = batch.step(len - done);
                let from = memory.wrapping_offset(segment.offset as isize);
                // SAFETY: the segment belongs to the data concerned, and `packed` has at least as much left.
                unsafe { copy::<PACK>(from, to, segment.len as usize) };
                done += segment.len;
            }
        }
    }
    len as usize
}

/// Copies the next `turns` turns of `batch`: each run through all of them, because equal lengths make tight loops.
///
/// # Safety
/// As [`transfer`].
unsafe fn copy_turns<const PACK: bool>(batch: &Batch<'_>, memory: *mut u8, packed: *mut u8, turns: usize) {
    for &Run { offset, start, len } in batch.runs {
        let strided = Strided {
            memory: memory.wrapping_offset(batch.base.wrapping_add(offset) as isize),
            memory_stride: batch.stride as isize,
            packed: packed.wrapping_add(start as usize),
            packed_stride: batch.size as usize,
            turns,
        };
        // SAFETY: these are the places of this run in the turns.
        unsafe {
            match len {
                1 => strided.copy_fixed::<PACK, 1>(),
                2 => strided.copy_fixed::<PACK, 2>(),
                4 => strided.copy_fixed::<PACK, 4>(),
                8 => strided.copy_fixed::<PACK, 8>(),
                12 => strided.copy_fixed::<PACK, 12>(),
                16 => strided.copy_fixed::<PACK, 16>(),
                24 => strided.copy_fixed::<PACK, 24>(),
                32 => strided.copy_fixed::<PACK, 32>(),
                _ => strided.copy::<PACK>(len as usize),
            }
        }
    }
}

/// Blocks at equal distances on both sides.
struct Strided {
    memory: *mut u8,
    memory_stride: isize,
    packed: *mut u8,
    packed_stride: usize,
    turns: usize,
}

impl Strided {
    /// # Safety
    /// As [`transfer`], for the blocks of `LEN` bytes.
    #[inline]
    unsafe fn copy_fixed<const PACK: bool, const LEN: usize>(self) {
        // SAFETY: the caller's contract. Inlined, the length is a constant.
        unsafe { self.copy::<PACK>(LEN) }
    }

    /// # Safety
    /// As [`transfer`], for the blocks of `len` bytes.
    #[inline(always)]
    unsafe fn copy<const PACK: bool>(mut self, len: usize) {
        for _ in 0..self.turns {
            // SAFETY: the caller's contract.
            unsafe { copy::<PACK>(self.memory, self.packed, len) };
            self.memory = self.memory.wrapping_offset(self.memory_stride);
            self.packed = self.packed.wrapping_add(self.packed_stride);
        }
    }
}

/// Copies runs that follow each other; the usual small lengths without a call.
///
/// # Safety
/// As [`transfer`].
unsafe fn copy_runs<const PACK: bool>(runs: &[Run], memory: *mut u8, packed: *mut u8) {
    let begin = runs.first().map_or(0, |run| run.start);
    for run in runs {
        let from = memory.wrapping_offset(run.offset as isize);
        let to = packed.wrapping_add((run.start - begin) as usize);
        // SAFETY: the caller's contract.
        unsafe {
            match run.len {
                4 => copy::<PACK>(from, to, 4),
                8 => copy::<PACK>(from, to, 8),
                16 => copy::<PACK>(from, to, 16),
                len => copy::<PACK>(from, to, len as usize),
            }
        }
    }
}

/// # Safety
/// Both are valid for `len` bytes, for reads and writes as the direction demands, and do not overlap.
#[inline(always)]
unsafe fn copy<const PACK: bool>(memory: *mut u8, packed: *mut u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        if PACK {
            packed.copy_from_nonoverlapping(memory, len);
        } else {
            memory.copy_from_nonoverlapping(packed, len);
        }
    }
}

#![expect(
    unsafe_code,
    reason = "copies of raw memory; which bytes may be copied is for the caller to know"
)]
//! Copies to where another core reads.
//!
//! Two cores that share a cache hand bytes on by way of it. Two that share none do not: the producer fetches each line
//! from the other core before it writes there, and is four to ten times slower. Stores that go around the caches
//! (non-temporal ones, of x86-64) take the same time in both cases, between the two. Where the cores are is up to the
//! system, which moves processes and virtual cores while they run; so plain copies are timed now and then.

/// The shortest copy that goes around the caches.
const SHORTEST: usize = 1 << 10;
/// The shortest copy that is timed.
const TIMED: usize = 2 << 10;
/// Of so many plain copies one is timed; and of so many copies, if they go around the caches, one is plain.
const EVERY: [u32; 2] = [16, 128];
/// Ticks of the processor's clock for a cache line: above the first, the cores share no cache; below the second, they do.
/// (About 5 and 10 GB/s.)
const FAR: u32 = 32;
const NEAR: u32 = 16;
pub(crate) const LINE: usize = 64;

/// How a producer copies.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(crate) is_far: bool,
    /// Copies of [`TIMED`] bytes and more.
    count: u32,
    /// Ticks for a line: of those that were timed, the last ones most.
    pace: u32,
}

impl Copies {
    /// Copies `len` bytes. They are there for whoever sees a store with release ordering that comes after it.
    ///
    /// # Safety
    /// As for [`copy_nonoverlapping`](core::ptr::copy_nonoverlapping).
    #[inline(always)]
    pub(crate) unsafe fn copy(&mut self, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            if len < TIMED && !(self.is_far && len >= SHORTEST) {
                from.copy_to_nonoverlapping(to, len);
            } else {
                self.copy_long(from, to, len);
            }
        }
    }

    /// # Safety
    /// As for [`copy`](Self::copy).
    #[inline(never)]
    unsafe fn copy_long(&mut self, from: *const u8, to: *mut u8, len: usize) {
        self.count = self.count.wrapping_add(u32::from(len >= TIMED));
        let is_timed = len >= TIMED && self.count.is_multiple_of(EVERY[usize::from(self.is_far)]);
        // SAFETY: the caller's contract.
        unsafe {
            if is_timed {
                // (What is timed is the way to the other core, not the source's way from memory.)
                machine::fetch(from, len);
                let ticks = machine::timed(|| from.copy_to_nonoverlapping(to, len));
                self.note(ticks, len);
            } else if self.is_far {
                machine::copy_around(from, to, len);
            } else {
                from.copy_to_nonoverlapping(to, len);
            }
        }
    }

    /// A plain copy of `len` bytes has taken so many ticks.
    pub(crate) fn note(&mut self, ticks: u64, len: usize) {
        // (One that was interrupted says nothing.)
        let pace = (ticks / (len / LINE) as u64).min(u64::from(4 * FAR)) as u32;
        self.pace = (3 * self.pace + pace) / 4;
        self.is_far = self.pace > if self.is_far { NEAR } else { FAR };
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) mod machine {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_mfence, _mm_sfence, _mm_stream_si128, _rdtsc};

    use super::LINE;

    /// The ticks until all stores of `copy` can be seen.
    pub(crate) fn timed(copy: impl FnOnce()) -> u64 {
        // SAFETY: reading the clock has no conditions.
        let before = unsafe { _rdtsc() };
        copy();
        // SAFETY: each x86-64 has the fence; as above.
        let after = unsafe {
            _mm_mfence();
            _rdtsc()
        };
        after.saturating_sub(before)
    }

    /// Brings `len` bytes into the caches of this core.
    ///
    /// # Safety
    /// They can be read.
    pub(crate) unsafe fn fetch(from: *const u8, len: usize) {
        for at in (0..len).step_by(LINE) {
            // SAFETY: the caller's contract.
            let _ = unsafe { from.add(at).read_volatile() };
        }
    }

    /// Copies by stores that go around the caches.
    ///
    /// # Safety
    /// As for `copy_nonoverlapping`.
    pub(crate) unsafe fn copy_around(from: *const u8, to: *mut u8, len: usize) {
        const WORD: usize = size_of::<__m128i>();
        // SAFETY: the three parts lie one behind the other in the bytes that the caller vouches for. The middle one
        // begins at a line, and has whole lines. Each x86-64 has these stores, and the fence: after it, they are ordered
        // before all stores that follow.
        unsafe {
            let head = to.align_offset(LINE).min(len);
            from.copy_to_nonoverlapping(to, head);
            let end = head + (len - head) / LINE * LINE;
            let mut at = head;
            while at < end {
                for word in (at..at + LINE).step_by(WORD) {
                    let bytes = _mm_loadu_si128(from.add(word).cast());
                    _mm_stream_si128(to.add(word).cast(), bytes);
                }
                at += LINE;
            }
            from.add(end).copy_to_nonoverlapping(to.add(end), len - end);
            _mm_sfence();
        }
    }
}

/// Here all copies are plain.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) mod machine {
    pub(crate) fn timed(copy: impl FnOnce()) -> u64 {
        copy();
        0
    }

    /// # Safety
    /// None: it does nothing.
    pub(crate) unsafe fn fetch(_: *const u8, _: usize) {}

    /// # Safety
    /// As for `copy_nonoverlapping`.
    pub(crate) unsafe fn copy_around(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's contract.
        unsafe { from.copy_to_nonoverlapping(to, len) };
    }
}

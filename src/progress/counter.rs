//! The processor's counter.
#![expect(unsafe_code, reason = "the intrinsic that reads it is not safe")]

/// What it says: it goes on at about the same speed on all processors of today.
#[inline]
pub(super) fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has it, and reading it has no effect.
    unsafe { core::arch::x86_64::_rdtsc() }
}

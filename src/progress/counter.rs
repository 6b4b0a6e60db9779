//! What only this processor can do.
#![expect(unsafe_code, reason = "intrinsics are not safe")]

/// What the processor's counter says: it goes on at about the same speed on all processors of today.
#[inline]
pub(super) fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has it, and reading it has no effect.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Issues nothing more until all before it is done. Between looks for what another thread of the same core is about to
/// write, that leaves the core to it; to pause does too, but takes longer than a look (measured over memif).
#[inline]
pub(super) fn relax() {
    // SAFETY: every processor of this architecture has it, and it has no effect on memory.
    unsafe { core::arch::x86_64::_mm_lfence() }
}

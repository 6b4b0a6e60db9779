//! Instructions that only this CPU architecture has.
#![expect(unsafe_code, reason = "intrinsics are not safe")]

/// The time-stamp counter of the CPU. It runs at nearly constant speed on all current CPUs.
#[inline]
pub(super) fn ticks() -> u64 {
    // SAFETY: every CPU of this architecture has the instruction, and it only reads the counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Issues no further instruction until all earlier ones have completed. Between two polls for data that another thread
/// of the same core is about to write, this leaves the core to that thread. A pause instruction does so too, but takes
/// longer than a poll (measured over memif).
#[inline]
pub(super) fn relax() {
    // SAFETY: every CPU of this architecture has the instruction, and it has no effect on memory.
    unsafe { core::arch::x86_64::_mm_lfence() }
}

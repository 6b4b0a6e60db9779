#![expect(unsafe_code, reason = "an instruction that the compiler does not choose by itself")]
//! A fence in the way of each small message.

use core::sync::atomic::Ordering;

/// A sequentially consistent fence.
///
/// The compiler makes it an `mfence`, for which some processors (of AMD) take four times as long as for an instruction with a
/// lock, which is a fence of the same kind between loads and stores of common memory.
#[inline(always)]
pub(super) fn fence(order: Ordering) {
    debug_assert_eq!(order, Ordering::SeqCst);
    machine::fence();
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod machine {
    use core::arch::asm;

    #[inline(always)]
    pub(super) fn fence() {
        // SAFETY: no bit changes. (The compiler takes it for an access to all memory, so it moves none across.)
        unsafe { asm!("lock or dword ptr [rsp - 64], 0", options(nostack)) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod machine {
    use core::sync::atomic::{self, Ordering};

    #[inline(always)]
    pub(super) fn fence() {
        atomic::fence(Ordering::SeqCst);
    }
}

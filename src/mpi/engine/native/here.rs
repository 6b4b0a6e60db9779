#![expect(unsafe_code, reason = "reads the register that names the thread")]
//! Which thread calls.

/// A number of the calling thread that no other living thread has: where its own data lie. (In a shared library, asking for
/// the address of a thread-local variable is a call.)
#[inline(always)]
pub(super) fn here() -> usize {
    let here: usize;
    // SAFETY: by the ABI there is the address of the thread's own data, which stays the same as long as the thread lives.
    unsafe { core::arch::asm!("mov {}, fs:0", out(reg) here, options(nostack, preserves_flags, readonly)) };
    here
}

#[cfg(test)]
mod tests {
    use super::here;

    #[test]
    fn threads_that_live_at_once_have_numbers_of_their_own() {
        let own = here();
        let other = std::thread::spawn(here).join().expect("it only asks");
        assert_eq!(own, here());
        assert_ne!(own, other);
    }
}

//! A clock that stands still: what depends on time does the same in every run.
#![expect(unsafe_code, reason = "the C library's function is replaced in this program")]

/// Takes the place of the C library's, from which the standard library and hikyaku have their time.
///
/// # Safety
/// `time` is null or can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(_: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    // SAFETY: see above.
    if let Some(time) = unsafe { time.as_mut() } {
        *time = libc::timespec {
            tv_sec: 1_000_000,
            tv_nsec: 0,
        };
    }
    0
}

//! Calls that must not be unwound.

use core::mem;

/// Runs code that must not be unwound, because the network uses buffers of its caller. A panic in it ends the process:
/// there is no way then to make the network let go of the buffers.
pub fn uninterrupted<R>(run: impl FnOnce() -> R) -> R {
    struct Fuse;
    impl Drop for Fuse {
        #[inline]
        fn drop(&mut self) {
            std::eprintln!("hikyaku: a panic while the network uses buffers");
            std::process::abort();
        }
    }
    let fuse = Fuse;
    let result = run();
    mem::forget(fuse);
    result
}

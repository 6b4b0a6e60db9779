//! A call under another process id.
#![expect(unsafe_code, reason = "a process that shares all memory has no safe interface")]

use std::{ffi::c_void, io, ptr};

/// Octets of stack for the call.
const STACK: usize = 1 << 20;

/// Has `call` made by a child that shares all memory and all files with this process, and ends with the call. Meanwhile
/// this thread waits: the child takes its place, thread-local variables and locks included, so that `call` notices nothing
/// but another process id. It must not panic, and not end the process.
///
/// # Errors
/// The system makes no processes now.
pub(super) fn run<T>(call: impl FnOnce() -> T) -> io::Result<T> {
    let mut result = None;
    let mut play = Some(|| result = Some(call()));
    clone(&mut play)?;
    // A child that was killed has not got to the end.
    result.ok_or_else(|| io::ErrorKind::Interrupted.into())
}

fn clone<F: FnOnce()>(play: &mut Option<F>) -> io::Result<()> {
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::CLONE_FS;
    // SAFETY: the stack grows down from the end of `stack`, which no one else uses, and which is aligned; `begin::<F>` is
    // given what it expects. By CLONE_VFORK this thread goes on when the child has ended, so nothing that the child uses is
    // used here at the same time, and all of it lives as long.
    let child = unsafe {
        libc::clone(
            begin::<F>,
            stack.as_mut_ptr_range().end.cast(),
            flags,
            ptr::from_mut(play).cast(),
        )
    };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    // No signal tells of its end, so nobody else waits for it.
    // SAFETY: waits for a child, and writes nothing.
    while unsafe { libc::waitpid(child, ptr::null_mut(), libc::__WALL) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    Ok(())
}

/// # Safety
/// `play` is an `Option<F>` that nobody else uses now.
extern "C" fn begin<F: FnOnce()>(play: *mut c_void) -> i32 {
    // SAFETY: by the contract.
    let play = unsafe { &mut *play.cast::<Option<F>>() };
    if let Some(play) = play.take() {
        play();
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_does_it_here() {
        let mut text = String::from("a");
        let id = run(|| {
            text.push_str(&"b".repeat(10_000));
            std::process::id()
        });
        assert_ne!(id.unwrap(), std::process::id());
        assert_eq!(text.len(), 10_001);
    }
}

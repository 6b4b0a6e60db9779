//! A call under another process id.
#![expect(unsafe_code, reason = "a process that shares all memory has no safe interface")]

use std::{ffi::c_void, io, mem::MaybeUninit, ptr};

/// Bytes of stack for the call.
const STACK: usize = 1 << 20;

/// Has `call` made by a child that shares all memory and all files with this process, and ends with the call. Meanwhile
/// this thread waits: the child takes its place, thread-local variables and locks included, so that `call` notices nothing
/// but another process id. It must not panic, not begin threads, and not end the process.
///
/// Signals wait meanwhile: those to the process group (Ctrl-C) come to the child, too, and it would end with whatever locks
/// it has, or run handlers that are meant for this process.
///
/// # Errors
/// The system makes no processes now.
pub(super) fn run<T>(call: impl FnOnce() -> T) -> io::Result<T> {
    let mut result = None;
    let mut play = Some(|| result = Some(call()));
    without_signals(|| clone(&mut play))?;
    // A child that was killed has not got to the end.
    result.ok_or_else(|| io::ErrorKind::Interrupted.into())
}

/// Makes a call with all signals blocked in this thread, and in the processes that it makes.
fn without_signals<T>(call: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the first call fills in the set that the second one reads, and that the set before. Neither can fail: all
    // arguments are valid.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = call();
    // SAFETY: the set was filled in above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    result
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
    // No signal tells of its end, so no other thread waits for it.
    // SAFETY: waits for a child, and writes nothing.
    while unsafe { libc::waitpid(child, ptr::null_mut(), libc::__WALL) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    Ok(())
}

/// # Safety
/// `play` is an `Option<F>` that has no other user now.
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

    /// As Ctrl-C does while it is at it.
    #[test]
    fn a_signal_does_not_end_it() {
        // SAFETY: nothing is passed.
        let raised = run(|| unsafe { libc::raise(libc::SIGTERM) });
        assert_eq!(raised.unwrap(), 0);
        let mut blocked = MaybeUninit::uninit();
        // SAFETY: fills in the set that is read then.
        let blocks = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), blocked.as_mut_ptr());
            libc::sigismember(blocked.as_ptr(), libc::SIGTERM)
        };
        assert_eq!(blocks, 0, "signals are as before");
    }

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

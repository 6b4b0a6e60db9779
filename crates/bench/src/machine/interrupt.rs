//! Ctrl-C (or SIGTERM) as a flag to poll: the results so far are printed before the command ends, and what it has made is
//! removed.
#![expect(
    unsafe_code,
    reason = "a signal handler is installed; it only sets a flag, or ends the process"
)]

use std::sync::atomic::{AtomicBool, Ordering};

use nix::{
    libc,
    sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
};

/// Exit code of a command that Ctrl-C has ended, as of shells.
pub const CODE: u8 = 130;

static PRESSED: AtomicBool = AtomicBool::new(false);

/// Keeps the signal of Ctrl-C from this thread and from those that it starts later.
pub fn block() {
    let mut set = SigSet::empty();
    set.add(Signal::SIGINT);
    let _ = set.thread_block();
}

/// From now on the first Ctrl-C or SIGTERM is only noted (see [`pressed`]); the second ends the process.
///
/// A thread that waits for the signal would cost what is measured: libc's calls and its allocator are slower in a
/// process of several threads.
pub fn note() {
    let action = SigAction::new(SigHandler::Handler(handle), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: the handler only does what is safe in one: it sets an atomic flag, or calls `_exit`.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

extern "C" fn handle(_: libc::c_int) {
    if PRESSED.swap(true, Ordering::Relaxed) {
        // SAFETY: `_exit` is safe in a signal handler, and runs nothing of this process.
        unsafe { libc::_exit(CODE.into()) };
    }
}

/// Whether Ctrl-C was pressed.
pub fn pressed() -> bool {
    PRESSED.load(Ordering::Relaxed)
}

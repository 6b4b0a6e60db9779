//! Ctrl-C as a flag to poll: the results so far are printed before the command ends.

use std::{
    process,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use nix::sys::signal::{SigSet, Signal};

/// Exit code of a command that Ctrl-C has ended, as of shells.
pub const CODE: u8 = 130;

static PRESSED: AtomicBool = AtomicBool::new(false);

/// Keeps the signal of Ctrl-C from this thread and from those, and the processes, that it starts later.
pub fn block() -> SigSet {
    let mut set = SigSet::empty();
    set.add(Signal::SIGINT);
    let _ = set.thread_block();
    set
}

/// From now on the first Ctrl-C is only noted (see [`pressed`]); the second ends the process.
///
/// To be called before other threads are started.
pub fn note() {
    let set = block();
    let waits = move || {
        if set.wait().is_ok() {
            PRESSED.store(true, Ordering::Relaxed);
        }
        let _ = set.wait();
        process::exit(CODE.into());
    };
    if thread::Builder::new().name("interrupt".into()).spawn(waits).is_err() {
        let _ = set.thread_unblock();
    }
}

/// Whether Ctrl-C was pressed.
pub fn pressed() -> bool {
    PRESSED.load(Ordering::Relaxed)
}

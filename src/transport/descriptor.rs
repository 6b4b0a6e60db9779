//! The descriptor that event loops watch.

use std::{
    io::{self, PipeReader},
    os::fd::{AsFd, BorrowedFd},
    sync::OnceLock,
};

use super::{NoDescriptor, Transport};

/// A pipe whose writing end is closed: always readable.
static END: OnceLock<PipeReader> = OnceLock::new();

/// Makes the descriptor that stands in for that of a backend without one.
pub(super) fn prepare() -> io::Result<()> {
    if END.get().is_none() {
        // (Another thread may have been quicker.)
        let _ = END.set(io::pipe()?.0);
    }
    Ok(())
}

impl Transport {
    /// The one descriptor that an event loop watches for readability, whatever ways to peers the transport has. When it
    /// is readable, or [`next_deadline`](Self::next_deadline) has come, call [`progress`](Self::progress) and receive
    /// messages until it returns 0. (That suits level-triggered and edge-triggered loops.)
    ///
    /// # Errors
    /// The backend has no descriptor: DPDK, whose cards are polled, and the in-process one. The program can poll, or
    /// share a thread with the transport by [`with_progress_thread`](Self::with_progress_thread).
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, NoDescriptor> {
        let none = NoDescriptor(self.backend_name());
        self.driver.backend().as_fd().ok_or(none)
    }
}

/// The [descriptor](Transport::descriptor), for event loops that ask for this trait. A transport without one gives a
/// descriptor that is always readable: a level-triggered loop then polls without sleeping, as such a backend needs.
impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match (self.driver.backend().as_fd(), END.get()) {
            (Some(descriptor), _) => descriptor,
            (None, Some(end)) => end.as_fd(),
            (None, None) => unreachable!("`prepare` was called when this transport was built"),
        }
    }
}

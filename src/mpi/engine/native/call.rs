//! How other threads call the helper thread of a process.

use std::{
    iter,
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{read, write},
};

/// How other threads call the helper thread.
pub(super) struct Call {
    pub(super) wanted: Mutex<Wanted>,
    /// An eventfd, signalled when `wanted` has changed.
    pub(super) bell: OwnedFd,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Wanted {
    pub(super) end: bool,
    /// A task waits for a request.
    pub(super) task: bool,
}

impl Call {
    pub(super) fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.lock());
        self.ring();
    }

    /// Wakes the helper thread.
    pub(super) fn ring(&self) {
        // A write fails only if the counter is full, and then the bell has rung already.
        let _ = write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// A task waits for a request.
    pub(super) fn for_task(&self) {
        self.set(|wanted| wanted.task = true);
    }

    /// Takes what is wanted; a task is reported once.
    pub(super) fn take(&self) -> Wanted {
        let mut wanted = self.lock();
        let taken = *wanted;
        wanted.task = false;
        taken
    }

    /// Sleeps until called, or until one of these is `readable`, for at most `most`.
    pub(super) fn sleep(&self, readable: &[OwnedFd], most: Duration) {
        let timeout = Timespec::try_from(most).ok();
        let all = iter::once(&self.bell).chain(readable);
        let mut fds: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let _ = poll(&mut fds, timeout.as_ref());
        if fds[0].revents().contains(PollFlags::IN) {
            let _ = read(&self.bell, &mut [0_u8; 8]);
        }
    }
}

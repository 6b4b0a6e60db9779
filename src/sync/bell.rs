//! Wakes one thread that sleeps because it has nothing to do, at almost no cost while it is awake.

use std::time::Duration;

use super::primitives::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering, fence},
};

/// A bell by which one thread sleeps, and which other threads ring.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    asleep: AtomicBool,
    bed: Mutex<()>,
    rung: Condvar,
}

impl Bell {
    /// Wakes the thread if it sleeps; to be called after the work for it has been made visible.
    pub(crate) fn ring(&self) {
        // Pairs with the fence in `sleep`: either this thread sees that the other one sleeps, or that one sees the
        // work.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            drop(self.bed());
            self.rung.notify_one();
        }
    }

    /// Sleeps until the bell rings or `timeout` expires, unless there is work already (`anything`). Gives whether there
    /// may be work.
    pub(crate) fn sleep(&self, timeout: Option<Duration>, anything: impl Fn() -> bool) -> bool {
        let bed = self.bed();
        self.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in `ring`.
        fence(Ordering::SeqCst);
        let mut maybe = true;
        if !anything() {
            match timeout {
                None => drop(self.rung.wait(bed).unwrap_or_else(|poisoned| poisoned.into_inner())),
                Some(timeout) => {
                    let slept = self.rung.wait_timeout(bed, timeout);
                    let (bed, result) = slept.unwrap_or_else(|poisoned| poisoned.into_inner());
                    drop(bed);
                    maybe = !result.timed_out() || anything();
                }
            }
        }
        self.asleep.store(false, Ordering::Relaxed);
        maybe
    }

    /// Nothing panics while it holds the lock, so a poisoned lock is as good as any.
    fn bed(&self) -> MutexGuard<'_, ()> {
        self.bed.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

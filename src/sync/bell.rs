//! Wakes one thread that sleeps because there is nothing for it, at no cost while it does not.

use std::time::Duration;

use super::primitives::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering, fence},
};

/// A bell that one thread sleeps by, and that others ring.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    asleep: AtomicBool,
    bed: Mutex<()>,
    rung: Condvar,
}

impl Bell {
    /// Wakes the thread if it sleeps; to be called after what it shall see has been made visible.
    pub(crate) fn ring(&self) {
        // Pairs with the fence in `sleep`: either this sees that it sleeps, or it sees what there is.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            drop(self.bed());
            self.rung.notify_one();
        }
    }

    /// Sleeps until somebody rings or `timeout` is over, unless there is something by now. Gives whether there may be
    /// something.
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

    /// Nothing panics while it has the lock, so a poisoned one is as good as any.
    fn bed(&self) -> MutexGuard<'_, ()> {
        self.bed.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

//! A lock that costs one atomic compare-and-exchange: it is released by a plain store.
//!
//! A locked instruction waits until all stores before it have been seen by other CPUs. In a stream of small messages,
//! those are the messages themselves, so a second one for each call would cost as much as a message. The price of a
//! release without one: the thread that releases may not see a thread that has just begun to wait. That one therefore
//! sleeps for a short time only, and looks again by itself.
#![expect(unsafe_code, reason = "a lock lends what it guards")]

use std::{
    cell::UnsafeCell,
    fmt, hint,
    ops::{Deref, DerefMut},
    time::Duration,
};

use super::primitives::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Looks of a thread that waits before it sleeps.
const LOOKS: u32 = 64;
/// The longest sleep of a thread whose call was not seen.
const SLEEP: Duration = Duration::from_micros(200);

/// See the module's documentation.
pub(crate) struct Lock<T> {
    is_held: AtomicBool,
    /// Threads that wait.
    waiting: AtomicUsize,
    /// Where they sleep.
    bed: Mutex<()>,
    free: Condvar,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time gets at the value.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The lock is held as long as this lives.
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

// SAFETY: as a reference to the value is.
unsafe impl<T: Sync> Sync for Guard<'_, T> {}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            is_held: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            bed: Mutex::new(()),
            free: Condvar::new(),
            value: UnsafeCell::new(value),
        }
    }

    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        // (The guard must not be made, and dropped, in vain.)
        let taken = self
            .is_held
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Guard { lock: self })
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.lock_later())
    }

    /// Returns whether a thread waits for the lock: the one that holds it, and only waits itself, lets go of it.
    #[inline(always)]
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    #[cold]
    fn lock_later(&self) -> Guard<'_, T> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut looks = 0;
        let guard = loop {
            if !self.is_held.load(Ordering::Relaxed)
                && let Some(guard) = self.try_lock()
            {
                break guard;
            }
            looks += 1;
            if looks < LOOKS {
                hint::spin_loop();
                continue;
            }
            let bed = self.bed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if self.is_held.load(Ordering::SeqCst) {
                let _ = self.free.wait_timeout(bed, SLEEP);
            }
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    #[cold]
    fn wake(&self) {
        drop(self.bed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        self.free.notify_one();
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and the value is borrowed through the guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.is_held.store(false, Ordering::Release);
        if self.lock.is_wanted() {
            self.lock.wake();
        }
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("is_held", &self.is_held)
            .finish_non_exhaustive()
    }
}

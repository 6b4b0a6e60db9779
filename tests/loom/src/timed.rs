//! A mutex and a condition variable whose time-outs pass. (Loom's never do.)

use std::time::Duration;

use loom::{
    sync::{self, LockResult},
    thread,
};

/// As much of `std::sync::Mutex` as the sources use.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    guard: sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        Ok(self.take())
    }

    fn take(&self) -> MutexGuard<'_, T> {
        self.guarded(self.0.lock().expect("a thread that panics ends the model"))
    }

    fn guarded<'a>(&'a self, guard: sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard { mutex: self, guard }
    }
}

/// Whether the time was over before a call came.
pub struct WaitTimeoutResult(());

impl WaitTimeoutResult {
    pub fn timed_out(&self) -> bool {
        true
    }
}

/// As much of `std::sync::Condvar` as the sources use.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { mutex, guard } = guard;
        let guard = self.0.wait(guard).expect("a thread that panics ends the model");
        Ok(mutex.guarded(guard))
    }

    /// The time is over when other threads have had a turn: a call is never seen.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let MutexGuard { mutex, guard } = guard;
        drop(guard);
        thread::yield_now();
        Ok((mutex.take(), WaitTimeoutResult(())))
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}

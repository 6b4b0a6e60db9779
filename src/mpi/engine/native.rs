//! The fabric of a real process: a driver, its backend, and the system's ways to sleep.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    io::{read, write},
};

use super::{
    core::Core,
    fabric::{Fabric, FabricError},
};
use crate::{
    messaging::Messenger,
    progress::{Acks, Driver},
    time::Instant,
};

/// Sleeping threads look for themselves at least so often.
const NAP: Duration = Duration::from_millis(50);
/// The same for backends that can not be waited for without the lock.
const SHORT_NAP: Duration = Duration::from_micros(200);
/// Who waits longer than this wants to know whether its peers live.
const PATIENCE: Duration = Duration::from_millis(100);

struct Inner {
    driver: Driver,
    core: Core,
    failure: Option<FabricError>,
    closed: bool,
}

/// See [`Fabric`].
pub(crate) struct Native {
    inner: Mutex<Inner>,
    /// Threads that want the lock: who makes progress lets go of it for them.
    contenders: AtomicUsize,
    /// Threads that sleep without the lock.
    sleepers: AtomicUsize,
    /// Wakes them. `None`: they only nap.
    bell: Option<OwnedFd>,
    /// What tells that something has come; the backend's.
    readable: Option<OwnedFd>,
    /// How long to spin before sleeping; `None`: for ever.
    spin: Option<Duration>,
}

impl Native {
    /// `driver` waits by spinning: sleeping is done here.
    pub(crate) fn new(driver: Driver, core: Core, spin: Option<Duration>) -> Self {
        let readable = driver.backend().as_fd().and_then(|fd| fd.try_clone_to_owned().ok());
        Self {
            inner: Mutex::new(Inner {
                driver,
                core,
                failure: None,
                closed: false,
            }),
            contenders: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok(),
            readable,
            spin,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        match self.inner.try_lock() {
            Ok(guard) => return guard,
            // Who panicked with the lock has left the state as it was between two calls.
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        self.contenders.fetch_add(1, Ordering::Relaxed);
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.contenders.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Lets go of the lock, and wakes those who may wait for what has ended meanwhile.
    fn unlock(&self, inner: MutexGuard<'_, Inner>, before: u64) {
        let ended = inner.core.ended != before;
        drop(inner);
        if ended
            && self.sleepers.load(Ordering::SeqCst) > 0
            && let Some(bell) = &self.bell
        {
            // It can only fail when it has rung already.
            let _ = write(bell, &1_u64.to_ne_bytes());
        }
    }

    /// Sleeps without the lock until something comes, somebody rings, or a deadline.
    fn sleep(&self, mut inner: MutexGuard<'_, Inner>, before: u64) {
        let Some(readable) = &self.readable else {
            // Between threads of one process: the backend's own way, which needs the lock.
            let wait = inner.driver.nap(SHORT_NAP);
            let _ = inner.result(wait);
            self.unlock(inner, before);
            thread::yield_now();
            return;
        };
        let left = inner.driver.time_left();
        let nap = left.map_or(NAP, |left| left.min(NAP));
        // Counted before the lock is let go of: who ends something after that rings.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        self.unlock(inner, before);
        if !nap.is_zero() {
            let (bell, timeout) = (self.bell.as_ref(), Timespec::try_from(nap).ok());
            let mut fds = [
                PollFd::new(readable, PollFlags::IN),
                PollFd::new(bell.unwrap_or(readable), PollFlags::IN),
            ];
            // A signal only makes it look again.
            let _ = poll(&mut fds, timeout.as_ref());
            if let Some(bell) = bell {
                let _ = read(bell, &mut [0_u8; 8]);
            }
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Lets a helper thread make progress when nobody has for `interval`.
    pub(crate) fn assist(self: &Arc<Self>, interval: Duration) -> io::Result<Helper> {
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let thread = thread::Builder::new().name("hikyaku-mpi".into()).spawn({
            let (fabric, end) = (Arc::downgrade(self), Arc::clone(&end));
            move || help(&fabric, &end, interval)
        })?;
        Ok(Helper {
            end,
            thread: Some(thread),
        })
    }
}

impl Inner {
    /// Takes in everything that the driver has.
    fn pump(driver: &mut Driver, core: &mut Core) {
        // First what has come, then what has happened: who has said goodbye has sent all it had to send before.
        let (messenger, now) = driver.parts();
        core.pump(messenger, now);
        if driver.has_event() {
            while let Some(event) = driver.poll_event() {
                let (messenger, now) = driver.parts();
                core.handle_event(messenger, now, event);
            }
            let (messenger, now) = driver.parts();
            core.pump(messenger, now);
        }
    }

    fn transmit(&mut self) {
        if self.core.wants_transmit(self.driver.messenger()) {
            self.driver.transmit_now();
        }
    }

    fn result<T>(&mut self, done: io::Result<T>) -> Result<T, FabricError> {
        done.map_err(|error| {
            self.failure
                .get_or_insert_with(|| FabricError(error.to_string()))
                .clone()
        })
    }

    /// From now on the silence of those who are waited for is noticed.
    fn watch(&mut self) {
        let peers: Vec<_> = self.core.awaited().collect();
        for peer in peers {
            self.driver.watch(peer, true);
        }
    }
}

impl Fabric for Native {
    fn access(&self, f: &mut dyn FnMut(&mut Core, &mut Messenger, Instant)) {
        let mut inner = self.lock();
        let before = inner.core.ended;
        let Inner { driver, core, .. } = &mut *inner;
        let (messenger, now) = driver.parts();
        f(core, messenger, now);
        inner.transmit();
        self.unlock(inner, before);
    }

    fn progress(&self) -> Result<(), FabricError> {
        let mut inner = self.lock();
        let before = inner.core.ended;
        let done = inner.driver.progress(Acks::Later);
        let Inner { driver, core, .. } = &mut *inner;
        Inner::pump(driver, core);
        inner.transmit();
        let result = inner.result(done);
        self.unlock(inner, before);
        result.map(|_| ())
    }

    fn wait(&self, done: &mut dyn FnMut(&mut Core, &mut Messenger, Instant) -> bool) -> Result<(), FabricError> {
        let mut begun = None;
        loop {
            let mut inner = self.lock();
            let before = inner.core.ended;
            let Inner { driver, core, .. } = &mut *inner;
            let mut look = |driver: &mut Driver| {
                Inner::pump(driver, core);
                let (messenger, now) = driver.parts();
                done(core, messenger, now)
            };
            let mut is_done = look(driver);
            let mut wanted = false;
            if !is_done {
                let result = driver.run(self.spin, Acks::Later, |driver| {
                    is_done = look(driver);
                    wanted = self.contenders.load(Ordering::Relaxed) > 0;
                    is_done || wanted
                });
                if let Err(error) = inner.result(result) {
                    self.unlock(inner, before);
                    return Err(error);
                }
            }
            if is_done {
                self.unlock(inner, before);
                return Ok(());
            }
            let now = inner.driver.parts().1;
            if Duration::from_nanos(now.nanos_since(*begun.get_or_insert(now))) > PATIENCE {
                inner.watch();
            }
            if wanted {
                self.unlock(inner, before);
                thread::yield_now();
            } else {
                self.sleep(inner, before);
            }
        }
    }

    fn close(&self, linger: Duration) -> Result<(), FabricError> {
        let mut inner = self.lock();
        if inner.closed {
            return Ok(());
        }
        inner.closed = true;
        let closed = inner.driver.close_all(linger);
        inner.result(closed).map(|_| ())
    }
}

/// A helper thread; it ends with this.
pub(crate) struct Helper {
    end: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        *self.end.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.1.notify_one();
        if let Some(thread) = self.thread.take() {
            // It does not panic, and if it did there would be nothing to do about it here.
            let _ = thread.join();
        }
    }
}

fn help(fabric: &Weak<Native>, end: &(Mutex<bool>, Condvar), interval: Duration) {
    let mut seen = None;
    loop {
        let guard = end.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = end.1.wait_timeout_while(guard, interval, |end| !*end);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
        let Some(fabric) = fabric.upgrade() else { return };
        // Whoever has the lock makes progress.
        let Ok(mut inner) = fabric.inner.try_lock() else {
            continue;
        };
        let before = inner.core.ended;
        if seen == Some(inner.driver.passes()) {
            let done = inner.driver.progress(Acks::Now);
            let Inner { driver, core, .. } = &mut *inner;
            Inner::pump(driver, core);
            inner.transmit();
            if inner.result(done).is_err() {
                return;
            }
        }
        seen = Some(inner.driver.passes());
        fabric.unlock(inner, before);
    }
}

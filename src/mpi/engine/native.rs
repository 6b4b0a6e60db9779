//! The fabric of a real process: a driver, its backend, and the system's ways to sleep.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak,
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
    progress::{Acks, Clock, Driver, WaitPolicy},
    sync::{Sleepers, Ticket},
    time::Instant,
};

/// Sleeping threads look for themselves at least so often.
const NAP: Duration = Duration::from_millis(50);
/// The same for backends that can not be waited for without the lock.
const SHORT_NAP: Duration = Duration::from_micros(200);
/// Who waits longer than this wants to know whether its peers live.
const PATIENCE: Duration = Duration::from_millis(100);

/// Looks whether what is waited for has happened.
type Done<'a> = dyn FnMut(&mut Core, &mut Messenger, Instant) -> bool + 'a;

struct Inner {
    driver: Driver,
    core: Core,
    failure: Option<FabricError>,
    closed: bool,
    /// Threads that sleep without the lock.
    sleepers: Sleepers,
    /// When who only looks has last begun to watch whom it needs.
    watched: Instant,
}

/// See [`Fabric`].
pub(crate) struct Native {
    inner: Mutex<Inner>,
    clock: Clock,
    /// Threads that want the lock: who makes progress lets go of it for them.
    contenders: AtomicUsize,
    /// Wakes them. `None`: they only nap.
    bell: Option<OwnedFd>,
    /// What tells that something has come; the backend's.
    readable: Option<OwnedFd>,
    policy: WaitPolicy,
    /// Calls the helper thread, if there is one.
    helper: OnceLock<Arc<Call>>,
}

impl Native {
    /// `driver` waits by spinning: sleeping is done here.
    pub(crate) fn new(driver: Driver, core: Core, policy: WaitPolicy) -> Self {
        let readable = driver.backend().as_fd().and_then(|fd| fd.try_clone_to_owned().ok());
        Self {
            clock: driver.clock(),
            inner: Mutex::new(Inner {
                driver,
                core,
                failure: None,
                closed: false,
                sleepers: Sleepers::default(),
                watched: Instant::ZERO,
            }),
            contenders: AtomicUsize::new(0),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok(),
            readable,
            policy,
            helper: OnceLock::new(),
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
    fn unlock(&self, mut inner: MutexGuard<'_, Inner>, before: u64) {
        let rings = inner.core.ended != before && inner.sleepers.call();
        self.let_go(inner, rings);
    }

    /// The same, and sleeps from now on.
    fn unlock_to_sleep(&self, mut inner: MutexGuard<'_, Inner>, before: u64) -> Ticket {
        let rings = inner.core.ended != before && inner.sleepers.call();
        let ticket = inner.sleepers.enter();
        self.let_go(inner, rings);
        ticket
    }

    fn let_go(&self, mut inner: MutexGuard<'_, Inner>, rings: bool) {
        let woken = inner.core.take_woken();
        drop(inner);
        for waker in woken {
            waker.wake();
        }
        if rings && let Some(bell) = &self.bell {
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
        let ticket = self.unlock_to_sleep(inner, before);
        if !nap.is_zero() {
            let (bell, timeout) = (self.bell.as_ref(), Timespec::try_from(nap).ok());
            let mut fds = [
                PollFd::new(readable, PollFlags::IN),
                PollFd::new(bell.unwrap_or(readable), PollFlags::IN),
            ];
            // A signal only makes it look again.
            let _ = poll(&mut fds, timeout.as_ref());
        }
        let mut inner = self.lock();
        if inner.sleepers.leave(ticket)
            && let Some(bell) = &self.bell
        {
            let _ = read(bell, &mut [0_u8; 8]);
        }
    }

    /// Lets a helper thread make progress when nobody has for `interval`.
    pub(crate) fn assist(self: &Arc<Self>, interval: Duration) -> io::Result<Helper> {
        let call = Arc::<Call>::default();
        let thread = thread::Builder::new().name("hikyaku-mpi".into()).spawn({
            let (fabric, call) = (Arc::downgrade(self), Arc::clone(&call));
            move || help(&fabric, &call, interval)
        })?;
        let _ = self.helper.set(Arc::clone(&call));
        Ok(Helper {
            call,
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
            // The driver is never used again; what waits is told so, and its memory is its owner's again.
            self.core.abandon(self.driver.messenger());
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
        if inner.failure.is_some() {
            let Inner { driver, core, .. } = &mut *inner;
            core.abandon(driver.messenger());
        } else {
            inner.transmit();
        }
        self.unlock(inner, before);
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn progress(&self) -> Result<(), FabricError> {
        let mut inner = self.lock();
        if let Some(failure) = &inner.failure {
            return Err(failure.clone());
        }
        let before = inner.core.ended;
        let done = inner.driver.progress(Acks::Later);
        let Inner { driver, core, .. } = &mut *inner;
        Inner::pump(driver, core);
        // Who looks again and again waits, too.
        let now = driver.parts().1;
        if Duration::from_nanos(now.nanos_since(inner.watched)) > PATIENCE {
            inner.watched = now;
            inner.watch();
        }
        inner.transmit();
        let result = inner.result(done);
        self.unlock(inner, before);
        result.map(|_| ())
    }

    fn wait(&self, done: &mut Done<'_>) -> Result<(), FabricError> {
        self.wait_by(self.policy, done)
    }

    fn attend(&self) -> bool {
        let Some(call) = self.helper.get() else { return false };
        call.set(|wanted| wanted.task = true);
        true
    }

    fn close(&self, linger: Duration) -> Result<(), FabricError> {
        let mut inner = self.lock();
        if let Some(failure) = &inner.failure {
            return Err(failure.clone());
        }
        if inner.closed {
            return Ok(());
        }
        inner.closed = true;
        let Inner { driver, core, .. } = &mut *inner;
        let (messenger, now) = driver.parts();
        core.refuse_returned(messenger, now);
        let closed = driver.close_all(linger);
        inner.result(closed).map(|_| ())
    }
}

impl Native {
    fn wait_by(&self, policy: WaitPolicy, done: &mut Done<'_>) -> Result<(), FabricError> {
        // Who yields looks once a turn, and lets go of the lock in between.
        let spin = if policy.yields() {
            Some(Duration::ZERO)
        } else {
            policy.spin()
        };
        let mut begun = None;
        loop {
            let mut inner = self.lock();
            let before = inner.core.ended;
            let Inner {
                driver, core, failure, ..
            } = &mut *inner;
            if let Some(failure) = failure {
                let (messenger, now) = driver.parts();
                if done(core, messenger, now) {
                    return Ok(());
                }
                // What it may have begun.
                core.abandon(messenger);
                return Err(failure.clone());
            }
            let mut look = |driver: &mut Driver| {
                Inner::pump(driver, core);
                let (messenger, now) = driver.parts();
                let is_done = done(core, messenger, now);
                if !is_done {
                    core.forget_touched();
                }
                is_done
            };
            let mut is_done = look(driver);
            let mut wanted = false;
            if !is_done {
                let result = driver.run(spin, Acks::Later, |driver| {
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
            let waited = Duration::from_nanos(now.nanos_since(*begun.get_or_insert(now)));
            if waited > PATIENCE {
                inner.watch();
            }
            let yields = policy.yields() && policy.spin().is_none_or(|spin| waited < spin);
            if wanted || yields {
                self.unlock(inner, before);
                thread::yield_now();
            } else {
                self.sleep(inner, before);
            }
        }
    }
}

/// What a helper thread is called for.
#[derive(Default)]
struct Call {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    end: bool,
    /// A task waits for a request.
    task: bool,
}

impl Call {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.lock());
        self.changed.notify_one();
    }
}

/// A helper thread; it ends with this.
pub(crate) struct Helper {
    call: Arc<Call>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.call.set(|wanted| wanted.end = true);
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // It does not panic, and if it did there would be nothing to do about it here.
            let _ = thread.join();
        }
    }
}

fn help(fabric: &Weak<Native>, call: &Call, interval: Duration) {
    let mut seen = None;
    loop {
        let idle = |wanted: &mut Wanted| !wanted.end && !wanted.task;
        let waited = call.changed.wait_timeout_while(call.lock(), interval, idle);
        let (mut wanted, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if wanted.end {
            return;
        }
        let task = std::mem::take(&mut wanted.task);
        drop(wanted);
        let Some(fabric) = fabric.upgrade() else { return };
        let alive = if task {
            fabric.serve(call)
        } else {
            fabric.relieve(&mut seen)
        };
        if !alive {
            return;
        }
    }
}

impl Native {
    /// Makes a pass if nobody has made one since `seen`. False: the network has failed.
    fn relieve(&self, seen: &mut Option<u64>) -> bool {
        // Whoever has the lock makes progress.
        let Ok(mut inner) = self.inner.try_lock() else {
            return true;
        };
        if inner.failure.is_some() {
            return false;
        }
        let before = inner.core.ended;
        if *seen == Some(inner.driver.passes()) {
            let done = inner.driver.progress(Acks::Now);
            let Inner { driver, core, .. } = &mut *inner;
            Inner::pump(driver, core);
            inner.transmit();
            if inner.result(done).is_err() {
                self.unlock(inner, before);
                return false;
            }
        }
        *seen = Some(inner.driver.passes());
        self.unlock(inner, before);
        true
    }

    /// Makes progress as long as tasks wait. False: the network has failed.
    fn serve(&self, call: &Call) -> bool {
        loop {
            let (mut tasks, mut end) = (false, false);
            let waited = self.wait_by(WaitPolicy::Block, &mut |core, _, _| {
                let woken = core.find_woken();
                tasks = core.has_sleepers();
                end = call.lock().end;
                woken || end || !tasks
            });
            if waited.is_err() {
                return false;
            }
            if end || !tasks {
                return true;
            }
        }
    }
}

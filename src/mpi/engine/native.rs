//! The fabric of a real process: a driver, its backend, and the system's ways to sleep.

mod helper;

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    io::{read, write},
};

use self::helper::Call;
pub(crate) use self::helper::Helper;
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

/// Calls that do not read the clock after one that has found that it is too early for a look.
const UNREAD: u8 = 7;

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
    /// Calls within this process that do not read the clock, from now on.
    unread: u8,
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
                unread: 0,
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

    #[inline]
    fn let_go(&self, inner: MutexGuard<'_, Inner>, rings: bool) {
        if rings || inner.core.has_tasks() {
            self.let_go_and_wake(inner, rings);
        }
    }

    #[cold]
    fn let_go_and_wake(&self, mut inner: MutexGuard<'_, Inner>, rings: bool) {
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

    /// Sends and receives what can be sent and received now.
    fn pass(&mut self, acks: Acks) -> Result<(), FabricError> {
        let done = self.driver.progress(acks);
        Self::pump(&mut self.driver, &mut self.core);
        self.transmit();
        self.result(done).map(drop)
    }

    /// The same if nobody has for a while: calls that stay within this process (to its own window, to itself, of what has
    /// ended) let others go on, too. That is by time, not by calls.
    ///
    /// To read the clock costs as much as half of such a call. When a look is not due, calls come faster than looks do, and
    /// the next few of them do not read it. Calls that come slowly always find that a look is due, and read it each time.
    #[inline]
    fn look_if_due(&mut self) {
        if self.unread > 0 {
            self.unread -= 1;
        } else if self.driver.is_due() {
            // A failure is told by the next call that waits.
            let _ = self.pass(Acks::Later);
        } else {
            self.unread = UNREAD;
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
            // What goes to a peer may wait for company: a look would send it alone.
            let stays_within = !inner.core.has_touched();
            inner.transmit();
            if stays_within {
                inner.look_if_due();
            }
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
        let result = inner.pass(Acks::Later);
        // Who looks again and again waits, too.
        let now = inner.driver.parts().1;
        if result.is_ok() && Duration::from_nanos(now.nanos_since(inner.watched)) > PATIENCE {
            inner.watched = now;
            inner.watch();
            inner.transmit();
        }
        self.unlock(inner, before);
        result
    }

    fn wait(&self, done: &mut Done<'_>) -> Result<(), FabricError> {
        self.wait_by(self.policy, done)
    }

    fn attend(&self) -> bool {
        let Some(call) = self.helper.get() else { return false };
        call.for_task();
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
                inner.look_if_due();
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

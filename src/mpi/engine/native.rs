//! The fabric of a real process: a driver, its backend, and the system's ways to sleep.

mod call;
mod claims;
mod helper;
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod here;
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
#[path = "native/here_by_address.rs"]
mod here;
mod lent;
mod short;

use std::{
    eprintln, io, mem,
    net::SocketAddr,
    os::fd::{BorrowedFd, OwnedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    io::{read, write},
};

pub(crate) use self::helper::Helper;
use self::{call::Call, claims::Claims, here::here, lent::Lent};
use super::{
    NETWORK_INSTEAD,
    buffer::Buffer,
    core::{AnyOf, Ended, RequestId},
    fabric::{Fabric, FabricError},
    process::Process,
};
use crate::{
    helper::give_way,
    messaging::{
        Messenger,
        tagged::{Selector, TaggedStats},
    },
    progress::{Acks, Clock, Driver, WaitPolicy},
    reliability::MemoryLayer,
    sync::{Guard, Lock, Sleepers, Ticket},
    time::Instant,
};

/// Longest sleep of a thread that waits without the lock.
const SLEEP: Duration = Duration::from_millis(50);
/// The same for backends that can be waited for only with the lock.
const SHORT_SLEEP: Duration = Duration::from_micros(200);
/// A thread that waits longer than this has the peers that it waits for probed.
const PATIENCE: Duration = Duration::from_millis(100);

/// Number of calls that do not read the clock after one that has found it too early for a look.
const UNREAD: u8 = 7;

/// Calls in a row that are content with what came by a ring in memory; the next one makes a pass, too.
const UNPASSED: u8 = 63;

/// Whether the awaited event has happened.
type Done<'a> = dyn FnMut(&mut Process, &mut Messenger, Instant) -> bool + 'a;

struct Inner {
    driver: Driver,
    core: Process,
    failure: Option<FabricError>,
    closed: bool,
    /// Threads that sleep without the lock.
    sleepers: Sleepers,
    /// When a caller that only polls has last begun to watch the peers that it needs.
    watched: Instant,
    callers: Callers,
    /// Short messages may go by rings in memory.
    short: bool,
    /// And nothing was out of the ordinary when that was looked at; only calls of `short` have been made since.
    calm: bool,
    /// Calls in a row that made no pass.
    unpassed: u8,
    /// Since the last pass, this process has not made room in its ring though it was waited for.
    stuck: Option<u32>,
    /// The helper thread listens to the network.
    helper_listens: bool,
    /// Messages that were probed for, and are not received yet.
    claims: Claims,
    /// The communicator of requests.
    lent: Lent,
}

/// The threads of the program that have called so far.
enum Callers {
    /// This one alone, see [`here()`].
    One(usize),
    Several,
}

impl Callers {
    /// The calling thread has called, too.
    #[inline(always)]
    fn note(&mut self) {
        if matches!(self, Self::One(caller) if *caller != here()) {
            *self = Self::Several;
        }
    }
}

/// See [`Fabric`].
pub(crate) struct Native {
    inner: Lock<Inner>,
    clock: Clock,
    /// Number of calls within this process from now on that do not read the clock.
    unread: AtomicU8,
    /// An eventfd that wakes sleeping threads. `None`: they sleep for short times only.
    bell: Option<OwnedFd>,
    /// The backend's descriptors, of which one is readable when a datagram has come. None: it has its own way to wait.
    readable: Arc<[OwnedFd]>,
    policy: WaitPolicy,
    /// Calls the helper thread, if there is one.
    helper: OnceLock<Arc<Call>>,
}

impl Native {
    /// `driver` must not sleep when it waits: sleeping is done here.
    pub(crate) fn new(driver: Driver, core: Process, policy: WaitPolicy) -> Self {
        let descriptors = driver.backend().descriptors();
        let own: io::Result<Vec<OwnedFd>> = descriptors.iter().map(BorrowedFd::try_clone_to_owned).collect();
        let readable = own.unwrap_or_default().into();
        Self {
            clock: driver.clock(),
            inner: Lock::new(Inner {
                short: takes_short(&driver),
                calm: false,
                driver,
                core,
                failure: None,
                closed: false,
                sleepers: Sleepers::default(),
                watched: Instant::ZERO,
                callers: Callers::One(here()),
                unpassed: 0,
                stuck: None,
                helper_listens: false,
                claims: Claims::default(),
                lent: Lent::default(),
            }),
            unread: AtomicU8::new(0),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok(),
            readable,
            policy,
            helper: OnceLock::new(),
        }
    }

    /// Returns whether a thread that waits yields its core to others.
    pub(crate) fn yields(&self) -> bool {
        self.policy.yields()
    }

    #[inline]
    fn lock(&self) -> Guard<'_, Inner> {
        let mut inner = self.inner.lock();
        inner.enter();
        inner
    }

    /// A program whose calls stay within this process (to its own window, to itself, about requests that have not ended)
    /// lets other processes go on, too, by [`look_if_due`](Self::look_if_due): by time, not by the number of calls.
    ///
    /// Reading the clock costs as much as half of such a call. When a look is not due, calls come faster than looks do,
    /// so the next few of them do not read it. Calls that come slowly always find that a look is due, and read it each
    /// time.
    #[inline]
    fn skips_look(&self) -> bool {
        // Threads that lose a step of each other's count read the clock earlier or later.
        let unread = self.unread.load(Ordering::Relaxed);
        if unread > 0 {
            self.unread.store(unread - 1, Ordering::Relaxed);
        }
        unread > 0
    }

    /// Sends and receives if no thread has done so for a while. (A function by itself: `cargo xtask callgrind` leaves it
    /// out.)
    #[inline(never)]
    fn look_if_due(&self, inner: &mut Inner) {
        if inner.failure.is_some() {
            return;
        }
        if inner.driver.is_due() {
            // The next call that waits reports a failure.
            let _ = inner.pass(Acks::Later);
        } else {
            self.unread.store(UNREAD, Ordering::Relaxed);
        }
    }

    /// Releases the lock, and wakes threads and tasks that may wait for requests that have ended since `before`, and
    /// processes that wait for what was said to them.
    fn unlock(&self, mut inner: Guard<'_, Inner>, before: u64) {
        if inner.core.tagged.take_wakes() {
            inner.driver.transmit_now();
        }
        let rings = inner.core.ended != before && inner.sleepers.call();
        self.let_go(inner, rings);
    }

    /// The same, and counts this thread as asleep from now on.
    fn unlock_to_sleep(&self, mut inner: Guard<'_, Inner>, before: u64) -> Ticket {
        let rings = inner.core.ended != before && inner.sleepers.call();
        let ticket = inner.sleepers.enter();
        self.let_go(inner, rings);
        ticket
    }

    #[inline]
    fn let_go(&self, inner: Guard<'_, Inner>, rings: bool) {
        if rings || inner.core.has_tasks() {
            self.let_go_and_wake(inner, rings);
        }
    }

    #[cold]
    fn let_go_and_wake(&self, mut inner: Guard<'_, Inner>, rings: bool) {
        let woken = inner.core.take_woken();
        drop(inner);
        for waker in woken {
            waker.wake();
        }
        if rings && let Some(bell) = &self.bell {
            // A write fails only if the counter is full, and then the bell has rung already.
            let _ = write(bell, &1_u64.to_ne_bytes());
        }
    }

    /// Sleeps without the lock until a datagram comes, the bell rings, or a deadline expires.
    fn sleep(&self, mut inner: Guard<'_, Inner>, before: u64) {
        if self.readable.is_empty() {
            // Such a backend's own way to wait needs the lock.
            let wait = inner.driver.sleep_at_most(SHORT_SLEEP);
            let _ = inner.result(wait);
            self.unlock(inner, before);
            thread::yield_now();
            return;
        }
        let sleep = match inner.driver.messenger_mut().set_asleep(true) {
            true => inner.driver.time_left().map_or(SLEEP, |left| left.min(SLEEP)),
            false => Duration::ZERO,
        };
        let ticket = self.unlock_to_sleep(inner, before);
        if !sleep.is_zero() {
            let timeout = Timespec::try_from(sleep).ok();
            let all = self.readable.iter().chain(&self.bell);
            let mut fds: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            // A signal only makes the caller look again.
            let _ = poll(&mut fds, timeout.as_ref());
        }
        let mut inner = self.lock();
        if inner.sleepers.leave(ticket)
            && let Some(bell) = &self.bell
        {
            let _ = read(bell, &mut [0_u8; 8]);
        }
        if !inner.sleepers.any() {
            inner.driver.messenger_mut().set_asleep(false);
        }
    }
}

impl Inner {
    /// A call begins that is none of `short`.
    #[inline]
    fn enter(&mut self) {
        self.calm = false;
        self.core.unpark();
    }

    /// Takes in everything that the driver has.
    fn pump(driver: &mut Driver, core: &mut Process) {
        // Messages before events: a peer that has said goodbye has sent all its messages before.
        let (messenger, now, datagram) = driver.parts_in_place();
        core.pump_in_place(messenger, now, datagram);
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
        self.stuck = None;
        self.calm = false;
        let done = self.driver.progress(acks);
        Self::pump(&mut self.driver, &mut self.core);
        self.transmit();
        self.result(done).map(drop)
    }

    /// A pass of a caller that polls.
    fn poll(&mut self) -> Result<(), FabricError> {
        self.unpassed = 0;
        let result = self.pass(Acks::Later);
        // A caller that polls again and again waits, too.
        let now = self.driver.parts().1;
        if result.is_ok() && Duration::from_nanos(now.nanos_since(self.watched)) > PATIENCE {
            self.watched = now;
            self.watch();
            self.transmit();
        }
        result
    }

    #[inline]
    fn transmit(&mut self) {
        if self.core.wants_transmit(self.driver.messenger()) {
            self.driver.transmit_now();
        }
    }

    fn result<T>(&mut self, done: io::Result<T>) -> Result<T, FabricError> {
        done.map_err(|error| {
            // The driver is never used again: requests are forgotten, and their memory belongs to the caller again.
            self.short = false;
            self.core.abandon(self.driver.messenger_mut());
            self.failure
                .get_or_insert_with(|| FabricError(error.to_string()))
                .clone()
        })
    }

    /// From now on the silence of awaited peers is noticed.
    fn watch(&mut self) {
        let peers: Vec<_> = self.core.awaited().collect();
        for peer in peers {
            self.driver.watch(peer, true);
        }
    }
}

/// Tells the backend of processes. Gives the reason why one of this host is reached over the network, if this process is
/// the one to say so.
fn introduce(driver: &mut Driver, processes: &[(SocketAddr, &[u8])]) -> io::Result<Option<String>> {
    let Some(neighbours) = driver.neighbours() else {
        return Ok(None);
    };
    for (address, link) in processes {
        neighbours.introduce(*address, link)?;
    }
    Ok(neighbours.meet()?.obstacle)
}

impl Fabric for Native {
    fn introduce(
        &self,
        processes: &[(SocketAddr, &[u8])],
        f: &mut dyn FnMut(&mut Process, &mut Messenger, Instant),
    ) -> bool {
        let mut inner = self.lock();
        let before = inner.core.ended;
        let met = introduce(&mut inner.driver, processes);
        if met.is_ok() {
            // In one with the introduction: a packet of a process that is no peer yet would be lost.
            let Inner { driver, core, .. } = &mut *inner;
            let (messenger, now) = driver.parts();
            f(core, messenger, now);
        }
        self.unlock(inner, before);
        match &met {
            Ok(Some(obstacle)) => eprintln!("hikyaku: {NETWORK_INSTEAD}: {obstacle}"),
            Ok(None) => {}
            Err(error) => eprintln!("hikyaku: a spawned process cannot be reached: {error}"),
        }
        self.access(&mut |_, _, _| ());
        met.is_ok()
    }

    fn access(&self, f: &mut dyn FnMut(&mut Process, &mut Messenger, Instant)) {
        let mut inner = self.lock();
        inner.callers.note();
        let before = inner.core.ended;
        let Inner { driver, core, .. } = &mut *inner;
        let (messenger, now) = driver.parts();
        f(core, messenger, now);
        if inner.failure.is_some() {
            let Inner { driver, core, .. } = &mut *inner;
            core.abandon(driver.messenger_mut());
        } else {
            inner.transmit();
        }
        self.unlock(inner, before);
    }

    fn leave(&self) {
        self.access(&mut |core, messenger, now| core.leave(messenger, now));
        // A peer that opens a session because of that is told.
        let mut inner = self.lock();
        let before = inner.core.ended;
        if let Some(neighbours) = inner.driver.neighbours() {
            neighbours.leave();
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
        self.take_over(&mut inner.helper_listens);
        let result = inner.poll();
        self.unlock(inner, before);
        result
    }

    fn receive(
        &self,
        selector: &Selector,
        buffer: Buffer,
        any_of: Option<AnyOf>,
        is_checked: bool,
    ) -> Option<Result<Ended, RequestId>> {
        let mut inner = self.lock();
        if inner.failure.is_some() {
            return None;
        }
        inner.callers.note();
        let before = inner.core.ended;
        let Inner { driver, core, .. } = &mut *inner;
        let (messenger, now) = driver.parts();
        let begun = core.receive(messenger, now, *selector, buffer, any_of, |ended| {
            ended.is_well() && !is_checked
        });
        inner.transmit();
        self.unlock(inner, before);
        Some(begun)
    }

    fn test(&self, id: RequestId) -> Result<Option<Ended>, FabricError> {
        let mut inner = self.lock();
        let before = inner.core.ended;
        let mut ended = inner.core.take(id);
        if ended.is_none() {
            if let Some(failure) = &inner.failure {
                return Err(failure.clone());
            }
            self.take_over(&mut inner.helper_listens);
            let result = inner.poll();
            ended = inner.core.take(id);
            if let (Err(error), None) = (result, &ended) {
                self.unlock(inner, before);
                return Err(error);
            }
        }
        self.unlock(inner, before);
        Ok(ended)
    }

    #[inline]
    fn stayed(&self) {
        if !self.skips_look() {
            let mut inner = self.lock();
            let before = inner.core.ended;
            self.look_if_due(&mut inner);
            self.unlock(inner, before);
        }
    }

    fn wait(&self, done: &mut Done<'_>) -> Result<(), FabricError> {
        self.wait_by(self.policy, done)
    }

    fn is_native(&self) -> bool {
        true
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
        inner.short = false;
        let Inner { driver, core, .. } = &mut *inner;
        let (messenger, now) = driver.parts();
        core.refuse_returned(messenger, now);
        let ends = driver.close_all();
        let closed = driver.wait_ended(ends, Some(linger));
        driver.write_report(Some(("messages", &counters(core.stats()))));
        inner.result(closed).map(|_| ())
    }
}

/// Returns whether short messages may go by rings in memory.
pub(super) fn takes_short(driver: &Driver) -> bool {
    let memory = driver.messenger().layer().memory();
    memory.is_some_and(MemoryLayer::takes_short)
}

/// All counters of messages, by name.
fn counters(stats: TaggedStats) -> [(&'static str, u64); 8] {
    macro_rules! counters {
        ($($field:ident,)*) => {{
            let TaggedStats { $($field,)* } = stats;
            [$((stringify!($field), $field),)*]
        }};
    }
    counters! {
        eager,
        rendezvous,
        converted,
        crossed,
        unexpected,
        unexpected_bytes,
        unexpected_peak,
        malformed,
    }
}

impl Native {
    /// The program makes progress from now on: a helper thread that `listens` is told so. Otherwise the system would
    /// wake it for each datagram, and mostly put it back to sleep in vain, as the program has received it by then.
    #[inline]
    fn take_over(&self, listens: &mut bool) {
        if mem::take(listens)
            && let Some(call) = self.helper.get()
        {
            call.ring();
        }
    }

    fn wait_by(&self, policy: WaitPolicy, done: &mut Done<'_>) -> Result<(), FabricError> {
        // A thread that yields looks once a turn, and releases the lock in between.
        let mut spin = policy.spin();
        let mut begun = None;
        loop {
            let mut inner = self.lock();
            let before = inner.core.ended;
            let Inner {
                driver,
                core,
                failure,
                callers,
                helper_listens,
                unpassed,
                ..
            } = &mut *inner;
            callers.note();
            *unpassed = if *helper_listens { UNPASSED } else { 0 };
            let sole_caller = matches!(callers, Callers::One(_));
            if let Some(failure) = failure {
                let (messenger, now) = driver.parts();
                if done(core, messenger, now) {
                    return Ok(());
                }
                // Ends what `done` may have begun.
                core.abandon(messenger);
                return Err(failure.clone());
            }
            let mut look = |driver: &mut Driver| {
                Inner::pump(driver, core);
                let (messenger, now) = driver.parts();
                let is_done = core.while_waiting(sole_caller, |core| done(core, messenger, now));
                if !is_done {
                    core.forget_touched();
                }
                is_done
            };
            let mut is_done = look(driver);
            let mut wanted = false;
            if !is_done {
                self.take_over(helper_listens);
                let result = driver.run(spin, Acks::Later, |driver| {
                    is_done = look(driver);
                    wanted = self.inner.is_wanted();
                    is_done || wanted
                });
                if let Err(error) = inner.result(result) {
                    self.unlock(inner, before);
                    return Err(error);
                }
            }
            if is_done {
                if !self.skips_look() {
                    self.look_if_due(&mut inner);
                }
                self.unlock(inner, before);
                return Ok(());
            }
            let now = inner.driver.parts().1;
            let waited = Duration::from_nanos(now.nanos_since(*begun.get_or_insert(now)));
            if waited > PATIENCE {
                inner.watch();
            }
            if waited < policy.turns() {
                self.unlock(inner, before);
                give_way();
                spin = Some(Duration::ZERO);
            } else if wanted {
                self.unlock(inner, before);
                thread::yield_now();
            } else {
                self.sleep(inner, before);
                spin = policy.spin();
            }
        }
    }
}

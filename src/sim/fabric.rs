#![expect(
    unsafe_code,
    reason = "a waiting program says what it waits for by a pointer to its stack; one thread needs no lock"
)]
//! The fabric of a simulated process: a process that waits lets the others run.

use std::{
    cell::{Cell, RefCell, RefMut},
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
    time::Duration,
};

use super::{
    condition::Condition,
    coroutine::{Computes, runs, suspend},
    heap,
    node::Node,
    scheduler::Scheduler,
};
use crate::{
    messaging::Messenger,
    mpi::engine::{CallNote, Fabric, FabricError, Process},
    time::{Instant, nanos},
};

/// The state of a simulation. While the simulation runs, one thread owns it without a lock; afterwards every holder of
/// an engine takes a lock.
#[derive(Clone)]
pub(super) struct Shared(Arc<Home>);

struct Home {
    /// The thread that runs the simulation; 0: it is over.
    thread: AtomicU64,
    lock: Mutex<()>,
    scheduler: RefCell<Scheduler>,
}

// SAFETY: `Shared::lock` is the only way to `scheduler`: for one thread until `Shared::end`, then for the holder of `lock`.
// The store in `end` and the load in `lock` are a release and an acquire.
unsafe impl Sync for Home where Scheduler: Send {}

/// Exclusive access to the state.
pub(super) struct Guard<'a> {
    scheduler: RefMut<'a, Scheduler>,
    _lock: Option<MutexGuard<'a, ()>>,
}

impl Deref for Guard<'_> {
    type Target = Scheduler;

    #[inline]
    fn deref(&self) -> &Scheduler {
        &self.scheduler
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }
}

/// A number of this thread, from 1, that no other thread ever has.
#[inline]
fn thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local!(static OWN: Cell<u64> = const { Cell::new(0) });
    OWN.with(|own| {
        if own.get() == 0 {
            own.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        own.get()
    })
}

impl Shared {
    /// A simulation that runs in this thread.
    pub(super) fn new(scheduler: Scheduler) -> Self {
        Self(Arc::new(Home {
            thread: AtomicU64::new(thread()),
            lock: Mutex::default(),
            scheduler: RefCell::new(scheduler),
        }))
    }

    /// A number that no other running simulation has.
    pub(super) fn home(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// The simulation is over.
    pub(super) fn end(&self) {
        self.0.thread.store(0, Ordering::Release);
    }

    /// # Panics
    /// When called in another thread while the simulation runs, or within an operation that is applied in this one.
    #[inline]
    pub(super) fn lock(&self) -> Guard<'_> {
        heap::go_on();
        let lock = match self.0.thread.load(Ordering::Acquire) {
            0 => Some(self.0.lock.lock().unwrap_or_else(PoisonError::into_inner)),
            own => {
                assert!(own == thread(), "only the thread of a simulation may use its processes");
                None
            }
        };
        Guard {
            scheduler: self
                .0
                .scheduler
                .try_borrow_mut()
                .expect("in a simulation operations of reductions call nothing of MPI, nor its clock"),
            _lock: lock,
        }
    }
}

const OWN_PROGRAM: &str = "a simulated process can only wait in its own program, while the simulation runs";

/// See [`Fabric`].
pub(super) struct Simulated {
    pub(super) shared: Shared,
    pub(super) index: u32,
    /// Its deadlines are not handled while its program computes.
    pub(super) polls: bool,
    /// Processes of a host.
    pub(super) per_host: u32,
    /// Number of calls that have stayed within the process.
    pub(super) stays: AtomicU64,
}

/// After this many calls within a process, which take no virtual time, it looks at the network, which takes some.
const STAYS: u64 = 32;

impl Simulated {
    /// The program does something else for so long.
    fn away(&self, delay: Duration) -> Result<(), FabricError> {
        let mut scheduler = self.shared.lock();
        loop {
            if let Some(failure) = &scheduler.failure {
                return Err(failure.clone());
            }
            self.check_place(&mut scheduler)?;
            self.node(&mut scheduler).pump();
            scheduler.transmit(self.index);
            let (again, woken) = self.wake_first(scheduler);
            scheduler = again;
            if !woken {
                break;
            }
        }
        scheduler.leave(self.index, delay);
        self.suspend(scheduler)?;
        if self.polls {
            self.keep_deadlines();
        }
        Ok(())
    }

    fn node<'a>(&self, scheduler: &'a mut Scheduler) -> &'a mut Node {
        &mut scheduler.nodes[self.index as usize]
    }

    /// Releases the lock, and wakes the tasks that may go on.
    #[inline(always)]
    fn unlock(&self, mut scheduler: Guard<'_>) {
        if self.node(&mut scheduler).core.has_tasks() || !scheduler.wakers.is_empty() {
            self.wake(scheduler);
        }
    }

    #[cold]
    fn wake(&self, mut scheduler: Guard<'_>) {
        let woken = self.take_woken(&mut scheduler);
        drop(scheduler);
        woken.into_iter().for_each(Waker::wake);
    }

    fn take_woken(&self, scheduler: &mut Scheduler) -> Vec<Waker> {
        let mut woken = self.node(scheduler).core.take_woken();
        woken.append(&mut scheduler.wakers);
        woken
    }

    /// Wakes the tasks that may go on before the program waits, since they may do anything. Gives whether there were
    /// some.
    #[inline]
    fn wake_first<'a>(&'a self, mut scheduler: Guard<'a>) -> (Guard<'a>, bool) {
        if !self.node(&mut scheduler).core.has_tasks() && scheduler.wakers.is_empty() {
            return (scheduler, false);
        }
        let woken = self.take_woken(&mut scheduler);
        if woken.is_empty() {
            return (scheduler, false);
        }
        drop(scheduler);
        woken.into_iter().for_each(Waker::wake);
        (self.shared.lock(), true)
    }

    /// Handles deadlines that became due while the program computed: it may compute again before they are scheduled.
    fn keep_deadlines(&self) {
        let mut scheduler = self.shared.lock();
        if scheduler.failure.is_some() {
            return;
        }
        let node = self.node(&mut scheduler);
        let now = node.now();
        if node.messenger.poll_timeout().is_some_and(|at| at <= now) {
            node.messenger.handle_timeout(now);
            node.pump();
        }
        self.unlock(scheduler);
    }

    /// Only a process's own program can wait for it. Otherwise the simulation has failed: the caller takes back the
    /// memory that was lent, so nothing may refer to it any more.
    #[inline]
    fn check_place(&self, scheduler: &mut Scheduler) -> Result<(), FabricError> {
        match runs(self.shared.home(), self.index) {
            true => Ok(()),
            false => Err(self.misplaced(scheduler)),
        }
    }

    #[cold]
    fn misplaced(&self, scheduler: &mut Scheduler) -> FabricError {
        let why = FabricError(OWN_PROGRAM.into());
        scheduler.misplaced.get_or_insert(self.index);
        scheduler.fail(why.clone());
        why
    }

    /// Lets the others run until this node is resumed.
    fn suspend(&self, scheduler: Guard<'_>) -> Result<(), FabricError> {
        drop(scheduler);
        let here = 0_u8;
        heap::suspend_at(std::hint::black_box(&raw const here));
        if suspend() {
            return Ok(());
        }
        // (Checked before waiting, so not reached.)
        Err(FabricError(OWN_PROGRAM.into()))
    }

    /// Waits until `done` gives true, at most until `end`. Gives whether it did; `done` is not called again after that.
    fn wait_until(&self, end: Option<u64>, done: &mut dyn FnMut(&mut Node) -> bool) -> Result<bool, FabricError> {
        let mut scheduler = self.shared.lock();
        loop {
            let failure = scheduler.failure.clone();
            let node = self.node(&mut scheduler);
            if failure.is_none() {
                node.pump();
            }
            // Queued packets go when the program waits, computes or ends, and no time passes before.
            if done(node) {
                self.unlock(scheduler);
                return Ok(true);
            }
            if let Some(failure) = failure {
                // Ends what `done` may have begun.
                node.core.abandon(&mut node.messenger);
                return Err(failure);
            }
            node.core.forget_touched();
            scheduler.watch(self.index);
            if scheduler.push_out(self.index, done) {
                self.unlock(scheduler);
                return Ok(true);
            }
            if end.is_some_and(|end| end <= self.node(&mut scheduler).local) {
                self.unlock(scheduler);
                return Ok(false);
            }
            let (again, woken) = self.wake_first(scheduler);
            scheduler = again;
            if woken {
                continue;
            }
            self.check_place(&mut scheduler)?;
            // SAFETY: it is taken back below as soon as the program is resumed, which does nothing before that.
            let condition = unsafe { Condition::new(done) };
            scheduler.wait(self.index, end, condition);
            let suspended = self.suspend(scheduler);
            scheduler = self.shared.lock();
            let condition = self.node(&mut scheduler).condition.take();
            suspended?;
            if condition.is_none() {
                // The condition was met, and must not be evaluated again.
                self.unlock(scheduler);
                return Ok(true);
            }
        }
    }
}

impl Fabric for Simulated {
    fn access(&self, f: &mut dyn FnMut(&mut Process, &mut Messenger, Instant)) {
        let mut scheduler = self.shared.lock();
        let failed = scheduler.failure.is_some();
        let node = self.node(&mut scheduler);
        let now = node.now();
        f(&mut node.core, &mut node.messenger, now);
        if failed {
            node.core.abandon(&mut node.messenger);
        } else if node.core.wants_transmit(&node.messenger) {
            scheduler.transmit(self.index);
        }
        self.unlock(scheduler);
    }

    fn now(&self) -> Instant {
        self.node(&mut self.shared.lock()).now()
    }

    fn progress(&self) -> Result<(), FabricError> {
        let look = self.shared.lock().cpu.look;
        self.away(Duration::from_nanos(look.round() as u64))?;
        let mut scheduler = self.shared.lock();
        if let Some(failure) = &scheduler.failure {
            return Err(failure.clone());
        }
        self.node(&mut scheduler).pump();
        scheduler.watch(self.index);
        scheduler.transmit(self.index);
        self.unlock(scheduler);
        Ok(())
    }

    fn wait(&self, done: &mut dyn FnMut(&mut Process, &mut Messenger, Instant) -> bool) -> Result<(), FabricError> {
        self.wait_until(None, &mut |node| {
            let now = node.now();
            let messenger = &mut node.messenger;
            node.core.while_waiting(true, |core| done(core, messenger, now))
        })
        .map(|_| ())
    }

    fn stayed(&self) {
        if (self.stays.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(STAYS) {
            // The next call that waits reports a failure.
            let _ = self.progress();
        }
    }

    fn attend(&self) -> bool {
        // The scheduler wakes tasks.
        true
    }

    fn host_of(&self, process: u32) -> Option<u32> {
        Some(process / self.per_host)
    }

    fn takes_notes(&self) -> bool {
        true
    }

    fn note(&self, call: Option<CallNote>) {
        let mut scheduler = self.shared.lock();
        let node = self.node(&mut scheduler);
        node.call = call.map(|call| (node.local, call));
    }

    fn close(&self, linger: Duration) -> Result<(), FabricError> {
        let mut scheduler = self.shared.lock();
        if let Some(failure) = &scheduler.failure {
            return Err(failure.clone());
        }
        let done = scheduler.close(self.index);
        let end = self.node(&mut scheduler).local.saturating_add(nanos(linger));
        drop(scheduler);
        self.wait_until(Some(end), &mut |node| node.ended_sessions >= done)?;
        Ok(())
    }
}

impl Computes for Simulated {
    fn compute(&self, time: Duration) -> Result<(), FabricError> {
        self.note(None);
        self.away(time)
    }
}

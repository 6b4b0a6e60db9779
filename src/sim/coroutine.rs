#![expect(
    unsafe_code,
    reason = "a program is suspended from inside of it, through a pointer to its coroutine"
)]
//! Programs that can be suspended anywhere: stackful coroutines.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    fmt, io,
    mem::ManuallyDrop,
    ptr::NonNull,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use corosensei::{
    Coroutine, CoroutineResult, Yielder,
    stack::{DefaultStack, Stack},
};

use super::heap;
use crate::mpi::engine::{Engine, FabricError};

type Suspender = Yielder<(), ()>;

/// A process whose program may compute in virtual time.
pub(super) trait Computes {
    /// Lets `time` pass as if the program computed without calling MPI.
    fn compute(&self, time: Duration) -> Result<(), FabricError>;
}

/// A simulated rank, as seen from its own program.
pub struct Rank {
    engine: Arc<Engine>,
    process: Arc<dyn Computes>,
    home: usize,
    host: u32,
    incarnation: u32,
    own: RefCell<Option<Rc<dyn Any>>>,
    suspender: Cell<Option<NonNull<Suspender>>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Rank>>> = const { RefCell::new(None) };
}

impl Rank {
    /// The rank whose program calls this; `None` outside of a simulation.
    #[must_use]
    pub fn current() -> Option<Rc<Self>> {
        CURRENT.with_borrow(Option::clone)
    }

    /// MPI of this rank.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(super) fn compute(&self, time: Duration) -> Result<(), FabricError> {
        self.process.compute(time)
    }

    /// The number of its host, from 0: see [`Network::per_host`](super::Network::per_host).
    #[must_use]
    pub fn host(&self) -> u32 {
        self.host
    }

    /// Number of earlier crashes of this process.
    #[must_use]
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Data that a library keeps for this rank, as it would natively keep them for the process. There is one place: a
    /// caller that asks for another type than the first caller gets a new value each time.
    pub fn own<T: Default + 'static>(&self) -> Rc<T> {
        let mut own = self.own.borrow_mut();
        if let Some(known) = own.clone()
            && let Ok(known) = known.downcast()
        {
            return known;
        }
        let new = Rc::<T>::default();
        if own.is_none() {
            *own = Some(Rc::clone(&new) as Rc<dyn Any>);
        }
        new
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            engine,
            host,
            incarnation,
            ..
        } = self;
        f.debug_struct("Rank")
            .field("engine", engine)
            .field("host", host)
            .field("incarnation", incarnation)
            .finish_non_exhaustive()
    }
}

/// Whether this thread runs the program of this process, in the simulation with this [`Place::home`].
#[inline]
pub(super) fn runs(home: usize, process: u32) -> bool {
    CURRENT.with_borrow(|rank| {
        let rank = rank.as_ref();
        rank.is_some_and(|rank| rank.home == home && rank.engine.process() == process)
    })
}

/// Where a program runs.
pub(super) struct Place {
    /// A number that no other running simulation has.
    pub(super) home: usize,
    pub(super) host: u32,
    pub(super) incarnation: u32,
}

/// Switches to the scheduler; returns when it resumes this program. False: the caller is not a program of a simulation.
pub(super) fn suspend() -> bool {
    let Some(rank) = Rank::current() else { return false };
    let Some(suspender) = rank.suspender.get() else {
        return false;
    };
    drop(rank);
    // SAFETY: the pointer is to the argument of the coroutine's function, which is on its stack as long as it runs, and
    // it runs: `CURRENT` is set only between `Program::resume`'s switch to it and the switch back, on this very thread.
    unsafe { suspender.as_ref() }.suspend(());
    true
}

/// The program of a rank.
pub(super) struct Program {
    coroutine: ManuallyDrop<Coroutine<(), (), (), DefaultStack>>,
    rank: Rc<Rank>,
}

impl Program {
    /// It starts with the first [`resume`](Self::resume). It may never end, so it owns all it uses.
    pub(super) fn new(
        stack: usize,
        (engine, process): (Arc<Engine>, Arc<dyn Computes>),
        Place {
            home,
            host,
            incarnation,
        }: Place,
        body: impl FnOnce(&Arc<Engine>) + 'static,
    ) -> io::Result<Self> {
        let rank = Rc::new(Rank {
            engine,
            process,
            home,
            host,
            incarnation,
            own: RefCell::new(None),
            suspender: Cell::new(None),
        });
        let own = Rc::downgrade(&rank);
        let body = move |suspender: &Suspender, ()| {
            let Some(rank) = own.upgrade() else { return };
            rank.suspender.set(Some(NonNull::from(suspender)));
            body(&rank.engine);
        };
        let stack = DefaultStack::new(stack)?;
        heap::begin_at(stack.base().get());
        let coroutine = ManuallyDrop::new(Coroutine::with_stack(stack, body));
        Ok(Self { coroutine, rank })
    }

    /// Runs the program until it is suspended or over. Gives whether it is over.
    ///
    /// # Panics
    /// With the panic of the program.
    pub(super) fn resume(&mut self) -> bool {
        let _restore = Restore(CURRENT.replace(Some(Rc::clone(&self.rank))));
        matches!(self.coroutine.resume(()), CoroutineResult::Return(()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A suspended program is never ended from outside. Unwinding it from where it waits would be sound for the
        // engine, which has given up its memory by then, but not for its callers: they may rely on waits that return
        // (`hikyaku-mpi` ends the process if one does not, as it could not validate received data). A wait that
        // returned an error would let a crashed process go on. Nor can the stack be freed alone: safe code may rely on
        // values that are pinned there, or borrowed by a scope's threads, until they are dropped. So the program is
        // never resumed, and its stack stays.
        if !self.coroutine.started() || self.coroutine.done() {
            // SAFETY: it is not used any more.
            unsafe { ManuallyDrop::drop(&mut self.coroutine) };
        }
    }
}

/// Restores the previous `CURRENT`.
struct Restore(Option<Rc<Rank>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

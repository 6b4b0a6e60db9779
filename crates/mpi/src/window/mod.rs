#![expect(unsafe_code, reason = "memory that others write is lent to the program")]
//! Windows: memory of each process that the others read and write without its help (MPI 12). Not in rsmpi.
//!
//! A [`Window`] has a number of elements of a type at each process of a communicator. Operations on the window of
//! another process belong to an *epoch*, which is a call with a closure: between two [fences](Window::fence) that all
//! processes call, while the target is [locked](Window::lock), or from [`start`](Window::start) to its end, on the
//! windows of processes that have [posted](Window::post) them. A process sees its own elements only through a
//! [guard](Window::local), or by reading from itself. Processes of one host can have a [`SharedWindow`] instead, whose
//! elements each of them sees where they are.
//!
//! ```
//! use mpi::{collective::SystemOperation, traits::*, window::{LockKind, Window}};
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let mut window = Window::<u64>::allocate(&world, 4)?;
//! let next = (world.rank() + 1) % world.size();
//!
//! // All at once.
//! let news = [1, 2, 3];
//! window.fence(|epoch| epoch.put(&news, next, 1))?;
//! assert_eq!(*window.local()?, [0, 1, 2, 3]);
//!
//! // Any rank: a counter at rank 0.
//! let before = window.lock(LockKind::Shared, 0, |epoch| {
//!     epoch.fetch_and_op(&1, 0, 0, SystemOperation::sum())
//! })?;
//! assert!(before < world.size() as u64);
//! window.free()?;
//! # Ok::<_, mpi::Error>(())
//! ```
//!
//! # Why no safe program can race with others
//!
//! Window memory belongs to the engines. All operations on it, those of other processes and those of a process on its
//! own window in an epoch, are done by the engine of the window's process under one lock: placing bytes of packets,
//! accumulating, and copying into packets; or, where processes share the memory, by the engine of the origin, which
//! copies bytes and makes no reference to them. So nothing but bytes is at stake if a program forgets to synchronise. Such
//! a program gets values that make no sense, but they are values ([`Equivalence`] demands that any bytes are one, or are
//! made one).
//!
//! Only [`Local`] lends a reference to the memory. It must exist only at times when no engine touches the memory:
//!
//! 1. A *lock* epoch of any process needs the lock of the target, which the target's engine grants. `Local` holds it
//!    exclusively. A process that gives the lock back has waited until all its operations have ended.
//! 2. A *fence* epoch of any process lies between two barriers of all, and all operations in it have ended before the
//!    second one. Each process has a state that refuses fences in other epochs, and the other way round, so the two
//!    fences of an epoch are always called together: no process is in an epoch that another has not entered or has
//!    left. After a fence that failed there is no `Local` any more.
//! 3. A *start* epoch of another process waits for [`Window::post`] of this one, and [`Exposure::wait`] waits for its
//!    end. Between them there is no `Local`; nor if the [`Exposure`] was forgotten, or its end has failed.
//! 4. `Local` borrows the window mutably, so this process has no epochs meanwhile.
//! 5. A process may have been declared lost by mistake, and still place bytes although its lock was given to others. So
//!    there is no `Local` when a process is lost. (A process that is lost while `Local` exists has no lock.)
//! 6. Bytes that other processes have read may still be lent to the transport, for a resend. `Local` waits until they
//!    are back ([`settle`](hikyaku::mpi::engine::Window::settle)).
//!
//! Other processes may run another program: a program that uses this crate keeps to these rules, and the engine's own
//! functions are unsafe.
//!
//! Buffers of operations are borrowed for a lifetime that is longer than the call with the closure, like those of
//! requests in a [`scope`](crate::request::scope()), and the epoch is in the frame of that call, so its end is not
//! skipped.

mod epoch;
mod local;
mod shared;

use std::{
    marker::PhantomData,
    sync::{Mutex, MutexGuard},
};

pub use hikyaku::mpi::engine::LockKind;
use hikyaku::mpi::{
    Rank,
    engine::{self, Target},
    error::{Detail, Error, ErrorClass},
};

pub use self::{
    epoch::{Epoch, Exposure},
    local::Local,
    shared::{Atomically, Parts, SharedWindow},
};
use crate::{
    datatype::{Equivalence, RawDatatype},
    lock::lock,
    raw::AsRaw,
    topology::Communicator,
};

/// The state of a window at this process.
#[derive(Debug, Default)]
struct State {
    /// A fence epoch is open here.
    fenced: bool,
    /// Other processes may be in a fence epoch, as far as this one knows.
    astray: bool,
    /// Lock epochs of the threads.
    locks: usize,
    started: bool,
    exposed: bool,
}

/// Elements of `T` at each process of a communicator, which the others read and write. See the [module](self).
///
/// An operation that fails after it was begun returns its error at the end of its epoch.
///
/// Errors of all methods: a process is lost; another epoch excludes this one ([`ErrorClass::RmaSync`]); the target does
/// not have the elements ([`ErrorClass::RmaRange`]).
#[derive(Debug)]
pub struct Window<T: Equivalence> {
    window: engine::Window,
    len: usize,
    state: Mutex<State>,
    elements: PhantomData<fn(T) -> T>,
}

impl<T: Equivalence> Window<T> {
    /// Allocates `len` elements at this process, with all bytes 0; the other processes may have other numbers of
    /// elements (`MPI_Win_allocate`). Collective.
    ///
    /// # Errors
    /// A process is lost, or there is not enough memory.
    pub fn allocate<C: Communicator + ?Sized>(communicator: &C, len: usize) -> Result<Self, Error> {
        const { assert!(align_of::<T>() <= 8, "the memory of windows is aligned to 8 bytes") };
        let size = size_of::<T>().max(1);
        let bytes = (len as u64).saturating_mul(size as u64);
        let comm = &communicator.as_handle().comm;
        Ok(Self {
            window: engine::Window::allocate(comm, bytes, u32::try_from(size).unwrap_or(0))?,
            len,
            state: Mutex::default(),
            elements: PhantomData,
        })
    }

    /// Number of elements at this process.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether this process has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of elements at a rank; `None` if there is no such rank.
    #[must_use]
    pub fn len_at(&self, rank: Rank) -> Option<usize> {
        let (bytes, unit) = self.window.extent_at(rank)?;
        Some((bytes / u64::from(unit.max(1))) as usize)
    }

    /// Ends the window, when all processes have called this (`MPI_Win_free`). A window that is dropped ends at this
    /// process alone.
    ///
    /// # Errors
    /// A process is lost.
    pub fn free(self) -> Result<(), Error> {
        self.window.free()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Changes the state, if it `may` change.
    fn enter(&self, call: &'static str, may: impl Fn(&State) -> bool, change: fn(&mut State)) -> Result<(), Error> {
        let mut state = self.state();
        if may(&state) {
            change(&mut state);
            return Ok(());
        }
        let detail = Detail::Text("this process is in an epoch that excludes it");
        Err(Error::new(ErrorClass::RmaSync, call).with_detail(detail))
    }

    fn datatype() -> RawDatatype {
        T::equivalent_datatype().as_raw()
    }

    /// `count` elements at a rank.
    fn target(datatype: &RawDatatype, rank: Rank, displacement: usize, count: usize) -> Target<'_> {
        Target {
            rank,
            displacement: i64::try_from(displacement).unwrap_or(i64::MAX),
            count: count as u64,
            datatype,
        }
    }
}

#![expect(unsafe_code, reason = "memory that others write is lent to the program")]
//! Windows: memory of each process that the others read and write without its help (MPI 12). Not in rsmpi.
//!
//! A [`Window`] is so many elements of a type at each process of a communicator. What is done to the window of another one
//! is done in an *epoch*, which is a call with a closure: between two [fences](Window::fence) that all call, while the
//! target is [locked](Window::lock), or between [`start`](Window::start) and its end, of those who have
//! [posted](Window::post). What a process has itself is only seen by a [guard](Window::local), or by reading from oneself.
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
//! // Whoever comes: a counter at rank 0.
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
//! Window memory belongs to the engine. Whatever other processes do to it, and what a process does to its own window by an
//! epoch, is done by the engine of that process under its one lock: placing octets of packets, accumulating, and copying
//! into packets. So these are never at the same time, whoever forgets to synchronise; a program that does gets values
//! that make no sense, but are values ([`Equivalence`] demands that any octets are one, or are made one).
//!
//! A reference to it is lent by [`Local`] only, which must be at a time when no engine touches the memory:
//!
//! 1. A *lock* epoch of anybody needs the lock of the target, which is granted by the target's engine. `Local` has it,
//!    exclusively. Who gives it back has waited for the end of everything that it began.
//! 2. A *fence* epoch of anybody lies between two barriers of all, and everything begun in it has ended before the second
//!    one. As each process has a state that refuses fences in other epochs, and the other way round, the two
//!    fences of an epoch are always called together: nobody is in the epoch that one has not entered or has left. If a
//!    fence fails there is no `Local` any more.
//! 3. A *start* epoch of another process waits for [`Window::post`] of this one, and [`Exposure::wait`] for its end.
//!    Between them there is no `Local`; nor if the [`Exposure`] was forgotten, or its end has failed.
//! 4. `Local` borrows the window mutably, so there are no epochs of this process meanwhile.
//! 5. A process that was lost may have been taken for lost by mistake, and still place octets although its lock was given
//!    to others. So there is no `Local` when one is lost. (It is too late to be lost when `Local` exists: then it has no
//!    lock.)
//! 6. What was read by others may still be lent to the transport, to be sent once more. `Local` waits until it is back
//!    ([`settle`](hikyaku::mpi::engine::Window::settle)).
//!
//! Others may run another program: one that uses this crate keeps to the above, and the engine's own functions are unsafe.
//!
//! Buffers of operations are borrowed for a lifetime that is longer than the call with the closure, as those of requests in
//! a [`scope`](crate::request::scope()), and the epoch is in the frame of that call, so its end is not skipped.

mod epoch;
mod local;

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
};
use crate::{
    datatype::{Equivalence, RawDatatype},
    raw::AsRaw,
    topology::{Communicator, lock},
};

/// What this process is doing with a window.
#[derive(Debug, Default)]
struct State {
    /// A fence epoch is open here.
    fenced: bool,
    /// Others may be in a fence epoch, for all we know.
    astray: bool,
    /// Lock epochs of threads.
    locks: usize,
    started: bool,
    exposed: bool,
}

/// Elements of `T` at each process of a communicator, which the others read and write. See the [module](self).
///
/// What goes wrong in an operation after it was begun is told at the end of its epoch.
///
/// Errors, everywhere: a process is lost; an epoch at a time when another one excludes it
/// ([`ErrorClass::RmaSync`]); a place that the target has not
/// ([`ErrorClass::RmaRange`]).
#[derive(Debug)]
pub struct Window<T: Equivalence> {
    window: engine::Window,
    len: usize,
    state: Mutex<State>,
    elements: PhantomData<fn(T) -> T>,
}

impl<T: Equivalence> Window<T> {
    /// `len` elements at this process, with all octets 0; others may have another number of them (`MPI_Win_allocate`).
    /// Collective.
    ///
    /// # Errors
    /// A process is lost; there is not so much memory.
    pub fn allocate<C: Communicator + ?Sized>(communicator: &C, len: usize) -> Result<Self, Error> {
        const { assert!(align_of::<T>() <= 8, "the memory of windows is aligned to 8 octets") };
        let size = size_of::<T>().max(1);
        let octets = (len as u64).saturating_mul(size as u64);
        let comm = &communicator.as_handle().comm;
        Ok(Self {
            window: engine::Window::allocate(comm, octets, u32::try_from(size).unwrap_or(0))?,
            len,
            state: Mutex::default(),
            elements: PhantomData,
        })
    }

    /// Elements at this process.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// There are none at this process.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Elements at a rank; `None` if there is no such rank.
    #[must_use]
    pub fn len_at(&self, rank: Rank) -> Option<usize> {
        let (octets, unit) = self.window.extent_at(rank)?;
        Some((octets / u64::from(unit.max(1))) as usize)
    }

    /// Ends the window, when all have come here (`MPI_Win_free`). A window that is dropped ends at this process alone.
    ///
    /// # Errors
    /// A process is lost.
    pub fn free(self) -> Result<(), Error> {
        self.window.free()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Changes the state, if it `may` be.
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

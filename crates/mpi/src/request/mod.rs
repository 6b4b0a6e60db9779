#![expect(unsafe_code, reason = "gives back what requests have borrowed")]
//! Requests: operations that have begun and may not have ended.
//!
//! # Why no buffer can be freed under a request
//!
//! The engine reads and writes buffers through addresses, from any thread that makes progress. Four things together
//! keep safe code away from a buffer until its request has ended:
//!
//! 1. An `immediate_…` method borrows its buffers for `'a`, the lifetime of its [`Scope`], not only until the request
//!    is dropped. For `'a` to be possible at all, the buffers must outlive the call of [`scope`] in which they are
//!    used, because `'a` is a parameter of that function; and a [`LocalScope`] is invariant in `'a`, so no shorter
//!    lifetime will do.
//! 2. The operation itself belongs to the scope, not to the [`Request`], which is an index. Waiting or testing takes it
//!    out when it has ended. Dropping or forgetting a request (or a guard) leaves it where it is.
//! 3. The scope lives in the frame of [`scope`]; programs only see a shared reference. So its drop cannot be skipped:
//!    not by `forget`, not by a panic, which runs it while unwinding. It cancels the operations that are left, and
//!    waits for them. (If the network fails, the engine forgets all buffers and never touches its network again before
//!    the error reaches the program.) The wait ends, because a dead peer is noticed after a bounded time.
//! 4. A panic inside the engine would be a defect of this library, and ends the process. The user's operations run
//!    inside the engine, so their panics are caught, and continue where the program waits for the request.
//!
//! With [`StaticScope`] buffers are borrowed for ever, or owned
//! ([`ReceiveFuture`](crate::point_to_point::ReceiveFuture)).
//!
//! Received bytes need not be valid values of the buffer's type (`bool`). They are checked when the operation ends,
//! also if the scope ends it, before the program can see them.
//!
//! # Futures
//!
//! A [`Request`] is a [`Future`]. Whichever thread makes progress wakes it: a thread that waits or tests, or the helper
//! thread of the engine, which sleeps on the network while tasks wait. A program needs no particular executor; without
//! one it uses [`block_on`], which makes progress itself, and on simulated ranks waits in virtual time.
//!
//! ```
//! use mpi::{request::block_on, traits::*};
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let myself = world.this_process();
//! let letter = myself.immediate_receive::<i32>();
//! myself.send(&7).unwrap();
//! let (letter, status) = block_on(letter).unwrap();
//! assert_eq!((letter, status.source_rank()), (7, 0));
//! ```

mod collection;
mod guard;
mod running;
mod scope;

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use hikyaku::mpi::engine;
pub(crate) use hikyaku::mpi::engine::uninterrupted;

pub use self::{
    collection::{RequestCollection, multiple_scope},
    guard::{CancelGuard, WaitGuard},
    scope::{LocalScope, Scope, StaticScope, scope},
};
pub(crate) use running::{Found, Panicked, Running};
use scope::Held;

use crate::{Error, point_to_point::Status};

/// Waits for a future, for example of requests: makes progress until a request has ended, then polls the future again.
/// Programs of simulated ranks wait in virtual time.
///
/// ```
/// use mpi::{request::block_on, traits::*};
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let twice = async {
///     world.immediate_barrier().await?;
///     world.immediate_barrier().await
/// };
/// block_on(twice).unwrap();
/// ```
///
/// # Panics
/// The network of this process has failed, or MPI is not initialised.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let world = crate::environment::world();
    let done = world.comm.engine().block_on(future);
    done.unwrap_or_else(|error| panic!("{error}"))
}

/// A send, receive or collective that has begun. The [module](self) says what happens when it is dropped.
#[must_use = "a request that is dropped goes on until the end of its scope, and its errors are not told"]
pub struct Request<'a, D: ?Sized, S: Scope<'a> = StaticScope> {
    held: Held,
    /// The borrowed buffer; not to be used before the operation has ended.
    data: *const D,
    scope: S,
    borrow: PhantomData<&'a D>,
}

impl<'a, D: ?Sized, S: Scope<'a> + fmt::Debug> fmt::Debug for Request<'a, D, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

// SAFETY: it refers to data that may be referred to from any thread if `D` is `Sync`, and to a scope.
unsafe impl<'a, D: ?Sized + Sync, S: Scope<'a> + Send> Send for Request<'a, D, S> {}
// SAFETY: as above; by shared reference it only cancels.
unsafe impl<'a, D: ?Sized + Sync, S: Scope<'a> + Sync> Sync for Request<'a, D, S> {}

impl<'a, D: ?Sized, S: Scope<'a>> Unpin for Request<'a, D, S> {}

impl<'a, D: ?Sized, S: Scope<'a>> Request<'a, D, S> {
    /// `data` are borrowed for `'a`.
    pub(crate) fn new(running: Running, data: *const D, scope: S) -> Self {
        Self {
            held: scope.adopt(running),
            data,
            scope,
            borrow: PhantomData,
        }
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Running) -> R) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.scope.with(&mut self.held, &mut |running| {
            if let Some(f) = f.take() {
                result = Some(f(running));
            }
        });
        result.unwrap_or_else(|| unreachable!("a request's operation is where it was put"))
    }

    /// The borrowed buffer, after the end of the operation.
    fn data(self) -> &'a D {
        self.scope.release(self.held);
        // SAFETY: it was borrowed for `'a`, and the operation has ended.
        unsafe { &*self.data }
    }

    /// Waits until the operation has ended (`MPI_Wait`).
    ///
    /// # Errors
    /// The operation has failed, or could not begin.
    pub fn wait(mut self) -> Result<Status, Error> {
        let ended = self.with(Running::wait);
        self.scope.release(self.held);
        ended.map(Status::new)
    }

    /// Waits until the operation has ended.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_without_status(self) -> Result<(), Error> {
        self.wait().map(|_| ())
    }

    /// Waits until the operation has ended, and returns the buffer: the one received into, or else the one sent.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_for_data(mut self) -> Result<&'a D, Error> {
        let ended = self.with(Running::wait);
        let data = self.data();
        ended.map(|_| data)
    }

    /// Tests whether the operation has ended, after one pass of progress (`MPI_Test`): returns its status, or the
    /// request.
    ///
    /// # Errors
    /// The request, if the operation has not ended. (If it has failed, the inner result says so.)
    #[expect(
        clippy::result_large_err,
        reason = "the shape of rsmpi; what is given back is moved on at once"
    )]
    pub fn test(mut self) -> Result<Result<Status, Error>, Self> {
        match self.with(Running::test) {
            Some(ended) => {
                self.scope.release(self.held);
                Ok(ended.map(Status::new))
            }
            None => Err(self),
        }
    }

    /// Like [`test`](Self::test), with the buffer.
    ///
    /// # Errors
    /// As [`test`](Self::test).
    #[expect(
        clippy::result_large_err,
        reason = "the shape of rsmpi; what is given back is moved on at once"
    )]
    pub fn test_with_data(mut self) -> Result<Result<(Status, &'a D), Error>, Self> {
        match self.with(Running::test) {
            Some(ended) => {
                let data = self.data();
                Ok(ended.map(|status| (Status::new(status), data)))
            }
            None => Err(self),
        }
    }

    /// Cancels the operation if it is a receive without a message (`MPI_Cancel`). The program must still wait for it.
    pub fn cancel(&self) {
        // A shared reference: the operation is looked at, not taken.
        match &self.held {
            Held::Here(running) => running.cancel(),
            Held::There(index) => {
                self.scope
                    .with(&mut Held::There(*index), &mut |running| running.cancel());
            }
        }
    }

    /// Moves the request into another scope, which may be shorter.
    pub fn shrink_scope_to<'b, S2: Scope<'b>>(self, scope: S2) -> Request<'b, D, S2>
    where
        'a: 'b,
    {
        let running = self.scope.release(self.held);
        let running = running.unwrap_or_else(|| unreachable!("a request's operation is where it was put"));
        Request::new(running, self.data, scope)
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> Future for Request<'a, D, S> {
    type Output = Result<Status, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.with(|running| running.poll(context)).map_ok(Status::new)
    }
}

/// Waits until one of `requests` has ended (`MPI_Waitany`), and removes it. Returns its former index and its status;
/// `None` if there are no requests.
///
/// ```
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let mut requests = vec![world.immediate_barrier(), world.immediate_barrier()];
/// while let Some((_, status)) = mpi::request::wait_any(&mut requests) {
///     status.unwrap();
/// }
/// assert!(requests.is_empty());
/// ```
pub fn wait_any<'a, D: ?Sized, S: Scope<'a>>(
    requests: &mut Vec<Request<'a, D, S>>,
) -> Option<(usize, Result<Status, Error>)> {
    let mut begun = Vec::with_capacity(requests.len());
    let mut ready = None;
    for (index, request) in requests.iter_mut().enumerate() {
        match request.with(|running| running.begun().map(|request| &raw const *request)) {
            Some(request) => begun.push(request),
            None => ready = ready.or(Some(index)),
        }
    }
    let index = match ready {
        Some(index) => index,
        // SAFETY: the requests are borrowed mutably, so their operations stay where they are: these are
        // with the requests, or in the table of a scope of this thread, which does nothing else meanwhile.
        None => uninterrupted(|| engine::Request::wait_ready(begun.iter().map(|request| unsafe { &**request })))?,
    };
    Some((index, requests.remove(index).wait()))
}

/// Waits until one of these has ended; returns its position.
fn wait_ready<'r>(running: impl Iterator<Item = &'r Running> + Clone) -> Option<usize> {
    if let Some(index) = running.clone().position(|running| running.begun().is_none()) {
        return Some(index);
    }
    uninterrupted(|| engine::Request::wait_ready(running.filter_map(Running::begun)))
}

#![expect(unsafe_code, reason = "gives back what requests have borrowed")]
//! Requests: what has begun and may not have ended.
//!
//! # Why no buffer can be freed under a request
//!
//! The engine reads and writes buffers through addresses, from whichever thread makes progress. Four things together
//! keep safe code away from a buffer until its request has ended:
//!
//! 1. An `immediate_…` method borrows its buffers for `'a`, the lifetime of its [`Scope`], not only until the request is
//!    dropped. For `'a` to be possible at all, the buffers must outlive the call of [`scope`] in which they are used,
//!    because `'a` is a parameter of that function; and a [`LocalScope`] is invariant in `'a`, so no shorter one will do.
//! 2. The operation itself belongs to the scope, not to the [`Request`], which is an index. Waiting or testing takes it
//!    out when it has ended. Dropping or forgetting a request (or a guard) leaves it where it is.
//! 3. The scope lives in the frame of [`scope`]; programs only see a shared reference. So its drop can not be skipped:
//!    not by `forget`, not by a panic, which runs it while unwinding. It cancels and waits for what is left. (Should the
//!    network fail, the engine forgets all buffers and never touches its network again before anybody is told.) That it
//!    ends at all is bounded by the death of the peer.
//! 4. What unwinds while the engine runs would be a defect of this library, and ends the process. Operations of the user
//!    run inside of it, so their panics are caught, and go on where the request is waited for.
//!
//! With [`StaticScope`] buffers are borrowed for ever, or owned ([`ReceiveFuture`](crate::point_to_point::ReceiveFuture)).
//!
//! Octets that are received are no values of the buffer's type before somebody has looked whether they are (`bool`). That
//! is done when an operation ends, also by the scope.
//!
//! # Futures
//!
//! A [`Request`] is a [`Future`]. It is woken by whoever makes progress: threads that wait or test, or the helper thread of
//! the engine, which sleeps on the network as long as tasks wait. No executor of a particular kind is needed; a program
//! without one has [`block_on`], which makes progress itself, and on simulated ranks waits in virtual time.
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
    collection::RequestCollection,
    guard::{CancelGuard, WaitGuard},
    scope::{LocalScope, Scope, StaticScope, multiple_scope, scope},
};
pub(crate) use running::{Found, Panicked, Running};
use scope::Held;

use crate::{Error, point_to_point::Status};

/// Waits for a future, of requests for example: makes progress until one of them has ended, then polls it again.
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

/// A send, receive or collective that has begun. See the [module](self) for what becomes of it when it is dropped.
#[must_use = "a request that is dropped goes on until the end of its scope, and its errors are not told"]
pub struct Request<'a, D: ?Sized, S: Scope<'a> = StaticScope> {
    held: Held,
    /// What it has borrowed; not to be used before it has ended.
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

    /// What it has borrowed, after its end.
    fn data(self) -> &'a D {
        self.scope.release(self.held);
        // SAFETY: it was borrowed for `'a`, and the operation has ended.
        unsafe { &*self.data }
    }

    /// Waits for its end (`MPI_Wait`).
    ///
    /// # Errors
    /// It has failed, or could not begin.
    pub fn wait(mut self) -> Result<Status, Error> {
        let ended = self.with(Running::wait);
        self.scope.release(self.held);
        ended.map(Status::new)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_without_status(self) -> Result<(), Error> {
        self.wait().map(|_| ())
    }

    /// Waits for its end, and gives the buffer: what was received into, or else what was sent.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_for_data(mut self) -> Result<&'a D, Error> {
        let ended = self.with(Running::wait);
        let data = self.data();
        ended.map(|_| data)
    }

    /// Looks whether it has ended, after one pass of progress (`MPI_Test`): its status, or itself.
    ///
    /// # Errors
    /// The request, if it has not ended. (That it has failed is in the result within.)
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

    /// The same, with the buffer.
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

    /// Cancels it if it is a receive that has no message yet (`MPI_Cancel`). It must still be waited for.
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

    /// Puts it into another scope, which may be shorter.
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

/// Waits until one of `requests` has ended (`MPI_Waitany`); it is taken out. Gives where it was, and its status; `None`
/// if there are no requests.
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
        // SAFETY: the requests are borrowed mutably, so nobody takes their operations out of where they are: these are
        // with the requests, or in the table of a scope of this thread, which does nothing else meanwhile.
        None => uninterrupted(|| engine::Request::wait_ready(begun.iter().map(|request| unsafe { &**request })))?,
    };
    Some((index, requests.remove(index).wait()))
}

/// Waits until one of these has ended; gives its position.
fn wait_ready<'r>(running: impl Iterator<Item = &'r Running> + Clone) -> Option<usize> {
    if let Some(index) = running.clone().position(|running| running.begun().is_none()) {
        return Some(index);
    }
    uninterrupted(|| engine::Request::wait_ready(running.filter_map(Running::begun)))
}

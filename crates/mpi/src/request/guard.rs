//! Guards: requests that are waited for when they are dropped.

use std::thread;

use super::{Request, Scope, StaticScope};
use crate::{Error, point_to_point::Status};

/// Waits for a request when it is dropped.
///
/// ```
/// use mpi::{request::WaitGuard, traits::*};
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let myself = world.this_process();
/// let (sent, mut received) = (7, 0);
/// mpi::request::scope(|scope| {
///     let _receiving = WaitGuard::from(myself.immediate_receive_into(scope, &mut received));
///     let _sending = WaitGuard::from(myself.immediate_send(scope, &sent));
/// });
/// assert_eq!(received, sent);
/// ```
///
/// # Panics
/// If the request has failed when the guard is dropped, because a drop cannot return the error; not during another
/// panic. [`wait`](Self::wait) returns it.
#[derive(Debug)]
#[must_use = "it waits when it is dropped: at once, unless it has a name"]
pub struct WaitGuard<'a, D: ?Sized, S: Scope<'a> = StaticScope>(Option<Request<'a, D, S>>);

impl<'a, D: ?Sized, S: Scope<'a>> WaitGuard<'a, D, S> {
    /// Waits for the request now. Not in rsmpi.
    ///
    /// # Errors
    /// The request has failed.
    pub fn wait(mut self) -> Result<Status, Error> {
        self.0
            .take()
            .map_or_else(|| unreachable!("only taken here, and by drop"), Request::wait)
    }

    fn cancel(&self) {
        if let Some(request) = &self.0 {
            request.cancel();
        }
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> Drop for WaitGuard<'a, D, S> {
    fn drop(&mut self) {
        if let Some(request) = self.0.take()
            && let Err(error) = request.wait()
        {
            assert!(
                thread::panicking(),
                "a request that was waited for by its guard: {error}"
            );
        }
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<Request<'a, D, S>> for WaitGuard<'a, D, S> {
    fn from(request: Request<'a, D, S>) -> Self {
        Self(Some(request))
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<WaitGuard<'a, D, S>> for Request<'a, D, S> {
    fn from(mut guard: WaitGuard<'a, D, S>) -> Self {
        guard
            .0
            .take()
            .unwrap_or_else(|| unreachable!("only taken here, and by drop"))
    }
}

/// Cancels a request when it is dropped, and waits for it. A receive without a message then ends without one; all other
/// requests end as usual.
#[derive(Debug)]
#[must_use = "it cancels when it is dropped: at once, unless it has a name"]
pub struct CancelGuard<'a, D: ?Sized, S: Scope<'a> = StaticScope>(WaitGuard<'a, D, S>);

impl<'a, D: ?Sized, S: Scope<'a>> Drop for CancelGuard<'a, D, S> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<CancelGuard<'a, D, S>> for WaitGuard<'a, D, S> {
    fn from(mut guard: CancelGuard<'a, D, S>) -> Self {
        Self(guard.0.0.take())
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<WaitGuard<'a, D, S>> for CancelGuard<'a, D, S> {
    fn from(guard: WaitGuard<'a, D, S>) -> Self {
        Self(guard)
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<Request<'a, D, S>> for CancelGuard<'a, D, S> {
    fn from(request: Request<'a, D, S>) -> Self {
        Self(request.into())
    }
}

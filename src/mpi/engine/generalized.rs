//! Generalised requests (MPI 13.2): operations of the program that are waited for as those of MPI.

use alloc::{boxed::Box, sync::Arc};
use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{
    Communicator, Request,
    core::{Ended, RequestId},
    status::Status,
};
use crate::mpi::error::Error;

/// The callbacks of a generalised request. They are called by threads that are inside a call of this request.
pub trait Generalized: Send {
    /// The status, once the operation is complete (`MPI_Grequest_query_function`).
    ///
    /// # Errors
    /// The call that asks for the status returns it.
    fn query(&mut self) -> Result<Status, Error>;

    /// The program cancels the operation, which is `complete` or not (`MPI_Grequest_cancel_function`).
    ///
    /// # Errors
    /// The call that cancels returns it.
    fn cancel(&mut self, complete: bool) -> Result<(), Error>;

    /// The request is freed, once; no other callback follows (`MPI_Grequest_free_function`).
    ///
    /// # Errors
    /// The call that frees the request returns it.
    fn free(&mut self) -> Result<(), Error>;
}

/// What a generalised request and the thread that completes it have in common.
struct Shared {
    callbacks: Box<dyn Generalized>,
    is_complete: bool,
    /// The program has freed the request.
    is_freed: bool,
}

/// Completes a generalised request (`MPI_Grequest_complete`). Clones complete the same one.
#[derive(Clone)]
pub struct Completer {
    communicator: Communicator,
    id: RequestId,
    shared: Arc<Mutex<Shared>>,
}

/// A generalised request, until the program knows that it is complete.
pub(super) struct Pending(Completer);

impl fmt::Debug for Completer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completer")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Completer {
    /// Begins a request that only this ends; the request itself has an empty status.
    pub(super) fn begin(communicator: &Communicator, callbacks: Box<dyn Generalized>) -> Option<(Request, Self)> {
        let id = communicator.access(None, |core, _, _| Some(core.request_of_caller()))?;
        let completer = Self {
            communicator: communicator.clone(),
            id,
            shared: Arc::new(Mutex::new(Shared {
                callbacks,
                is_complete: false,
                is_freed: false,
            })),
        };
        let request = Request::pending(communicator, id, "MPI_Grequest_start", 0);
        Some((request, completer))
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The operation is complete (`MPI_Grequest_complete`). Any thread may say so; only the first time counts.
    ///
    /// # Errors
    /// Those of [`Generalized::free`], if the program has freed the request before.
    pub fn complete(&self) -> Result<(), Error> {
        let mut shared = self.shared();
        if core::mem::replace(&mut shared.is_complete, true) {
            return Ok(());
        }
        let freed = if shared.is_freed {
            shared.callbacks.free()
        } else {
            Ok(())
        };
        drop(shared);
        self.communicator
            .access((), |core, _, _| core.end(self.id, Ended::WELL));
        freed
    }
}

impl Pending {
    pub(super) fn new(completer: &Completer) -> Self {
        Self(completer.clone())
    }

    pub(super) fn completer(&self) -> &Completer {
        &self.0
    }

    /// The status of an operation that is complete.
    pub(super) fn query(&self) -> Result<Status, Error> {
        self.0.shared().callbacks.query()
    }

    pub(super) fn cancel(&self) -> Result<(), Error> {
        let mut shared = self.0.shared();
        let complete = shared.is_complete;
        shared.callbacks.cancel(complete)
    }

    /// Frees it: now if it is complete, else when it becomes so.
    pub(super) fn free(&self) -> Result<(), Error> {
        let mut shared = self.0.shared();
        if core::mem::replace(&mut shared.is_freed, true) || !shared.is_complete {
            return Ok(());
        }
        shared.callbacks.free()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let _ = self.free();
    }
}

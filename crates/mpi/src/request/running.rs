#![expect(unsafe_code, reason = "what was received is made valid")]
//! An operation that has begun, without the types and lifetimes of its buffers.

use std::{
    any::Any,
    panic,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use hikyaku::mpi::{
    engine::{self, PersistentCollective, Status, uninterrupted},
    error::{Error, ErrorClass},
};

use crate::datatype::{Place, Validator};

/// The panic of a user's operation, on whatever thread it ran.
pub(crate) type Panicked = Arc<Mutex<Option<Box<dyn Any + Send>>>>;

/// An operation that has begun, or could not begin.
#[derive(Debug)]
pub struct Running {
    state: State,
    /// Run when the operation has ended, before the program sees the received values.
    validators: Vec<Validator>,
    panicked: Option<Panicked>,
}

/// The buffers of a collective.
pub(crate) struct Found {
    pub(crate) input: *mut u8,
    pub(crate) output: *mut u8,
    pub(crate) validators: Vec<Validator>,
}

#[derive(Debug)]
enum State {
    /// A plan that can be started again and again.
    Planned(PersistentCollective),
    Begun(engine::Request),
    Refused(Error),
    /// The operation has ended, and the program knows it.
    Over,
}

impl Running {
    pub(crate) fn new(begun: Result<engine::Request, Error>) -> Self {
        Self {
            state: begun.map_or_else(State::Refused, State::Begun),
            validators: Vec::new(),
            panicked: None,
        }
    }

    /// An operation that had ended when it began.
    pub(crate) fn ended(result: Result<(), Error>) -> Self {
        Self {
            state: result.map_or_else(State::Refused, |()| State::Over),
            validators: Vec::new(),
            panicked: None,
        }
    }

    /// An operation that receives into `place`.
    pub(crate) fn into_place(self, place: &Place) -> Self {
        self.validated_by(place.validator)
    }

    pub(crate) fn validated_by(self, validators: impl IntoIterator<Item = Validator>) -> Self {
        Self {
            validators: validators.into_iter().collect(),
            ..self
        }
    }

    /// An operation that only [`restart`](Self::restart) begins.
    pub(crate) fn planned(made: Result<PersistentCollective, Error>) -> Self {
        Self {
            state: made.map_or_else(State::Refused, State::Planned),
            ..Self::ended(Ok(()))
        }
    }

    /// Why it could not be planned, if it could not.
    pub(crate) fn refused(&self) -> Option<Error> {
        match self.state {
            State::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// Begins the planned operation once more, with buffers at these addresses.
    ///
    /// # Safety
    /// The buffers have the shape of the plan, and are borrowed until the operation has ended.
    pub(crate) unsafe fn restart(&mut self, found: Found) -> Self {
        let begun = match &mut self.state {
            State::Planned(planned) => {
                // SAFETY: the caller's contract. If it runs it is not moved, and not started.
                let _ = unsafe { planned.move_to(found.input, found.output) };
                planned.start()
            }
            State::Refused(error) => Err(*error),
            State::Begun(_) | State::Over => Err(Error::new(ErrorClass::Request, "MPI_Start")),
        };
        Self::new(begun)
            .validated_by(found.validators)
            .with_operation(self.panicked.clone())
    }

    pub(crate) fn with_operation(self, panicked: Option<Panicked>) -> Self {
        Self { panicked, ..self }
    }

    /// The engine's request, if [`wait`](Self::wait) may have to wait.
    pub(super) fn begun(&self) -> Option<&engine::Request> {
        match &self.state {
            State::Begun(request) => Some(request),
            State::Planned(_) | State::Refused(_) | State::Over => None,
        }
    }

    pub(crate) fn cancel(&self) {
        if let State::Begun(request) = &self.state {
            request.cancel();
        }
    }

    /// Waits until the operation has ended. After that nothing refers to its buffers.
    ///
    /// # Panics
    /// If a user's operation panicked.
    pub(crate) fn wait(&mut self) -> Result<Status, Error> {
        let ended = uninterrupted(|| match &mut self.state {
            State::Begun(request) => request.wait_mut(),
            State::Refused(error) => Err(*error),
            State::Planned(_) | State::Over => Ok(Status::EMPTY),
        });
        self.end();
        ended
    }

    /// Waits until the requests of all these have ended, and gives how each has, for [`over`](Self::over).
    pub(super) fn wait_all<'a>(all: impl Iterator<Item = &'a mut Self>, ended: &mut Vec<Result<Status, Error>>) {
        let requests = all.filter_map(|running| match &mut running.state {
            State::Begun(request) => Some(request),
            State::Planned(_) | State::Refused(_) | State::Over => None,
        });
        uninterrupted(|| engine::Request::wait_all(requests, |how| ended.push(how)));
    }

    /// The same as [`wait`](Self::wait), after its request has ended so.
    ///
    /// # Panics
    /// If a user's operation panicked.
    pub(super) fn over(&mut self, ended: Result<Status, Error>) -> Result<Status, Error> {
        self.end();
        ended
    }

    /// The same, without the result.
    pub(crate) fn wait_quietly(&mut self) {
        self.panicked = None;
        let _ = self.wait();
    }

    /// Tests whether the operation has ended, after one pass of progress.
    pub(crate) fn test(&mut self) -> Option<Result<Status, Error>> {
        let ended = uninterrupted(|| match &mut self.state {
            State::Begun(request) => request.test().transpose(),
            State::Refused(error) => Some(Err(*error)),
            State::Planned(_) | State::Over => Some(Ok(Status::EMPTY)),
        });
        if ended.is_some() {
            self.end();
        }
        ended
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Status, Error>> {
        let ended = uninterrupted(|| match &mut self.state {
            State::Begun(request) => request.poll(context),
            State::Refused(error) => Poll::Ready(Err(*error)),
            State::Planned(_) | State::Over => Poll::Ready(Ok(Status::EMPTY)),
        });
        if ended.is_ready() {
            self.end();
        }
        ended
    }

    fn end(&mut self) {
        self.state = State::Over;
        for validator in self.validators.drain(..) {
            // SAFETY: the buffer is still borrowed, and the engine has done with it.
            unsafe { validator.run() };
        }
        if let Some(panicked) = self.panicked.take() {
            let payload = panicked.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(payload) = payload {
                panic::resume_unwind(payload);
            }
        }
    }
}

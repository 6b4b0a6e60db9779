#![expect(unsafe_code, reason = "owns what is received into")]
//! A value that is being received.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use hikyaku::mpi::{
    engine::{Communicator as RawCommunicator, Status as RawStatus},
    error::Error,
};

use super::{Status, message::Value, transfer::Incoming};
use crate::{datatype::Equivalence, request::Running};

/// A value that is being received, and that the future owns. Also a [`Future`]. Dropping it cancels the receive if
/// there is no message yet, and waits for it otherwise; forgetting it leaks the value.
#[derive(Debug)]
#[must_use = "a receive that is dropped is cancelled"]
pub struct ReceiveFuture<T> {
    /// `None` after the end.
    parts: Option<(Running, Value<T>)>,
}

// SAFETY: it owns a value and refers to an operation of the engine, which is used from any thread.
unsafe impl<T: Send> Send for ReceiveFuture<T> {}

impl<T> Unpin for ReceiveFuture<T> {}

impl<T: Equivalence> ReceiveFuture<T> {
    pub(super) fn new(comm: &RawCommunicator, incoming: Incoming) -> Self {
        let value = Value::new();
        // SAFETY: the value stays in its box as long as the operation is not over: see `drop`, `get` and `try`.
        let running = unsafe { incoming.begin(comm, &value.place()) };
        Self {
            parts: Some((running, value)),
        }
    }

    /// Waits for the value.
    ///
    /// # Errors
    /// The process is lost, the communicator is revoked, or the message is not such a value.
    pub fn get(mut self) -> Result<(T, Status), Error> {
        let Some((running, _)) = &mut self.parts else {
            unreachable!("taken by the end only")
        };
        let ended = running.wait();
        self.end(ended)
    }

    /// Tests whether the value has arrived, after one pass of progress: returns the value, or the future.
    ///
    /// # Errors
    /// The future, if the value has not arrived. (If the receive has failed, the inner result says so.)
    #[expect(
        clippy::result_large_err,
        reason = "the shape of rsmpi; what is given back is moved on at once"
    )]
    pub fn r#try(mut self) -> Result<Result<(T, Status), Error>, Self> {
        match self.parts.as_mut().and_then(|(running, _)| running.test()) {
            Some(ended) => Ok(self.end(ended)),
            None => Err(self),
        }
    }

    fn end(&mut self, ended: Result<RawStatus, Error>) -> Result<(T, Status), Error> {
        let Some((_, value)) = self.parts.take() else {
            unreachable!("taken by the end only")
        };
        value.received("MPI_Irecv", Status::new(ended?))
    }
}

impl<T: Equivalence> Future for ReceiveFuture<T> {
    type Output = Result<(T, Status), Error>;

    /// # Panics
    /// If it has returned the value already.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (running, _) = self.parts.as_mut().expect("polled after its end");
        match running.poll(context) {
            Poll::Ready(ended) => Poll::Ready(self.end(ended)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T> Drop for ReceiveFuture<T> {
    fn drop(&mut self) {
        if let Some((mut running, value)) = self.parts.take() {
            running.cancel();
            running.wait_quietly();
            drop(value);
        }
    }
}

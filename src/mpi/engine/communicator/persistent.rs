#![expect(unsafe_code, reason = "buffers are given by pointer, as C does")]
//! Persistent collectives (MPI 6.13): planned once, started repeatedly.

use alloc::{sync::Arc, vec};
use core::fmt;

use super::Communicator;
use crate::mpi::{
    collectives::{Algorithm, Call},
    engine::{Buffers, Entry, Exit, Request, class::Class, collective::Planned},
    error::Error,
    operation::Operation,
};

/// A persistent collective. Its schedule and its scratch memory are made once.
pub struct PersistentCollective {
    communicator: Communicator,
    call: &'static str,
    planned: Arc<Planned>,
    /// Number by which the profiler knows it.
    number: u64,
}

impl fmt::Debug for PersistentCollective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentCollective")
            .field("call", &self.call)
            .field("communicator", &self.communicator)
            .finish_non_exhaustive()
    }
}

impl Communicator {
    /// Plans a collective (`MPI_Allreduce_init` and the like); `name` is the MPI function. All ranks must plan the
    /// persistent collectives of a communicator in the same order; they may start them in any order.
    ///
    /// # Errors
    /// As [`collective`](Self::collective).
    ///
    /// # Safety
    /// The contract of [`collective`](Self::collective), from each start until the end of its request.
    pub unsafe fn collective_init(
        &self,
        name: &'static str,
        call: &Call<'_>,
        buffers: &Buffers<'_>,
        operation: Option<&Operation>,
        algorithm: Option<Algorithm>,
    ) -> Result<PersistentCollective, Error> {
        let span = self.enter(|| Entry::collective(name, call, (&buffers.input, &buffers.output), operation));
        let (number, count) = (span.number(), (Class::Persistent, &self.0.persistent));
        // SAFETY: the caller's contract.
        let planned = unsafe { self.plan(name, call, buffers, operation, algorithm, count) };
        if let Ok(planned) = &planned {
            self.access((), |core, messenger, now| {
                core.collectives.open_ahead(&mut core.requests, messenger, now, planned)
            });
        }
        let made = planned.map(|planned| PersistentCollective {
            communicator: self.clone(),
            call: name,
            planned,
            number,
        });
        span.leave(made, |_, leave| {
            leave(&Exit {
                request: Some(number),
                ..Exit::default()
            });
        })
    }
}

impl PersistentCollective {
    /// The MPI function that has planned it.
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// The communicator.
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.communicator
    }

    /// Moves it to other buffers of the same datatypes and counts. Gives whether it could: not while it runs.
    ///
    /// # Safety
    /// The contract of [`Communicator::collective_init`], for these buffers.
    pub unsafe fn move_to(&mut self, input: *mut u8, output: *mut u8) -> bool {
        let mut moved = false;
        // With the lock held, because it may be about to end.
        let (communicator, planned) = (&self.communicator, &mut self.planned);
        communicator.access((), |_, _, _| {
            if let Some(planned) = Arc::get_mut(planned) {
                planned.move_to(input, output);
                moved = true;
            }
        });
        moved
    }

    /// Starts it (`MPI_Start`).
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` if it is running; the communicator is revoked.
    pub fn start(&self) -> Result<Request, Error> {
        const CALL: &str = "MPI_Start";
        let communicator = &self.communicator;
        let span = communicator.enter(|| Entry {
            requests: vec![self.number],
            ..Entry::named(CALL)
        });
        let checked = communicator.check(CALL);
        let started = checked.and_then(|()| communicator.start_collective(CALL, &self.planned));
        span.begin(started)
    }
}

impl Drop for PersistentCollective {
    fn drop(&mut self) {
        let _span = self.communicator.enter(|| Entry {
            requests: vec![self.number],
            ..Entry::named("MPI_Request_free")
        });
    }
}

#![expect(unsafe_code, reason = "gives back what requests have borrowed")]
//! Many requests at once.

use std::{fmt, marker::PhantomData, mem};

use hikyaku::mpi::{engine, error::ErrorClass};

use super::{LocalScope, Request, Running, Scope, scope::end_all, wait_ready};
use crate::{Error, point_to_point::Status};

/// Requests that a program waits for together. [`multiple_scope`] provides a collection, and
/// waits for the requests that are left in it.
pub struct RequestCollection<'a, D: ?Sized> {
    /// `None` for requests that were returned.
    entries: Vec<Option<Entry<D>>>,
    /// Room for what requests that are waited for together have ended with.
    statuses: Vec<Result<engine::Status, Error>>,
    borrow: PhantomData<&'a D>,
}

struct Entry<D: ?Sized> {
    running: Running,
    data: *const D,
}

impl<D: ?Sized> fmt::Debug for RequestCollection<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestCollection")
            .field("incomplete", &self.incomplete())
            .finish_non_exhaustive()
    }
}

/// A request's index, its status and its buffer.
type Ended<'a, D> = (usize, Status, &'a D);

impl<'a, D: ?Sized> RequestCollection<'a, D> {
    pub(super) fn new(reserve: usize) -> Self {
        Self {
            entries: Vec::with_capacity(reserve),
            statuses: Vec::new(),
            borrow: PhantomData,
        }
    }

    /// Number of requests that no wait or test has returned yet.
    #[must_use]
    pub fn incomplete(&self) -> usize {
        self.entries.iter().flatten().count()
    }

    /// Adds a request and returns its index.
    pub fn add<S: Scope<'a>>(&mut self, request: Request<'a, D, S>) -> usize {
        let running = request.scope.release(request.held);
        self.entries.push(running.map(|running| Entry {
            running,
            data: request.data,
        }));
        self.entries.len() - 1
    }

    /// Waits until one request has ended, and returns it; `None` if there are no requests.
    ///
    /// # Errors
    /// The request has failed.
    pub fn wait_any(&mut self) -> Result<Option<Ended<'a, D>>, Error> {
        let calls = self.calls();
        together("MPI_Waitany", calls, || self.wait_any_now())
    }

    fn wait_any_now(&mut self) -> Result<Option<Ended<'a, D>>, Error> {
        match self.wait_for_one() {
            Some(index) => self.end(index, Running::wait).map(Some),
            None => Ok(None),
        }
    }

    /// Waits until at least one request has ended, and sets `result` to all that have ended.
    ///
    /// # Errors
    /// One of them has failed. The others that have ended are in `result`.
    pub fn wait_some(&mut self, result: &mut Vec<Ended<'a, D>>) -> Result<(), Error> {
        let calls = self.calls();
        together("MPI_Waitsome", calls, || self.wait_some_now(result))
    }

    fn wait_some_now(&mut self, result: &mut Vec<Ended<'a, D>>) -> Result<(), Error> {
        result.clear();
        let Some(index) = self.wait_for_one() else {
            return Ok(());
        };
        let first = self.end(index, Running::wait);
        let first = first.map(|ended| result.push(ended));
        let others = self.take_ended(result);
        first.and(others)
    }

    /// Waits until all requests have ended, and sets `result` to them.
    ///
    /// # Errors
    /// That of the first request that has failed. The others are in `result`.
    pub fn wait_all(&mut self, result: &mut Vec<Ended<'a, D>>) -> Result<(), Error> {
        let calls = self.calls();
        together("MPI_Waitall", calls, || self.wait_all_now(result))
    }

    fn wait_all_now(&mut self, result: &mut Vec<Ended<'a, D>>) -> Result<(), Error> {
        result.clear();
        let mut statuses = mem::take(&mut self.statuses);
        Running::wait_all(
            self.entries.iter_mut().flatten().map(|entry| &mut entry.running),
            &mut statuses,
        );
        let mut failure = Ok(());
        let mut begun = statuses.drain(..);
        for index in 0..self.entries.len() {
            let Some(entry) = &self.entries[index] else { continue };
            let status = entry.running.begun().and_then(|_| begun.next());
            let ended = match status {
                Some(status) => self.end(index, |running| running.over(status)),
                None => self.end(index, Running::wait),
            };
            match ended {
                Ok(ended) => result.push(ended),
                Err(error) => failure = failure.and(Err(error)),
            }
        }
        drop(begun);
        self.statuses = statuses;
        failure
    }

    /// Returns a request that has ended, if any has.
    ///
    /// # Errors
    /// The request has failed.
    pub fn test_any(&mut self) -> Result<Option<Ended<'a, D>>, Error> {
        let calls = self.calls();
        together("MPI_Testany", calls, || self.test_any_now())
    }

    fn test_any_now(&mut self) -> Result<Option<Ended<'a, D>>, Error> {
        for index in 0..self.entries.len() {
            if let Some(ended) = self.test(index) {
                return ended.map(Some);
            }
        }
        Ok(None)
    }

    /// Sets `result` to all requests that have ended.
    ///
    /// # Errors
    /// One of them has failed. The others are in `result`.
    pub fn test_some(&mut self, result: &mut Vec<Ended<'a, D>>) -> Result<(), Error> {
        let calls = self.calls();
        together("MPI_Testsome", calls, || self.test_some_now(result))
    }

    fn test_some_now(&mut self, result: &mut Vec<Ended<'a, D>>) -> Result<(), Error> {
        result.clear();
        self.take_ended(result)
    }

    /// If all requests have ended, sets `result` to them; otherwise does nothing.
    ///
    /// # Errors
    /// That of the first request that has failed. The others are in `result`.
    pub fn test_all(&mut self, result: &mut Vec<Ended<'a, D>>) -> Result<bool, Error> {
        let calls = self.calls();
        together("MPI_Testall", calls, || self.test_all_now(result))
    }

    fn test_all_now(&mut self, result: &mut Vec<Ended<'a, D>>) -> Result<bool, Error> {
        let begun = || self.entries.iter().flatten().filter_map(|entry| entry.running.begun());
        // One pass of progress, which only the request that is asked makes. (One that has failed reports that itself.)
        if let Some(first) = begun().find(|request| !request.is_done()) {
            let _ = first.status();
        }
        if !begun().all(engine::Request::is_done) {
            result.clear();
            return Ok(false);
        }
        self.wait_all_now(result).map(|()| true)
    }

    /// The requests that have not been returned, for a profiler.
    fn calls(&self) -> Option<(engine::Communicator, Vec<u64>)> {
        let begun = || self.entries.iter().flatten().filter_map(|entry| entry.running.begun());
        let communicator = begun().find_map(engine::Request::communicator);
        let communicator = communicator.filter(|communicator| communicator.is_told())?;
        Some((communicator.clone(), begun().map(engine::Request::number).collect()))
    }

    fn wait_for_one(&self) -> Option<usize> {
        let running = self.entries.iter().flatten().map(|entry| &entry.running);
        let position = wait_ready(running)?;
        let left = self.entries.iter().enumerate().filter(|(_, entry)| entry.is_some());
        left.map(|(index, _)| index).nth(position)
    }

    fn take_ended(&mut self, result: &mut Vec<Ended<'a, D>>) -> Result<(), Error> {
        let mut failure = Ok(());
        for index in 0..self.entries.len() {
            match self.test(index) {
                Some(Ok(ended)) => result.push(ended),
                Some(Err(error)) => failure = failure.and(Err(error)),
                None => {}
            }
        }
        failure
    }

    fn test(&mut self, index: usize) -> Option<Result<Ended<'a, D>, Error>> {
        let status = self.entries[index].as_mut()?.running.test()?;
        Some(self.end(index, |_| status))
    }

    /// Takes out a request for the call `how`.
    fn end(
        &mut self,
        index: usize,
        how: impl FnOnce(&mut Running) -> Result<engine::Status, Error>,
    ) -> Result<Ended<'a, D>, Error> {
        let gone = || Error::new(ErrorClass::Request, "MPI_Wait");
        // It stays in its place until it has ended, so that a panic of a user operation leaves it to the drop.
        let entry = self.entries[index].as_mut().ok_or_else(gone)?;
        let status = how(&mut entry.running);
        let data = entry.data;
        self.entries[index] = None;
        // SAFETY: borrowed for `'a`, and the operation has ended.
        status.map(|status| (index, Status::new(status), unsafe { &*data }))
    }
}

impl<D: ?Sized> Drop for RequestCollection<'_, D> {
    fn drop(&mut self) {
        end_all(self.entries.iter_mut().flatten().map(|entry| &mut entry.running));
    }
}

/// Reports one call about several requests to the profiler.
fn together<R>(
    call: &'static str,
    calls: Option<(engine::Communicator, Vec<u64>)>,
    f: impl FnOnce() -> Result<R, Error>,
) -> Result<R, Error> {
    match calls {
        Some((communicator, numbers)) => engine::Request::together(call, &communicator, numbers, f),
        None => f(),
    }
}

/// Like [`scope`](super::scope), with a collection to wait for many requests at once, which has room for `reserve` of them without
/// growing.
///
/// ```
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let myself = world.this_process();
/// let (sent, mut received) = ([1, 2, 3], [0; 3]);
/// mpi::request::multiple_scope(6, |scope, requests| {
///     for (from, to) in sent.iter().zip(&mut received) {
///         requests.add(myself.immediate_send(scope, from));
///         requests.add(myself.immediate_receive_into(scope, to));
///     }
///     let mut ended = Vec::new();
///     requests.wait_all(&mut ended)?;
///     assert_eq!(ended.len(), 6);
///     Ok::<_, mpi::Error>(())
/// })?;
/// assert_eq!(received, sent);
/// # Ok::<_, mpi::Error>(())
/// ```
pub fn multiple_scope<'a, F, R, D: 'a + ?Sized>(reserve: usize, f: F) -> R
where
    F: FnOnce(&LocalScope<'a>, &mut RequestCollection<'a, D>) -> R,
{
    // The collection goes first; its requests are its own, not the scope's.
    let scope = LocalScope::new();
    let mut collection = RequestCollection::new(reserve);
    f(&scope, &mut collection)
}

//! Operations that have begun and may not have ended.

use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};
use core::{
    fmt,
    mem::{self, ManuallyDrop},
    ptr,
    task::{Context, Poll},
};

use super::{
    Engine,
    check::Check,
    communicator::Communicator,
    core::{Ended, InTurn, Known, RequestId},
    home::Home,
    process::Process,
    profile::{Entry, Exit, Span, is_immediate},
    status::Status,
};
use crate::{
    error::PeerError,
    messaging::tagged::{Envelope, Outcome},
    mpi::error::{Detail, Error, ErrorClass},
};

#[derive(Clone, Copy)]
enum State {
    /// It ended when it began.
    Ended(Status),
    Pending {
        id: RequestId,
        room: Room,
    },
}

/// The size of a request's receive buffer, and whether its home is [lent](Home::lent), in one word: a request is moved often,
/// and a byte by itself is one more move.
#[derive(Clone, Copy)]
struct Room(u64);

impl Room {
    /// No buffer is that large.
    const LENT: u64 = 1 << 63;

    #[inline(always)]
    fn new(bytes: u64, is_lent: bool) -> Self {
        let bytes = bytes & !Self::LENT;
        Self(if is_lent { bytes | Self::LENT } else { bytes })
    }

    fn bytes(self) -> u64 {
        self.0 & !Self::LENT
    }

    #[inline(always)]
    fn is_lent(self) -> bool {
        self.0 & Self::LENT != 0
    }
}

/// A send, receive or collective that has begun.
///
/// Dropping a request that has not ended gives it up (as `MPI_Request_free`): the operation goes on, and its memory
/// must stay valid until it has ended, which the program cannot find out any more. So a type that borrows the memory
/// must wait in its own `drop`.
pub struct Request {
    home: Home,
    state: State,
    /// The call that began it.
    call: &'static str,
    /// State that few requests have, so that dropping one looks here by itself.
    extra: ManuallyDrop<Option<Box<Extra>>>,
}

/// The properties of an operation that its result depends on.
#[derive(Clone, Copy)]
pub(super) struct About {
    /// The call that began it.
    pub(super) call: &'static str,
    /// Size of the receive buffer, bytes.
    pub(super) room: u64,
}

#[derive(Default)]
struct Extra {
    check: Option<Check>,
    /// The profiled call that began the request, if that lasts until it has ended.
    span: Span,
    /// Number by which the profiler knows the request; 0 if there is none.
    number: u64,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("call", &self.call)
            .field("ended", &matches!(self.state, State::Ended(_)))
            .finish_non_exhaustive()
    }
}

impl Request {
    #[inline]
    pub(super) fn pending(communicator: &Communicator, id: RequestId, call: &'static str, room: u64) -> Self {
        Self {
            home: Home::own(communicator),
            state: State::Pending {
                id,
                room: Room::new(room, false),
            },
            call,
            extra: ManuallyDrop::new(None),
        }
    }

    /// A receive that may end by a ring; its home may be [lent](Home::lent).
    #[inline(always)]
    pub(super) fn at(home: Home, (id, is_lent): (RequestId, bool), call: &'static str, room: u64) -> Self {
        Self {
            home,
            state: State::Pending {
                id,
                room: Room::new(room, is_lent),
            },
            call,
            extra: ManuallyDrop::new(None),
        }
    }

    #[inline]
    pub(super) fn ended(communicator: &Communicator, status: Status, call: &'static str) -> Self {
        Self {
            home: Home::own(communicator),
            state: State::Ended(status),
            call,
            extra: ManuallyDrop::new(None),
        }
    }

    /// An operation that ended when it began, of which no profiler is told.
    #[inline(always)]
    pub(super) fn sent(call: &'static str) -> Self {
        Self {
            home: Home::NONE,
            state: State::Ended(Status::EMPTY),
            call,
            extra: ManuallyDrop::new(None),
        }
    }

    fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// With what to check when it has ended.
    pub(super) fn checked(mut self, check: Option<Check>) -> Self {
        if check.is_some() {
            self.extra().check = check;
        }
        self
    }

    /// With the profiled call that began it, which lasts until the request has ended.
    pub(super) fn within(mut self, span: Span) -> Self {
        if span.is_open() {
            self.extra().span = span;
        }
        self
    }

    /// The profiler knows it by this number.
    pub(super) fn set_number(&mut self, number: u64) {
        self.extra().number = number;
    }

    /// Tells the profiler that a call on this request begins.
    fn enter(&self, call: &'static str) -> Span {
        let Some(communicator) = self.home.get() else {
            return Span::default();
        };
        communicator.enter(|| Entry {
            requests: vec![self.number()],
            ..Entry::named(call)
        })
    }

    /// The call that began the request, if it is still open; otherwise begins `call`.
    fn end_of(&mut self, call: &'static str) -> Span {
        let span = self
            .extra
            .as_mut()
            .map_or_else(Span::default, |extra| mem::take(&mut extra.span));
        if span.is_open() {
            return span;
        }
        // A request that was begun within another call is none of the program's.
        if self.number() == 0 && !self.is_off() {
            return Span::default();
        }
        self.enter(call)
    }

    /// The communicator on which it was begun. `None`: it is a send that ended when it began, and there is no profiler.
    #[must_use]
    pub fn communicator(&self) -> Option<&Communicator> {
        self.home.get()
    }

    /// The request, if it has not ended as it began, with its communicator.
    #[inline(always)]
    fn begun(&self) -> Option<(&Communicator, RequestId)> {
        match self.state {
            State::Pending { id, .. } => Some((self.home.get()?, id)),
            State::Ended(_) => None,
        }
    }

    /// Returns whether neither a profiler nor the fabric is told of calls on it.
    #[inline(always)]
    fn is_off(&self) -> bool {
        let communicator = self.home.get();
        communicator.is_none_or(|communicator| communicator.engine().profile.is_off())
    }

    /// The number by which a profiler knows this request; 0 if there is no profiler.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.extra.as_ref().map_or(0, |extra| extra.number)
    }

    /// The MPI function that began it.
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// Whether it has ended: [`wait`](Self::wait) would not wait. Makes no progress, but for a look at the network if
    /// there has been none for a while.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let Some((communicator, id)) = self.begun() else {
            return true;
        };
        let (fabric, mut done) = (&communicator.engine().fabric, false);
        fabric.access(&mut |core, _, _| done = core.is_done(id));
        if !done {
            fabric.stayed();
        }
        done
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// The operation has failed.
    #[inline]
    pub fn wait(mut self) -> Result<Status, Error> {
        if let (State::Ended(status), None) = (self.state, self.home.get()) {
            // There is nothing in it that has to be dropped: no profiler knows it.
            debug_assert!(self.extra.is_none());
            mem::forget(self);
            return Ok(status);
        }
        self.wait_mut()
    }

    /// As [`wait`](Self::wait), for a request that cannot be moved. Afterwards it is inactive, with an empty status.
    ///
    /// # Errors
    /// The operation has failed.
    pub fn wait_mut(&mut self) -> Result<Status, Error> {
        if self.is_off() {
            return self.finish();
        }
        let span = self.end_of("MPI_Wait");
        let ended = self.finish();
        span.leave(ended, |status, leave| self.told(Some(*status), leave))
    }

    /// Tells the profiler how it has ended, if it has.
    fn told(&self, status: Option<Status>, leave: &mut dyn FnMut(&Exit<'_>)) {
        // A collective that ends with the call that began it has no number: there is nothing to tell.
        let ended = status
            .filter(|_| self.number() != 0)
            .map(|status| (self.number(), status));
        leave(&Exit {
            ended: ended.as_slice(),
            ..Exit::default()
        });
    }

    /// Waits until it has ended, without telling the profiler.
    #[inline]
    pub(super) fn finish(&mut self) -> Result<Status, Error> {
        match self.state {
            State::Ended(status) => {
                self.state = State::Ended(Status::EMPTY);
                Ok(status)
            }
            State::Pending { id, room } => match self.take_short(id, room, true) {
                Some(status) => Ok(status),
                None => self.finish_later(id, room),
            },
        }
    }

    /// How it has ended, if it is a receive that keeps its home by itself, and its message comes by a ring. It is over then.
    #[inline(always)]
    fn take_short(&mut self, id: RequestId, room: Room, waits: bool) -> Option<Status> {
        if room.is_lent() {
            return None;
        }
        let communicator = self.home.get()?;
        let envelope = communicator.engine().rings()?.take_short(id, waits)?;
        let status = communicator.plain_status_of(&envelope);
        self.state = State::Ended(Status::EMPTY);
        Some(status)
    }

    /// The same if its home is lent. From now on the request keeps that by itself unless it is over.
    fn take_lent(&mut self, waits: bool) -> Option<Status> {
        let State::Pending { id, room } = self.state else {
            return None;
        };
        if !room.is_lent() {
            return None;
        }
        let communicator = self.home.get()?;
        let status = |envelope: &Envelope| communicator.plain_status_of(envelope);
        let taken = communicator.engine().rings()?.take_lent(id, waits, status);
        let Some((status, kept)) = taken else {
            self.make_own();
            return None;
        };
        self.over();
        drop(kept);
        Some(status)
    }

    /// It has ended by a ring, and has given its home back if that was lent, which this returns.
    #[inline(always)]
    fn over(&mut self) -> bool {
        let is_lent = matches!(self.state, State::Pending { room, .. } if room.is_lent());
        self.state = State::Ended(Status::EMPTY);
        if is_lent {
            self.home.forget();
        }
        is_lent
    }

    /// A request whose way is not that of the rings keeps its home by itself.
    #[inline(always)]
    fn make_own(&mut self) {
        if let State::Pending { room, .. } = &mut self.state
            && room.is_lent()
        {
            *room = Room::new(room.bytes(), false);
            self.home.keep();
        }
    }

    #[inline(never)]
    fn finish_later(&mut self, id: RequestId, room: Room) -> Result<Status, Error> {
        if let Some(status) = self.take_lent(true) {
            return Ok(status);
        }
        self.state = State::Ended(Status::EMPTY);
        let Some(communicator) = self.home.get() else {
            return Err(Error::new(ErrorClass::Request, self.call));
        };
        let mut ended = None;
        let waited = communicator.engine().fabric.wait(&mut |core, _, _| {
            if let Some(how) = core.take_awaited(id) {
                ended = Some(how);
            }
            ended.is_some()
        });
        match (ended, waited) {
            (Some(ended), _) => self.result(communicator, &ended, room.bytes()),
            (None, Err(_)) => Err(communicator.broken(self.call)),
            (None, Ok(())) => Err(Error::new(ErrorClass::Request, self.call)),
        }
    }

    /// Waits until all of these have ended (`MPI_Waitall`), and tells how each has, in their order: what
    /// [`wait_mut`](Self::wait_mut) would give. Those whose messages have come cost less together than one by one. A profiler
    /// is told of one call if this is done [`together`](Self::together).
    ///
    /// `ended` must not call MPI.
    pub fn wait_all<'a>(
        requests: impl IntoIterator<Item = &'a mut Self>,
        mut ended: impl FnMut(Result<Status, Error>),
    ) {
        let mut requests = requests.into_iter();
        while let Some(first) = requests.next() {
            if let Some(status) = first.take_sent() {
                ended(Ok(status));
                continue;
            }
            // (An engine without rings is not cloned: that would cost each message an atomic operation or two.)
            let engine = { first.begun() }.map(|(communicator, _)| communicator.engine());
            let left = match engine.filter(|engine| engine.rings().is_some()).map(Arc::clone) {
                Some(engine) => Self::wait_by_rings(&engine, first, &mut requests, &mut ended),
                None => Some(first),
            };
            if let Some(request) = left {
                ended(request.wait_mut());
            }
        }
    }

    /// How it has ended, if it did when it began, and no profiler knows it; it is inactive then.
    #[inline(always)]
    fn take_sent(&mut self) -> Option<Status> {
        match (self.state, self.home.get()) {
            (State::Ended(status), None) => {
                self.state = State::Ended(Status::EMPTY);
                Some(status)
            }
            _ => None,
        }
    }

    /// Ends these as long as they end by rings of this engine. Gives the first one that does not.
    #[inline]
    fn wait_by_rings<'a>(
        engine: &Engine,
        first: &'a mut Self,
        others: &mut impl Iterator<Item = &'a mut Self>,
        ended: &mut impl FnMut(Result<Status, Error>),
    ) -> Option<&'a mut Self> {
        let Some(rings) = engine.rings() else {
            return Some(first);
        };
        let mut together = Together {
            engine,
            first: Some(first),
            others,
            awaited: None,
            given_back: 0,
            ended,
        };
        let kept = rings.take_in_turn(&mut together, true);
        let left = together.awaited;
        drop(kept);
        left
    }

    /// Makes progress once; gives what [`wait`](Self::wait) would, if the request has ended.
    ///
    /// # Errors
    /// The operation has failed.
    #[inline]
    pub fn test(&mut self) -> Result<Option<Status>, Error> {
        // (Nobody is told of messages that may come so.)
        if let State::Pending { id, room } = self.state
            && let Some(status) = self.take_short(id, room, false)
        {
            return Ok(Some(status));
        }
        self.test_further()
    }

    #[inline(never)]
    fn test_further(&mut self) -> Result<Option<Status>, Error> {
        if let Some(status) = self.take_lent(false) {
            return Ok(Some(status));
        }
        if self.is_off() {
            return self.look();
        }
        let span = self.end_of("MPI_Test");
        let ended = self.look();
        if matches!(ended, Ok(None)) && !is_immediate(self.call) {
            // The call goes on.
            self.extra().span = span;
            return ended;
        }
        span.leave(ended, |status, leave| self.told(*status, leave))
    }

    /// Looks whether it has ended, without telling the profiler.
    fn look(&mut self) -> Result<Option<Status>, Error> {
        let State::Pending { id, room } = self.state else {
            return self.finish().map(Some);
        };
        self.make_own();
        let Some((communicator, _)) = self.begun() else {
            return Ok(None);
        };
        match communicator.engine().fabric.test(id) {
            Ok(Some(ended)) => {
                let result = self.result(communicator, &ended, room.bytes());
                self.state = State::Ended(Status::EMPTY);
                result.map(Some)
            }
            Ok(None) => Ok(None),
            Err(_) => Err(communicator.broken(self.call)),
        }
    }

    /// How it has ended, if it has; the request stays active (`MPI_Request_get_status`). Makes progress once.
    ///
    /// # Errors
    /// The operation has failed.
    pub fn status(&self) -> Result<Option<Status>, Error> {
        let span = self.enter("MPI_Request_get_status");
        span.leave(self.peek(), |status, leave| self.told(*status, leave))
    }

    fn peek(&self) -> Result<Option<Status>, Error> {
        let (id, room) = match self.state {
            State::Ended(status) => return Ok(Some(status)),
            State::Pending { id, room } => (id, room.bytes()),
        };
        let Some(communicator) = self.home.get() else {
            return Ok(None);
        };
        let fabric = &communicator.engine().fabric;
        let progress = fabric.progress();
        let mut ended = None;
        fabric.access(&mut |core, _, _| ended = core.peek(id));
        if progress.is_err() && ended.is_none() {
            return Err(communicator.broken(self.call));
        }
        ended.map(|ended| self.result(communicator, &ended, room)).transpose()
    }

    /// As [`test`](Self::test), for a task, which is woken when the request has ended. Until then some thread must make
    /// progress: one that waits or tests, or the helper thread ([`Options::helper`](super::Options::helper)), which
    /// then sleeps until the network has something. Without a helper thread the task is woken at once, to ask again.
    ///
    /// # Errors
    /// The operation has failed.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Status, Error>> {
        loop {
            if let Some(ended) = self.test().transpose() {
                return Poll::Ready(ended);
            }
            let Some((communicator, id)) = self.begun() else {
                continue;
            };
            let fabric = &communicator.engine().fabric;
            let mut sleeps = false;
            fabric.access(&mut |core, _, _| sleeps = core.sleep(id, context.waker()));
            if sleeps {
                if !fabric.attend() {
                    context.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
        }
    }

    /// Cancels a receive that has matched no message yet. The caller must still wait for it. Sends are not cancelled
    /// (MPI 4 deprecates that).
    pub fn cancel(&self) {
        let _span = self.enter("MPI_Cancel");
        if let Some((communicator, id)) = self.begun() {
            communicator.engine().fabric.access(&mut |core, _, _| {
                core.cancel(id);
            });
        }
    }

    /// Waits until one of `requests` has ended, takes it out, and gives its index and status. `None` if there is
    /// nothing to wait for.
    ///
    /// # Errors
    /// The operation that has ended has failed.
    pub fn wait_any(requests: &mut [Option<Self>]) -> Option<(usize, Result<Status, Error>)> {
        let span = Self::enter_all("MPI_Waitany", requests.iter().flatten());
        let index = Self::wait_for_any(requests)?;
        let mut request = requests[index].take()?;
        let ended = span.leave(request.finish(), |status, leave| request.told(Some(*status), leave));
        Some((index, ended))
    }

    fn wait_for_any(requests: &[Option<Self>]) -> Option<usize> {
        let index = Self::wait_ready_quietly(requests.iter().flatten())?;
        requests
            .iter()
            .enumerate()
            .filter(|(_, request)| request.is_some())
            .nth(index)
            .map(|(index, _)| index)
    }

    /// Waits until one of `requests` has ended, and gives its position: [`wait`](Self::wait) on it will not wait.
    /// `None` if there are none.
    pub fn wait_ready<'a>(requests: impl Iterator<Item = &'a Self> + Clone) -> Option<usize> {
        let _span = Self::enter_all("MPI_Waitany", requests.clone());
        Self::wait_ready_quietly(requests)
    }

    fn enter_all<'a>(call: &'static str, mut requests: impl Iterator<Item = &'a Self> + Clone) -> Span {
        let all = requests.clone();
        let communicator = requests.find_map(Self::communicator);
        communicator.map_or_else(Span::default, |communicator| {
            communicator.enter(|| Entry {
                requests: all.map(Self::number).collect(),
                ..Entry::named(call)
            })
        })
    }

    fn wait_ready_quietly<'a>(requests: impl Iterator<Item = &'a Self> + Clone) -> Option<usize> {
        requests.clone().next()?;
        let Some((communicator, _)) = requests.clone().find_map(Self::begun) else {
            return Some(0);
        };
        let mut found = None;
        let _ = communicator.engine().fabric.wait(&mut |core, _, _| {
            let look = |core: &mut Process| {
                requests.clone().position(|request| match request.state {
                    State::Ended(_) => true,
                    State::Pending { id, .. } => core.is_done(id),
                })
            };
            found = look(core).or_else(|| {
                core.end_in_vain(requests.clone().filter_map(|request| match request.state {
                    State::Ended(_) => None,
                    State::Pending { id, .. } => Some(id),
                }));
                look(core)
            });
            found.is_some()
        });
        // If the network has failed, waiting for the first one reports it.
        found.or(Some(0))
    }

    /// Waits until at least one of `requests` has ended, and takes out all that have. Empty if there is nothing to wait
    /// for.
    pub fn wait_some(requests: &mut [Option<Self>]) -> Vec<(usize, Result<Status, Error>)> {
        let span = Self::enter_all("MPI_Waitsome", requests.iter().flatten());
        match Self::wait_for_any(requests) {
            Some(_) => Self::take_ended(requests, span),
            None => Vec::new(),
        }
    }

    /// Makes progress once, and takes out all of `requests` that have ended.
    pub fn test_some(requests: &mut [Option<Self>]) -> Vec<(usize, Result<Status, Error>)> {
        let span = Self::enter_all("MPI_Testsome", requests.iter().flatten());
        if let Some(communicator) = requests.iter().flatten().find_map(Self::communicator) {
            let _ = communicator.engine().fabric.progress();
        }
        Self::take_ended(requests, span)
    }

    fn take_ended(requests: &mut [Option<Self>], span: Span) -> Vec<(usize, Result<Status, Error>)> {
        let (mut ended, mut told) = (Vec::new(), Vec::new());
        for (index, place) in requests.iter_mut().enumerate() {
            if let Some(mut request) = place.take_if(|request| request.is_done()) {
                let result = request.finish();
                if span.is_open() {
                    told.push((request.number(), result.unwrap_or(Status::EMPTY)));
                }
                ended.push((index, result));
            }
        }
        let _ = span.leave(Ok(()), |(), leave| {
            leave(&Exit {
                ended: &told,
                ..Exit::default()
            });
        });
        ended
    }

    fn result(&self, communicator: &Communicator, ended: &Ended, room: u64) -> Result<Status, Error> {
        let check = self.extra.as_ref().and_then(|extra| extra.check.as_ref());
        let call = self.call;
        communicator.result(ended, About { call, room }, check)
    }
}

/// Requests that end one after the other.
struct Together<'a, 'b, I, F> {
    engine: &'b Engine,
    first: Option<&'a mut Request>,
    others: &'b mut I,
    /// The one that is waited for.
    awaited: Option<&'a mut Request>,
    given_back: u32,
    ended: &'b mut F,
}

impl<'a, I: Iterator<Item = &'a mut Request>, F: FnMut(Result<Status, Error>)> InTurn for Together<'a, '_, I, F> {
    #[inline(always)]
    fn next(&mut self, _: Known<'_>) -> Option<RequestId> {
        loop {
            let request = self.first.take().or_else(|| self.others.next())?;
            if let Some(status) = request.take_sent() {
                (self.ended)(Ok(status));
                continue;
            }
            let begun = request.begun();
            let here = begun.filter(|(home, _)| ptr::eq(&raw const **home.engine(), self.engine));
            let id = here.map(|(_, id)| id);
            self.awaited = Some(request);
            return id;
        }
    }

    #[inline(always)]
    fn end(&mut self, envelope: &Envelope) {
        let Some(request) = self.awaited.take() else { return };
        let status = request.home.get().map(|home| home.plain_status_of(envelope));
        self.given_back += u32::from(request.over());
        (self.ended)(Ok(status.unwrap_or(Status::EMPTY)));
    }

    fn given_back(&self) -> u32 {
        self.given_back
    }
}

impl Drop for Request {
    #[inline]
    fn drop(&mut self) {
        if let State::Pending { id, .. } = self.state {
            self.give_up(id);
        }
        if self.extra.is_some() {
            self.drop_extra();
        }
    }
}

impl Request {
    #[cold]
    #[inline(never)]
    fn drop_extra(&mut self) {
        drop(self.extra.take());
    }

    /// The program does not ask for it any more.
    #[cold]
    #[inline(never)]
    fn give_up(&mut self, id: RequestId) {
        self.make_own();
        let _span = self.end_of("MPI_Request_free");
        if let Some(communicator) = self.home.get() {
            let fabric = &communicator.engine().fabric;
            fabric.access(&mut |core, _, _| core.detach(id));
        }
    }
}

impl Communicator {
    /// How a request has ended, as MPI status or error.
    #[inline]
    pub(super) fn result(&self, ended: &Ended, about: About, check: Option<&Check>) -> Result<Status, Error> {
        if ended.is_well() && check.is_none() {
            return Ok(self.status_of(&ended.envelope));
        }
        self.result_in_full(ended, about, check)
    }

    #[cold]
    fn result_in_full(&self, ended: &Ended, about: About, check: Option<&Check>) -> Result<Status, Error> {
        let About { call, room } = about;
        let status = self.status_of(&ended.envelope);
        let source = status.source;
        if let Some(class) = ended.refused {
            let error = self.refused(class, call, check);
            return Err(self.locate(match class {
                ErrorClass::NotSame if check.is_none() => error.with_peer(source).with_detail(Detail::Text(
                    "that rank has called another collective, or with other arguments",
                )),
                _ => error,
            }));
        }
        match ended.outcome {
            Outcome::Complete => match check {
                Some(Check::Message(expected)) => match expected.mismatch() {
                    Some((sent, expected)) => {
                        let error = Error::new(ErrorClass::Type, call).with_peer(source);
                        Err(self.locate(error.with_detail(Detail::Types { sent, expected })))
                    }
                    None => Ok(status),
                },
                _ => Ok(status),
            },
            Outcome::Cancelled => Ok(Status {
                cancelled: true,
                ..Status::EMPTY
            }),
            Outcome::Truncated => {
                let room = ended.wanted.unwrap_or(room);
                let truncated = Error::truncated(call, status.len, room);
                Err(self.locate(truncated.with_peer(source).with_tag(status.tag)))
            }
            Outcome::Revoked => Err(self.locate(Error::new(ErrorClass::Revoked, call))),
            Outcome::Failed(error) => Err(self.lost(call, error, ended.envelope.source)),
        }
    }

    /// The error for a lost process, which is named if it is in the communicator.
    pub(super) fn lost(&self, call: &'static str, error: PeerError, process: u32) -> Error {
        self.access((), |core, _, _| core.tell_lost(self.context(), process));
        let detail = Detail::Text(failure_text(error));
        let lost = self.locate(Error::new(ErrorClass::ProcFailed, call).with_detail(detail));
        self.rank_of(process).map_or(lost, |peer| lost.with_peer(peer))
    }

    /// The error for an operation that another process, or a check, has refused.
    fn refused(&self, class: ErrorClass, call: &'static str, check: Option<&Check>) -> Error {
        let error = Error::new(class, call);
        let Some(Check::Collective(verdict)) = check else {
            return error;
        };
        verdict.get().map_or(error, |mismatch| {
            let own = mismatch.rank == self.rank();
            let other = if own { mismatch.other } else { mismatch.rank };
            error.with_peer(other).with_detail(Detail::Mismatch(*mismatch))
        })
    }

    pub(super) fn broken(&self, call: &'static str) -> Error {
        let detail = Detail::Text("the network of this process has failed");
        self.locate(Error::new(ErrorClass::Other, call).with_detail(detail))
    }
}

pub(super) fn failure_text(error: PeerError) -> &'static str {
    match error {
        PeerError::Closed => "it has said goodbye (MPI_Finalize)",
        PeerError::Restarted => "it has been started anew",
        PeerError::Reset => "it has given us up, or was started anew",
        PeerError::NoRoom => "it has no room for another",
        PeerError::Misbehaved => "it sent what makes no sense",
        PeerError::Refused => "no process listens at its address",
        PeerError::TimedOut { .. } => "it does not answer",
        PeerError::OtherUser => "it belongs to another user, and shares no memory",
        PeerError::NoMemory => "it does not take the memory that was to be shared",
        PeerError::OtherRelease | PeerError::Incompatible { .. } => {
            "it is of another release, which does not go with this one"
        }
    }
}

impl Request {
    /// Presents `f` as one call with these requests, such as `MPI_Waitall`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn together<R>(
        call: &'static str,
        communicator: &Communicator,
        numbers: Vec<u64>,
        f: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let entry = || Entry {
            requests: numbers,
            ..Entry::named(call)
        };
        communicator.as_one(entry, f, |_, ended| ended)
    }
}

impl Span {
    /// The same for a call that has begun a request, which gets a number.
    #[inline(always)]
    pub(super) fn begin(self, result: Result<Request, Error>) -> Result<Request, Error> {
        if self.is_open() { self.numbered(result) } else { result }
    }

    fn numbered(self, mut result: Result<Request, Error>) -> Result<Request, Error> {
        if let Ok(request) = &mut result {
            request.set_number(self.number());
        }
        self.leave(result, |request, leave| {
            leave(&Exit {
                request: Some(request.number()),
                ..Exit::default()
            });
        })
    }
}

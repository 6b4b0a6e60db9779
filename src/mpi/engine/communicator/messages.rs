#![expect(unsafe_code, reason = "messages are given by pointer, as C does")]
//! Point-to-point messages (MPI 3).

use super::{super::status::PROC_NULL, Communicator};
use crate::{
    messaging::tagged::{Outcome, Selector},
    mpi::{
        Rank,
        datatype::Datatype,
        engine::{
            Request, Status,
            buffer::Buffer,
            check::Check,
            class::Class,
            core::{Ended, RequestId, Route},
            home::Home,
            request::About,
        },
        error::{Error, ErrorClass},
    },
};

const IRECV: &str = "MPI_Irecv";

/// Selector and buffer of a receive, the buffer's size in bytes, and the check to make at the end.
type Room = (Selector, Buffer, u64, Option<Check>);

/// Send modes (MPI 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `MPI_Send`. Small messages are copied, large ones wait for their receive.
    #[default]
    Standard,
    /// `MPI_Ssend`: ends when the matching receive has begun.
    Synchronous,
    /// `MPI_Rsend`: the caller says that the receive is posted. Here it is the same as `Standard`.
    Ready,
}

impl Mode {
    /// The blocking function of this mode.
    const fn call(self) -> &'static str {
        match self {
            Self::Standard => "MPI_Send",
            Self::Synchronous => "MPI_Ssend",
            Self::Ready => "MPI_Rsend",
        }
    }

    /// The non-blocking function of this mode.
    const fn immediate_call(self) -> &'static str {
        match self {
            Self::Standard => "MPI_Isend",
            Self::Synchronous => "MPI_Issend",
            Self::Ready => "MPI_Irsend",
        }
    }
}

/// Messages.
impl Communicator {
    /// # Safety
    /// See [`Buffer::new`].
    #[inline]
    pub(in crate::mpi::engine) unsafe fn buffer(
        &self,
        call: &'static str,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Buffer, Error> {
        // SAFETY: the caller's contract.
        let buffer = unsafe {
            match self.0.engine.check {
                true => Buffer::typed(base, count, datatype),
                false => Buffer::new(base, count, datatype),
            }
        };
        buffer.ok_or_else(|| self.locate(Error::new(ErrorClass::Count, call)))
    }

    /// Begins to send (`MPI_Isend`, `MPI_Issend`, `MPI_Irsend`).
    ///
    /// # Errors
    /// The rank, tag or count is wrong, or the communicator is revoked. (A lost receiver is reported by the request.)
    ///
    /// # Safety
    /// Until the request has ended, the data of `count` elements at `base` are initialised memory that may be read from
    /// any thread and is not written to.
    pub unsafe fn isend(
        &self,
        mode: Mode,
        base: *const u8,
        count: u64,
        datatype: &Datatype,
        destination: Rank,
        tag: i32,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's contract.
        if unsafe { self.send_short(mode, base, count, datatype, destination, tag) } {
            return Ok(Request::sent(mode.immediate_call()));
        }
        if self.0.engine.profile.is_off() {
            let call = mode.immediate_call();
            // SAFETY: the caller's contract; the buffer is only sent from.
            let buffer = unsafe { self.buffer(call, base.cast_mut(), count, datatype) }?;
            return self.isend_buffer(call, mode, buffer, destination, tag);
        }
        // SAFETY: the caller's contract.
        unsafe { self.isend_in_full(mode, base, count, datatype, destination, tag) }
    }

    /// # Safety
    /// See [`isend`](Self::isend).
    #[cold]
    unsafe fn isend_in_full(
        &self,
        mode: Mode,
        base: *const u8,
        count: u64,
        datatype: &Datatype,
        destination: Rank,
        tag: i32,
    ) -> Result<Request, Error> {
        let call = mode.immediate_call();
        let span = self.enter_message(call, (count, datatype), (destination, tag));
        // SAFETY: the caller's contract; the buffer is only sent from.
        let buffer = unsafe { self.buffer(call, base.cast_mut(), count, datatype) };
        span.begin(buffer.and_then(|buffer| self.isend_buffer(call, mode, buffer, destination, tag)))
    }

    /// Begins to send the data of a buffer.
    pub(in crate::mpi::engine) fn isend_buffer(
        &self,
        call: &'static str,
        mode: Mode,
        buffer: Buffer,
        destination: Rank,
        tag: i32,
    ) -> Result<Request, Error> {
        Ok(match self.begin_send(call, mode, buffer, destination, tag, false)? {
            Some(id) => Request::pending(self, id, call, 0),
            None => Request::ended(self, Status::EMPTY, call),
        })
    }

    /// Begins to send; `None`: the send has ended. A blocking send is `patient`: before the session with the receiver
    /// is open, its credit is not known, and the sender waits for it instead of sending a request and waiting for the
    /// receive.
    fn begin_send(
        &self,
        call: &'static str,
        mode: Mode,
        mut buffer: Buffer,
        destination: Rank,
        tag: i32,
        patient: bool,
    ) -> Result<Option<RequestId>, Error> {
        self.check(call)?;
        let bits = self.bits(Class::Message, self.tag(call, tag)?);
        if destination == PROC_NULL {
            return Ok(None);
        }
        let process = self.process(call, destination)?;
        let route = Route { process, bits };
        if !self.seal(&mut buffer) {
            return Err(self.locate(Error::new(ErrorClass::NoMem, call)));
        }
        let (len, mut buffer) = (buffer.len(), Some(buffer));
        let mut patient = patient && mode != Mode::Synchronous;
        loop {
            let begun = self.access(None, |core, messenger, now| {
                patient = patient && core.is_early(messenger, process, len);
                if patient {
                    return None;
                }
                core.send(messenger, now, route, buffer.take()?, mode == Mode::Synchronous)
            });
            if !patient {
                if process == self.0.engine.process {
                    self.0.engine.fabric.stayed();
                }
                return Ok(begun);
            }
            self.will_wait(call, destination, tag);
            let fabric = &self.0.engine.fabric;
            let waited = fabric.wait(&mut |core, messenger, _| !core.is_early(messenger, process, len));
            waited.map_err(|_| self.broken(call))?;
            patient = false;
        }
    }

    /// Sends (`MPI_Send`, `MPI_Ssend`, `MPI_Rsend`).
    ///
    /// # Errors
    /// The rank, tag or count is wrong; the communicator is revoked; the receiver is lost.
    ///
    /// # Safety
    /// During the call, the data of `count` elements at `base` are initialised memory that may be read from any thread
    /// and is not written to.
    pub unsafe fn send(
        &self,
        mode: Mode,
        base: *const u8,
        count: u64,
        datatype: &Datatype,
        destination: Rank,
        tag: i32,
    ) -> Result<(), Error> {
        // SAFETY: the caller's contract.
        if unsafe { self.send_short(mode, base, count, datatype, destination, tag) } {
            return Ok(());
        }
        // SAFETY: the caller's contract.
        unsafe { self.send_in_full(mode, base, count, datatype, destination, tag) }
    }

    /// # Safety
    /// See [`send`](Self::send).
    #[inline(never)]
    unsafe fn send_in_full(
        &self,
        mode: Mode,
        base: *const u8,
        count: u64,
        datatype: &Datatype,
        destination: Rank,
        tag: i32,
    ) -> Result<(), Error> {
        let call = mode.call();
        let span = self.enter_message(call, (count, datatype), (destination, tag));
        // SAFETY: the caller's contract; the buffer is only sent from.
        let buffer = unsafe { self.buffer(call, base.cast_mut(), count, datatype) };
        let begun = buffer.and_then(|buffer| self.begin_send(call, mode, buffer, destination, tag, true));
        span.end(begun.and_then(|id| match id {
            Some(id) => {
                self.will_wait(call, destination, tag);
                Request::pending(self, id, call, 0).finish().map(|_| ())
            }
            None => Ok(()),
        }))
    }

    /// Begins to receive (`MPI_Irecv`).
    ///
    /// # Errors
    /// The rank, tag or count is wrong, or the communicator is revoked.
    ///
    /// # Safety
    /// Until the request has ended, the data of `count` elements at `base` are initialised memory that may be written
    /// from any thread and is not used by other code.
    pub unsafe fn ireceive(
        &self,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's contract.
        if let Some((rings, selector, plain)) = unsafe { self.short_receive(base, count, datatype, source, tag) }
            && selector.source.is_some()
        {
            let room = plain.len() as u64;
            if let Some(posted) = rings.post(selector, plain, &self.0) {
                self.end_if_revoked();
                let home = match posted.1 {
                    // SAFETY: it is lent, which the request knows.
                    true => unsafe { Home::lent(self) },
                    false => Home::own(self),
                };
                return Ok(Request::at(home, posted, IRECV, room));
            }
        }
        if self.0.engine.profile.is_off() {
            // SAFETY: the caller's contract.
            return unsafe { self.begin_receive(IRECV, base, count, datatype, source, tag) };
        }
        // SAFETY: the caller's contract.
        unsafe { self.ireceive_in_full(base, count, datatype, source, tag) }
    }

    /// # Safety
    /// See [`ireceive`](Self::ireceive).
    #[cold]
    unsafe fn ireceive_in_full(
        &self,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Result<Request, Error> {
        let span = self.enter_message(IRECV, (count, datatype), (source, tag));
        // SAFETY: the caller's contract.
        span.begin(unsafe { self.begin_receive(IRECV, base, count, datatype, source, tag) })
    }

    /// # Safety
    /// See [`ireceive`](Self::ireceive).
    pub(super) unsafe fn begin_receive(
        &self,
        call: &'static str,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's contract.
        match (unsafe { self.room(call, base, count, datatype, source, tag) })? {
            Some(room) => self.begin_receive_into(call, room),
            None => Ok(Request::ended(self, Status::NULL, call)),
        }
    }

    /// Begins to receive into a buffer.
    pub(in crate::mpi::engine) fn ireceive_buffer(
        &self,
        call: &'static str,
        mut buffer: Buffer,
        source: Rank,
        tag: i32,
    ) -> Result<Request, Error> {
        self.check(call)?;
        if source == PROC_NULL {
            return Ok(Request::ended(self, Status::NULL, call));
        }
        let selector = self.selector(call, source, tag)?;
        let room = buffer.len();
        let check = self.unseal(&mut buffer);
        self.begin_receive_into(call, (selector, buffer, room, check))
    }

    #[inline(always)]
    fn begin_receive_into(&self, call: &'static str, (selector, buffer, room, check): Room) -> Result<Request, Error> {
        let (fabric, any_of) = (&self.0.engine.fabric, self.any_of(&selector));
        let begun = fabric.receive(&selector, buffer, any_of, check.is_some());
        self.end_if_revoked();
        match begun {
            Some(Ok(ended)) => Ok(Request::ended(self, self.status_of(&ended.envelope), call)),
            Some(Err(id)) => Ok(Request::pending(self, id, call, room).checked(check)),
            None => Err(self.broken(call)),
        }
    }

    /// The arguments of a receive; `None`: the source is `MPI_PROC_NULL`.
    ///
    /// # Safety
    /// See [`ireceive`](Self::ireceive).
    #[inline(always)]
    unsafe fn room(
        &self,
        call: &'static str,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Result<Option<Room>, Error> {
        self.check(call)?;
        if source == PROC_NULL {
            return Ok(None);
        }
        let selector = self.selector(call, source, tag)?;
        // SAFETY: the caller's contract.
        let mut buffer = unsafe { self.buffer(call, base, count, datatype) }?;
        let room = buffer.len();
        let check = self.unseal(&mut buffer);
        Ok(Some((selector, buffer, room, check)))
    }

    /// Receives (`MPI_Recv`).
    ///
    /// # Errors
    /// The rank, tag or count is wrong; the communicator is revoked; the sender is lost; the message is too long.
    ///
    /// # Safety
    /// During the call, the data of `count` elements at `base` are initialised memory that may be written from any
    /// thread and is not used by other code.
    pub unsafe fn receive(
        &self,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Result<Status, Error> {
        // SAFETY: the caller's contract.
        if let Some((rings, selector, mut room)) = unsafe { self.short_receive(base, count, datatype, source, tag) }
            && let Some(envelope) = rings.receive_short(&selector, room.bytes())
        {
            return Ok(self.plain_status_of(&envelope));
        }
        // SAFETY: the caller's contract.
        unsafe {
            match self.receive_packed(base, count, datatype, source, tag) {
                Some(status) => Ok(status),
                None => self.receive_in_full(base, count, datatype, source, tag),
            }
        }
    }

    /// # Safety
    /// See [`receive`](Self::receive).
    #[inline(never)]
    unsafe fn receive_in_full(
        &self,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Result<Status, Error> {
        const CALL: &str = "MPI_Recv";
        let span = self.enter_message(CALL, (count, datatype), (source, tag));
        // SAFETY: the caller's contract.
        let received = unsafe { self.receive_quietly(CALL, base, count, datatype, source, tag) };
        if span.is_open() {
            span.end_with(received)
        } else {
            received
        }
    }

    /// # Safety
    /// See [`receive`](Self::receive).
    unsafe fn receive_quietly(
        &self,
        call: &'static str,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Result<Status, Error> {
        // SAFETY: the caller's contract.
        let Some((selector, buffer, room, check)) = (unsafe { self.room(call, base, count, datatype, source, tag) })?
        else {
            return Ok(Status::NULL);
        };
        self.will_wait(call, source, tag);
        self.receive_into(selector, buffer, About { call, room }, check.as_ref())
    }

    /// Posts a receive and waits for it, taking the lock once if the message is there.
    fn receive_into(
        &self,
        selector: Selector,
        buffer: Buffer,
        about: About,
        check: Option<&Check>,
    ) -> Result<Status, Error> {
        let (mut buffer, mut posted, mut ended) = (Some(buffer), None, None);
        let waited = self.0.engine.fabric.wait(&mut |core, messenger, now| {
            if let Some(id) = posted {
                if let Some(how) = core.take_awaited(id) {
                    ended = Some(how);
                }
            } else if self.is_revoked() {
                // Another thread has done that since it was looked at. From now on it ends the receive.
                ended = Some(Ended::with(Outcome::Revoked));
            } else if let Some(buffer) = buffer.take() {
                match core.receive(messenger, now, selector, buffer, self.any_of(&selector), |_| true) {
                    Ok(how) => ended = Some(how),
                    Err(id) => posted = Some(id),
                }
            }
            ended.is_some()
        });
        match (ended, waited) {
            (Some(ended), _) => self.result(&ended, about, check),
            (None, _) => Err(self.broken(about.call)),
        }
    }
}

#![expect(unsafe_code, reason = "messages are given by pointer, as C does")]
//! Persistent messages (MPI 3.9): described once, started repeatedly.

use alloc::{vec, vec::Vec};
use core::fmt;
use std::sync::{Mutex, PoisonError};

use super::{Communicator, Mode};
use crate::mpi::{
    Rank,
    datatype::Datatype,
    engine::{AttachedBuffer, Entry, Exit, PROC_NULL, Request, Status},
    error::{Error, ErrorClass},
};

/// The way of a persistent message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Send(Mode),
    /// Through a copy in an attached buffer.
    Buffered,
    Receive,
}

impl Way {
    /// The MPI function that describes it.
    const fn call(self) -> &'static str {
        match self {
            Self::Send(Mode::Standard) => "MPI_Send_init",
            Self::Send(Mode::Synchronous) => "MPI_Ssend_init",
            Self::Send(Mode::Ready) => "MPI_Rsend_init",
            Self::Buffered => "MPI_Bsend_init",
            Self::Receive => "MPI_Recv_init",
        }
    }
}

/// A message that can be sent, or received, again and again.
pub struct PersistentMessage {
    communicator: Communicator,
    way: Way,
    base: *mut u8,
    count: u64,
    datatype: Datatype,
    peer: Rank,
    tag: i32,
    /// Number by which the profiler knows it.
    number: u64,
}

// SAFETY: `base` is only a number here; by the contracts of `send_init` and `receive_init` the memory there may be used
// from any thread.
unsafe impl Send for PersistentMessage {}
// SAFETY: as above.
unsafe impl Sync for PersistentMessage {}

impl fmt::Debug for PersistentMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentMessage")
            .field("call", &self.call())
            .field("communicator", &self.communicator)
            .finish_non_exhaustive()
    }
}

/// Persistent messages. Rank, tag, count and communicator are checked when one is described and when it is started.
impl Communicator {
    /// Describes a send (`MPI_Send_init`, `MPI_Ssend_init`, `MPI_Rsend_init`).
    ///
    /// # Errors
    /// The rank, tag or count is wrong, or the communicator is revoked.
    ///
    /// # Safety
    /// The contract of [`isend`](Self::isend), from each start until the end of its request.
    pub unsafe fn send_init(
        &self,
        mode: Mode,
        (base, count, datatype): (*const u8, u64, &Datatype),
        destination: Rank,
        tag: i32,
    ) -> Result<PersistentMessage, Error> {
        self.persistent(Way::Send(mode), (base.cast_mut(), count, datatype), (destination, tag))
    }

    /// Describes a send through the attached buffer that is given at each start (`MPI_Bsend_init`). It has ended when
    /// it is started.
    ///
    /// # Errors
    /// As [`send_init`](Self::send_init).
    ///
    /// # Safety
    /// At each start, the data of `count` elements at `base` are initialised memory that may be read.
    pub unsafe fn buffered_send_init(
        &self,
        (base, count, datatype): (*const u8, u64, &Datatype),
        destination: Rank,
        tag: i32,
    ) -> Result<PersistentMessage, Error> {
        self.persistent(Way::Buffered, (base.cast_mut(), count, datatype), (destination, tag))
    }

    /// Describes a receive (`MPI_Recv_init`).
    ///
    /// # Errors
    /// The rank, tag or count is wrong, or the communicator is revoked.
    ///
    /// # Safety
    /// The contract of [`ireceive`](Self::ireceive), from each start until the end of its request.
    pub unsafe fn receive_init(
        &self,
        buffer: (*mut u8, u64, &Datatype),
        source: Rank,
        tag: i32,
    ) -> Result<PersistentMessage, Error> {
        self.persistent(Way::Receive, buffer, (source, tag))
    }

    fn persistent(
        &self,
        way: Way,
        (base, count, datatype): (*mut u8, u64, &Datatype),
        (peer, tag): (Rank, i32),
    ) -> Result<PersistentMessage, Error> {
        let call = way.call();
        let span = self.enter_message(call, (count, datatype), (peer, tag));
        let number = span.number();
        let checked = self.check_message(way, (count, datatype), (peer, tag));
        let made = checked.map(|()| PersistentMessage {
            communicator: self.clone(),
            way,
            base,
            count,
            datatype: datatype.clone(),
            peer,
            tag,
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

impl Communicator {
    /// Finds what is wrong with the arguments of a message.
    fn check_message(
        &self,
        way: Way,
        (count, datatype): (u64, &Datatype),
        (peer, tag): (Rank, i32),
    ) -> Result<(), Error> {
        let call = way.call();
        self.check(call)?;
        if !datatype.fits(count) || datatype.packed_size(count).is_err() {
            return Err(self.locate(Error::new(ErrorClass::Count, call)));
        }
        if way == Way::Receive {
            return if peer == PROC_NULL {
                Ok(())
            } else {
                self.selector(call, peer, tag).map(drop)
            };
        }
        self.tag(call, tag)?;
        if peer == PROC_NULL {
            Ok(())
        } else {
            self.process(call, peer).map(drop)
        }
    }
}

impl PersistentMessage {
    /// The MPI function that has described it.
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.way.call()
    }

    /// The communicator.
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.communicator
    }

    /// Takes another buffer from the next start on.
    ///
    /// # Safety
    /// The contract under which it was described, for this buffer.
    pub unsafe fn move_to(&mut self, (base, count, datatype): (*mut u8, u64, &Datatype)) {
        (self.base, self.count) = (base, count);
        if !self.datatype.is_same(datatype) {
            self.datatype = datatype.clone();
        }
    }

    /// Starts it (`MPI_Start`). A send of [`buffered_send_init`](Communicator::buffered_send_init) goes through
    /// `attached`, which others do not look at. The caller sees that it is not running.
    ///
    /// # Errors
    /// Those of the call without `_init`.
    pub fn start(&self, attached: &Mutex<AttachedBuffer>) -> Result<Request, Error> {
        const CALL: &str = "MPI_Start";
        let comm = &self.communicator;
        let entry = || Entry {
            requests: vec![self.number],
            ..Entry::named(CALL)
        };
        let mode = match self.way {
            Way::Receive => {
                let span = comm.enter(entry);
                // SAFETY: the contract of `receive_init`.
                let begun =
                    unsafe { comm.begin_receive(CALL, self.base, self.count, &self.datatype, self.peer, self.tag) };
                return span.begin(begun);
            }
            Way::Buffered => {
                let data = (self.base.cast_const(), self.count, &self.datatype);
                let mut attached = attached.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the contract of `buffered_send_init`.
                let send = || unsafe { attached.send(comm, data, (self.peer, self.tag)) };
                comm.as_one(entry, send, |(), _| Vec::new())?;
                return Ok(Request::ended(comm, Status::EMPTY, CALL));
            }
            Way::Send(mode) => mode,
        };
        let span = comm.enter(entry);
        // SAFETY: the contract of `send_init`; the buffer is only sent from.
        let buffer = unsafe { comm.buffer(CALL, self.base, self.count, &self.datatype) };
        span.begin(buffer.and_then(|buffer| comm.isend_buffer(CALL, mode, buffer, self.peer, self.tag)))
    }
}

impl Drop for PersistentMessage {
    fn drop(&mut self) {
        let _span = self.communicator.enter(|| Entry {
            requests: vec![self.number],
            ..Entry::named("MPI_Request_free")
        });
    }
}

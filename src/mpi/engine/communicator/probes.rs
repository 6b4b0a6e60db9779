#![expect(unsafe_code, reason = "messages are given by pointer, as C does")]
//! Probing for messages before they are received (MPI 3.8).

use alloc::{boxed::Box, vec};
use core::sync::atomic::Ordering;

use super::{super::status::PROC_NULL, Communicator};
use crate::{
    messaging::{
        MemoryRegion as _,
        tagged::{Claimed, Selector},
    },
    mpi::{
        Rank,
        datatype::Datatype,
        engine::{Entry, Exit, Request, Status, buffer::Buffer, process::Process},
        error::{Error, ErrorClass},
    },
    span::Span,
};

/// A message found by a matched probe (MPI 3.8.2). It must be received; dropping it loses it.
#[derive(Debug)]
pub struct MatchedMessage {
    communicator: Communicator,
    place: Place,
    status: Status,
    /// Number by which the profiler knows it.
    pub(in crate::mpi::engine) number: u64,
}

/// Where a matched message is.
#[derive(Debug)]
enum Place {
    /// Nowhere: the probe asked for [`PROC_NULL`], from which there are no messages.
    Nowhere,
    Queue(Claimed),
    /// Here: it was taken from a ring in memory.
    Here(Box<[u8]>),
}

impl MatchedMessage {
    /// Its source, tag and length.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }
}

/// Probes.
impl Communicator {
    /// Whether a message is there (`MPI_Iprobe`). Makes progress once.
    ///
    /// # Errors
    /// The rank or tag is wrong; the communicator is revoked; the network has failed; or there is no message, and its
    /// sender is lost (for any source: a process has failed since the last such error).
    pub fn iprobe(&self, source: Rank, tag: i32) -> Result<Option<Status>, Error> {
        const CALL: &str = "MPI_Iprobe";
        let span = self.enter(|| Entry::named(CALL).with_peer(source).with_tag(tag));
        let found = self.iprobe_quietly(CALL, source, tag);
        span.leave(found, |found, leave| {
            let ended = found.map(|status| (0, status));
            leave(&Exit {
                ended: ended.as_slice(),
                ..Exit::default()
            });
        })
    }

    fn iprobe_quietly(&self, call: &'static str, source: Rank, tag: i32) -> Result<Option<Status>, Error> {
        self.check(call)?;
        if source == PROC_NULL {
            return Ok(Some(Status::NULL));
        }
        let selector = self.selector(call, source, tag)?;
        let found = self.look_for(call, &selector, |core| core.tagged.probe(&selector))?;
        Ok(found.map(|envelope| self.status_of(&envelope)))
    }

    /// Makes progress once and looks. A program that probes again and again waits for the source, so its loss is an
    /// error.
    fn look_for<T>(
        &self,
        call: &'static str,
        selector: &Selector,
        mut look: impl FnMut(&mut Process) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        self.0.engine.progress().map_err(|_| self.broken(call))?;
        let any_of = self.any_of(selector);
        let (mut found, mut lost) = (None, None);
        self.access((), |core, messenger, _| {
            found = look(core);
            lost = core.look_for_lost(selector, any_of.as_ref(), found.is_none(), false);
            core.set_probed(messenger, selector, any_of.as_ref(), found.is_none() && lost.is_none());
        });
        match lost {
            Some((process, error)) => Err(self.lost(call, error, process)),
            None => Ok(found),
        }
    }

    /// Waits for a message (`MPI_Probe`).
    ///
    /// # Errors
    /// As [`iprobe`](Self::iprobe); for any source also if no process is left that could send: all others have failed or
    /// called `MPI_Finalize`, and no other thread of this process calls.
    pub fn probe(&self, source: Rank, tag: i32) -> Result<Status, Error> {
        const CALL: &str = "MPI_Probe";
        let span = self.enter(|| Entry::named(CALL).with_peer(source).with_tag(tag));
        let found = self.probe_quietly(CALL, source, tag);
        span.end_with(found)
    }

    fn probe_quietly(&self, call: &'static str, source: Rank, tag: i32) -> Result<Status, Error> {
        self.check(call)?;
        if source == PROC_NULL {
            return Ok(Status::NULL);
        }
        let selector = self.selector(call, source, tag)?;
        let found = self.wait_for(call, &selector, |core| core.tagged.probe(&selector))?;
        Ok(self.status_of(&found))
    }

    /// Waits until `look` finds a message, or the process that `selector` names is lost, or one of those that it
    /// admits.
    fn wait_for<T>(
        &self,
        call: &'static str,
        selector: &Selector,
        mut look: impl FnMut(&mut Process) -> Option<T>,
    ) -> Result<T, Error> {
        let (mut found, mut lost) = (None, None);
        let any_of = self.any_of(selector);
        let waited = self.0.engine.fabric.wait(&mut |core, messenger, _| {
            found = look(core);
            lost = core.look_for_lost(selector, any_of.as_ref(), found.is_none(), true);
            let done = found.is_some() || lost.is_some() || self.0.revoked.load(Ordering::Relaxed);
            core.set_probed(messenger, selector, any_of.as_ref(), !done);
            done
        });
        match found {
            Some(found) => Ok(found),
            None if waited.is_err() => Err(self.broken(call)),
            None => Err(match lost {
                Some((process, error)) => self.lost(call, error, process),
                None => self.locate(Error::new(ErrorClass::Revoked, call)),
            }),
        }
    }

    /// Takes a message out of the queue if one is there (`MPI_Improbe`). Makes progress once.
    ///
    /// # Errors
    /// As [`iprobe`](Self::iprobe).
    pub fn improbe(&self, source: Rank, tag: i32) -> Result<Option<MatchedMessage>, Error> {
        const CALL: &str = "MPI_Improbe";
        let span = self.enter(|| Entry::named(CALL).with_peer(source).with_tag(tag));
        let found = self.improbe_quietly(CALL, source, tag);
        let number = span.number();
        let found = found.map(|found| found.map(|message| MatchedMessage { number, ..message }));
        span.leave(found, |found, leave| {
            let found = found.as_ref().map(|message| (message.number, message.status));
            leave(&Exit {
                request: found.map(|(number, _)| number),
                ended: found.as_slice(),
                ..Exit::default()
            });
        })
    }

    fn improbe_quietly(&self, call: &'static str, source: Rank, tag: i32) -> Result<Option<MatchedMessage>, Error> {
        self.check(call)?;
        if let Some(message) = self.no_message(source) {
            return Ok(Some(message));
        }
        let selector = self.selector(call, source, tag)?;
        let claimed = self.look_for(call, &selector, |core| core.tagged.claim(&selector))?;
        Ok(claimed.map(|claimed| self.matched(claimed)))
    }

    /// Waits for a message and takes it out of the queue (`MPI_Mprobe`).
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn mprobe(&self, source: Rank, tag: i32) -> Result<MatchedMessage, Error> {
        const CALL: &str = "MPI_Mprobe";
        let span = self.enter(|| Entry::named(CALL).with_peer(source).with_tag(tag));
        let found = self.mprobe_quietly(CALL, source, tag);
        let number = span.number();
        let found = found.map(|message| MatchedMessage { number, ..message });
        span.leave(found, |message, leave| {
            leave(&Exit {
                request: Some(message.number),
                ended: &[(message.number, message.status)],
                ..Exit::default()
            });
        })
    }

    pub(in crate::mpi::engine) fn mprobe_quietly(
        &self,
        call: &'static str,
        source: Rank,
        tag: i32,
    ) -> Result<MatchedMessage, Error> {
        self.check(call)?;
        if let Some(message) = self.no_message(source) {
            return Ok(message);
        }
        let selector = self.selector(call, source, tag)?;
        if let Some((envelope, bytes)) = self.rings().and_then(|rings| rings.claim_short(&selector)) {
            return Ok(self.taken_from_ring(self.plain_status_of(&envelope), bytes));
        }
        let claimed = self.wait_for(call, &selector, |core| core.tagged.claim(&selector))?;
        Ok(self.matched(claimed))
    }

    pub(super) fn taken_from_ring(&self, status: Status, bytes: Box<[u8]>) -> MatchedMessage {
        MatchedMessage {
            communicator: self.clone(),
            place: Place::Here(bytes),
            status,
            number: 0,
        }
    }

    fn matched(&self, claimed: Claimed) -> MatchedMessage {
        MatchedMessage {
            communicator: self.clone(),
            status: self.status_of(&claimed.envelope()),
            place: Place::Queue(claimed),
            number: 0,
        }
    }

    /// The result at once if the source is `MPI_PROC_NULL` (MPI 3.8.2, `MPI_MESSAGE_NO_PROC`).
    fn no_message(&self, source: Rank) -> Option<MatchedMessage> {
        (source == PROC_NULL).then(|| MatchedMessage {
            communicator: self.clone(),
            status: Status::NULL,
            place: Place::Nowhere,
            number: 0,
        })
    }

    /// Receives a matched message (`MPI_Mrecv`).
    ///
    /// # Errors
    /// The count is wrong, the sender is lost, or the message is too long.
    ///
    /// # Safety
    /// See [`receive`](Self::receive).
    pub unsafe fn mreceive(
        message: MatchedMessage,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Status, Error> {
        const CALL: &str = "MPI_Mrecv";
        let span = message.communicator.enter(|| Entry {
            requests: vec![message.number],
            ..Entry::of(CALL, count, datatype)
        });
        // SAFETY: the caller's contract.
        let begun = unsafe { Self::imreceive_quietly(CALL, message, base, count, datatype) };
        span.end_with(begun.and_then(|mut request| request.finish()))
    }

    /// Begins to receive a matched message (`MPI_Imrecv`).
    ///
    /// # Errors
    /// The count is wrong.
    ///
    /// # Safety
    /// See [`ireceive`](Self::ireceive).
    pub unsafe fn imreceive(
        message: MatchedMessage,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Request, Error> {
        const CALL: &str = "MPI_Imrecv";
        let communicator = message.communicator.clone();
        let number = message.number;
        let span = communicator.enter(|| Entry {
            requests: vec![number],
            ..Entry::of(CALL, count, datatype)
        });
        // SAFETY: the caller's contract.
        let begun = unsafe { Self::imreceive_quietly(CALL, message, base, count, datatype) };
        span.begin(begun)
    }

    /// # Safety
    /// See [`ireceive`](Self::ireceive).
    pub(in crate::mpi::engine) unsafe fn imreceive_quietly(
        call: &'static str,
        message: MatchedMessage,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's contract.
        let buffer = unsafe { message.communicator.buffer(call, base, count, datatype) }?;
        Self::receive_matched(call, message, buffer)
    }

    pub(in crate::mpi::engine) fn receive_matched(
        call: &'static str,
        message: MatchedMessage,
        mut buffer: Buffer,
    ) -> Result<Request, Error> {
        let MatchedMessage {
            communicator,
            place,
            status,
            ..
        } = message;
        let room = buffer.len();
        let claimed = match place {
            Place::Queue(claimed) => claimed,
            Place::Nowhere => return Ok(Request::ended(&communicator, Status::NULL, call)),
            Place::Here(bytes) => {
                buffer.place(0, Span::new(&bytes));
                if status.len <= room {
                    return Ok(Request::ended(&communicator, status, call));
                }
                let truncated = Error::truncated(call, status.len, room)
                    .with_peer(status.source)
                    .with_tag(status.tag);
                return Err(communicator.locate(truncated));
            }
        };
        let check = communicator.unseal(&mut buffer);
        let mut parts = Some((claimed, buffer));
        let id = communicator.access(None, |core, messenger, now| {
            let (claimed, buffer) = parts.take()?;
            Some(core.receive_claimed(messenger, now, claimed, buffer))
        });
        let id = id.ok_or_else(|| communicator.broken(call))?;
        Ok(Request::pending(&communicator, id, call, room).checked(check))
    }
}

#![expect(unsafe_code, reason = "messages are given by pointer, as C does")]
//! Looking for messages before they are received (MPI 3.8).

use core::sync::atomic::Ordering;

use super::{Communicator, PROC_NULL};
use crate::{
    messaging::tagged::{Claimed, Selector},
    mpi::{
        Rank,
        datatype::Datatype,
        engine::{Request, Status, buffer::Buffer, core::Core},
        error::{Error, ErrorClass},
    },
};

/// A message that was found by a matched probe (MPI 3.8.2). Receive it; dropping it loses it.
#[derive(Debug)]
pub struct MatchedMessage {
    communicator: Communicator,
    claimed: Claimed,
    status: Status,
}

impl MatchedMessage {
    /// What it is.
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
    /// A wrong rank or tag, a revoked communicator, a network that has failed.
    pub fn iprobe(&self, source: Rank, tag: i32) -> Result<Option<Status>, Error> {
        const CALL: &str = "MPI_Iprobe";
        self.check(CALL)?;
        if source == PROC_NULL {
            return Ok(Some(Status::NULL));
        }
        let selector = self.selector(CALL, source, tag)?;
        self.0.engine.progress().map_err(|_| self.broken(CALL))?;
        let found = self.access(None, |core, _, _| core.tagged.probe(&selector));
        Ok(found.map(|envelope| self.status_of(&envelope)))
    }

    /// Waits for a message (`MPI_Probe`).
    ///
    /// # Errors
    /// As [`iprobe`](Self::iprobe); or the sender is lost.
    pub fn probe(&self, source: Rank, tag: i32) -> Result<Status, Error> {
        const CALL: &str = "MPI_Probe";
        self.check(CALL)?;
        if source == PROC_NULL {
            return Ok(Status::NULL);
        }
        let selector = self.selector(CALL, source, tag)?;
        let found = self.wait_for(CALL, &selector, |core| core.tagged.probe(&selector))?;
        Ok(self.status_of(&found))
    }

    /// Waits until `look` finds something, or the process that `selector` names is lost.
    fn wait_for<T>(
        &self,
        call: &'static str,
        selector: &Selector,
        mut look: impl FnMut(&mut Core) -> Option<T>,
    ) -> Result<T, Error> {
        let (mut found, mut lost) = (None, false);
        let waited = self.0.engine.fabric.wait(&mut |core, _, _| {
            found = look(core);
            lost = selector.source.is_some_and(|process| core.lost(process).is_some());
            found.is_some() || lost || self.0.revoked.load(Ordering::Relaxed)
        });
        match found {
            Some(found) => Ok(found),
            None if waited.is_err() => Err(self.broken(call)),
            None if lost => Err(self.locate(Error::new(ErrorClass::ProcFailed, call))),
            None => Err(self.locate(Error::new(ErrorClass::Revoked, call))),
        }
    }

    /// Takes a message out of the queue if one is there (`MPI_Improbe`). Makes progress once.
    ///
    /// # Errors
    /// As [`iprobe`](Self::iprobe).
    pub fn improbe(&self, source: Rank, tag: i32) -> Result<Option<MatchedMessage>, Error> {
        const CALL: &str = "MPI_Improbe";
        self.check(CALL)?;
        let selector = self.selector(CALL, source, tag)?;
        self.0.engine.progress().map_err(|_| self.broken(CALL))?;
        let mut claimed = None;
        self.access((), |core, _, _| claimed = core.tagged.claim(&selector));
        Ok(claimed.map(|claimed| self.matched(claimed)))
    }

    /// Waits for a message and takes it out of the queue (`MPI_Mprobe`).
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn mprobe(&self, source: Rank, tag: i32) -> Result<MatchedMessage, Error> {
        const CALL: &str = "MPI_Mprobe";
        self.check(CALL)?;
        let selector = self.selector(CALL, source, tag)?;
        let claimed = self.wait_for(CALL, &selector, |core| core.tagged.claim(&selector))?;
        Ok(self.matched(claimed))
    }

    fn matched(&self, claimed: Claimed) -> MatchedMessage {
        MatchedMessage {
            communicator: self.clone(),
            status: self.status_of(&claimed.envelope()),
            claimed,
        }
    }

    /// Begins to receive a message that was matched (`MPI_Imrecv`).
    ///
    /// # Errors
    /// A wrong count.
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
        // SAFETY: the caller's contract.
        let buffer = unsafe { message.communicator.buffer(CALL, base, count, datatype) }?;
        Self::receive_matched(CALL, message, buffer)
    }

    pub(in crate::mpi::engine) fn receive_matched(
        call: &'static str,
        message: MatchedMessage,
        buffer: Buffer,
    ) -> Result<Request, Error> {
        let MatchedMessage {
            communicator, claimed, ..
        } = message;
        let room = buffer.len();
        let mut parts = Some((claimed, buffer));
        let id = communicator.access(None, |core, messenger, now| {
            let (claimed, buffer) = parts.take()?;
            Some(core.receive_claimed(messenger, now, claimed, buffer))
        });
        let id = id.ok_or_else(|| communicator.broken(call))?;
        Ok(Request::pending(&communicator, id, call, room))
    }
}

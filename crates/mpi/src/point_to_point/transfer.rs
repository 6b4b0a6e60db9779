#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! One message with its other side and tag, from or into a place in memory.

use hikyaku::mpi::{
    Rank,
    engine::{self, Communicator as RawCommunicator},
    error::Error,
};

use super::status::Status;
use crate::{
    Tag,
    datatype::Place,
    request::{Running, uninterrupted},
};

/// The destination and mode of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) mode: engine::Mode,
    pub(crate) destination: Rank,
    pub(crate) tag: Tag,
}

impl Outgoing {
    /// Sends from a place that is borrowed meanwhile.
    pub(super) fn send(self, comm: &RawCommunicator, place: &Place) -> Result<(), Error> {
        let Self { mode, destination, tag } = self;
        // SAFETY: borrowed by our caller, and this is not left before the end.
        uninterrupted(|| unsafe { comm.send(mode, place.base, place.count, &place.datatype, destination, tag) })
    }

    /// Begins to send from a place.
    ///
    /// # Safety
    /// It is borrowed until the operation has ended.
    pub(crate) unsafe fn begin(self, comm: &RawCommunicator, place: &Place) -> Running {
        let Self { mode, destination, tag } = self;
        // SAFETY: the caller's contract.
        let begun = unsafe { comm.isend(mode, place.base, place.count, &place.datatype, destination, tag) };
        Running::new(begun)
    }
}

/// The source and tag of a message to receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) source: Rank,
    pub(crate) tag: Tag,
}

impl Incoming {
    /// Receives into a place that is borrowed mutably meanwhile.
    pub(super) fn receive(self, comm: &RawCommunicator, place: &Place) -> Result<Status, Error> {
        // SAFETY: borrowed by our caller, and this is not left before the end.
        let received =
            uninterrupted(|| unsafe { comm.receive(place.base, place.count, &place.datatype, self.source, self.tag) });
        place.validate();
        received.map(Status::new)
    }

    /// Begins to receive into a place.
    ///
    /// # Safety
    /// It is borrowed mutably until the operation has ended.
    pub(crate) unsafe fn begin(self, comm: &RawCommunicator, place: &Place) -> Running {
        // SAFETY: the caller's contract.
        let begun = unsafe { comm.ireceive(place.base, place.count, &place.datatype, self.source, self.tag) };
        Running::new(begun).into_place(place)
    }
}

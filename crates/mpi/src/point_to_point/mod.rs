#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Messages between two processes.
//!
//! ```
//! use mpi::traits::*;
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let (next, last) = ((world.rank() + 1) % world.size(), world.size() - 1);
//! world.process_at_rank(next).send_with_tag(&[1, 2, 3], 7)?;
//! let (message, status) = world.any_process().receive_vec_with_tag::<i32>(7)?;
//! assert_eq!((message, status.tag()), (vec![1, 2, 3], 7));
//! # let _ = last;
//! # Ok::<_, mpi::Error>(())
//! ```
//!
//! Messages can be [`partitioned`], for threads that produce parts of them. A *persistent* request ([`persistent`]) is
//! set up once and started again and again; rsmpi has none.

mod attached;
mod destination;
mod future;
mod message;
pub mod partitioned;
pub mod persistent;
mod send_receive;
mod source;

use std::fmt;

use hikyaku::mpi::{
    Rank,
    engine::{self, Communicator as RawCommunicator},
    error::Error,
};

pub(crate) use self::attached::Attached;
pub use self::{
    destination::Destination,
    future::ReceiveFuture,
    message::{MatchedMessage, MatchedReceiveVec, Message},
    send_receive::{
        send_receive, send_receive_into, send_receive_into_with_tags, send_receive_replace_into,
        send_receive_replace_into_with_tags, send_receive_with_tags,
    },
    source::Source,
};
use crate::{
    Count, Tag, UNDEFINED,
    datatype::{Datatype, Place},
    request::{Running, uninterrupted},
    topology::{AsCommunicator, AsHandle, Handle},
};

/// All traits.
pub mod traits {
    pub use super::{Destination, MatchedReceiveVec, Source};
}

/// The envelope of a received message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(engine::Status);

impl Status {
    pub(crate) fn new(status: engine::Status) -> Self {
        Self(status)
    }

    /// The rank of the sender.
    #[must_use]
    pub fn source_rank(&self) -> Rank {
        self.0.source
    }

    /// The tag of the message.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.0.tag
    }

    /// The number of elements of a datatype in the message; [`UNDEFINED`] if that is not a whole number.
    #[must_use]
    pub fn count<D: Datatype>(&self, d: D) -> Count {
        let size = d.as_raw().size();
        match self.0.len.checked_rem(size) {
            Some(0) => (self.0.len / size) as Count,
            Some(_) => UNDEFINED,
            None if self.0.len == 0 => 0,
            None => UNDEFINED,
        }
    }

    /// Length of the message, bytes. Not in rsmpi.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Returns whether the message is empty. Not in rsmpi.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Returns whether the request was cancelled, so that no message was received. Not in rsmpi.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Status")
            .field("source_rank", &self.source_rank())
            .field("tag", &self.tag())
            .field("len", &self.len())
            .finish()
    }
}

/// The communicator of a process.
fn handle<P: AsCommunicator + ?Sized>(process: &P) -> &Handle {
    process.as_communicator().as_handle()
}

/// The destination and mode of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) mode: engine::Mode,
    pub(crate) destination: Rank,
    pub(crate) tag: Tag,
}

impl Outgoing {
    /// Sends from a place that is borrowed meanwhile.
    fn send(self, comm: &RawCommunicator, place: &Place) -> Result<(), Error> {
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
    fn receive(self, comm: &RawCommunicator, place: &Place) -> Result<Status, Error> {
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

//! Requests of all kinds.

use core::fmt;

use hikyaku::mpi::{
    engine::{self, Duplicating, PartitionedReceive, PartitionedSend, PersistentCollective, Status},
    error::ErrorClass,
};

use super::{Attributes, Comm, Communicator, Topology};
use crate::border::{Failure, InOut, Scope};

/// A request of the program.
pub struct Request {
    /// What has begun, if anything has.
    pub begun: Begun,
    /// How it begins again, if it is persistent.
    pub starter: Option<Starter>,
    /// The object whose error handler is called.
    pub scope: Option<Scope>,
}

/// What has begun.
#[derive(Debug)]
pub enum Begun {
    /// Nothing: the request is inactive.
    Nothing,
    /// An operation of the engine.
    One(engine::Request),
    /// A send and a receive that end together.
    Both(Box<Pair>),
    /// It has ended as it began.
    Done(Status),
    /// The duplicate of a communicator.
    Duplicating(Duplicating, Place),
    /// An operation of the program (generalised requests), or one that this crate makes of others.
    Other(Box<dyn Other>),
}

/// Where a communicator goes when it is made.
#[derive(Debug)]
pub struct Place {
    /// The place.
    pub to: InOut<Communicator>,
    /// The original.
    pub parent: Comm,
    /// Copies of its attributes.
    pub attributes: Attributes,
}

/// A send and a receive, and memory that is needed until they have ended.
#[derive(Debug)]
pub struct Pair {
    send: engine::Request,
    receive: engine::Request,
    /// The status of the receive, once it has ended.
    received: Option<Status>,
    copy: Vec<u8>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        // A program that frees a request does not learn when the memory is free.
        if !self.send.is_done() {
            core::mem::forget(core::mem::take(&mut self.copy));
        }
    }
}

impl Pair {
    fn test(&mut self) -> Result<Option<Status>, Failure> {
        if self.received.is_none() {
            self.received = self.receive.test()?;
        }
        let is_sent = self.send.test()?.is_some();
        Ok(self.received.filter(|_| is_sent))
    }
}

/// An operation that is none of the engine's.
pub trait Other: Send + fmt::Debug {
    /// Its status, if it has ended.
    fn test(&mut self) -> Result<Option<Status>, Failure>;
    /// Cancels it.
    fn cancel(&mut self) -> Result<(), Failure>;
    /// Frees it.
    fn free(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// How a persistent operation begins.
pub enum Starter {
    /// A message.
    Message(Box<dyn Fn() -> Result<Begun, Failure> + Send>),
    /// A collective.
    Collective(PersistentCollective),
    /// A send in partitions.
    Send(PartitionedSend),
    /// A receive in partitions.
    Receive(PartitionedReceive),
}

/// How a request has ended.
pub type Ended = Result<Status, Failure>;

impl fmt::Debug for Starter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Starter")
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("begun", &self.begun)
            .finish_non_exhaustive()
    }
}

impl Request {
    /// An operation that has begun.
    #[must_use]
    pub fn begun(begun: Begun, scope: Option<Scope>) -> Self {
        Self {
            begun,
            starter: None,
            scope,
        }
    }

    /// A persistent operation.
    #[must_use]
    pub fn persistent(starter: Starter, scope: Option<Scope>) -> Self {
        Self {
            begun: Begun::Nothing,
            starter: Some(starter),
            scope,
        }
    }

    /// Something has begun that has not been waited for.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !matches!(self.begun, Begun::Nothing)
    }

    /// The handle stays after the end.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.starter.is_some()
    }

    /// Begins a persistent operation (`MPI_Start`).
    ///
    /// # Errors
    /// It is not persistent, or active.
    pub fn start(&mut self) -> Result<(), Failure> {
        let Some(starter) = &self.starter else {
            return Err(Failure::text(ErrorClass::Request, "the request is not persistent"));
        };
        if self.is_active() {
            return Err(Failure::text(ErrorClass::Request, "the request is active"));
        }
        self.begun = match starter {
            Starter::Message(begin) => begin()?,
            Starter::Collective(collective) => Begun::One(collective.start()?),
            Starter::Send(send) => Begun::One(send.start()?),
            Starter::Receive(receive) => Begun::One(receive.start()?),
        };
        Ok(())
    }

    /// Makes progress once; how it has ended, if it has. Then it is inactive.
    pub fn test(&mut self) -> Option<Ended> {
        let ended = self.begun.test().transpose()?;
        self.begun = Begun::Nothing;
        Some(ended)
    }

    /// Waits until it has ended. Then it is inactive.
    pub fn wait(&mut self) -> Ended {
        let ended = self.begun.wait();
        self.begun = Begun::Nothing;
        ended
    }
}

impl Begun {
    /// A send and a receive, and memory that is needed until they have ended.
    #[must_use]
    pub fn both(send: engine::Request, receive: engine::Request, copy: Vec<u8>) -> Self {
        Self::Both(Box::new(Pair {
            send,
            receive,
            received: None,
            copy,
        }))
    }

    fn test(&mut self) -> Result<Option<Status>, Failure> {
        Ok(match self {
            Self::Nothing => Some(Status::EMPTY),
            Self::One(request) => request.test()?,
            Self::Both(pair) => pair.test()?,
            Self::Done(status) => Some(*status),
            Self::Duplicating(duplicating, place) => match duplicating.test()? {
                Some(made) => {
                    place.fill(made)?;
                    Some(Status::EMPTY)
                }
                None => None,
            },
            Self::Other(other) => other.test()?,
        })
    }

    fn wait(&mut self) -> Ended {
        Ok(match core::mem::replace(self, Self::Nothing) {
            Self::One(mut request) => request.wait_mut()?,
            Self::Duplicating(duplicating, mut place) => {
                place.fill(duplicating.wait()?)?;
                Status::EMPTY
            }
            mut other => loop {
                if let Some(status) = other.test()? {
                    break status;
                }
                crate::process::pause()?;
            },
        })
    }

    /// The status, if it has ended; it stays active.
    pub fn peek(&mut self) -> Result<Option<Status>, Failure> {
        match self {
            Self::One(request) => Ok(request.status()?),
            Self::Nothing => Ok(Some(Status::EMPTY)),
            _ => {
                let ended = self.test()?;
                if let Some(status) = ended {
                    *self = Self::Done(status);
                }
                Ok(ended)
            }
        }
    }

    /// Cancels it.
    ///
    /// # Errors
    /// Those of a callback.
    pub fn cancel(&mut self) -> Result<(), Failure> {
        match self {
            Self::One(request) => request.cancel(),
            Self::Both(pair) => pair.receive.cancel(),
            Self::Other(other) => other.cancel()?,
            Self::Nothing | Self::Done(_) | Self::Duplicating(..) => {}
        }
        Ok(())
    }
}

impl Place {
    fn fill(&mut self, made: engine::Communicator) -> Result<(), Failure> {
        let parent = self.parent.find();
        let (topology, parent) = match &parent {
            Some(parent) => (parent.topology.clone(), Some(&***parent)),
            None => (Topology::None, None),
        };
        let mut duplicate = Communicator::new(made, topology, parent);
        duplicate.attributes = core::mem::take(&mut self.attributes);
        self.to.set(Comm::insert(duplicate));
        Ok(())
    }
}

impl From<engine::Request> for Begun {
    fn from(request: engine::Request) -> Self {
        Self::One(request)
    }
}

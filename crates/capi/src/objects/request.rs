//! Requests of all kinds: the engine's, and those that are made of several.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use hikyaku::mpi::{
    engine::{self, AnyRequest, AttachedBuffer, Duplicating, PartitionedReceive, PartitionedSend, Status},
    error::ErrorClass,
};

use super::{Attributes, Comm, Communicator, Object as _, Owner, Pending, Topology, lock};
use crate::{
    abi::Handle,
    border::{Failure, InOut, Scope},
};

/// A request of the program, and what threads use while another one waits for it.
#[derive(Debug)]
pub struct RequestObject {
    request: Mutex<Request>,
    send: Option<Arc<PartitionedSend>>,
    receive: Option<Arc<PartitionedReceive>>,
    /// It is begun once, and only the thread that waits for it asks for it.
    is_plain: bool,
}

/// A request.
#[derive(Debug)]
pub struct Request {
    work: Work,
    /// The object whose error handler is called.
    pub scope: Option<Scope>,
}

/// What has begun, or can.
#[derive(Debug)]
pub enum Work {
    /// Nothing any more.
    Over,
    /// A send that ended when it began: all such requests are one object, which stays so.
    Sent,
    /// An operation of the engine.
    Engine(AnyRequest),
    /// A send and a receive that end together.
    Both(Box<Pair>),
    /// It has ended as it began.
    Done(Status),
    /// The duplicate of a communicator.
    Duplicating(Box<(Duplicating, Place)>),
    /// The messages of a buffer are being sent.
    Flushing(Owner),
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

/// How a request has ended.
pub type Ended = Result<Status, Failure>;

impl RequestObject {
    /// One that does this.
    #[must_use]
    pub fn new(work: Work, scope: Option<Scope>) -> Self {
        let (send, receive, is_plain) = match &work {
            Work::Engine(any) => (
                any.partitioned_send().cloned(),
                any.partitioned_receive().cloned(),
                !any.is_persistent() && any.completer().is_none(),
            ),
            _ => (None, None, false),
        };
        Self {
            request: Mutex::new(Request { work, scope }),
            send,
            receive,
            is_plain,
        }
    }

    /// All sends that ended when they began.
    #[inline]
    pub(super) fn predefined(number: u32) -> Option<&'static Arc<Self>> {
        static SENT: LazyLock<Arc<RequestObject>> = LazyLock::new(|| Arc::new(RequestObject::new(Work::Sent, None)));
        (number == Pending::SENT.handle().0).then(|| &*SENT)
    }

    /// A receive that the engine knows by a number becomes an object, for calls that need one.
    #[inline]
    pub(super) fn call_in(handle: Handle) {
        if let Some(number) = Pending::new(handle).number_of() {
            Self::adopt(handle, number);
        }
    }

    #[cold]
    fn adopt(handle: Handle, number: u32) {
        // (Threads that ask for it at once find it there, or not.)
        static ADOPTING: Mutex<()> = Mutex::new(());
        let _adopting = lock(&ADOPTING);
        let Some(joined) = crate::process::joined() else { return };
        let Some(comm) = joined.engine.word_of(number) else {
            return;
        };
        let comm = Comm::number(comm);
        let scope = Scope {
            sort: Communicator::SORT,
            handle: comm.handle(),
        };
        // (A program may have freed the communicator meanwhile.)
        let found = comm.find().or_else(|| Comm::WORLD.find());
        if let Some(request) = found.and_then(|found| found.comm.adopt(number)) {
            Self::table().adopt(handle, Self::new(request.into(), Some(scope)));
        }
    }

    /// It is begun once, and only the thread that waits for it asks for it.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Waits until it has ended; with the object whose error handler is called, and whether the handle stays.
    pub fn wait(this: &mut Arc<Self>) -> (Ended, Option<Scope>, bool) {
        let wait = |request: &mut Request| (request.wait(), request.scope, request.is_persistent());
        match Arc::get_mut(this) {
            Some(object) => wait(object.request.get_mut().unwrap_or_else(PoisonError::into_inner)),
            None => wait(&mut this.lock()),
        }
    }

    /// The request, when no other thread has it.
    pub fn lock(&self) -> MutexGuard<'_, Request> {
        lock(&self.request)
    }

    /// The partitioned send that it is.
    #[must_use]
    pub fn send(&self) -> Option<&PartitionedSend> {
        self.send.as_deref()
    }

    /// The partitioned receive that it is, and whether it is active: no other thread waits for an inactive one.
    #[must_use]
    pub fn receive(&self) -> Option<(&PartitionedReceive, bool)> {
        let is_active = || self.request.try_lock().map_or(true, |request| request.is_active());
        self.receive.as_deref().map(|receive| (receive, is_active()))
    }
}

impl Request {
    /// Something has begun that has not been waited for.
    #[must_use]
    pub fn is_active(&self) -> bool {
        match &self.work {
            Work::Over => false,
            Work::Engine(any) => any.is_active(),
            _ => true,
        }
    }

    /// The handle stays after the end.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        matches!(&self.work, Work::Engine(any) if any.is_persistent())
    }

    /// The engine's, if it is one.
    #[must_use]
    pub fn engine(&self) -> Option<&AnyRequest> {
        match &self.work {
            Work::Engine(any) => Some(any),
            _ => None,
        }
    }

    /// Begins a persistent operation (`MPI_Start`); a buffered send goes through `attached`.
    ///
    /// # Errors
    /// It is not persistent, or active.
    pub fn start(&mut self, attached: &Mutex<AttachedBuffer>) -> Result<(), Failure> {
        match &mut self.work {
            Work::Engine(any) => Ok(any.start(attached)?),
            _ => Err(Failure::text(ErrorClass::Request, "the request is not persistent")),
        }
    }

    /// Makes progress once; how it has ended, if it has. Then it is inactive.
    pub fn test(&mut self) -> Option<Ended> {
        if let Work::Engine(any) = &mut self.work {
            return any.test().map_err(Failure::from).transpose();
        }
        let ended = self.work.test().transpose()?;
        self.work.end();
        Some(ended)
    }

    /// Waits until it has ended. Then it is inactive.
    pub fn wait(&mut self) -> Ended {
        if let Work::Engine(any) = &mut self.work {
            return Ok(any.wait()?);
        }
        match self.work.end() {
            Work::Duplicating(both) => {
                let (duplicating, mut place) = *both;
                place.fill(duplicating.wait()?)?;
                Ok(Status::EMPTY)
            }
            mut other => loop {
                if let Some(status) = other.test()? {
                    break Ok(status);
                }
                crate::process::pause()?;
            },
        }
    }

    /// The status, if it has ended; it stays active.
    ///
    /// # Errors
    /// It has failed.
    pub fn peek(&mut self) -> Result<Option<Status>, Failure> {
        if let Work::Engine(any) = &self.work {
            return Ok(any.status()?);
        }
        let ended = self.work.test()?;
        if let (Some(status), false) = (ended, matches!(self.work, Work::Over | Work::Sent)) {
            self.work = Work::Done(status);
        }
        Ok(ended)
    }

    /// Cancels it.
    ///
    /// # Errors
    /// It is inactive; that of a callback.
    pub fn cancel(&mut self) -> Result<(), Failure> {
        match &mut self.work {
            Work::Engine(any) => any.cancel()?,
            Work::Both(pair) => pair.receive.cancel(),
            Work::Over | Work::Sent | Work::Done(_) | Work::Duplicating(_) | Work::Flushing(_) => {}
        }
        Ok(())
    }

    /// Frees it.
    ///
    /// # Errors
    /// That of a callback.
    pub fn free(&mut self) -> Result<(), Failure> {
        match self.work.end() {
            Work::Engine(any) => Ok(any.free()?),
            _ => Ok(()),
        }
    }
}

impl Work {
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

    /// Takes it away, unless it stays for ever.
    fn end(&mut self) -> Self {
        match self {
            Self::Sent => Self::Sent,
            _ => core::mem::replace(self, Self::Over),
        }
    }

    fn test(&mut self) -> Result<Option<Status>, Failure> {
        Ok(match self {
            Self::Over | Self::Sent => Some(Status::EMPTY),
            Self::Engine(any) => any.test()?,
            Self::Both(pair) => pair.test()?,
            Self::Done(status) => Some(*status),
            Self::Duplicating(both) => match both.0.test()? {
                Some(made) => {
                    both.1.fill(made)?;
                    Some(Status::EMPTY)
                }
                None => None,
            },
            Self::Flushing(owner) => owner.with(|used| lock(&used.messages).reap())?.then_some(Status::EMPTY),
        })
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

macro_rules! of_the_engine {
    ($($name:ident)*) => {
        $(impl From<engine::$name> for Work {
            fn from(one: engine::$name) -> Self {
                Self::Engine(one.into())
            }
        })*
    };
}

of_the_engine! { Request AnyRequest PersistentMessage PersistentCollective PartitionedSend PartitionedReceive }

//! Requests of all kinds behind one type, as `MPI_Request` is (MPI 3.7, 3.9, 4.2, 6.13, 13.2).

use alloc::{boxed::Box, sync::Arc};
use std::sync::Mutex;

use super::{
    AttachedBuffer, Communicator, PartitionedReceive, PartitionedSend, PersistentCollective, PersistentMessage,
    Request,
    generalized::{Completer, Generalized, Pending},
    status::Status,
};
use crate::mpi::error::{Detail, Error, ErrorClass};

/// A request of any kind, for interfaces that keep all of them in one table. It is *active* from its start until the
/// call that tells how it has ended. Then it is over; a [persistent](Self::is_persistent) one can be started again.
///
/// Dropping it is `MPI_Request_free`; see [`Request`] for one that is active.
#[derive(Debug)]
pub struct AnyRequest {
    /// The operation, while the request is active.
    running: Option<Request>,
    kind: Kind,
}

/// The further state of a request: small, as most have none, and all move from hand to hand.
#[derive(Debug)]
enum Kind {
    /// A message or a collective that is begun once.
    Once,
    Message(Box<PersistentMessage>),
    Collective(Box<PersistentCollective>),
    Send(Arc<PartitionedSend>),
    Receive(Arc<PartitionedReceive>),
    Generalized(Pending),
}

macro_rules! persistent {
    ($($made:ty, $kind:ident: $wrap:expr;)*) => {$(
        impl From<$made> for AnyRequest {
            /// An inactive request.
            fn from(made: $made) -> Self {
                Self { running: None, kind: Kind::$kind($wrap(made)) }
            }
        }
    )*};
}

persistent! {
    PersistentMessage, Message: Box::new;
    PersistentCollective, Collective: Box::new;
    PartitionedSend, Send: Arc::new;
    PartitionedReceive, Receive: Arc::new;
}

impl From<Request> for AnyRequest {
    /// An active request.
    fn from(running: Request) -> Self {
        Self {
            running: Some(running),
            kind: Kind::Once,
        }
    }
}

impl AnyRequest {
    /// Begins an operation of the program (`MPI_Grequest_start`), on a communicator that it has nothing else to do with.
    ///
    /// # Errors
    /// The network has failed.
    pub fn generalized(
        communicator: &Communicator,
        callbacks: Box<dyn Generalized>,
    ) -> Result<(Self, Completer), Error> {
        let begun = Completer::begin(communicator, callbacks);
        let (request, completer) = begun.ok_or_else(|| communicator.broken("MPI_Grequest_start"))?;
        let any = Self {
            running: Some(request),
            kind: Kind::Generalized(Pending::new(&completer)),
        };
        Ok((any, completer))
    }

    /// Whether it can be started again and again.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        !matches!(self.kind, Kind::Once | Kind::Generalized(_))
    }

    /// Whether it has been started, and no call has told how it has ended.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.running.is_some()
    }

    /// The operation, while the request is active.
    #[must_use]
    pub fn running(&self) -> Option<&Request> {
        self.running.as_ref()
    }

    /// The MPI function that has made it.
    #[must_use]
    pub fn call(&self) -> &'static str {
        match &self.kind {
            Kind::Once | Kind::Generalized(_) => self.running().map_or("MPI_Wait", Request::call),
            Kind::Message(message) => message.call(),
            Kind::Collective(collective) => collective.call(),
            Kind::Send(_) => "MPI_Psend_init",
            Kind::Receive(_) => "MPI_Precv_init",
        }
    }

    /// The communicator on which it was made. `None`: it is over, or a send that ended when it began.
    #[must_use]
    pub fn communicator(&self) -> Option<&Communicator> {
        match &self.kind {
            Kind::Once | Kind::Generalized(_) => self.running.as_ref()?.communicator(),
            Kind::Message(message) => Some(message.communicator()),
            Kind::Collective(collective) => Some(collective.communicator()),
            Kind::Send(send) => Some(send.communicator()),
            Kind::Receive(receive) => Some(receive.communicator()),
        }
    }

    /// The partitioned send that it is, for `MPI_Pready`: threads call that while another one waits for the request.
    #[must_use]
    pub fn partitioned_send(&self) -> Option<&Arc<PartitionedSend>> {
        match &self.kind {
            Kind::Send(send) => Some(send),
            _ => None,
        }
    }

    /// The partitioned receive that it is, for `MPI_Parrived`.
    #[must_use]
    pub fn partitioned_receive(&self) -> Option<&Arc<PartitionedReceive>> {
        match &self.kind {
            Kind::Receive(receive) => Some(receive),
            _ => None,
        }
    }

    /// The way to complete it, if it is a generalised request (`MPI_Grequest_complete`).
    #[must_use]
    pub fn completer(&self) -> Option<&Completer> {
        match &self.kind {
            Kind::Generalized(pending) => Some(pending.completer()),
            _ => None,
        }
    }

    /// Starts a persistent one (`MPI_Start`). A buffered send goes through `attached`.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` if it is active, or not persistent; else those of the operation.
    pub fn start(&mut self, attached: &Mutex<AttachedBuffer>) -> Result<(), Error> {
        let wrong = |text| Err(Error::new(ErrorClass::Request, "MPI_Start").with_detail(Detail::Text(text)));
        if self.is_active() {
            return wrong("it has been started, and has not ended");
        }
        self.running = Some(match &self.kind {
            Kind::Once | Kind::Generalized(_) => return wrong("it is not persistent"),
            Kind::Message(message) => message.start(attached)?,
            Kind::Collective(collective) => collective.start()?,
            Kind::Send(send) => send.start()?,
            Kind::Receive(receive) => receive.start()?,
        });
        Ok(())
    }

    /// Waits until it has ended (`MPI_Wait`). An inactive one has an empty status, at once.
    ///
    /// # Errors
    /// The operation has failed.
    #[inline]
    pub fn wait(&mut self) -> Result<Status, Error> {
        let Some(running) = self.running.take() else {
            return Ok(Status::EMPTY);
        };
        let ended = running.wait();
        if let Kind::Once = self.kind {
            ended
        } else {
            self.over(ended)
        }
    }

    /// Makes progress once, and gives what [`wait`](Self::wait) would, if it has ended (`MPI_Test`).
    ///
    /// # Errors
    /// The operation has failed.
    #[inline]
    pub fn test(&mut self) -> Result<Option<Status>, Error> {
        let Some(running) = &mut self.running else {
            return Ok(Some(Status::EMPTY));
        };
        let Some(ended) = running.test().transpose() else {
            return Ok(None);
        };
        self.running = None;
        self.over(ended).map(Some)
    }

    /// The operation has ended, and the program is told.
    fn over(&mut self, ended: Result<Status, Error>) -> Result<Status, Error> {
        let Kind::Generalized(pending) = &self.kind else {
            return ended;
        };
        let ended = ended.and_then(|_| pending.query());
        let freed = pending.free();
        ended.and_then(|status| freed.map(|()| status))
    }

    /// How it has ended, if it has; it stays active (`MPI_Request_get_status`). Makes progress once.
    ///
    /// # Errors
    /// The operation has failed.
    pub fn status(&self) -> Result<Option<Status>, Error> {
        let Some(running) = &self.running else {
            return Ok(Some(Status::EMPTY));
        };
        match (running.status()?, &self.kind) {
            (Some(_), Kind::Generalized(pending)) => pending.query().map(Some),
            (status, _) => Ok(status),
        }
    }

    /// Whether it is inactive or has ended: [`wait`](Self::wait) would not wait. Makes no progress, but for a look at
    /// the network if there has been none for a while.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.running.as_ref().is_none_or(Request::is_done)
    }

    /// Waits until one of the active ones of `requests` has ended, and gives its position; `None` if none is active.
    /// (`MPI_Waitany` and `MPI_Waitsome` do so, and then [`wait`](Self::wait) for those that have ended.)
    pub fn wait_ready<'a>(requests: impl Iterator<Item = &'a Self> + Clone) -> Option<usize> {
        let active = requests.enumerate().filter(|(_, request)| request.is_active());
        let ready = Request::wait_ready(active.clone().filter_map(|(_, request)| request.running()))?;
        active.map(|(position, _)| position).nth(ready)
    }

    /// Cancels it, if nothing has been received yet (`MPI_Cancel`); see [`Request::cancel`]. The caller must still wait
    /// for it, or free it.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` if it is inactive; that of the callback of a generalised request.
    pub fn cancel(&self) -> Result<(), Error> {
        let Some(running) = &self.running else {
            let inactive = Detail::Text("it is not active");
            return Err(Error::new(ErrorClass::Request, "MPI_Cancel").with_detail(inactive));
        };
        match &self.kind {
            Kind::Generalized(pending) => pending.cancel(),
            _ => {
                running.cancel();
                Ok(())
            }
        }
    }

    /// Frees it (`MPI_Request_free`), as dropping does.
    ///
    /// # Errors
    /// That of the callback of a generalised request which is complete.
    pub fn free(self) -> Result<(), Error> {
        match &self.kind {
            Kind::Generalized(pending) => pending.free(),
            _ => Ok(()),
        }
    }
}

#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Sources of messages.

use hikyaku::mpi::{
    Rank,
    engine::{ANY_SOURCE, ANY_TAG},
    error::Error,
};

use super::{
    Array, ArrivingArray, MatchedReceiveVec, Message, ReceiveFuture, Status, message::Value, transfer::Incoming,
};
use crate::{
    Tag,
    datatype::{BufferMut, Equivalence, Place},
    request::{Request, Scope},
    topology::{AnyProcess, AsCommunicator, Process, handle},
};

/// A source of messages: a [`Process`](crate::topology::Process), or any process.
///
/// Methods without a tag receive messages with any tag. Errors: the process is lost, the communicator is revoked, or a
/// tag is negative.
pub trait Source: AsCommunicator {
    /// The rank of the source.
    fn source_rank(&self) -> Rank;

    /// Waits for a message with a tag, and leaves it in the queue (`MPI_Probe`).
    ///
    /// # Errors
    /// See the trait.
    fn probe_with_tag(&self, tag: Tag) -> Result<Status, Error> {
        handle(self).comm.probe(self.source_rank(), tag).map(Status::new)
    }

    /// Waits for a message, and leaves it in the queue.
    ///
    /// # Errors
    /// See the trait.
    fn probe(&self) -> Result<Status, Error> {
        self.probe_with_tag(ANY_TAG)
    }

    /// Waits for a message with a tag, and takes it out of the queue to be received (`MPI_Mprobe`).
    ///
    /// # Errors
    /// See the trait.
    fn matched_probe_with_tag(&self, tag: Tag) -> Result<(Message, Status), Error> {
        let message = handle(self).comm.mprobe(self.source_rank(), tag)?;
        let status = Status::new(message.status());
        Ok((Message::new(message), status))
    }

    /// Waits for a message, and takes it out of the queue to be received.
    ///
    /// # Errors
    /// See the trait.
    ///
    /// ```
    /// use mpi::traits::*;
    ///
    /// let universe = mpi::initialize().unwrap();
    /// let world = universe.world();
    /// let myself = world.this_process();
    /// myself.send(&[1.5, 2.5])?;
    /// let (message, status) = myself.matched_probe()?;
    /// assert_eq!(status.count(f64::equivalent_datatype()), 2);
    /// let mut letter = [0.0; 2];
    /// message.matched_receive_into(&mut letter)?;
    /// assert_eq!(letter, [1.5, 2.5]);
    /// # Ok::<_, mpi::Error>(())
    /// ```
    fn matched_probe(&self) -> Result<(Message, Status), Error> {
        self.matched_probe_with_tag(ANY_TAG)
    }

    /// Receives one value with a tag (`MPI_Recv`).
    ///
    /// # Errors
    /// See the trait; or the message is not such a value.
    fn receive_with_tag<Msg: Equivalence>(&self, tag: Tag) -> Result<(Msg, Status), Error> {
        let value = Value::<Msg>::new();
        let incoming = Incoming {
            source: self.source_rank(),
            tag,
        };
        let status = incoming.receive(&handle(self).comm, &value.place())?;
        value.received("MPI_Recv", status)
    }

    /// Receives one value.
    ///
    /// # Errors
    /// See the trait; or the message is not such a value.
    fn receive<Msg: Equivalence>(&self) -> Result<(Msg, Status), Error> {
        self.receive_with_tag(ANY_TAG)
    }

    /// Receives a message with a tag into a buffer (`MPI_Recv`). The message may be shorter than the buffer.
    ///
    /// # Errors
    /// See the trait; or the message is longer than the buffer, which then holds its beginning.
    fn receive_into_with_tag<Buf: BufferMut + ?Sized>(&self, buf: &mut Buf, tag: Tag) -> Result<Status, Error> {
        let incoming = Incoming {
            source: self.source_rank(),
            tag,
        };
        incoming.receive(&handle(self).comm, &Place::of_mut(buf))
    }

    /// Receives a message into a buffer. The message may be shorter than the buffer.
    ///
    /// # Errors
    /// See the trait; or the message is longer than the buffer, which then holds its beginning.
    fn receive_into<Buf: BufferMut + ?Sized>(&self, buf: &mut Buf) -> Result<Status, Error> {
        self.receive_into_with_tag(buf, ANY_TAG)
    }

    /// Receives a message of any length with a tag.
    ///
    /// # Errors
    /// See the trait; or the message is not a whole number of such values.
    fn receive_vec_with_tag<Msg: Equivalence>(&self, tag: Tag) -> Result<(Vec<Msg>, Status), Error> {
        self.matched_probe_with_tag(tag)?.matched_receive_vec()
    }

    /// Receives a message of any length.
    ///
    /// # Errors
    /// See the trait; or the message is not a whole number of such values.
    fn receive_vec<Msg: Equivalence>(&self) -> Result<(Vec<Msg>, Status), Error> {
        self.receive_vec_with_tag(ANY_TAG)
    }

    /// Begins to receive a message with a tag into a buffer (`MPI_Irecv`).
    fn immediate_receive_into_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a mut Buf,
        tag: Tag,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let data: *mut Buf = buf;
        // SAFETY: just borrowed; what is derived from it is not used any more when `data` is.
        let place = Place::of_mut(unsafe { &mut *data });
        let incoming = Incoming {
            source: self.source_rank(),
            tag,
        };
        // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
        let running = unsafe { incoming.begin(&handle(self).comm, &place) };
        Request::new(running, data, scope)
    }

    /// Begins to receive a message into a buffer.
    fn immediate_receive_into<'a, Sc, Buf>(&self, scope: Sc, buf: &'a mut Buf) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        self.immediate_receive_into_with_tag(scope, buf, ANY_TAG)
    }

    /// Begins to receive one value with a tag; the future owns the value.
    fn immediate_receive_with_tag<Msg: Equivalence>(&self, tag: Tag) -> ReceiveFuture<Msg> {
        let incoming = Incoming {
            source: self.source_rank(),
            tag,
        };
        ReceiveFuture::new(&handle(self).comm, incoming)
    }

    /// Begins to receive one value; the future owns the value.
    fn immediate_receive<Msg: Equivalence>(&self) -> ReceiveFuture<Msg> {
        self.immediate_receive_with_tag(ANY_TAG)
    }

    /// Returns the status of a message with a tag, if one has arrived (`MPI_Iprobe`).
    ///
    /// # Errors
    /// See the trait.
    fn immediate_probe_with_tag(&self, tag: Tag) -> Result<Option<Status>, Error> {
        let found = handle(self).comm.iprobe(self.source_rank(), tag)?;
        Ok(found.map(Status::new))
    }

    /// Returns the status of a message, if one has arrived.
    ///
    /// # Errors
    /// See the trait.
    fn immediate_probe(&self) -> Result<Option<Status>, Error> {
        self.immediate_probe_with_tag(ANY_TAG)
    }

    /// Takes a message with a tag out of the queue, if one has arrived (`MPI_Improbe`).
    ///
    /// # Errors
    /// See the trait.
    fn immediate_matched_probe_with_tag(&self, tag: Tag) -> Result<Option<(Message, Status)>, Error> {
        let found = handle(self).comm.improbe(self.source_rank(), tag)?;
        Ok(found.map(|message| {
            let status = Status::new(message.status());
            (Message::new(message), status)
        }))
    }

    /// Takes a message out of the queue, if one has arrived.
    ///
    /// # Errors
    /// See the trait.
    fn immediate_matched_probe(&self) -> Result<Option<(Message, Status)>, Error> {
        self.immediate_matched_probe_with_tag(ANY_TAG)
    }

    /// Waits for a [buffer array](super::array) with a tag, and receives it.
    ///
    /// # Errors
    /// See the trait.
    fn receive_array_with_tag(&self, tag: Tag) -> Result<(Array, Status), Error> {
        let (array, status) = handle(self).comm.receive_array(self.source_rank(), tag)?;
        Ok((array, Status::new(status)))
    }

    /// Waits for a [buffer array](super::array), and receives it.
    ///
    /// # Errors
    /// See the trait.
    fn receive_array(&self) -> Result<(Array, Status), Error> {
        self.receive_array_with_tag(ANY_TAG)
    }

    /// Begins to receive a [buffer array](super::array) of at most `len` bytes with a tag, whether it has been sent or
    /// not.
    ///
    /// # Errors
    /// See the trait; or there is not enough memory.
    fn immediate_receive_array_with_tag(&self, len: usize, tag: Tag) -> Result<ArrivingArray, Error> {
        let arriving = handle(self).comm.ireceive_array(len, self.source_rank(), tag);
        arriving.map(ArrivingArray::new)
    }

    /// Begins to receive a [buffer array](super::array) of at most `len` bytes, whether it has been sent or not.
    ///
    /// # Errors
    /// See the trait; or there is not enough memory.
    fn immediate_receive_array(&self, len: usize) -> Result<ArrivingArray, Error> {
        self.immediate_receive_array_with_tag(len, ANY_TAG)
    }
}

impl Source for Process<'_> {
    fn source_rank(&self) -> Rank {
        self.rank()
    }
}

impl Source for AnyProcess<'_> {
    fn source_rank(&self) -> Rank {
        ANY_SOURCE
    }
}

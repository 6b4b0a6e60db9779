#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Whom messages go to.

use hikyaku::mpi::{Rank, engine::Mode, error::Error};

use super::{Outgoing, handle};
use crate::{
    Tag,
    datatype::{Buffer, Place},
    request::{Request, Scope},
    topology::AsCommunicator,
};

/// Begins to send from a borrowed buffer.
fn begin<'a, P, Sc, Buf>(process: &P, mode: Mode, scope: Sc, buf: &'a Buf, tag: Tag) -> Request<'a, Buf, Sc>
where
    P: Destination + ?Sized,
    Buf: 'a + Buffer + ?Sized,
    Sc: Scope<'a>,
{
    let outgoing = Outgoing {
        mode,
        destination: process.destination_rank(),
        tag,
    };
    // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
    let running = unsafe { outgoing.begin(&handle(process).comm, &Place::of(buf)) };
    Request::new(running, buf, scope)
}

fn send<P: Destination + ?Sized, Buf: Buffer + ?Sized>(
    process: &P,
    mode: Mode,
    buf: &Buf,
    tag: Tag,
) -> Result<(), Error> {
    let outgoing = Outgoing {
        mode,
        destination: process.destination_rank(),
        tag,
    };
    outgoing.send(&handle(process).comm, &Place::of(buf))
}

/// Whom messages go to: a [`Process`](crate::topology::Process).
///
/// Methods without a tag send with tag 0. Errors: the process is lost, the communicator revoked, a tag is negative.
pub trait Destination: AsCommunicator {
    /// Its rank.
    fn destination_rank(&self) -> Rank;

    /// Sends with a tag (`MPI_Send`). It may wait until the message is received.
    ///
    /// # Errors
    /// See the trait.
    fn send_with_tag<Buf: Buffer + ?Sized>(&self, buf: &Buf, tag: Tag) -> Result<(), Error> {
        send(self, Mode::Standard, buf, tag)
    }

    /// Sends. It may wait until the message is received.
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
    /// let v = vec![1.0_f64, 2.0, 3.0];
    /// myself.send(&v)?;
    /// assert_eq!(myself.receive_vec::<f64>()?.0, v);
    /// # Ok::<_, mpi::Error>(())
    /// ```
    fn send<Buf: Buffer + ?Sized>(&self, buf: &Buf) -> Result<(), Error> {
        self.send_with_tag(buf, Tag::default())
    }

    /// Copies the message to where [`Universe::set_buffer_size`](crate::environment::Universe::set_buffer_size) has made
    /// room, and never waits (`MPI_Bsend`).
    ///
    /// # Errors
    /// See the trait; or there is no room ([`ErrorClass::Buffer`](crate::ErrorClass::Buffer)).
    fn buffered_send_with_tag<Buf: Buffer + ?Sized>(&self, buf: &Buf, tag: Tag) -> Result<(), Error> {
        let outgoing = Outgoing {
            mode: Mode::Standard,
            destination: self.destination_rank(),
            tag,
        };
        super::attached::send(handle(self), outgoing, &Place::of(buf))
    }

    /// Copies the message, and never waits.
    ///
    /// # Errors
    /// As [`buffered_send_with_tag`](Self::buffered_send_with_tag).
    fn buffered_send<Buf: Buffer + ?Sized>(&self, buf: &Buf) -> Result<(), Error> {
        self.buffered_send_with_tag(buf, Tag::default())
    }

    /// Sends with a tag, and waits until it is received (`MPI_Ssend`).
    ///
    /// # Errors
    /// See the trait.
    fn synchronous_send_with_tag<Buf: Buffer + ?Sized>(&self, buf: &Buf, tag: Tag) -> Result<(), Error> {
        send(self, Mode::Synchronous, buf, tag)
    }

    /// Sends, and waits until it is received.
    ///
    /// # Errors
    /// See the trait.
    fn synchronous_send<Buf: Buffer + ?Sized>(&self, buf: &Buf) -> Result<(), Error> {
        self.synchronous_send_with_tag(buf, Tag::default())
    }

    /// Sends with a tag when the receive is posted already (`MPI_Rsend`).
    ///
    /// # Safety
    /// None here: it is as [`send_with_tag`](Self::send_with_tag). It is `unsafe` for being so in rsmpi.
    ///
    /// # Errors
    /// See the trait.
    unsafe fn ready_send_with_tag<Buf: Buffer + ?Sized>(&self, buf: &Buf, tag: Tag) -> Result<(), Error> {
        send(self, Mode::Ready, buf, tag)
    }

    /// Sends when the receive is posted already.
    ///
    /// # Safety
    /// As [`ready_send_with_tag`](Self::ready_send_with_tag).
    ///
    /// # Errors
    /// See the trait.
    unsafe fn ready_send<Buf: Buffer + ?Sized>(&self, buf: &Buf) -> Result<(), Error> {
        send(self, Mode::Ready, buf, Tag::default())
    }

    /// Begins to send with a tag (`MPI_Isend`).
    fn immediate_send_with_tag<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf, tag: Tag) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        begin(self, Mode::Standard, scope, buf, tag)
    }

    /// Begins to send.
    fn immediate_send<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        self.immediate_send_with_tag(scope, buf, Tag::default())
    }

    /// As [`buffered_send_with_tag`](Self::buffered_send_with_tag), with a request that has ended already
    /// (`MPI_Ibsend`).
    fn immediate_buffered_send_with_tag<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf, tag: Tag) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        let sent = self.buffered_send_with_tag(buf, tag);
        Request::new(crate::request::Running::ended(sent), buf, scope)
    }

    /// As [`buffered_send`](Self::buffered_send), with a request that has ended already.
    fn immediate_buffered_send<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        self.immediate_buffered_send_with_tag(scope, buf, Tag::default())
    }

    /// Begins to send with a tag; ends when it is received (`MPI_Issend`).
    fn immediate_synchronous_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        begin(self, Mode::Synchronous, scope, buf, tag)
    }

    /// Begins to send; ends when it is received.
    fn immediate_synchronous_send<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        self.immediate_synchronous_send_with_tag(scope, buf, Tag::default())
    }

    /// Begins to send with a tag when the receive is posted already (`MPI_Irsend`).
    ///
    /// # Safety
    /// As [`ready_send_with_tag`](Self::ready_send_with_tag).
    unsafe fn immediate_ready_send_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a Buf,
        tag: Tag,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        begin(self, Mode::Ready, scope, buf, tag)
    }

    /// Begins to send when the receive is posted already.
    ///
    /// # Safety
    /// As [`ready_send_with_tag`](Self::ready_send_with_tag).
    unsafe fn immediate_ready_send<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + Buffer + ?Sized,
        Sc: Scope<'a>,
    {
        begin(self, Mode::Ready, scope, buf, Tag::default())
    }
}

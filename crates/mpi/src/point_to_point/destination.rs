#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Destinations of messages.

use hikyaku::mpi::{Rank, engine::Mode, error::Error};

use super::{Array, SendingArray, transfer::Outgoing};
use crate::{
    Tag,
    datatype::{Buffer, Place},
    lock::lock,
    request::{Request, Running, Scope},
    topology::{AsCommunicator, Handle, Process, handle},
};

/// The send mode.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    /// A mode of the engine.
    By(Mode),
    /// Through a copy in the attached buffer (`MPI_Buffer_attach`).
    Buffered,
}

impl How {
    fn outgoing(self, (destination, tag): (Rank, Tag)) -> Outgoing {
        let mode = match self {
            Self::By(mode) => mode,
            Self::Buffered => Mode::Standard,
        };
        Outgoing { mode, destination, tag }
    }

    fn send(self, handle: &Handle, from: &Place, to: (Rank, Tag)) -> Result<(), Error> {
        match self {
            Self::By(_) => self.outgoing(to).send(&handle.comm, from),
            Self::Buffered => {
                let data = (from.base.cast_const(), from.count, &from.datatype);
                // SAFETY: borrowed by our caller.
                unsafe { lock(&handle.local.attached).send(&handle.comm, data, to) }
            }
        }
    }

    /// # Safety
    /// The place is borrowed until the operation has ended.
    pub(super) unsafe fn begin(self, handle: &Handle, from: &Place, to: (Rank, Tag)) -> Running {
        match self {
            // SAFETY: the caller's contract.
            Self::By(_) => unsafe { self.outgoing(to).begin(&handle.comm, from) },
            Self::Buffered => Running::ended(self.send(handle, from, to)),
        }
    }
}

/// Writes the methods of a way to send: with a tag and without, waiting and only begun. (An `unsafe` before the name
/// makes them so.)
macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        $([$unsafe:ident: $safety:literal])?
        $name:ident, $tagged:ident, $immediate:ident, $immediate_tagged:ident: $how:expr, $call:literal;
    )*) => {$(
        $(#[$doc])*
        ///
        $(
            /// # Safety
            #[doc = $safety]
            ///
        )?
        /// # Errors
        /// See the trait.
        $($unsafe)? fn $name<Buf: Buffer + ?Sized>(&self, buf: &Buf) -> Result<(), Error> {
            $how.send(handle(self), &Place::of(buf), (self.destination_rank(), Tag::default()))
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") with a tag.")]
        ///
        $(
            /// # Safety
            #[doc = $safety]
            ///
        )?
        /// # Errors
        /// See the trait.
        $($unsafe)? fn $tagged<Buf: Buffer + ?Sized>(&self, buf: &Buf, tag: Tag) -> Result<(), Error> {
            $how.send(handle(self), &Place::of(buf), (self.destination_rank(), tag))
        }

        #[doc = concat!("Begins [`", stringify!($name), "`](Self::", stringify!($name), ") (`", $call, "`).")]
        $(
            ///
            /// # Safety
            #[doc = $safety]
        )?
        $($unsafe)? fn $immediate<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf) -> Request<'a, Buf, Sc>
        where
            Buf: 'a + Buffer + ?Sized,
            Sc: Scope<'a>,
        {
            let to = (self.destination_rank(), Tag::default());
            // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
            let running = unsafe { $how.begin(handle(self), &Place::of(buf), to) };
            Request::new(running, buf, scope)
        }

        #[doc = concat!("Begins [`", stringify!($tagged), "`](Self::", stringify!($tagged), ").")]
        $(
            ///
            /// # Safety
            #[doc = $safety]
        )?
        $($unsafe)? fn $immediate_tagged<'a, Sc, Buf>(&self, scope: Sc, buf: &'a Buf, tag: Tag) -> Request<'a, Buf, Sc>
        where
            Buf: 'a + Buffer + ?Sized,
            Sc: Scope<'a>,
        {
            // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
            let running = unsafe { $how.begin(handle(self), &Place::of(buf), (self.destination_rank(), tag)) };
            Request::new(running, buf, scope)
        }
    )*};
}

/// A destination of messages: a [`Process`](crate::topology::Process).
///
/// Methods without a tag send with tag 0. Errors: the process is lost, the communicator is revoked, or a tag is
/// negative.
pub trait Destination: AsCommunicator {
    /// The rank of the destination.
    fn destination_rank(&self) -> Rank;

    /// Begins to send a [buffer array](super::array) with a tag.
    ///
    /// # Errors
    /// See the trait.
    fn send_array_with_tag(&self, array: &Array, tag: Tag) -> Result<SendingArray, Error> {
        let sending = handle(self).comm.send_array(array, self.destination_rank(), tag);
        sending.map(SendingArray::new)
    }

    /// Begins to send a [buffer array](super::array).
    ///
    /// # Errors
    /// See the trait.
    fn send_array(&self, array: &Array) -> Result<SendingArray, Error> {
        self.send_array_with_tag(array, Tag::default())
    }

    methods! {
        /// Sends (`MPI_Send`). May wait until the message is received.
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
        send, send_with_tag, immediate_send, immediate_send_with_tag: How::By(Mode::Standard), "MPI_Isend";

        /// Copies the message to the attached buffer
        /// ([`Universe::set_buffer_size`](crate::environment::Universe::set_buffer_size)), and never waits
        /// (`MPI_Bsend`); its request has ended when it is made. A message that does not fit is an error
        /// ([`ErrorClass::Buffer`](crate::ErrorClass::Buffer)).
        buffered_send, buffered_send_with_tag, immediate_buffered_send, immediate_buffered_send_with_tag:
            How::Buffered, "MPI_Ibsend";

        /// Sends, and waits until the message is received (`MPI_Ssend`).
        synchronous_send, synchronous_send_with_tag, immediate_synchronous_send, immediate_synchronous_send_with_tag:
            How::By(Mode::Synchronous), "MPI_Issend";

        /// Sends a message whose receive is posted already (`MPI_Rsend`).
        [unsafe: "None here: it is as [`send`](Self::send). It is `unsafe` for being so in rsmpi."]
        ready_send, ready_send_with_tag, immediate_ready_send, immediate_ready_send_with_tag:
            How::By(Mode::Ready), "MPI_Irsend";
    }
}

impl Destination for Process<'_> {
    fn destination_rank(&self) -> Rank {
        self.rank()
    }
}

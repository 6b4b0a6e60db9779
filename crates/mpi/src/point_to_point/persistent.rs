#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Persistent requests: set up once, started again and again (MPI 3.9). Not in rsmpi.
//!
//! ```
//! use mpi::{point_to_point::persistent, traits::*};
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let myself = world.this_process();
//! let (mut from, mut into) = ([0; 3], [0; 3]);
//! let mut sending = persistent::send_init(&myself, &mut from, 7);
//! let mut receiving = persistent::receive_init(&myself, &mut into, 7);
//! for round in 0..3 {
//!     sending.buffer_mut().fill(round);
//!     mpi::request::scope(|scope| {
//!         let receive = receiving.start(scope);
//!         sending.start(scope).wait()?;
//!         receive.wait()
//!     })?;
//!     assert_eq!(receiving.buffer(), &[round; 3]);
//! }
//! # Ok::<_, mpi::Error>(())
//! ```

use hikyaku::mpi::engine::Mode;

use super::{Destination, Source, destination::How, transfer::Incoming};
use crate::{
    Rank, Tag,
    datatype::{Buffer, BufferMut, Place},
    request::{Request, Scope},
    topology::{Handle, handle},
};

/// A send that can be started again and again. Between its runs the program may use the buffer.
#[derive(Debug)]
pub struct PersistentSend<'a, Buf: ?Sized> {
    handle: Handle,
    how: How,
    to: (Rank, Tag),
    buffer: &'a mut Buf,
}

/// A receive that can be started again and again. Between its runs the program may use the buffer.
#[derive(Debug)]
pub struct PersistentReceive<'a, Buf: ?Sized> {
    handle: Handle,
    incoming: Incoming,
    buffer: &'a mut Buf,
}

macro_rules! sends {
    ($($(#[$doc:meta])* $name:ident: $how:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name<'a, D, Buf>(destination: &D, buf: &'a mut Buf, tag: Tag) -> PersistentSend<'a, Buf>
        where
            D: Destination,
            Buf: Buffer + ?Sized,
        {
            PersistentSend {
                handle: handle(destination).clone(),
                how: $how,
                to: (destination.destination_rank(), tag),
                buffer: buf,
            }
        }
    )*};
}

sends! {
    /// Sets up a send (`MPI_Send_init`).
    send_init: How::By(Mode::Standard);

    /// Sets up a send that ends when the message is received (`MPI_Ssend_init`).
    synchronous_send_init: How::By(Mode::Synchronous);

    /// Sets up a send whose receive is posted before each start (`MPI_Rsend_init`). It makes no difference here.
    ready_send_init: How::By(Mode::Ready);

    /// Sets up a send that copies, and has ended when it is started (`MPI_Bsend_init`); see
    /// [`Destination::buffered_send`].
    buffered_send_init: How::Buffered;
}

/// Sets up a receive (`MPI_Recv_init`).
pub fn receive_init<'a, S, Buf>(source: &S, buf: &'a mut Buf, tag: Tag) -> PersistentReceive<'a, Buf>
where
    S: Source,
    Buf: BufferMut + ?Sized,
{
    PersistentReceive {
        handle: handle(source).clone(),
        incoming: Incoming {
            source: source.source_rank(),
            tag,
        },
        buffer: buf,
    }
}

impl<Buf: Buffer + ?Sized> PersistentSend<'_, Buf> {
    /// Starts the send once more (`MPI_Start`).
    pub fn start<'b, Sc: Scope<'b>>(&'b mut self, scope: Sc) -> Request<'b, Buf, Sc> {
        // SAFETY: borrowed for `'b`, and the scope ends the operation before that.
        let running = unsafe { self.how.begin(&self.handle, &Place::of(&*self.buffer), self.to) };
        Request::new(running, &raw const *self.buffer, scope)
    }
}

impl<Buf: BufferMut + ?Sized> PersistentReceive<'_, Buf> {
    /// Starts the receive once more (`MPI_Start`).
    pub fn start<'b, Sc: Scope<'b>>(&'b mut self, scope: Sc) -> Request<'b, Buf, Sc> {
        let data: *mut Buf = self.buffer;
        // SAFETY: borrowed mutably for `'b`; what is derived from it is not used any more when `data` is.
        let place = Place::of_mut(unsafe { &mut *data });
        // SAFETY: borrowed for `'b`, and the scope ends the operation before that.
        let running = unsafe { self.incoming.begin(&self.handle.comm, &place) };
        Request::new(running, data, scope)
    }
}

macro_rules! buffers {
    ($($name:ident)*) => {$(
        impl<Buf: ?Sized> $name<'_, Buf> {
            /// The buffer.
            #[must_use]
            pub fn buffer(&self) -> &Buf {
                self.buffer
            }

            /// The buffer, mutably.
            #[must_use]
            pub fn buffer_mut(&mut self) -> &mut Buf {
                self.buffer
            }
        }
    )*};
}

buffers! {
    PersistentSend
    PersistentReceive
}

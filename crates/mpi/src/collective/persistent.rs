#![expect(unsafe_code, reason = "lends buffers to the engine whenever it is started")]
//! Collectives that are planned once and started again and again.

use std::{fmt, marker::PhantomData, ptr};

use hikyaku::mpi::error::{Detail, Error, ErrorClass};

use crate::request::{Found, Request, Running, Scope};

/// The present addresses of the buffers; `None` if they have changed their shape.
type Find<'a, S, R> = Box<dyn Fn(*mut S, *mut R) -> Option<Found> + 'a>;

/// A collective that can be started again and again (MPI 6.13). Not in rsmpi. It has a buffer to send from and one to
/// receive into, or one of them and `()`; between its runs the program may use them.
///
/// All processes must plan the collectives of a communicator in the same order; they may start them in any order.
///
/// ```
/// use mpi::{collective::SystemOperation, traits::*};
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let (mut own, mut sum) = ([0; 3], [0; 3]);
/// let mut reduction = world.persistent_all_reduce_into(&mut own, &mut sum, SystemOperation::sum())?;
/// for round in 1..=5 {
///     reduction.send_buffer_mut().fill(round);
///     mpi::request::scope(|scope| reduction.start(scope).wait())?;
///     assert_eq!(*reduction.receive_buffer(), [round * world.size(); 3]);
/// }
/// # Ok::<_, mpi::Error>(())
/// ```
///
/// While it runs, the program cannot touch its buffers:
///
/// ```compile_fail,E0502
/// use mpi::{collective::SystemOperation, traits::*};
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let (mut own, mut sum) = (1, 0);
/// let mut reduction = world.persistent_all_reduce_into(&mut own, &mut sum, SystemOperation::sum()).unwrap();
/// mpi::request::scope(|scope| {
///     let request = reduction.start(scope);
///     println!("{}", reduction.receive_buffer());
///     request.wait().unwrap();
/// });
/// ```
///
/// That holds even if the program does not wait, because the scope does:
///
/// ```compile_fail,E0505
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let mut news = vec![1, 2, 3];
/// let mut broadcast = world.process_at_rank(0).persistent_broadcast_into(&mut news).unwrap();
/// mpi::request::scope(|scope| {
///     std::mem::forget(broadcast.start(scope));
///     drop(broadcast);
/// });
/// ```
#[must_use = "it does nothing before it is started"]
pub struct Persistent<'a, S: ?Sized, R: ?Sized> {
    planned: Running,
    sent: *mut S,
    received: *mut R,
    find: Find<'a, S, R>,
    buffers: PhantomData<(&'a mut S, &'a mut R)>,
}

impl<S: ?Sized, R: ?Sized> fmt::Debug for Persistent<'_, S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persistent")
            .field("planned", &self.planned)
            .finish_non_exhaustive()
    }
}

impl Persistent<'static, (), ()> {
    /// Without buffers.
    pub(super) fn nothing(planned: Running) -> Result<Self, Error> {
        let find = |_, _| {
            Some(Found {
                input: ptr::dangling_mut(),
                output: ptr::dangling_mut(),
                validators: Vec::new(),
            })
        };
        Self::new(planned, (ptr::dangling_mut(), ptr::dangling_mut()), Box::new(find))
    }
}

impl<'a, S: ?Sized, R: ?Sized> Persistent<'a, S, R> {
    /// Both are borrowed for `'a`.
    pub(super) fn new(
        planned: Running,
        (sent, received): (*mut S, *mut R),
        find: Find<'a, S, R>,
    ) -> Result<Self, Error> {
        match planned.refused() {
            Some(error) => Err(error),
            None => Ok(Self {
                planned,
                sent,
                received,
                find,
                buffers: PhantomData,
            }),
        }
    }

    /// Starts the collective once more (`MPI_Start`). A buffer whose length has changed is an error.
    pub fn start<'b, Sc: Scope<'b>>(&'b mut self, scope: Sc) -> Request<'b, (), Sc> {
        let running = match (self.find)(self.sent, self.received) {
            // SAFETY: borrowed for `'b`, and the scope ends the operation before that.
            Some(found) => unsafe { self.planned.restart(found) },
            None => {
                let detail = Detail::Text("a buffer does not have the length with which it was planned");
                Running::new(Err(Error::new(ErrorClass::Buffer, "MPI_Start").with_detail(detail)))
            }
        };
        Request::new(running, &(), scope)
    }

    /// The buffer to send from.
    #[must_use]
    pub fn send_buffer(&self) -> &S {
        // SAFETY: borrowed for `'a`, and nothing runs, because that would borrow this.
        unsafe { &*self.sent }
    }

    /// The buffer to send from, mutably.
    #[must_use]
    pub fn send_buffer_mut(&mut self) -> &mut S {
        // SAFETY: as above.
        unsafe { &mut *self.sent }
    }

    /// The buffer to receive into.
    #[must_use]
    pub fn receive_buffer(&self) -> &R {
        // SAFETY: as above.
        unsafe { &*self.received }
    }

    /// The buffer to receive into, mutably. (In a broadcast it is also the buffer that is sent.)
    #[must_use]
    pub fn receive_buffer_mut(&mut self) -> &mut R {
        // SAFETY: as above.
        unsafe { &mut *self.received }
    }
}

//! Buffer arrays (the PACS-CS paper, section 5): memory of the library that a program fills in place, sends in one call
//! whatever its size, and sends on as received. Large ones are never copied: they leave from where they were filled, and
//! land where they are used. [The guide](https://docs.rs/crate/hikyaku/latest/source/docs/arrays.md) has more.
//!
//! ```
//! use mpi::traits::*;
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let (next, last) = ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
//! let mut array = world.buffer_array(1 << 20);
//! for (number, piece) in array.get_mut().unwrap().chunks_mut(1 << 16).enumerate() {
//!     piece.fill(number as u8);
//! }
//! let sending = world.process_at_rank(next).send_array_with_tag(&array, 7)?;
//! let (received, status) = world.process_at_rank(last).receive_array_with_tag(7)?;
//! assert_eq!((received.len(), received[1 << 16]), (1 << 20, 1));
//! # let _ = status;
//! sending.wait()?;
//! // It can be written again, and the other one be sent on as it is.
//! assert!(array.get_mut().is_some());
//! # Ok::<_, mpi::Error>(())
//! ```

use hikyaku::mpi::{
    engine::{self, Request},
    error::Error,
};

pub use hikyaku::mpi::engine::Array;

use super::Status;

/// An array that is being sent. It need not be kept: the send goes on, and [`Array::get_mut`] says when the array may be
/// written again.
#[derive(Debug)]
pub struct SendingArray(Request);

impl SendingArray {
    pub(super) fn new(request: Request) -> Self {
        Self(request)
    }

    /// Waits until the array may be written again.
    ///
    /// # Errors
    /// The receiver is lost, or the communicator is revoked.
    pub fn wait(self) -> Result<(), Error> {
        self.0.wait().map(drop)
    }

    /// Returns whether [`wait`](Self::wait) would not wait. Makes no progress.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

/// An array that is being received. Dropping it loses the array.
#[derive(Debug)]
pub struct ArrivingArray(engine::Arriving);

impl ArrivingArray {
    pub(super) fn new(arriving: engine::Arriving) -> Self {
        Self(arriving)
    }

    /// Waits until all of it has arrived.
    ///
    /// # Errors
    /// The sender is lost, the communicator is revoked, or what it has sent is longer than the array.
    pub fn wait(self) -> Result<(Array, Status), Error> {
        let (array, status) = self.0.wait()?;
        Ok((array, Status::new(status)))
    }

    /// Returns whether [`wait`](Self::wait) would not wait. Makes no progress.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// Waits until one of `arriving` has arrived, and gives its index; `None` if there are none.
    #[must_use]
    pub fn wait_any(arriving: &[Self]) -> Option<usize> {
        Request::wait_ready(arriving.iter().map(|one| one.0.request()))
    }
}

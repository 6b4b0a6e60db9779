//! MPI in the shape of [rsmpi](https://docs.rs/mpi), with no MPI library below it.
//!
//! A program written for rsmpi moves by one line of its `Cargo.toml`:
//!
//! ```toml
//! mpi = { package = "hikyaku-mpi", version = "0.1" }
//! ```
//!
//! and by saying what is to be done when the network fails: what can, returns a [`Result`]. `docs/rsmpi.md` lists what
//! is the same, what differs and what is missing.
//!
//! ```
//! use mpi::traits::*;
//!
//! fn main() -> Result<(), mpi::Error> {
//!     let universe = mpi::initialize().unwrap();
//!     let world = universe.world();
//!     let (rank, size) = (world.rank(), world.size());
//!
//!     // Everybody sends to the next one and receives from the one before.
//!     let next = world.process_at_rank((rank + 1) % size);
//!     let mut letter = vec![0.0; 3];
//!     mpi::request::scope(|scope| {
//!         let incoming = world.any_process().immediate_receive_into(scope, &mut letter[..]);
//!         next.send(&[4.0, 8.0, 15.0])?;
//!         let status = incoming.wait()?;
//!         assert_eq!(status.source_rank(), (rank + size - 1) % size);
//!         Ok::<_, mpi::Error>(())
//!     })?;
//!     assert_eq!(letter, [4.0, 8.0, 15.0]);
//!
//!     let mut sum = 0;
//!     world.all_reduce_into(&rank, &mut sum, mpi::collective::SystemOperation::sum())?;
//!     assert_eq!(sum, size * (size - 1) / 2);
//!     Ok(())
//! }
//! ```
//!
//! `hikyaku run -n 4 program` starts four of it; so do MPICH's and Open MPI's `mpiexec`, and Slurm's `srun`
//! ([`hikyaku::bootstrap`]). Started alone it is a world of one.
//!
//! # Errors
//!
//! An [`Error`] says its MPI class, the MPI function in which it happened, and the rank of the other side if there is
//! one. When a process is lost, or has ended MPI, what waits for it ends with [`ErrorClass::ProcFailed`]; nothing hangs, and
//! nobody else is aborted. What was begun by an `immediate_…` method tells its errors when it is waited for, also those of its
//! arguments. Mistakes in the program that need no network to be found (a rank that there is not, as an argument of
//! `process_at_rank`) are panics, as in rsmpi.
//!
//! # Buffers
//!
//! A request borrows its buffers for the lifetime of a [scope](request::scope), which does not end before all of its
//! requests have: also those that were forgotten or dropped. So no safe program can free or touch memory that the
//! network still uses; the argument is written down in [`request`].
//!
//! # Counts
//!
//! [`Count`] is a 64-bit number with sign, like `MPI_Count` (rsmpi has a C `int`): there is no limit of 2 GiB.
//!
//! # Threads
//!
//! Everything may be called from any thread ([`Threading::Multiple`]). A helper thread, on which no signal is delivered,
//! makes progress while the program computes or sleeps, so that others need not wait for its next call: the example
//! `progress` measures how soon they are served.

pub mod attribute;
pub mod collective;
pub mod datatype;
pub mod environment;
pub mod point_to_point;
pub mod raw;
pub mod request;
pub mod topology;
pub mod window;

/// All traits, and the derive macro.
pub mod traits {
    #[cfg(feature = "derive")]
    pub use hikyaku_mpi_derive::Equivalence;

    pub use crate::{
        attribute::traits::*, collective::traits::*, datatype::traits::*, point_to_point::traits::*, raw::traits::*,
        topology::traits::*,
    };
}

pub use environment::{InitError, Threading, initialize, initialize_with_threading, time, time_resolution};
pub use hikyaku::mpi::error::{Error, ErrorClass};
pub use topology::Rank;

/// How many elements: `MPI_Count`, 64 bits with sign. (rsmpi: `int`.) Also for strides and coordinates, which may be
/// negative.
pub type Count = i64;
/// What a receiver can select messages by: 0 to `i32::MAX`.
pub type Tag = i32;
/// A difference of addresses in octets: `MPI_Aint`.
pub type Address = i64;

/// What [`point_to_point::Status::count`] gives for a message that is no whole number of elements: `MPI_UNDEFINED`.
pub const UNDEFINED: Count = -32_766;

/// The readme's programs, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

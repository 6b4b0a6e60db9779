//! MPI in the shape of [rsmpi](https://docs.rs/mpi), with no MPI library below it.
//!
//! A program written for rsmpi needs one changed line in its `Cargo.toml`:
//!
//! ```toml
//! mpi = { package = "hikyaku-mpi", version = "0.1" }
//! ```
//!
//! and code that handles errors of the network: methods that can fail return a [`Result`]. `docs/rsmpi.md` lists the
//! similarities, the differences and the gaps.
//!
//! ```
//! use mpi::traits::*;
//!
//! fn main() -> Result<(), mpi::Error> {
//!     let universe = mpi::initialize().unwrap();
//!     let world = universe.world();
//!     let (rank, size) = (world.rank(), world.size());
//!
//!     // Each rank sends to the next one and receives from the one before.
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
//! `hikyaku run -n 4 program` starts four processes of it; so do MPICH's and Open MPI's `mpiexec`, and Slurm's `srun`
//! ([`hikyaku::bootstrap`]). A program started alone is a world of one process.
//!
//! # Errors
//!
//! An [`Error`] has its MPI class, the MPI function in which it happened, and the rank of the other side if there is
//! one. When a process is lost, or has ended MPI, operations that wait for it end with [`ErrorClass::ProcFailed`]; none
//! hangs, and no other process is aborted. An operation that an `immediate_…` method began reports its errors, those of
//! its arguments as well, when the program waits for it. Mistakes in the program that can be found without the network
//! (such as a rank that does not exist, as an argument of `process_at_rank`) are panics, as in rsmpi.
//!
//! # Buffers
//!
//! A request borrows its buffers for the lifetime of a [scope](request::scope), and the scope does not end before all
//! of its requests have ended, including those that were forgotten or dropped. So no safe program can free or touch
//! memory that the network still uses; the argument is written down in [`request`].
//!
//! # Counts
//!
//! [`Count`] is a signed 64-bit number, like `MPI_Count` (rsmpi has a C `int`): there is no limit of 2 GiB.
//!
//! # Threads
//!
//! A program may call everything from any thread ([`Threading::Multiple`]). A helper thread, to which no signal is
//! delivered, makes progress while the program computes or sleeps, so that other ranks need not wait for its next call:
//! the example `progress` measures how soon they are served.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod attribute;
pub mod collective;
pub mod datatype;
pub mod environment;
mod lock;
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

/// A number of elements: `MPI_Count`, a signed 64-bit number. (rsmpi: `int`.) Also for strides and coordinates, which
/// may be negative.
pub type Count = i64;
/// The tag by which a receiver selects messages: 0 to `i32::MAX`.
pub type Tag = i32;
/// A difference of addresses in bytes: `MPI_Aint`.
pub type Address = i64;

/// The result of [`point_to_point::Status::count`] for a message that is not a whole number of elements:
/// `MPI_UNDEFINED`.
pub const UNDEFINED: Count = -32_766;

/// The programs in the readme, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

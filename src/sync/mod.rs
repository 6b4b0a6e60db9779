//! Synchronisation primitives made here: sleeping and waking up, lending memory and waiting until it is back, and a lock
//! of several processes. Each is a file of its own without any dependency but [`primitives`], so that `tests/loom` can
//! substitute loom's and try all orders in which threads may run and see each other's writes.

#[cfg(feature = "loopback")]
mod bell;
#[cfg(feature = "mpi")]
mod holders;
#[cfg(feature = "mpi")]
mod lock;
mod pins;
#[cfg(feature = "mpi")]
mod sleepers;
#[cfg(all(test, feature = "mpi"))]
mod tests;

/// Atomics, locks and reference counts.
pub(crate) use std::sync as primitives;

#[cfg(feature = "loopback")]
pub(crate) use self::bell::Bell;
#[cfg(feature = "mpi")]
pub(crate) use self::holders::{Given, Holders, PLACES, Places, REST};
#[cfg(feature = "mpi")]
pub(crate) use self::lock::{Guard, Lock};
pub(crate) use self::pins::{Pin, Pins};
#[cfg(feature = "mpi")]
pub(crate) use self::sleepers::{Sleepers, Ticket};

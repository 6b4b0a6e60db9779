//! The tests of MPI's engine with two packet layers under each messenger: a rank reaches half of its peers through memory
//! and the others over an endpoint.
#![cfg(all(feature = "mpi", feature = "loopback", feature = "udp"))]
#![expect(unsafe_code, reason = "the engine takes pointers")]

mod layers;
mod short;
mod support;
mod waitall;

#[path = "../mpi/arrays.rs"]
mod arrays;
#[path = "../mpi/checks.rs"]
mod checks;
#[path = "../mpi/collectives.rs"]
mod collectives;
#[path = "../mpi/datatypes.rs"]
mod datatypes;
#[path = "../mpi/groups.rs"]
mod groups;
#[path = "../mpi/inter.rs"]
mod inter;
#[path = "../mpi/leaving.rs"]
mod leaving;
#[path = "../mpi/messages.rs"]
mod messages;
#[path = "../mpi/partitioned.rs"]
mod partitioned;
#[path = "../mpi/persistent.rs"]
mod persistent;
#[path = "../mpi/progress.rs"]
mod progress;
#[path = "../mpi/windows.rs"]
mod windows;

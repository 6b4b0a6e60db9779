//! The tests of MPI's engine with ranks that reach each other through the memory that processes of one host share. In jobs of
//! three ranks and more, every third one uses the network only.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "the engine takes pointers")]

mod crossing;
mod eager;
mod locks_in_memory;
mod stopped;
mod support;

#[path = "../beside/short.rs"]
mod short;
#[path = "../beside/waitall.rs"]
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
mod windows_in_memory;

//! The tests of MPI's engine with ranks that all share one host: blocking collectives go by memory that all have mapped.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "the engine takes pointers")]

mod crossed;
mod ends;
mod mixed;
mod support;

#[path = "../mpi/checks.rs"]
mod checks;
#[path = "../mpi/collectives.rs"]
mod collectives;
#[path = "../support/drawn.rs"]
mod drawn;
#[path = "../support/sum.rs"]
mod sum;

#[path = "../mpi/datatypes.rs"]
mod datatypes;
#[path = "../mpi/groups.rs"]
mod groups;
#[path = "../mpi/leaving.rs"]
mod leaving;
#[path = "../mpi/messages.rs"]
mod messages;
#[path = "../mpi/mistakes.rs"]
mod mistakes;
#[path = "../mpi/progress.rs"]
mod progress;
#[path = "../mpi/windows.rs"]
mod windows;

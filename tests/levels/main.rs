//! The tests of MPI's engine with ranks of several hosts, some of which have more than one: blocking collectives go within
//! hosts and between them.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "the engine takes pointers, and a thread becomes another user")]

mod ends;
mod mixed;
mod support;

#[path = "../support/drawn.rs"]
mod drawn;
#[path = "../support/sum.rs"]
mod sum;

#[path = "../mpi/collectives.rs"]
mod collectives;
#[path = "../mpi/groups.rs"]
mod groups;
#[path = "../mpi/inter.rs"]
mod inter;
#[path = "../mpi/leaving.rs"]
mod leaving;
#[path = "../mpi/messages.rs"]
mod messages;
#[path = "../mpi/mistakes.rs"]
mod mistakes;
#[path = "../mpi/progress.rs"]
mod progress;

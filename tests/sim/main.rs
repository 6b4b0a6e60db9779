//! Simulated processes: that they do what real ones do, in virtual time, and the same each time.
#![expect(unsafe_code, reason = "the engine takes pointers")]

mod bulk;
mod faults;
mod levels;
mod network;
mod optics;
mod optics_faults;
mod pinned;
mod programs;
mod rails;
mod support;

/// All ranks are on the network.
const SHARED_MEMORY: bool = false;

// The tests of the engine, with simulated processes instead of threads.
#[path = "../mpi/arrays.rs"]
mod arrays;
#[path = "../mpi/checks.rs"]
mod checks;
#[path = "../mpi/collectives.rs"]
mod collectives;
#[path = "../support/counter.rs"]
mod counter;
#[path = "../support/drawn.rs"]
mod drawn;
#[path = "../mpi/groups.rs"]
mod groups;
#[path = "../mpi/inter.rs"]
mod inter;
#[path = "../mpi/leaving.rs"]
mod leaving;
#[path = "../mpi/messages.rs"]
mod messages;
#[path = "../mpi/persistent.rs"]
mod persistent;
#[path = "../mpi/progress.rs"]
mod progress;
#[path = "../mpi/windows.rs"]
mod windows;

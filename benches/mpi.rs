//! Cases of MPI whose instructions `cargo xtask callgrind` counts: see `instructions.rs`, of which this is a part. It is a
//! program by itself, because the compiler inlines less of the core where MPI uses it, too.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/clock.rs"]
mod clock;
#[path = "support/ranks.rs"]
mod ranks;

use cases::{Case, Work};
use ranks::Ranks;

const CASES: &[Case] = &[
    ("mpi_8b_x1000", || messages(Ranks::over_endpoints())),
    ("mpi_8b_in_memory_x1000", || messages(Ranks::in_memory())),
    ("mpi_8b_in_memory_blocking_x1000", || {
        blocking_messages(Ranks::in_memory())
    }),
];

/// Messages of 8 B between two ranks in turn, from the call that sends to the test that finds them received, both ends.
fn messages(mut ranks: Ranks) -> Work {
    Box::new(move || (0..500).map(|_| ranks.ping_pong()).sum())
}

/// The same by blocking calls: the receive finds the message.
fn blocking_messages(mut ranks: Ranks) -> Work {
    Box::new(move || (0..500).map(|_| ranks.blocking_ping_pong()).sum())
}

fn main() {
    cases::run(CASES);
}

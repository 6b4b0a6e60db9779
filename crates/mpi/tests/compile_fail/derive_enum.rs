//~ send a number instead
use mpi::traits::*;

#[derive(Equivalence)]
enum Choice {
    Yes,
    No,
}

fn main() {}

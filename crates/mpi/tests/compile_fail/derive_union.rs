//~ which of its fields is to be sent is not known
use mpi::traits::*;

#[derive(Equivalence)]
union Either {
    number: u32,
    float: f32,
}

fn main() {}

//~ a struct with parameters cannot derive Equivalence
use mpi::traits::*;

#[derive(Equivalence)]
struct Lent<'a>(&'a u8);

#[derive(Equivalence)]
struct Any<T>(T);

fn main() {}

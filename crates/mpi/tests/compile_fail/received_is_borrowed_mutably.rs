//~ E0308 mismatched types
// What is received into is not shared.
use mpi::traits::*;

fn main() {
    let world = mpi::initialize().unwrap().world();
    let numbers = [0; 3];
    world.any_process().receive_into(&numbers[..]).unwrap();
}

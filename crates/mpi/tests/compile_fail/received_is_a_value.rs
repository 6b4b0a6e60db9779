//~ E0277 `[char]: BufferMut`
// Nothing is received of which not all bytes are a value.
use mpi::traits::*;

fn main() {
    let world = mpi::initialize().unwrap().world();
    let mut letters = ['a'; 3];
    world.any_process().receive_into(&mut letters[..]).unwrap();
}

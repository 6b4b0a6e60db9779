//! Every rank says hello.

use mpi::traits::*;

pub(crate) fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    assert!((0..world.size()).contains(&world.rank()));
    println!(
        "Hello parallel world from process {} of {}!",
        world.rank(),
        world.size()
    );
}

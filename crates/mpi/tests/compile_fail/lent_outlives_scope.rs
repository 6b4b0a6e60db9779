//~ E0597 `letter` does not live long enough
use mpi::traits::*;

fn main() {
    let world = mpi::initialize().unwrap().world();
    let myself = world.this_process();
    mpi::request::scope(|scope| {
        let letter = vec![1, 2, 3];
        myself.immediate_send(scope, &letter).wait()
    })
    .unwrap();
}

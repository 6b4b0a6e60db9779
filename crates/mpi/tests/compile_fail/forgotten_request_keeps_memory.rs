//~ E0505 cannot move out of `letter` because it is borrowed
//~ E0597 `letter` does not live long enough
use mpi::traits::*;

fn main() {
    let world = mpi::initialize().unwrap().world();
    let myself = world.this_process();
    let mut letter = vec![1, 2, 3];
    mpi::request::scope(|scope| {
        std::mem::forget(myself.immediate_receive_into(scope, &mut letter));
        drop(letter);
    });
}

//~ E0506 cannot assign to `letter` because it is borrowed
use mpi::traits::*;

fn main() {
    let world = mpi::initialize().unwrap().world();
    let myself = world.this_process();
    let mut letter = 1;
    mpi::request::scope(|scope| {
        let sending = myself.immediate_send(scope, &letter);
        letter = 2;
        sending.wait()
    })
    .unwrap();
}

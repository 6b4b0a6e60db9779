//~ lifetime may not live long enough
use mpi::traits::*;

fn main() {
    let world = mpi::initialize().unwrap().world();
    let myself = world.this_process();
    let letter = vec![1, 2, 3];
    let request = mpi::request::scope(|scope| myself.immediate_send(scope, &letter));
    request.wait().unwrap();
}

//~ E0277 cannot be shared between threads safely
// A scope and the requests in it are for one thread: its end waits for what is in it.
use mpi::traits::*;

fn main() {
    let world = mpi::initialize().unwrap().world();
    let myself = world.this_process();
    let letter = [1_u8; 3];
    mpi::request::scope(|scope| {
        std::thread::scope(|threads| {
            threads.spawn(|| myself.immediate_send(scope, &letter).wait());
        });
    });
}

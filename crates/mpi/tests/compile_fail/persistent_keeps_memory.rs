//~ E0505 cannot move out of `broadcast` because it is borrowed
//~ E0597 `broadcast` does not live long enough
use mpi::traits::*;

fn main() {
    let world = mpi::initialize().unwrap().world();
    let mut news = vec![1, 2, 3];
    let mut broadcast = world.process_at_rank(0).persistent_broadcast_into(&mut news).unwrap();
    mpi::request::scope(|scope| {
        std::mem::forget(broadcast.start(scope));
        drop(broadcast);
    });
}

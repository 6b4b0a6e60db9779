//~ E0502 cannot borrow `letter[_]` as immutable
use mpi::traits::*;

fn main() {
    let world = mpi::initialize().unwrap().world();
    let myself = world.this_process();
    let mut letter = [1, 2, 3];
    mpi::request::scope(|scope| {
        let receiving = myself.immediate_receive_into(scope, &mut letter);
        println!("{}", letter[0]);
        receiving.wait()
    })
    .unwrap();
}

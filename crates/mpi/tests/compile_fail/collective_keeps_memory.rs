//~ E0597 `sum` does not live long enough
use mpi::{collective::SystemOperation, traits::*};

fn main() {
    let world = mpi::initialize().unwrap().world();
    let own = 1;
    mpi::request::scope(|scope| {
        let mut sum = 0;
        world
            .immediate_all_reduce_into(scope, &own, &mut sum, SystemOperation::sum())
            .wait()
    })
    .unwrap();
}

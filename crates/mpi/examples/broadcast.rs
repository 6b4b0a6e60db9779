//! One has it, all get it.

use mpi::{Error, traits::*};

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    for root in 0..world.size() {
        let root_process = world.process_at_rank(root);

        let mut x = if world.rank() == root {
            1_u64 << 40 | root as u64
        } else {
            0
        };
        root_process.broadcast_into(&mut x)?;
        assert_eq!(x, 1 << 40 | root as u64);

        let mut list = if root_process.is_self() {
            (0..100_000).map(|i| f64::from(i + root)).collect()
        } else {
            vec![0.0; 100_000]
        };
        root_process.broadcast_into(&mut list)?;
        assert!((0..100_000).zip(&list).all(|(i, x)| *x == f64::from(i + root)));

        let mut later = if root_process.is_self() { [1, 2, 3] } else { [0; 3] };
        mpi::request::scope(|scope| root_process.immediate_broadcast_into(scope, &mut later).wait())?;
        assert_eq!(later, [1, 2, 3]);
    }
    Ok(())
}

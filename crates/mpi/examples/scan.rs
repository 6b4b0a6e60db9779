//! Each gets the reduction of those before it, with itself or without.

use mpi::{Error, Rank, collective::SystemOperation, traits::*};

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let rank = world.rank();

    let mut upto = 0;
    world.scan_into(&rank, &mut upto, SystemOperation::sum())?;
    assert_eq!(upto, rank * (rank + 1) / 2);

    let own = rank + 1;
    let mut before: Rank = -1;
    world.exclusive_scan_into(&own, &mut before, SystemOperation::product())?;
    let expected = if rank > 0 { (1..=rank).product() } else { -1 };
    assert_eq!(before, expected, "rank 0 gets nothing");

    let mut both = [0; 2];
    mpi::request::scope(|scope| {
        let [upto, before] = &mut both;
        let first = world.immediate_scan_into(scope, &rank, upto, SystemOperation::max());
        let second = world.immediate_exclusive_scan_into(scope, &own, before, SystemOperation::sum());
        second.wait()?;
        first.wait()
    })?;
    assert_eq!(both, [rank, if rank > 0 { rank * (rank + 1) / 2 } else { 0 }]);
    Ok(())
}

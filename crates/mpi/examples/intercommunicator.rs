//! Two groups that talk to each other, and become one.

use mpi::{
    Error, point_to_point as p2p,
    topology::{Color, MergeOrder},
    traits::*,
};

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    if size < 2 {
        return Ok(());
    }
    let side = rank % 2;
    let half = world.split_by_color(Color::with_value(side))?.unwrap();
    let between = half.create_intercommunicator(0, &world, 1 - side, 5)?;
    assert!(between.test_inter() && !world.test_inter());
    assert_eq!(
        (between.size(), between.remote_size()),
        (half.size(), size - half.size())
    );
    assert_eq!(between.rank(), half.rank());
    assert_eq!(between.remote_group().size() + between.group().size(), size);

    // The rank is that in the other group.
    if between.rank() < between.remote_size() {
        let partner = between.process_at_rank(between.rank());
        let (heard, status) = p2p::send_receive::<i32, _, _, _>(&rank, &partner, &partner)?;
        assert_eq!(
            (heard, status.source_rank()),
            (2 * between.rank() + 1 - side, between.rank())
        );
    }
    between.barrier()?;

    let odd_first = between.merge(if side == 1 { MergeOrder::Low } else { MergeOrder::High })?;
    let expected = if side == 1 { rank / 2 } else { size / 2 + rank / 2 };
    assert_eq!((odd_first.size(), odd_first.rank()), (size, expected));
    let mut sum = 0;
    odd_first.all_reduce_into(&rank, &mut sum, mpi::collective::SystemOperation::sum())?;
    assert_eq!(sum, size * (size - 1) / 2);
    Ok(())
}

//! One gets what all have: as much of each, or not.

use mpi::{Count, Error, Rank, datatype::PartitionMut, traits::*};

/// Rank r has r + 1 times r.
fn own(rank: Rank) -> Vec<Rank> {
    vec![rank; rank as usize + 1]
}

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let root = size - 1;
    let root_process = world.process_at_rank(root);

    let letter = [i64::from(rank), i64::from(rank) * 10];
    if rank == root {
        let mut all = vec![0_i64; 2 * size as usize];
        root_process.gather_into_root(&letter, &mut all)?;
        assert!(all.chunks(2).zip(0..).all(|(pair, rank)| pair == [rank, rank * 10]));
    } else {
        root_process.gather_into(&letter)?;
    }

    if rank == root {
        let counts: Vec<Count> = (0..Count::from(size)).map(|rank| rank + 1).collect();
        let displs: Vec<Count> = counts.iter().map(|count| count * (count - 1) / 2).collect();
        let mut all = vec![-1; counts.iter().sum::<Count>() as usize];
        let mut parts = PartitionMut::new(&mut all[..], counts, displs);
        root_process.gather_varcount_into_root(&own(rank), &mut parts)?;
        assert_eq!(all, (0..size).flat_map(own).collect::<Vec<_>>());
    } else {
        root_process.gather_varcount_into(&own(rank))?;
    }
    Ok(())
}

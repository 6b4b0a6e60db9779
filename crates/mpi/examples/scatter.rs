//! One gives each a part: as much for each, or not.

use mpi::{Count, Error, datatype::Partition, traits::*};

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let root_process = world.process_at_rank(0);

    let mut x = -1;
    if root_process.is_self() {
        let all: Vec<i32> = (0..size).map(|rank| rank * rank).collect();
        root_process.scatter_into_root(&all, &mut x)?;
    } else {
        root_process.scatter_into(&mut x)?;
    }
    assert_eq!(x, rank * rank);

    // Rank r gets r elements, the last ones first.
    let mut list = vec![-1; rank as usize];
    if root_process.is_self() {
        let all: Vec<i32> = (0..size).rev().flat_map(|rank| vec![rank; rank as usize]).collect();
        let counts: Vec<Count> = (0..size.into()).collect();
        let end = all.len() as Count;
        let displs: Vec<Count> = counts.iter().map(|count| end - count * (count + 1) / 2).collect();
        let parts = Partition::new(&all[..], counts, displs);
        root_process.scatter_varcount_into_root(&parts, &mut list)?;
    } else {
        root_process.scatter_varcount_into(&mut list)?;
    }
    assert_eq!(list, vec![rank; rank as usize]);
    Ok(())
}

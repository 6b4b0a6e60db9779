//! All get what all have: values, flags, and not as much of each.
#![expect(unsafe_code, reason = "views of buffers as blocks")]

use mpi::{
    Count, Error,
    datatype::{MutView, PartitionMut, UserDatatype, View},
    traits::*,
};

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());

    let mut squares = vec![0; size as usize];
    world.all_gather_into(&(rank * rank), &mut squares[..])?;
    assert!(squares.iter().zip(0..).all(|(square, rank)| *square == rank * rank));

    let mut odd = vec![false; size as usize];
    world.all_gather_into(&(rank % 2 == 1), &mut odd)?;
    assert!(odd.iter().zip(0..size).all(|(odd, rank)| *odd == (rank % 2 == 1)));

    // Blocks of a datatype of their own, one per rank.
    let block: Vec<i32> = (0..4).map(|i| rank * 10 + i).collect();
    let mut blocks = vec![0; 4 * size as usize];
    let four = UserDatatype::contiguous(4, &i32::equivalent_datatype());
    // SAFETY: one block is as large as the buffer.
    let from = unsafe { View::with_count_and_datatype(&block[..], 1, &four) };
    // SAFETY: as many blocks as there are ranks are as large as the buffer.
    let mut into = unsafe { MutView::with_count_and_datatype(&mut blocks[..], size.into(), &four) };
    world.all_gather_into(&from, &mut into)?;
    assert!(blocks.iter().zip(0..).all(|(x, i)| *x == i / 4 * 10 + i % 4));

    let own = vec![rank; rank as usize];
    let counts: Vec<Count> = (0..size.into()).collect();
    let displs: Vec<Count> = counts.iter().map(|count| count * (count - 1) / 2).collect();
    let mut all = vec![-1; counts.iter().sum::<Count>() as usize];
    {
        let mut parts = PartitionMut::new(&mut all[..], counts, &displs[..]);
        world.all_gather_varcount_into(&own, &mut parts)?;
    }
    assert_eq!(
        all,
        (0..size).flat_map(|rank| vec![rank; rank as usize]).collect::<Vec<_>>()
    );
    Ok(())
}

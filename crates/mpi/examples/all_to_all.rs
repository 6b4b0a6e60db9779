//! All give something to all.

use mpi::{
    Count, Error,
    datatype::{DynBuffer, DynBufferMut, Partition, PartitionMut},
    traits::*,
};

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let ranks = 0..size;

    let from: Vec<i32> = ranks.clone().map(|to| rank * 100 + to).collect();
    let mut into = vec![-1; size as usize];
    world.all_to_all_into(&from[..], &mut into[..])?;
    assert!(into.iter().zip(ranks.clone()).all(|(x, from)| *x == from * 100 + rank));

    into.fill(-1);
    mpi::request::scope(|scope| world.immediate_all_to_all_into(scope, &from[..], &mut into[..]).wait())?;
    assert!(into.iter().zip(ranks.clone()).all(|(x, from)| *x == from * 100 + rank));

    // To rank r, r + 1 elements.
    let counts: Vec<Count> = (1..=Count::from(size)).collect();
    let displs: Vec<Count> = counts.iter().map(|count| count * (count - 1) / 2).collect();
    let from: Vec<i32> = ranks.clone().flat_map(|to| vec![rank; to as usize + 1]).collect();
    let each = Count::from(rank) + 1;
    let mut into = vec![-1; (each * Count::from(size)) as usize];
    let into_counts = vec![each; size as usize];
    let into_displs: Vec<Count> = (0..Count::from(size)).map(|from| from * each).collect();
    {
        let from = Partition::new(&from[..], counts, displs);
        let mut into = PartitionMut::new(&mut into[..], into_counts, into_displs);
        world.all_to_all_varcount_into(&from, &mut into)?;
    }
    assert!(
        into.chunks(each as usize)
            .zip(ranks.clone())
            .all(|(part, from)| part.iter().all(|x| *x == from))
    );

    // Of different types: numbers to even ranks, bytes to odd ones.
    let (number, bytes) = (f64::from(rank), [rank as u8; 3]);
    let from: Vec<DynBuffer<'_>> = ranks
        .clone()
        .map(|to| {
            if to % 2 == 0 {
                DynBuffer::new(std::slice::from_ref(&number))
            } else {
                DynBuffer::new(&bytes)
            }
        })
        .collect();
    let mut numbers = vec![-1.0; size as usize];
    let mut lists = vec![[0_u8; 3]; size as usize];
    let mut into: Vec<DynBufferMut<'_>> = if rank % 2 == 0 {
        numbers
            .iter_mut()
            .map(|x| DynBufferMut::new(std::slice::from_mut(x)))
            .collect()
    } else {
        lists.iter_mut().map(|list| DynBufferMut::new(list)).collect()
    };
    world.all_to_all_parts_into(&from, &mut into)?;
    drop(into);
    for from in ranks {
        if rank % 2 == 0 {
            assert_eq!(numbers[from as usize], f64::from(from));
        } else {
            assert_eq!(lists[from as usize], [from as u8; 3]);
        }
    }
    Ok(())
}

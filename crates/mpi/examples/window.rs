//! A histogram that all make together: each has a share of the bins in its part of a window.
//!
//! Not in rsmpi.

use mpi::{
    collective::SystemOperation,
    traits::*,
    window::{LockKind, Window},
};

const BINS: usize = 10;
const NUMBERS: u64 = 1_000;

pub(crate) fn main() -> Result<(), mpi::Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());

    let mut bins = Window::<u64>::allocate(&world, BINS)?;
    let counter = Window::<u64>::allocate(&world, usize::from(rank == 0))?;

    // Every rank takes numbers to work on, one after the other, from a counter at rank 0, and counts what it finds
    // where the bin is.
    let mut taken = 0;
    loop {
        let next = counter.lock(LockKind::Shared, 0, |epoch| {
            epoch.fetch_and_op(&1, 0, 0, SystemOperation::sum())
        })?;
        if next >= NUMBERS {
            break;
        }
        taken += 1;
        let bin = (next * next % (BINS as u64 * size as u64)) as usize;
        let (owner, place) = ((bin / BINS) as i32, bin % BINS);
        bins.lock(LockKind::Shared, owner, |epoch| {
            epoch.accumulate_into(&[1], owner, place, SystemOperation::sum())
        })?;
    }

    // When all are here, each sends its sum to all others at once.
    world.barrier()?;
    let own = [bins.local()?.iter().sum::<u64>()];
    let mut sums = Window::<u64>::allocate(&world, size as usize)?;
    sums.fence(|epoch| (0..size).try_for_each(|other| epoch.put(&own, other, rank as usize)))?;
    let all: u64 = sums.local()?.iter().sum();
    assert_eq!(all, NUMBERS, "each number is in one bin");

    // One who is first takes the prize.
    let first = counter.lock(LockKind::Shared, 0, |epoch| {
        epoch.compare_and_swap(&(NUMBERS + size as u64), &0, 0, 0)
    })?;
    if first == NUMBERS + size as u64 {
        println!("rank {rank} of {size}, which took {taken} numbers, was the first to see that all {all} are counted");
    }
    sums.free()?;
    bins.free()?;
    counter.free()
}

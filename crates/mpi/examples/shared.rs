//! Heat in a rod, whose parts the ranks of a host have in memory that they share: each reads the ends of its neighbours'
//! parts where they are. Beside it, the ranks share out work by a counter that all change.
//!
//! Not in rsmpi.

use std::sync::atomic::Ordering;

use mpi::{traits::*, window::SharedWindow};

/// Points of each rank.
const POINTS: usize = 50;
const STEPS: usize = 200;
/// Pieces of work.
const WORK: u64 = 500;

fn main() -> Result<(), mpi::Error> {
    let universe = mpi::initialize().unwrap();
    let host = universe.world().split_shared(universe.world().rank())?;
    let (rank, size) = (host.rank(), host.size());

    // One end of the rod is hot.
    let mut rod = SharedWindow::<f64>::allocate(&host, POINTS)?;
    let mut own = vec![0.0; POINTS];
    if rank == 0 {
        own[0] = 1.0;
    }
    for _ in 0..STEPS {
        rod.write(|part| part.copy_from_slice(&own))?;
        rod.read(|all| {
            let part = &all[rank];
            let left = if rank > 0 { all[rank - 1][POINTS - 1] } else { 1.0 };
            let right = if rank + 1 < size { all[rank + 1][0] } else { 0.0 };
            for (point, next) in own.iter_mut().enumerate() {
                let before = if point > 0 { part[point - 1] } else { left };
                let after = part.get(point + 1).copied().unwrap_or(right);
                *next = part[point] + 0.25 * (before - 2.0 * part[point] + after);
            }
        })?;
    }
    let heat = rod.read(|all| (0..size).flat_map(|rank| &all[rank]).sum::<f64>())?;

    // The same by one process.
    let (mut alone, mut next) = (vec![0.0; POINTS * size as usize], vec![0.0; POINTS * size as usize]);
    alone[0] = 1.0;
    for step in 0..STEPS {
        let last = alone.len() - 1;
        for point in 0..=last {
            let before = if point > 0 { alone[point - 1] } else { 1.0 };
            let after = if point < last { alone[point + 1] } else { 0.0 };
            next[point] = alone[point] + 0.25 * (before - 2.0 * alone[point] + after);
        }
        std::mem::swap(&mut alone, &mut next);
        if step + 2 == STEPS {
            // What was written last, and so read.
            assert_eq!(heat, alone.iter().sum::<f64>(), "as in one process");
        }
    }

    // The counter is at the first rank.
    let mut counter = SharedWindow::<u64>::allocate(&host, usize::from(rank == 0))?;
    let taken = counter.atomics(|all| {
        let take = || (all[0][0].fetch_add(1, Ordering::Relaxed) < WORK).then_some(());
        std::iter::from_fn(take).count() as u64
    })?;
    let mut sum = 0;
    host.all_reduce_into(&taken, &mut sum, mpi::collective::SystemOperation::sum())?;
    assert_eq!(sum, WORK, "each piece was taken once");
    if rank == 0 {
        println!("{size} ranks share {POINTS} points each; {heat:.3} of heat has come in, as in one process");
    }
    counter.free()?;
    rod.free()
}

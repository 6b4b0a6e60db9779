//! Messages around a ring, and to one who takes them as they come.

use mpi::{Error, point_to_point as p2p, topology::Rank, traits::*};

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let (next_process, previous_process) = (world.process_at_rank(next), world.process_at_rank(previous));

    let (letter, status): (Rank, _) = p2p::send_receive(&rank, &previous_process, &next_process)?;
    assert_eq!((letter, status.source_rank()), (next, next));

    if rank > 0 {
        world.process_at_rank(0).send(&[rank, rank + 1, rank - 1])?;
    } else {
        let mut heard = Vec::new();
        for _ in 1..size {
            let (letter, status) = world.any_process().receive_vec::<Rank>()?;
            let source = status.source_rank();
            assert_eq!(letter, [source, source + 1, source - 1]);
            assert_eq!(status.count(Rank::equivalent_datatype()), 3);
            heard.push(source);
        }
        heard.sort_unstable();
        assert!(heard.into_iter().eq(1..size), "each is heard once");
    }
    world.barrier()?;

    let mut x = rank;
    p2p::send_receive_replace_into(&mut x, &next_process, &previous_process)?;
    assert_eq!(x, previous);

    // Long messages both ways at once, which wait for their receives.
    let letter = vec![f64::from(rank); 100_000];
    let mut answer = vec![0.0; 100_000];
    p2p::send_receive_into(&letter, &next_process, &mut answer, &previous_process)?;
    assert!(answer.iter().all(|x| *x == f64::from(previous)));
    Ok(())
}

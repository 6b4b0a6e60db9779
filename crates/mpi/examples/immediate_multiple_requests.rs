//! Hundreds of requests at once, waited for in every way that there is.

use mpi::{Error, point_to_point::Status, request::RequestCollection, traits::*};

const COUNT: usize = 256;

/// Sends each of `letters` to the next rank and receives as many into `heard`, and lets `wait` end them all.
fn around(
    world: &impl Communicator,
    letters: &[i32],
    wait: impl FnOnce(&mut RequestCollection<'_, i32>) -> Result<usize, Error>,
) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut heard = vec![0; COUNT];
    mpi::request::multiple_scope(2 * COUNT, |scope, requests| {
        for letter in letters {
            requests.add(world.process_at_rank(next).immediate_send(scope, letter));
        }
        for place in &mut heard {
            requests.add(world.process_at_rank(previous).immediate_receive_into(scope, place));
        }
        assert_eq!(requests.incomplete(), 2 * COUNT);
        assert_eq!(wait(requests)?, 2 * COUNT);
        assert_eq!(requests.incomplete(), 0);
        Ok::<_, Error>(())
    })?;
    assert_eq!(heard, letters, "in the order in which they were sent");
    Ok(())
}

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let letters: Vec<i32> = (0..COUNT as i32).collect();

    around(&world, &letters, |requests| {
        let mut ended = 0;
        while requests.wait_any()?.is_some() {
            ended += 1;
        }
        Ok(ended)
    })?;
    around(&world, &letters, |requests| {
        let (mut ended, mut some) = (0, Vec::new());
        while requests.incomplete() > 0 {
            requests.wait_some(&mut some)?;
            assert!(!some.is_empty());
            ended += some.len();
        }
        Ok(ended)
    })?;
    around(&world, &letters, |requests| {
        let mut all: Vec<(usize, Status, &i32)> = Vec::new();
        requests.wait_all(&mut all)?;
        Ok(all.len())
    })?;
    around(&world, &letters, |requests| {
        let mut ended = 0;
        while requests.incomplete() > 0 {
            ended += usize::from(requests.test_any()?.is_some());
        }
        Ok(ended)
    })?;
    around(&world, &letters, |requests| {
        let mut all = Vec::new();
        while !requests.test_all(&mut all)? {}
        Ok(all.len())
    })
}

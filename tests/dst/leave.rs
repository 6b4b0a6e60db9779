//! A rank ends MPI while the others go on: operations that still need it fail, and no result is wrong.

use std::time::Duration;

use hikyaku::mpi::{engine::Communicator, error::ErrorClass};

use super::{
    job::Job,
    prng::Prng,
    script::{Limits, Wild},
    seeds::{directory, note, scenario},
    together::{Together, come_together},
};

/// Longer than any fault, so that goodbyes arrive.
const LINGER: Duration = Duration::from_secs(60);

fn run(seed: u64) -> u64 {
    let mut rng = Prng::new(seed ^ 0x1ea7e);
    let troubles = rng.chance(500);
    let mut job = Job::draw(&mut rng, seed, troubles, Wild::All);
    let ranks = job.simulation.processes as usize;
    let limits = Limits {
        letters: 0,
        bytes: 20_000,
        total: 0,
        wild: Wild::All,
    };
    let plans: Vec<Together> = (0..rng.between(2, 6))
        .map(|_| Together::draw(&mut rng, ranks, limits))
        .collect();
    let (leaver, with) = (rng.below(ranks as u64) as i32, rng.below(plans.len() as u64) as usize);
    // Ranks that have exchanged nothing with it learn that it leaves when they probe it.
    job.simulation.faults.watch = true;
    if let Some(directory) = directory() {
        job.simulation.capture = Some(directory.join("packets.pcapng"));
        job.simulation.trace = Some(directory.join("trace"));
    }
    note(format!("{:?}", job.simulation));
    note(format!("rank {leaver} leaves after {with} of {plans:?}"));
    let outcome = job.simulation.run(move |engine| {
        let world = Communicator::world(engine);
        let rank = world.rank();
        let plans = if rank == leaver { &plans[..with] } else { &plans[..] };
        for (index, plan) in plans.iter().enumerate() {
            match come_together(&world, plan) {
                Ok(()) => assert!(
                    index < with || !plan.needs(rank as usize, leaver as usize),
                    "rank {rank} has {plan:?} without rank {leaver}"
                ),
                Err(error) => {
                    assert_eq!(error.class(), ErrorClass::ProcFailed, "rank {rank}: {error}");
                    assert!(index >= with, "rank {rank}: {error} before rank {leaver} has left");
                    break;
                }
            }
        }
        // The report of the missing rank may reach a rank that has ended, which does not know any peer then.
        if let Err(error) = world.finalize(LINGER) {
            assert_eq!(error.class(), ErrorClass::ProcFailed, "the end of rank {rank}: {error}");
        }
    });
    outcome.unwrap_or_else(|error| panic!("{error}")).digest
}

#[test]
fn ranks_that_leave() {
    scenario("leave::ranks_that_leave", 100, |seed| {
        run(seed);
    });
}

//! All faults at once for a while; no result may be wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hikyaku::sim::{Fault, SimulationError};

use super::{job::Job, prng::Prng, script::Wild, seeds::scenario};

fn run(seed: u64) -> u64 {
    let mut rng = Prng::new(seed ^ 0xd57);
    let job = Job::draw(&mut rng, seed, true, Wild::All);
    job.note();
    let outcome = job.run().unwrap_or_else(|error| panic!("{error}"));
    for (rank, result) in &outcome.results {
        assert!(result.is_ok(), "rank {rank}: {result:?}, and nobody had crashed");
    }
    assert_eq!(outcome.results.len(), job.simulation.processes as usize);
    outcome.digest
}

#[test]
fn swarm() {
    scenario("swarm::swarm", 40, |seed| {
        let first = run(seed);
        if seed % 4 == 0 {
            assert_eq!(run(seed), first, "the same seed has come to something else");
        }
    });
}

/// The test itself can fail: corrupted packets without checksums are noticed in the end.
#[test]
fn what_is_spoilt_and_not_checked_is_found() {
    let found = (1..=20).find(|&seed| {
        let mut job = Job::draw(&mut Prng::new(seed), seed, false, Wild::All);
        job.simulation.config.checksum = false;
        job.simulation.faults.impairment.corrupt = 0.05;
        job.simulation.limit = Some(std::time::Duration::from_secs(20));
        !matches!(catch_unwind(AssertUnwindSafe(|| job.run())), Ok(Ok(_)))
    });
    assert!(found.is_some());
}

/// The liveness check can fail: a process that stays isolated makes others wait for ever, and the error names it.
#[test]
fn who_is_never_heard_again_is_found() {
    let mut job = Job::draw(&mut Prng::new(3), 3, false, Wild::All);
    let all = (0..job.simulation.processes).collect::<Vec<_>>();
    job.simulation.faults.plan = all
        .iter()
        .flat_map(|a| all.iter().map(move |b| (std::time::Duration::ZERO, Fault::Cut(*a, *b))))
        .collect();
    match job.run() {
        Err(SimulationError::Deadlock { waiting, .. } | SimulationError::TimeLimit { waiting, .. }) => {
            assert!(!waiting.is_empty());
        }
        Err(error) => panic!("{error}"),
        // In the end it takes its peers for dead.
        Ok(outcome) => assert!(outcome.results.iter().any(|(_, result)| result.is_err())),
    }
}

//! Processes crash at any instant, and some are restarted.

use std::time::Duration;

use hikyaku::{mpi::error::ErrorClass, sim::Fault};

use super::{
    job::Job,
    optics,
    prng::Prng,
    script::Wild,
    seeds::{note, scenario},
};

/// Longest time after the last crash until every process knows of it: opening sessions are given up after 10 s, others
/// after 4 s and a keepalive, and a process that hears of the crash from another one has waited for that one before.
const BOUND: Duration = Duration::from_secs(40);
/// The same where hosts refuse packets for a crashed process, and nothing else goes wrong: a keepalive, and slow
/// networks.
const REFUSED: Duration = Duration::from_secs(6);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Some hosts refuse packets for a crashed process.
    Perhaps,
    /// All hosts do.
    Refusal,
    /// The process is restarted.
    Restart,
}

/// With or without light paths.
pub(crate) fn run(seed: u64, after: After, light: bool) -> u64 {
    let restart = after == After::Restart;
    let mut rng = Prng::new(seed ^ 0xc4a54);
    let troubles = rng.chance(300) && after != After::Refusal;
    let mut job = Job::draw(
        &mut rng,
        seed,
        troubles,
        if restart { Wild::Restarts } else { Wild::Crashes },
    );
    if light {
        optics::draw(seed, &mut job.simulation);
    }
    let bound = match after {
        _ if light => optics::BOUND,
        After::Refusal => REFUSED,
        After::Perhaps | After::Restart => BOUND,
    };
    job.simulation.faults.watch = true;
    // The crash comes while there is something to interrupt.
    let well = job
        .run()
        .unwrap_or_else(|error| panic!("without crashes: {error}"))
        .time;
    let ranks = u64::from(job.simulation.processes);
    let mut last = match after {
        After::Refusal => well,
        _ => Duration::from_nanos(super::job::LONGEST_TROUBLE),
    };
    for _ in 0..rng.between(1, 2) {
        let process = rng.below(ranks) as u32;
        let at = Duration::from_nanos(rng.below(well.as_nanos() as u64 + 1));
        let refuse = rng.chance(300) || after == After::Refusal;
        job.simulation.faults.plan.push((at, Fault::Crash { process, refuse }));
        let back = at + Duration::from_nanos(rng.skewed(20_000_000_000));
        if restart {
            job.simulation.faults.plan.push((back, Fault::Restart(process)));
            last = last.max(back);
        }
        last = last.max(at);
    }
    job.simulation.limit = Some(last + bound);
    job.note();
    note(format!("{well:?} without crashes"));
    let outcome = job.run().unwrap_or_else(|error| panic!("{error}"));
    for (rank, result) in &outcome.results {
        let Err(error) = result else { continue };
        // A process that has given up has freed its windows: others that have not heard of the crash find none.
        let known = matches!(error.class(), ErrorClass::ProcFailed | ErrorClass::Win);
        assert!(known, "rank {rank}: {error}");
        assert!(
            outcome.faults.crashes > 0,
            "rank {rank}: {error}, and nobody had crashed"
        );
    }
    outcome.digest
}

#[test]
fn crashes() {
    scenario("crash::crashes", 30, |seed| {
        let first = run(seed, After::Perhaps, false);
        if seed % 8 == 0 {
            let again = run(seed, After::Perhaps, false);
            assert_eq!(again, first, "the same seed has come to something else");
        }
    });
}

/// A sender that a host refuses does not wait for the process to start: in a job, all processes have started.
#[test]
fn refusals() {
    scenario("crash::refusals", 200, |seed| {
        run(seed, After::Refusal, false);
    });
}

/// A restarted process is a stranger: packets of the old incarnation are never taken for those of the new one, nor the
/// other way round, and no process waits for ever.
#[test]
fn restarts() {
    scenario("crash::restarts", 30, |seed| {
        run(seed, After::Restart, false);
    });
}

/// A process that takes another one for lost, and then ends, tells the restarted process so instead of saying goodbye:
/// after a goodbye it would have finished in order, and the restarted process would wait for others.
#[test]
fn the_restarted_hear_that_they_were_lost() {
    for seed in [97, 766_993_416_537_342_100] {
        run(seed, After::Restart, false);
    }
}

//! How collectives by memory end when not all goes well, and that no rank sleeps through them.

use std::{thread, time::Instant};

use hikyaku::{
    mpi::{
        engine::{Communicator, Options},
        error::{Error, ErrorClass},
    },
    transport::WaitPolicy,
};

use super::{
    sum::allreduce,
    support::{EARLY, job, job_on},
};

/// Enough collectives for a communicator to have memory.
fn warm(comm: &Communicator) {
    (0..EARLY).for_each(|_| comm.barrier().unwrap());
}

#[test]
fn ranks_that_call_different_collectives_are_all_told() {
    type Called = fn(&Communicator) -> Result<(), Error>;
    let differ: [(Called, Called); 3] = [
        (|comm| comm.barrier(), |comm| allreduce(comm, 1).map(drop)),
        (|comm| allreduce(comm, 1).map(drop), |comm| allreduce(comm, 2).map(drop)),
        (
            |comm| allreduce(comm, 3_000).map(drop),
            |comm| allreduce(comm, 9_000).map(drop),
        ),
    ];
    for (one, others) in differ {
        job(4, |world| {
            let comm = world.duplicate().unwrap();
            warm(&comm);
            let called = if comm.rank() == 1 { one } else { others };
            let error = called(&comm).unwrap_err();
            let class = error.class();
            assert!(matches!(class, ErrorClass::NotSame | ErrorClass::Truncate), "{error}");
            // It is over: nobody waits for what cannot come.
            assert_eq!(comm.barrier().unwrap_err().class(), ErrorClass::NotSame);
        });
    }
}

#[test]
fn a_revoked_communicator_ends_a_collective_that_waits() {
    job(3, |world| {
        let comm = world.duplicate().unwrap();
        warm(&comm);
        if comm.rank() > 0 {
            thread::scope(|scope| {
                let waits = scope.spawn(|| comm.barrier());
                comm.revoke();
                waits.join().unwrap().unwrap_err();
            });
        }
    });
}

/// A rank that is not woken looks again after 50 ms.
#[test]
#[expect(clippy::disallowed_methods, reason = "ranks of the system sleep in real time")]
fn ranks_that_sleep_are_woken() {
    const TURNS: u32 = 300;
    let options = Options {
        wait: WaitPolicy::Block,
        ..Options::default()
    };
    job_on("udp", 3, &options, |world| {
        let begun = Instant::now();
        for turn in 0..TURNS {
            // The slow one changes.
            if world.rank() == (turn % 3) as i32 {
                (0..20_000).for_each(|n| _ = std::hint::black_box(n));
            }
            world.barrier().unwrap();
            let sum = allreduce(&world, 1_000 * (turn as usize % 3)).unwrap();
            assert!(sum.iter().all(|sum| *sum == 3));
        }
        assert!(
            begun.elapsed().as_millis() < u128::from(TURNS) * 25,
            "sleepers are not woken"
        );
    });
}

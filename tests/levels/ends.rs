//! How collectives in two levels end when not all goes well.

use std::{sync::Barrier, thread};

use hikyaku::mpi::{
    collectives::Levels,
    engine::Communicator,
    error::{Error, ErrorClass},
};

use super::{
    sum::allreduce,
    support::{Hosts, job_on_hosts, on_hosts, with},
};

const HOSTS: Hosts<'_> = &[0, 0, 0, 1, 1, 1];

/// What a rank calls.
type Called = fn(&Communicator) -> Result<(), Error>;

const CALLS: [Called; 2] = [Communicator::barrier, |comm| allreduce(comm, 5_000).map(drop)];

/// A leader or another rank revokes the communicator while it waits for one that does not come: all others wait as well,
/// at both levels, until they revoke it themselves.
#[test]
fn a_revoked_communicator_ends_a_collective_that_waits() {
    for (levels, called) in [Levels::Leaders, Levels::Shares]
        .into_iter()
        .flat_map(|levels| CALLS.map(|called| (levels, called)))
    {
        for missing in [0, 1, 3, 5] {
            job_on_hosts(HOSTS, &with(levels), |world| {
                let comm = world.duplicate().unwrap();
                (0..8).for_each(|_| comm.barrier().unwrap());
                if comm.rank() != missing {
                    thread::scope(|scope| {
                        let waits = scope.spawn(|| called(&comm));
                        comm.revoke();
                        waits.join().unwrap().unwrap_err();
                    });
                }
                assert_eq!(comm.name(), "");
            });
        }
    }
}

/// A rank has left: the others are told which, at both levels.
#[test]
fn a_rank_that_has_left_is_missed_on_all_hosts() {
    for (levels, called) in [Levels::Leaders, Levels::Shares]
        .into_iter()
        .flat_map(|levels| CALLS.map(|called| (levels, called)))
    {
        for missing in [0, 1, 3, 5] {
            let ready = Barrier::new(HOSTS.len());
            on_hosts(HOSTS, &with(levels), |world| {
                ready.wait();
                if world.rank() == missing {
                    world.finalize(std::time::Duration::from_secs(2)).unwrap_or(());
                    return;
                }
                let error = called(&world).unwrap_err();
                assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
                assert_eq!(error.peer(), Some(missing), "{error}");
                assert_eq!(error.communicator(), Some(world.context()), "{error}");
                // So does every later one.
                let later = allreduce(&world, 1).unwrap_err();
                assert_eq!(later.peer(), Some(missing), "{later}");
                let _ = world.finalize(std::time::Duration::from_secs(2));
            });
        }
    }
}

/// Ranks of one host call another collective than the others of it: these are told.
#[test]
fn ranks_of_a_host_that_call_different_collectives_are_told() {
    job_on_hosts(&[0, 0, 0, 1], &with(Levels::Leaders), |world| {
        let comm = world.duplicate().unwrap();
        (0..8).for_each(|_| comm.barrier().unwrap());
        let error = match comm.rank() {
            1 => comm.barrier().unwrap_err(),
            3 => return,
            _ => allreduce(&comm, 1).unwrap_err(),
        };
        let class = error.class();
        assert!(matches!(class, ErrorClass::NotSame | ErrorClass::Truncate), "{error}");
    });
}

//! How collectives in two levels end when not all goes well.

use std::{sync::Barrier, thread};

use hikyaku::mpi::{
    collectives::{Call, Collective, Levels},
    datatype::{Datatype, Kind},
    engine::{Buffers, Communicator, Region},
    error::{Error, ErrorClass},
};

use super::{
    sum::allreduce,
    support::{Hosts, job_on_hosts, on_hosts, with},
};

const HOSTS: Hosts<'_> = &[0, 0, 0, 1, 1, 1];

/// What a rank calls.
type Called = fn(&Communicator) -> Result<(), Error>;

/// Those in which all ranks wait for all others.
const CALLS: [Called; 4] = [
    Communicator::barrier,
    |comm| allreduce(comm, 5_000).map(drop),
    |comm| move_blocks(comm, Collective::Allgather),
    |comm| move_blocks(comm, Collective::Alltoall),
];

/// Moves blocks of some elements. The root, if there is one, is rank 0.
fn move_blocks(comm: &Communicator, collective: Collective) -> Result<(), Error> {
    const COUNT: usize = 3_000;
    let size = comm.size() as usize;
    let (mut sent, mut taken) = (vec![1_i64; COUNT * size], vec![0_i64; COUNT * size]);
    let datatype = Datatype::predefined(Kind::I64);
    let buffers = Buffers {
        input: Region::Plain(sent.as_mut_ptr().cast(), &datatype),
        output: Region::Plain(taken.as_mut_ptr().cast(), &datatype),
    };
    let call = Call::of(collective).with_count(COUNT);
    // SAFETY: both are borrowed until it has ended.
    unsafe { comm.collective(collective.functions()[0].blocking, &call, &buffers, None, None) }?
        .wait()
        .map(drop)
}

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

/// The same where only some ranks wait: the root of a gather for all others, the others of a scatter for the root.
#[test]
fn a_rank_that_has_left_is_missed_by_those_that_wait_for_it() {
    for (collective, missing) in [
        (Collective::Gather, 1),
        (Collective::Gather, 3),
        (Collective::Gather, 5),
        (Collective::Scatter, 0),
    ] {
        let ready = Barrier::new(HOSTS.len());
        on_hosts(HOSTS, &with(Levels::Leaders), |world| {
            ready.wait();
            if world.rank() == missing {
                world.finalize(std::time::Duration::from_secs(2)).unwrap_or(());
                return;
            }
            let ended = move_blocks(&world, collective);
            if collective == Collective::Scatter || world.rank() == 0 {
                let error = ended.unwrap_err();
                assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
                assert_eq!(error.peer(), Some(missing), "{error}");
            }
            let later = allreduce(&world, 1).unwrap_err();
            assert_eq!(later.peer(), Some(missing), "{later}");
            let _ = world.finalize(std::time::Duration::from_secs(2));
        });
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

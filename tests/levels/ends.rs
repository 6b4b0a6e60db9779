//! How collectives in two levels end when not all goes well.

use std::{sync::Barrier, thread};

use hikyaku::mpi::{
    collectives::{Call, Collective, Levels},
    datatype::{Datatype, Kind},
    engine::{Buffers, Communicator, Region},
    error::{Error, ErrorClass},
    operation::{Operation, Predefined},
};

use super::{
    sum::allreduce,
    support::{Hosts, job_on_hosts, on_hosts, with},
};

const HOSTS: Hosts<'_> = &[0, 0, 0, 1, 1, 1];

/// What a rank calls.
type Called = fn(&Communicator) -> Result<(), Error>;

/// Those in which all ranks wait for all others.
const CALLS: [Called; 6] = [
    Communicator::barrier,
    |comm| allreduce(comm, 5_000).map(drop),
    |comm| run(comm, Collective::Allgather),
    |comm| run(comm, Collective::Allgatherv),
    |comm| run(comm, Collective::Alltoall),
    |comm| run(comm, Collective::ReduceScatterBlock),
];

/// Runs a collective with some elements, or as many in each block. The root, if there is one, is rank 0.
fn run(comm: &Communicator, collective: Collective) -> Result<(), Error> {
    const COUNT: usize = 3_000;
    let size = comm.size() as usize;
    let (mut sent, mut taken) = (vec![1_i64; COUNT * size], vec![0_i64; COUNT * size]);
    let datatype = Datatype::predefined(Kind::I64);
    let buffers = Buffers {
        input: Region::Plain(sent.as_mut_ptr().cast(), &datatype),
        output: Region::Plain(taken.as_mut_ptr().cast(), &datatype),
    };
    let sum = Operation::predefined(Predefined::Sum);
    let operation = collective.reduces().then_some(&sum);
    let (call, name) = (
        Call::of(collective).with_count(COUNT),
        collective.functions()[0].blocking,
    );
    // SAFETY: both are borrowed until it has ended.
    unsafe { comm.collective(name, &call, &buffers, operation, None) }?
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

/// The same where only some ranks wait: the root of a gather for all others, those of a scatter for the root, and those of
/// a scan for all before them.
#[test]
fn a_rank_that_has_left_is_missed_by_those_that_wait_for_it() {
    type Waits = fn(i32) -> bool;
    const CASES: [(Collective, i32, Waits); 8] = [
        (Collective::Gather, 1, |rank| rank == 0),
        (Collective::Gather, 3, |rank| rank == 0),
        (Collective::Gather, 5, |rank| rank == 0),
        (Collective::Scatter, 0, |_| true),
        (Collective::Scan, 0, |_| true),
        (Collective::Scan, 2, |rank| rank > 2),
        (Collective::Exscan, 1, |rank| rank > 1),
        (Collective::Exscan, 4, |rank| rank > 4),
    ];
    for (collective, missing, waits) in CASES {
        let ready = Barrier::new(HOSTS.len());
        on_hosts(HOSTS, &with(Levels::Leaders), |world| {
            ready.wait();
            if world.rank() == missing {
                world.finalize(std::time::Duration::from_secs(2)).unwrap_or(());
                return;
            }
            let ended = run(&world, collective);
            if waits(world.rank()) {
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

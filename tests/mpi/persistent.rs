//! Collectives that are planned once and started again and again.

use hikyaku::mpi::{
    collectives::{Call, Collective},
    datatype::{Datatype, Kind},
    engine::{Buffers, Communicator, PersistentCollective, Region},
    error::ErrorClass,
    operation::{Operation, Predefined},
};

use super::support::{job, job_on, options};

fn i64s() -> Datatype {
    Datatype::predefined(Kind::I64)
}

fn region<'a>(data: &mut [i64], datatype: &'a Datatype) -> Region<'a> {
    Region::Plain(data.as_mut_ptr().cast(), datatype)
}

/// # Safety
/// The buffers are used as the collective's whenever it runs, and live until it has ended.
unsafe fn allreduce_init(comm: &Communicator, own: &mut [i64], all: &mut [i64]) -> PersistentCollective {
    let (datatype, count) = (i64s(), own.len());
    let buffers = Buffers {
        input: region(own, &datatype),
        output: region(all, &datatype),
    };
    let call = Call::of(Collective::Allreduce).with_count(count);
    let sum = Operation::predefined(Predefined::Sum);
    // SAFETY: the caller's contract.
    unsafe { comm.collective_init("MPI_Allreduce_init", &call, &buffers, Some(&sum), None) }.unwrap()
}

#[test]
fn one_plan_runs_again_and_again() {
    for backend in ["loopback", "udp"] {
        for count in [1, 20_000] {
            job_on(backend, 5, &options(), move |comm| {
                let (rank, n) = (i64::from(comm.rank()), i64::from(comm.size()));
                let (mut own, mut all) = (vec![0; count], vec![0; count]);
                // SAFETY: both live until the end, and are not used while it runs.
                let reduce = unsafe { allreduce_init(&comm, &mut own, &mut all) };
                assert_eq!(reduce.call(), "MPI_Allreduce_init");
                for round in 0..20 {
                    own.fill(rank * round);
                    let request = reduce.start().unwrap();
                    request.wait().unwrap();
                    assert!(all.iter().all(|x| *x == round * n * (n - 1) / 2), "{round}");
                }
                assert_eq!(comm.engine().requests(), 0);
            });
        }
    }
}

#[test]
fn many_run_at_once_in_any_order() {
    job(4, |comm| {
        let rank = comm.rank() as usize;
        let mut memory: Vec<_> = (0..6).map(|_| (vec![0; 3], vec![0; 3])).collect();
        let plans: Vec<_> = memory
            .iter_mut()
            // SAFETY: the memory is on the heap, lives until the end, and is not used while anything runs.
            .map(|(own, all)| unsafe { allreduce_init(&comm, own, all) })
            .collect();
        for round in 0..10 {
            for (index, (own, _)) in memory.iter_mut().enumerate() {
                own.fill((round * 100 + index) as i64);
            }
            // Each rank in another order, with what is no plan between them.
            let order = (0..plans.len()).map(|index| (index * 5 + rank) % plans.len());
            let begun: Vec<_> = order.map(|index| plans[index].start().unwrap()).collect();
            comm.barrier().unwrap();
            begun.into_iter().for_each(|request| _ = request.wait().unwrap());
            for (index, (_, all)) in memory.iter().enumerate() {
                assert_eq!(*all, [4 * (round * 100 + index) as i64; 3]);
            }
        }
    });
}

#[test]
fn what_runs_is_not_started() {
    job(2, |world| {
        let comm = world.duplicate().unwrap();
        let datatype = i64s();
        let mut value = [i64::from(comm.rank()) + 7];
        let call = Call::of(Collective::Bcast).with_count(8);
        let buffers = Buffers {
            input: Region::None,
            output: region(&mut value, &datatype),
        };
        // SAFETY: it lives until the end, and is not used while it runs.
        let bcast = unsafe { comm.collective_init("MPI_Bcast_init", &call, &buffers, None, None) }.unwrap();
        if comm.rank() == 1 {
            let request = bcast.start().unwrap();
            assert_eq!(bcast.start().unwrap_err().class(), ErrorClass::Request);
            comm.barrier().unwrap();
            request.wait().unwrap();
        } else {
            comm.barrier().unwrap();
            bcast.start().unwrap().wait().unwrap();
        }
        assert_eq!(value, [7]);
        comm.revoke();
        assert_eq!(bcast.start().unwrap_err().class(), ErrorClass::Revoked);
    });
}

#[test]
fn scratch_memory_lasts_as_long_as_the_plan() {
    job(5, |comm| {
        let n = comm.size() as usize;
        let datatype = i64s();
        let (mut from, mut into) = (vec![0_i64; n * 7], vec![0_i64; n * 7]);
        let call = Call::of(Collective::Alltoall).with_count(7);
        let buffers = Buffers {
            input: region(&mut from, &datatype),
            output: region(&mut into, &datatype),
        };
        let bruck = Some("bruck".parse().unwrap());
        // SAFETY: both live until the end, and are not used while it runs.
        let plan = unsafe { comm.collective_init("MPI_Alltoall_init", &call, &buffers, None, bruck) }.unwrap();
        for round in 0..5 {
            from.iter_mut()
                .enumerate()
                .for_each(|(i, x)| *x = (round * 1_000 + i) as i64 + i64::from(comm.rank()) * 100_000);
            plan.start().unwrap().wait().unwrap();
            for (i, x) in into.iter().enumerate() {
                let expected = i / 7 * 100_000 + round * 1_000 + comm.rank() as usize * 7 + i % 7;
                assert_eq!(*x, expected as i64);
            }
        }
    });
}

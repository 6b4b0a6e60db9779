//! Collectives run by the engine. (Their schedules have tests of their own.)

use hikyaku::mpi::{
    collectives::{Algorithm, Call, Collective},
    datatype::{Datatype, Kind},
    engine::{Buffers, Communicator, Region},
    operation::{Operation, Predefined},
};

use super::support::job;

fn i64s() -> Datatype {
    Datatype::predefined(Kind::I64)
}

pub(crate) fn allreduce(comm: &Communicator, own: &[i64], algorithm: Option<Algorithm>) -> Vec<i64> {
    let mut all = vec![0_i64; own.len()];
    let datatype = i64s();
    let buffers = Buffers {
        input: Region::Plain(own.as_ptr().cast_mut().cast(), &datatype),
        output: Region::Plain(all.as_mut_ptr().cast(), &datatype),
    };
    let call = Call::of(Collective::Allreduce).with_count(own.len());
    let sum = Operation::predefined(Predefined::Sum);
    // SAFETY: both are borrowed until it has ended.
    unsafe { comm.collective("MPI_Allreduce", &call, &buffers, Some(&sum), algorithm) }
        .unwrap()
        .wait()
        .unwrap();
    all
}

#[test]
fn allreduce_by_every_algorithm() {
    for size in [1, 2, 3, 5, 8] {
        job(size, |comm| {
            let n = i64::from(comm.size());
            for &algorithm in Collective::Allreduce.algorithms() {
                if !algorithm.suits(Collective::Allreduce, n as usize, true) {
                    continue;
                }
                for count in [0, 1, 7, 5_000] {
                    let own: Vec<i64> = (0..count).map(|i| i * 10 + i64::from(comm.rank())).collect();
                    let all = allreduce(&comm, &own, Some(algorithm));
                    let expected: Vec<i64> = (0..count).map(|i| i * 10 * n + n * (n - 1) / 2).collect();
                    assert_eq!(all, expected, "{algorithm}, {count}");
                }
            }
        });
    }
}

#[test]
fn bcast_of_any_datatype_by_every_algorithm() {
    job(5, |comm| {
        for &algorithm in Collective::Bcast.algorithms() {
            for (root, count) in [(0, 3), (4, 4_000), (2, 200_000)] {
                let strided = Datatype::vector(count, 1, 2, &i64s()).unwrap();
                let mut data = vec![-1_i64; 2 * count as usize];
                if comm.rank() as usize == root {
                    data.iter_mut().enumerate().for_each(|(i, x)| *x = i as i64);
                }
                let buffers = Buffers {
                    input: Region::None,
                    output: Region::Plain(data.as_mut_ptr().cast(), &strided),
                };
                let call = Call::of(Collective::Bcast)
                    .with_root(root)
                    .with_count(strided.size() as usize);
                // SAFETY: borrowed until it has ended.
                let request = unsafe { comm.collective("MPI_Bcast", &call, &buffers, None, Some(algorithm)) };
                request.unwrap().wait().unwrap();
                assert!(
                    data.iter().step_by(2).enumerate().all(|(i, x)| *x == 2 * i as i64),
                    "{algorithm} {root}"
                );
            }
        }
    });
}

#[test]
fn alltoall_by_every_algorithm_and_many_at_once() {
    job(4, |comm| {
        let n = comm.size() as usize;
        let datatype = i64s();
        let mut requests = Vec::new();
        let mut memory = Vec::new();
        for &algorithm in Collective::Alltoall.algorithms() {
            if !algorithm.suits(Collective::Alltoall, n, true) {
                continue;
            }
            let count = 100;
            let own: Vec<i64> = (0..n * count)
                .map(|i| i64::from(comm.rank()) * 1_000_000 + i as i64)
                .collect();
            let all = vec![0_i64; n * count];
            memory.push((own, all));
            let (own, all) = memory.last_mut().unwrap();
            let buffers = Buffers {
                input: Region::Plain(own.as_mut_ptr().cast(), &datatype),
                output: Region::Plain(all.as_mut_ptr().cast(), &datatype),
            };
            let call = Call::of(Collective::Alltoall).with_count(count);
            // SAFETY: the memory is on the heap, and is kept and not touched until all have ended.
            requests.push(unsafe { comm.collective("MPI_Ialltoall", &call, &buffers, None, Some(algorithm)) }.unwrap());
        }
        for request in requests.into_iter().rev() {
            request.wait().unwrap();
        }
        for (_, all) in &memory {
            for (i, x) in all.iter().enumerate() {
                let from = i / 100;
                let expected = from as i64 * 1_000_000 + (comm.rank() as i64 * 100) + (i % 100) as i64;
                assert_eq!(*x, expected);
            }
        }
    });
}

#[test]
fn communicators_are_split_and_do_not_mix() {
    job(6, |comm| {
        let rank = comm.rank();
        let half = comm.split(Some(rank % 2), -rank).unwrap().unwrap();
        assert_eq!((half.size(), half.rank()), (3, 2 - rank / 2));
        let nobody = comm.split((rank < 2).then_some(0), 0).unwrap();
        assert_eq!(nobody.map(|comm| comm.size()), (rank < 2).then_some(2));
        let again = half.duplicate().unwrap();
        assert_ne!(again.context(), half.context());
        let sums = [&comm, &half, &again].map(|comm| allreduce(comm, &[i64::from(rank)], None)[0]);
        let of_half = if rank % 2 == 0 { 6 } else { 9 };
        assert_eq!(sums, [15, of_half, of_half]);
    });
}

/// MPI wants one order; programs have come to rely on less.
#[test]
fn a_collective_that_was_begun_does_not_match_a_blocking_one() {
    job(3, |comm| {
        let (own, mut all) = ([i64::from(comm.rank())], [0_i64]);
        let (datatype, sum) = (i64s(), Operation::predefined(Predefined::Sum));
        let buffers = Buffers {
            input: Region::Plain(own.as_ptr().cast_mut().cast(), &datatype),
            output: Region::Plain(all.as_mut_ptr().cast(), &datatype),
        };
        let call = Call::of(Collective::Allreduce).with_count(1);
        // SAFETY: both are borrowed until it has ended.
        let begin = || unsafe { comm.collective("MPI_Iallreduce", &call, &buffers, Some(&sum), None) }.unwrap();
        let request = if comm.rank() == 1 {
            let request = begin();
            comm.barrier().unwrap();
            request
        } else {
            comm.barrier().unwrap();
            begin()
        };
        request.wait().unwrap();
        assert_eq!(all, [3]);
    });
}

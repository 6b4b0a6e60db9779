//! What is known before a schedule starts: peers, memory, and that it is short.

use hikyaku::mpi::collectives::{Algorithm, Call, Collective, Peer, Schedule, Step};

fn allreduce() -> Call<'static> {
    Call::of(Collective::Allreduce).with_count(1 << 20)
}

fn allgather(size: usize, rank: usize, algorithm: Algorithm) -> Schedule {
    let call = Call::of(Collective::Allgather).with_count(1);
    call.schedule(rank, size, algorithm).unwrap()
}

fn alltoall(size: usize, rank: usize, algorithm: Algorithm) -> Schedule {
    let call = Call::of(Collective::Alltoall).with_count(3);
    call.schedule(rank, size, algorithm).unwrap()
}

fn ranks(schedule: &Schedule) -> Vec<usize> {
    schedule.peers().iter().map(|peer| peer.rank).collect()
}

/// The four algorithms of the optics paper, section 3, and their peers.
#[test]
fn peers_are_known_ahead() {
    let bcast = |rank, algorithm| {
        Call::of(Collective::Bcast)
            .with_count(9)
            .schedule(rank, 32, algorithm)
            .unwrap()
    };
    assert_eq!(ranks(&bcast(0, Algorithm::Linear)).len(), 31);
    assert_eq!(ranks(&bcast(0, Algorithm::BINOMIAL)), [16, 8, 4, 2, 1]);
    assert_eq!(ranks(&bcast(12, Algorithm::BINOMIAL)), [8, 14, 13]);
    assert_eq!(
        ranks(&allgather(32, 5, Algorithm::RecursiveDoubling)),
        [4, 7, 1, 13, 21]
    );
    let [from, to] = allgather(32, 5, Algorithm::Ring).peers()[..] else {
        panic!("a ring has two neighbours");
    };
    assert_eq!((from.rank, from.sends, from.receives), (4, 0, 31));
    assert_eq!((to.rank, to.sends, to.receives), (6, 31, 0));
    assert_eq!((from.first, from.last, to.first, to.last), (0, 30, 0, 30));
    let first = bcast(12, Algorithm::BINOMIAL).peers()[0];
    let expected = Peer {
        rank: 8,
        first: 0,
        last: 0,
        sends: 0,
        receives: 1,
    };
    assert_eq!(first, expected);
}

/// Steps and spans of one rank, in the largest world that is simulated.
#[test]
fn schedules_of_many_ranks_are_short() {
    let size = 16_384;
    let log = 14;
    let length = |schedule: &Schedule| {
        let spans = schedule.steps().map(|step| match step {
            Step::Send { spans, .. } | Step::Receive { spans, .. } => 1 + spans.len(),
            Step::Reduce { .. } | Step::Copy { .. } => 1,
        });
        spans.sum::<usize>()
    };
    for size in [size, size - 1] {
        for rank in [0, 1, 4_711, size - 1] {
            let barrier = Call::of(Collective::Barrier).schedule(rank, size, Algorithm::Dissemination { radix: 2 });
            assert!(length(&barrier.unwrap()) <= 2 * log);
            let bcast = Call::of(Collective::Bcast).with_root(7).with_count(1 << 20);
            for algorithm in [Algorithm::BINOMIAL, Algorithm::ScatterAllgather] {
                assert!(length(&bcast.schedule(rank, size, algorithm).unwrap()) <= 9 * log);
            }
            for algorithm in [Algorithm::RecursiveDoubling, Algorithm::Rabenseifner] {
                assert!(length(&allreduce().schedule(rank, size, algorithm).unwrap()) <= 9 * log);
            }
            for algorithm in [Algorithm::RecursiveDoubling, Algorithm::Bruck { radix: 2 }] {
                assert!(length(&allgather(size, rank, algorithm)) <= 6 * log + 6);
                if size.is_power_of_two() || algorithm != Algorithm::RecursiveDoubling {
                    assert!(length(&alltoall(size, rank, algorithm)) <= 12 * log);
                }
            }
            let halving = Call::of(Collective::ReduceScatterBlock).with_count(64);
            assert!(length(&halving.schedule(rank, size, Algorithm::RecursiveHalving).unwrap()) <= 5 * log + 5);
        }
    }
}

/// Buffers are used again: memory does not grow with the number of rounds.
#[test]
fn scratch_memory_is_bounded() {
    for size in [1_000, 1_024] {
        for commutative in [true, false] {
            for in_place in [true, false] {
                let count = 10_000;
                let reduce = Call::of(Collective::Reduce)
                    .with_root(3)
                    .with_count(count)
                    .with_commutative(commutative)
                    .with_in_place(in_place);
                let allreduce = Call::of(Collective::Allreduce)
                    .with_count(count)
                    .with_commutative(commutative)
                    .with_in_place(in_place);
                let scan = Call::of(Collective::Scan).with_count(count).with_in_place(in_place);
                for rank in [0, 1, 3, 500, 999] {
                    let scratch = |call: Call<'_>, algorithm| call.schedule(rank, size, algorithm).unwrap().scratch();
                    assert!(scratch(allreduce, Algorithm::RecursiveDoubling) <= 2 * count);
                    assert!(scratch(allreduce, Algorithm::Rabenseifner) <= 2 * count);
                    assert!(scratch(reduce, Algorithm::Rabenseifner) <= 3 * count);
                    assert!(scratch(reduce, Algorithm::BINOMIAL) <= 4 * count);
                    assert!(scratch(reduce, Algorithm::Chain { segments: 100 }) <= count / 20 + count);
                    assert!(scratch(scan, Algorithm::RecursiveDoubling) <= 4 * count);
                }
            }
        }
    }
}

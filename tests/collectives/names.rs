//! Names of algorithms, and calls that cannot be.

use hikyaku::mpi::collectives::{Algorithm, Blocks, Call, Collective, Counts, ScheduleError};

use crate::case::algorithms;

#[test]
fn names_are_read_as_they_are_written() {
    for collective in Collective::ALL {
        for algorithm in algorithms(collective, 8, true) {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
    }
    assert_eq!("binomial".parse(), Ok(Algorithm::Knomial { radix: 2 }));
    assert_eq!("bruck:4".parse(), Ok(Algorithm::Bruck { radix: 4 }));
    assert_eq!("chain".parse(), Ok(Algorithm::Chain { segments: 0 }));
    assert_eq!(
        format!("{:>9}|{:<8}|", Collective::Scan, Algorithm::Ring),
        "     scan|ring    |"
    );
    for wrong in [
        "",
        "Ring",
        "ring:2",
        "knomial:1",
        "bruck:x",
        "chain:-1",
        "binomial:2",
        "knomial:",
    ] {
        let error = wrong.parse::<Algorithm>().unwrap_err().to_string();
        assert!(error.contains(&format!("'{wrong}'")) && error.contains("recursive-doubling"));
    }
}

#[test]
fn calls_that_can_not_be_are_errors() {
    let linear = |call: Call<'_>, rank, size| call.schedule(rank, size, Algorithm::Linear).unwrap_err();
    let even = Blocks::Even { count: 1 };
    let bcast = Call::Bcast { root: 4, count: 1 };
    assert_eq!(linear(Call::Barrier, 4, 4), ScheduleError::Rank { rank: 4, size: 4 });
    assert_eq!(linear(Call::Barrier, 0, 0), ScheduleError::Rank { rank: 0, size: 0 });
    assert_eq!(linear(bcast, 0, 4), ScheduleError::Root { root: 4, size: 4 });
    let short = Blocks::Uneven {
        counts: &[1, 2],
        displacements: &[0],
    };
    let allgather = |output| Call::Allgather {
        input: 1,
        output,
        in_place: false,
    };
    assert_eq!(
        linear(allgather(short), 0, 2),
        ScheduleError::Blocks { given: 1, needed: 2 }
    );
    let far = Blocks::Uneven {
        counts: &[1, 1],
        displacements: &[0, isize::MIN],
    };
    assert_eq!(linear(allgather(far), 0, 2), ScheduleError::TooLarge);
    let large = Blocks::Even { count: usize::MAX / 2 };
    assert_eq!(linear(allgather(large), 0, 3), ScheduleError::TooLarge);
    let counts = Call::ReduceScatter {
        counts: Counts::Each(&[1, 2, 3]),
        commutative: true,
        in_place: false,
    };
    assert_eq!(linear(counts, 0, 2), ScheduleError::Blocks { given: 3, needed: 2 });
    let neighbours = Call::NeighborAlltoall {
        sources: &[Some(1), None],
        destinations: &[Some(2)],
        input: even,
        output: even,
    };
    assert_eq!(linear(neighbours, 0, 2), ScheduleError::Rank { rank: 2, size: 2 });
}

#[test]
fn what_does_not_suit_is_an_error() {
    let unsuited = |call: Call<'_>, size, algorithm| match call.schedule(0, size, algorithm) {
        Err(error @ ScheduleError::Unsuited { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let even = Blocks::Even { count: 1 };
    let allgather = Call::Allgather {
        input: 1,
        output: even,
        in_place: false,
    };
    let alltoall = Call::Alltoall {
        input: even,
        output: even,
        in_place: false,
    };
    let ordered = Call::Allreduce {
        count: 1,
        commutative: false,
        in_place: false,
    };
    unsuited(allgather, 5, Algorithm::NeighbourExchange);
    unsuited(allgather, 4, Algorithm::Bruck { radix: 1 });
    unsuited(alltoall, 6, Algorithm::RecursiveDoubling);
    let message = unsuited(ordered, 4, Algorithm::Ring);
    assert_eq!(
        message,
        "ring is no algorithm for allreduce of 4 ranks with this operation; \
         there are: recursive-doubling rabenseifner ring binomial linear"
    );
}

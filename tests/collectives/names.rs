//! Names of algorithms, and calls that can not be.

use std::collections::BTreeSet;

use hikyaku::mpi::collectives::{
    Algorithm, Blocks, Call, Collective, Model, Partners, Role, ScheduleError, Work, cost,
};

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

/// Nothing is missing in the description of any collective.
#[test]
fn every_collective_is_described() {
    let mut names = BTreeSet::new();
    for collective in Collective::ALL {
        assert!(names.insert(collective.variable()), "{collective}");
        let [first, ..] = collective.functions() else {
            panic!("{collective} has no function")
        };
        assert!(first.blocking.eq_ignore_ascii_case(&format!("MPI_{collective}")));
        for function in collective.functions() {
            for name in function.names() {
                assert!(names.insert(name), "{name}");
                assert_eq!(Collective::of_function(name), Some((collective, function)));
            }
        }
        let (input, output) = (collective.input(), collective.output());
        assert_eq!(input == Role::None, output == Role::None, "{collective}");
        let has_root = collective.partners() == Partners::Root;
        assert_eq!(Call::of(collective).root().is_some(), has_root, "{collective}");
        for &algorithm in collective.algorithms() {
            let seconds = cost(collective, algorithm, 8, 1 << 10, &Model::default());
            let work = Work::of(collective, algorithm, 8, 1 << 10);
            assert!(
                seconds.is_finite() && seconds > 0.0 && work.messages >= 7.0,
                "{collective} {algorithm}"
            );
            assert!(work.reduced > 0.0 || !collective.reduces(), "{collective} {algorithm}");
        }
    }
    assert_eq!(Collective::of_function("MPI_Send"), None);
}

#[test]
fn calls_that_can_not_be_are_errors() {
    let linear = |call: Call<'_>, rank, size| call.schedule(rank, size, Algorithm::Linear).unwrap_err();
    let even = Blocks::Even { count: 1 };
    let bcast = Call::of(Collective::Bcast).with_root(4).with_count(1);
    assert_eq!(
        linear(Call::of(Collective::Barrier), 4, 4),
        ScheduleError::Rank { rank: 4, size: 4 }
    );
    assert_eq!(
        linear(Call::of(Collective::Barrier), 0, 0),
        ScheduleError::Rank { rank: 0, size: 0 }
    );
    assert_eq!(linear(bcast, 0, 4), ScheduleError::Root { root: 4, size: 4 });
    let short = Blocks::Uneven {
        counts: &[1, 2],
        displacements: &[0],
    };
    let allgather = |output| Call::of(Collective::Allgatherv).with_input(1).with_output(output);
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
    let counts = Call::of(Collective::ReduceScatter).with_count(Blocks::Uneven {
        counts: &[1, 2, 3],
        displacements: &[],
    });
    assert_eq!(linear(counts, 0, 2), ScheduleError::Blocks { given: 3, needed: 2 });
    let uneven = Call::of(Collective::Alltoall).with_output(far);
    assert_eq!(linear(uneven, 0, 2), ScheduleError::Uneven(Collective::Alltoall));
    let neighbours = Call::of(Collective::NeighborAlltoall)
        .with_neighbours(&[Some(1), None], &[Some(2)])
        .with_count(even);
    assert_eq!(linear(neighbours, 0, 2), ScheduleError::Rank { rank: 2, size: 2 });
}

#[test]
fn what_does_not_suit_is_an_error() {
    let unsuited = |call: Call<'_>, size, algorithm| match call.schedule(0, size, algorithm) {
        Err(error @ ScheduleError::Unsuited { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let even = Blocks::Even { count: 1 };
    let allgather = Call::of(Collective::Allgather).with_input(1).with_output(even);
    let alltoall = Call::of(Collective::Alltoall).with_count(even);
    let ordered = Call::of(Collective::Allreduce).with_count(1).with_commutative(false);
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

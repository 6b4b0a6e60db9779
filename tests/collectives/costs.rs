//! Closed forms against simulations and the figures of the optics paper, and the choice by cost.

use hikyaku::mpi::collectives::{
    Algorithm, Blocks, Call, Collective, Lengths, Model, Policy, Role, Schedule, Step, Stuck, Work, cost, simulate,
};

use crate::case::algorithms;

const MODEL: Model = Model {
    alpha: 100e-6,
    beta: 8e-9,
    gamma: 1e-9,
    sharing: 1.0,
    eager_limit: f64::INFINITY,
};

/// All ranks' schedules for `bytes` in the sense of [`cost`], of elements of one byte.
fn schedules(collective: Collective, algorithm: Algorithm, size: usize, bytes: usize) -> Vec<Schedule> {
    let part = bytes / size;
    let counts = vec![part; size];
    let offsets: Vec<isize> = (0..size).map(|rank| (rank * part) as isize).collect();
    let uneven = Blocks::Uneven {
        counts: &counts,
        displacements: &offsets,
    };
    let blocks = if collective.functions()[0].lengths == Lengths::Each {
        uneven
    } else {
        part.into()
    };
    // Everybody is everybody's neighbour.
    let neighbours = |rank: usize| -> Vec<_> { (1..size).map(|distance| Some((rank + distance) % size)).collect() };
    let sizes = |role: Role| match role {
        Role::Packed | Role::Vector => bytes.into(),
        Role::Blocks | Role::Divided => blocks,
        Role::Block => part.into(),
        Role::None => 0.into(),
    };
    let call = Call::of(collective)
        .with_input(sizes(collective.input()))
        .with_output(sizes(collective.output()));
    let make = |rank: usize| {
        let destinations = neighbours(rank);
        let sources: Vec<_> = destinations.iter().rev().copied().collect();
        let call = call.with_neighbours(&sources, &destinations);
        call.schedule(rank, size, algorithm).unwrap()
    };
    (0..size).map(make).collect()
}

fn simulated(collective: Collective, algorithm: Algorithm, size: usize, bytes: usize) -> f64 {
    simulate(&schedules(collective, algorithm, size, bytes), 1, &MODEL).unwrap()
}

/// Is the closed form meant to be exact for this?
fn is_exact(collective: Collective, algorithm: Algorithm, size: usize) -> bool {
    match algorithm {
        // The first sum is a copy.
        _ if collective == Collective::Exscan => false,
        // The last child at each level may have fewer children than the others.
        Algorithm::Knomial { radix } if collective.reduces() => {
            radix >= size || (1..7).any(|power| radix.pow(power) == size)
        }
        Algorithm::Knomial { .. } | Algorithm::Bruck { .. } | Algorithm::Dissemination { .. } => true,
        // Two ranks are no pipeline: the first one has nothing to reduce.
        Algorithm::Chain { segments } => collective == Collective::Bcast || segments == 1 || size > 2,
        Algorithm::Linear | Algorithm::Pairwise | Algorithm::NeighbourExchange => true,
        Algorithm::Ring => collective != Collective::Bcast || size.is_power_of_two(),
        _ => size.is_power_of_two(),
    }
}

#[test]
fn closed_forms_are_those_of_the_schedules() {
    let mut compared = 0;
    for size in (2..=36).chain([64, 81]) {
        for bytes in [0, 60 * size, 6_000 * size] {
            for collective in Collective::ALL {
                for algorithm in algorithms(collective, size, true) {
                    let algorithm = match algorithm {
                        Algorithm::Chain { segments } => Algorithm::Chain {
                            segments: [1, 2, 3, 60][segments % 4],
                        },
                        other => other,
                    };
                    // Nothing is sent where there is nothing.
                    if bytes == 0 && collective != Collective::Barrier {
                        continue;
                    }
                    let exact = simulated(collective, algorithm, size, bytes);
                    let closed = cost(collective, algorithm, size, bytes, &MODEL);
                    let what = format!("{collective} by {algorithm}, {size} ranks, {bytes} bytes");
                    if is_exact(collective, algorithm, size) {
                        compared += 1;
                        assert!((exact / closed - 1.0).abs() < 1e-3, "{what}: {exact} is not {closed}");
                    } else {
                        let near = (0.9..1.4).contains(&(exact / closed));
                        assert!(near, "{what}: {exact} is not near {closed}");
                    }
                }
            }
        }
    }
    assert!(compared > 1_000);
}

/// Figures 6 to 9 of the optics paper, without set-up times ("ideal"): seconds for 1, 100,000 and 1,000,000 bytes, by
/// its formulas.
#[test]
fn costs_of_the_optical_experiment() {
    let figures = [
        (Collective::Bcast, Algorithm::Linear, [0.0031, 0.0279, 0.2511]),
        (Collective::Allgather, Algorithm::Ring, [0.0031, 0.0039, 0.0109]),
        (
            Collective::Allgather,
            Algorithm::RecursiveDoubling,
            [0.0005, 0.0013, 0.0083],
        ),
        (Collective::Bcast, Algorithm::BINOMIAL, [0.0005, 0.0045, 0.0405]),
    ];
    for (collective, algorithm, seconds) in figures {
        for (bytes, expected) in [1, 100_000, 1_000_000].into_iter().zip(seconds) {
            let closed = cost(collective, algorithm, 32, bytes, &MODEL);
            assert!(
                (closed - expected).abs() < 0.6e-4,
                "{collective} by {algorithm}: {closed}"
            );
        }
        let bytes = 32 * 31_250;
        let exact = simulated(collective, algorithm, 32, bytes);
        assert!(
            (exact - seconds[2]).abs() < 0.6e-4,
            "{collective} by {algorithm}: {exact}"
        );
    }
    let exact = simulated(Collective::Alltoall, Algorithm::RecursiveDoubling, 16, 16_000);
    assert!((exact - 4.0 * (MODEL.alpha + 8_000.0 * MODEL.beta)).abs() < 1e-9);
}

#[test]
fn a_lost_message_is_noticed() {
    let mut schedules = schedules(Collective::Barrier, Algorithm::RecursiveDoubling, 4, 0);
    schedules[3] = Schedule::default();
    assert_eq!(simulate(&schedules, 1, &MODEL), Err(Stuck { rank: 0, round: 1 }));
}

#[test]
fn the_cheapest_is_chosen() {
    let policy = Policy::new(MODEL);
    for collective in Collective::ALL {
        for size in 1..70 {
            for bytes in [0, 1, 1_000, 100_000, 10_000_000] {
                for commutative in [true, false] {
                    let chosen = policy.choose(collective, size, bytes, commutative);
                    assert!(chosen.suits(collective, size, commutative));
                    let chosen = cost(collective, chosen, size, bytes, &MODEL);
                    for other in collective
                        .algorithms()
                        .iter()
                        .filter(|other| other.suits(collective, size, commutative))
                    {
                        assert!(chosen <= cost(collective, *other, size, bytes, &MODEL));
                    }
                }
            }
        }
    }
}

/// What these schedules do.
fn counted(schedules: &[Schedule]) -> Work {
    let mut work = Work::default();
    let bytes = |spans: &[hikyaku::mpi::collectives::Span]| {
        spans
            .iter()
            .map(hikyaku::mpi::collectives::Span::elements)
            .sum::<usize>() as f64
    };
    for schedule in schedules {
        for round in 0..schedule.rounds() {
            let mut waits = false;
            for step in schedule.round(round) {
                match step {
                    Step::Send { spans, .. } => {
                        work.messages += 1.0;
                        work.bytes += bytes(spans);
                    }
                    Step::Receive { .. } => waits = true,
                    Step::Reduce { into, .. } => work.reduced += bytes(&[into]),
                    Step::Copy { .. } => {}
                }
            }
            work.waits += f64::from(u8::from(waits));
        }
    }
    work
}

#[test]
fn work_is_what_the_schedules_do() {
    for collective in Collective::ALL {
        for size in [2, 3, 4, 6, 8, 13, 16, 27, 32] {
            let bytes = 3_000 * size;
            for algorithm in algorithms(collective, size, true) {
                let schedules = schedules(collective, algorithm, size, bytes);
                let (is, should) = (Work::of(collective, algorithm, size, bytes), counted(&schedules));
                let exact = is_exact(collective, algorithm, size) && size.is_power_of_two();
                let near = |is: f64, should: f64, by: f64| (is - should).abs() <= by * should + 1e-6;
                // The first sum is a copy.
                let reduces = collective != Collective::Exscan;
                let (by, waits) = if exact { (0.0, 1.0) } else { (0.4, f64::MAX) };
                assert!(
                    near(is.messages, should.messages, by)
                        && near(is.bytes, should.bytes, by)
                        && (!reduces || near(is.reduced, should.reduced, by))
                        && near(is.waits, should.waits, waits),
                    "{collective} {algorithm} of {size}: {is:?} instead of {should:?}"
                );
            }
        }
    }
}

#[test]
fn where_processors_are_shared_work_counts() {
    // On two processors.
    let choose = |collective, size: usize, bytes| {
        let sharing = size as f64 / 2.0;
        let model = Model {
            sharing,
            ..Model::default()
        };
        Policy::new(model).choose(collective, size, bytes, true)
    };
    assert_eq!(choose(Collective::Barrier, 8, 0), Algorithm::Linear);
    assert_eq!(choose(Collective::Allreduce, 8, 8), Algorithm::Linear);
    assert_eq!(choose(Collective::Allreduce, 4, 1 << 20), Algorithm::Rabenseifner);
    assert_eq!(choose(Collective::Alltoall, 8, 64), Algorithm::Bruck { radix: 2 });
    // Which is all at once.
    assert_eq!(choose(Collective::Alltoall, 8, 8 << 20), Algorithm::Bruck { radix: 8 });
}

#[test]
fn small_and_large_differ() {
    let policy = Policy::new(Model::default());
    let choose = |collective, bytes| policy.choose(collective, 16, bytes, true);
    assert_eq!(choose(Collective::Allreduce, 8), Algorithm::RecursiveDoubling);
    assert_eq!(choose(Collective::Allreduce, 1 << 20), Algorithm::Rabenseifner);
    assert_eq!(policy.choose(Collective::Allreduce, 17, 1 << 24, true), Algorithm::Ring);
    assert_eq!(choose(Collective::Bcast, 8), Algorithm::BINOMIAL);
    // A long message takes a request and a grant more than a short one.
    let model = Model {
        eager_limit: 1_000.0,
        ..Model::default()
    };
    let seconds = |bytes| cost(Collective::Bcast, Algorithm::BINOMIAL, 2, bytes, &model);
    assert!((seconds(1_001) - seconds(1_000) - 2.0 * model.alpha).abs() < 1e-8);
    assert!(matches!(
        choose(Collective::Bcast, 1 << 24),
        Algorithm::Chain { segments: 2.. }
    ));
    assert_eq!(choose(Collective::Alltoall, 16 * 8), Algorithm::Bruck { radix: 2 });
    assert_eq!(choose(Collective::Alltoall, 16 << 20), Algorithm::Pairwise);
}

#[test]
fn the_best_number_of_segments() {
    for collective in [Collective::Bcast, Collective::Reduce, Collective::Scan] {
        for bytes in [0, 50_000, 5_000_000] {
            let mut policy = Policy::new(MODEL);
            policy.force(collective, Algorithm::Chain { segments: 0 });
            let Algorithm::Chain { segments } = policy.choose(collective, 20, bytes, false) else {
                panic!("not what was forced");
            };
            let seconds = |segments| cost(collective, Algorithm::Chain { segments }, 20, bytes, &MODEL);
            assert!(segments >= 1);
            assert!(seconds(segments) <= seconds(segments + 2) && seconds(segments) <= seconds((segments / 2).max(1)));
        }
    }
}

#[test]
fn what_is_forced_and_does_not_suit_is_not_taken() {
    let mut policy = Policy::new(MODEL);
    policy.force(Collective::Allreduce, Algorithm::Ring);
    assert_eq!(policy.choose(Collective::Allreduce, 8, 8, true), Algorithm::Ring);
    assert_eq!(
        policy.choose(Collective::Allreduce, 8, 8, false),
        Algorithm::RecursiveDoubling
    );
    policy.force(Collective::Bcast, Algorithm::Chain { segments: 7 });
    assert_eq!(
        policy.choose(Collective::Bcast, 8, 8, true),
        Algorithm::Chain { segments: 7 }
    );
}

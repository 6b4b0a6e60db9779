//! Collectives between two groups.

use hikyaku::mpi::{
    collectives::{Blocks, Call, Collective, NOBODY, ROOT, displacements},
    datatype::{Datatype, Kind},
    engine::{Buffers, Communicator, Region},
    error::ErrorClass,
    operation::{Operation, Predefined},
};

use super::support::job;

/// The world divided into two groups after `first` ranks.
struct Two {
    inter: Communicator,
    rank: usize,
    here: usize,
    there: usize,
    /// Whether this is the group of the ranks from 0 on.
    is_first: bool,
}

fn with_two(size: u32, first: i32, program: impl Fn(&Two) + Sync + 'static) {
    job(size, move |world| {
        let is_first = world.rank() < first;
        let half = world.split(Some(i32::from(is_first)), 0).unwrap().unwrap();
        let leader = if is_first { first } else { 0 };
        let inter = half.create_intercommunicator(0, &world, leader, 7).unwrap();
        program(&Two {
            rank: inter.rank() as usize,
            here: inter.size() as usize,
            there: inter.remote_size().unwrap() as usize,
            inter,
            is_first,
        });
    });
}

impl Two {
    /// Runs a collective on numbers.
    fn run(&self, call: &Call<'_>, from: &mut [i64], into: &mut [i64]) {
        let datatype = Datatype::predefined(Kind::I64);
        let region = |data: &mut [i64]| match data {
            [] => Region::None,
            _ => Region::Plain(data.as_mut_ptr().cast(), &datatype),
        };
        let buffers = Buffers {
            input: region(from),
            output: region(into),
        };
        let sum = Operation::predefined(Predefined::Sum);
        let operation = call.collective().reduces().then_some(&sum);
        // SAFETY: both are borrowed until it has ended.
        let begun = unsafe { self.inter.collective("MPI_I", call, &buffers, operation, None) };
        begun.unwrap().wait().unwrap();
    }

    /// Element `at` that rank `index` of a group sends; `is_first` says of which group.
    fn value(is_first: bool, index: usize, at: usize) -> i64 {
        (i64::from(is_first) * 100 + index as i64) * 1_000 + at as i64
    }

    fn own(&self, len: usize) -> Vec<i64> {
        (0..len).map(|at| Self::value(self.is_first, self.rank, at)).collect()
    }

    fn theirs(&self, index: usize, at: usize) -> i64 {
        Self::value(!self.is_first, index, at)
    }

    /// With each process of either group as the root; `root` is how this one names it.
    fn each_root(&self, with: impl Fn(usize)) {
        for first_has_it in [true, false] {
            let here = first_has_it == self.is_first;
            for root in 0..if here { self.here } else { self.there } {
                with(match here {
                    true if root == self.rank => ROOT,
                    true => NOBODY,
                    false => root,
                });
            }
        }
    }
}

const SHAPES: [(u32, i32); 4] = [(2, 1), (5, 2), (7, 6), (8, 3)];
const COUNTS: [usize; 3] = [0, 3, 30_000];

#[test]
fn what_has_a_root() {
    for (size, first) in SHAPES {
        with_two(size, first, |two| {
            for count in COUNTS {
                two.each_root(|root| {
                    // Bcast: from the root to the other group only.
                    let mut own = if root == ROOT { two.own(count) } else { vec![] };
                    let mut data = if root == ROOT { vec![] } else { vec![-1; count] };
                    let bytes = count * 8;
                    two.run(
                        &Call::of(Collective::Bcast).with_root(root).with_count(bytes),
                        &mut own,
                        &mut data,
                    );
                    match root {
                        ROOT => assert_eq!(own, two.own(count)),
                        NOBODY => assert!(data.iter().all(|x| *x == -1)),
                        root => assert!(data.iter().enumerate().all(|(at, x)| *x == two.theirs(root, at))),
                    }

                    let is_root = root == ROOT;
                    let (mut own, mut all) = (two.own(count), vec![-1; if is_root { two.there * count } else { 0 }]);
                    let gather = Call::of(Collective::Gather).with_root(root).with_count(count);
                    two.run(&gather, &mut own, &mut all);
                    let gathered = all
                        .iter()
                        .enumerate()
                        .all(|(i, x)| *x == two.theirs(i / count, i % count));
                    assert!(gathered);

                    let mut from = if is_root { two.own(two.there * count) } else { vec![] };
                    let mut part = vec![-1; count];
                    let scatter = Call::of(Collective::Scatter).with_root(root).with_count(count);
                    two.run(&scatter, &mut from, &mut part);
                    if root < two.there {
                        let place = |at| two.rank * count + at;
                        assert!(part.iter().enumerate().all(|(at, x)| *x == two.theirs(root, place(at))));
                    } else {
                        assert!(part.iter().all(|x| *x == -1));
                    }

                    let (mut own, mut sum) = (two.own(count), vec![-1; if is_root { count } else { 0 }]);
                    let reduce = Call::of(Collective::Reduce).with_root(root).with_count(count);
                    two.run(&reduce, &mut own, &mut sum);
                    let expected = |at| (0..two.there).map(|rank| two.theirs(rank, at)).sum::<i64>();
                    assert!(sum.iter().enumerate().all(|(at, x)| *x == expected(at)));
                });
            }
        });
    }
}

#[test]
fn what_is_alike_for_all() {
    for (size, first) in SHAPES {
        with_two(size, first, |two| {
            for count in COUNTS {
                two.inter.barrier().unwrap();
                // What the groups send need not be as much: here the first sends twice as much.
                let scale = |is_first: bool| if is_first { 2 * count } else { count };
                let (sent, received) = (scale(two.is_first), scale(!two.is_first));
                let (mut own, mut all) = (two.own(sent), vec![-1; two.there * received]);
                let allgather = Call::of(Collective::Allgather).with_input(sent).with_output(received);
                two.run(&allgather, &mut own, &mut all);
                let gathered = |(i, x): (usize, &i64)| *x == two.theirs(i / received, i % received);
                assert!(all.iter().enumerate().all(gathered));

                // As many counts as the other group has ranks, which may be fewer than this one has.
                let counts = vec![received; two.there];
                let offsets = displacements(&counts);
                let allgatherv = Call::of(Collective::Allgatherv)
                    .with_input(sent)
                    .with_output(Blocks::Uneven {
                        counts: &counts,
                        displacements: &offsets,
                    });
                all.fill(-1);
                two.run(&allgatherv, &mut own, &mut all);
                assert!(all.iter().enumerate().all(gathered));

                let (mut own, mut all) = (two.own(two.there * sent), vec![-1; two.there * received]);
                let alltoall = Call::of(Collective::Alltoall).with_input(sent).with_output(received);
                two.run(&alltoall, &mut own, &mut all);
                let place = |i: usize| two.rank * received + i % received;
                let exchanged = |(i, x): (usize, &i64)| *x == two.theirs(i / received, place(i));
                assert!(all.iter().enumerate().all(exchanged));

                let (mut own, mut sum) = (two.own(count), vec![-1; count]);
                let allreduce = Call::of(Collective::Allreduce)
                    .with_count(count)
                    .with_commutative(false);
                two.run(&allreduce, &mut own, &mut sum);
                let expected = |at| (0..two.there).map(|rank| two.theirs(rank, at)).sum::<i64>();
                assert!(sum.iter().enumerate().all(|(at, x)| *x == expected(at)));

                // Vectors of both groups are as long; each group cuts the other's sum as it likes.
                let total = count * two.here * two.there;
                let mut counts = vec![count * two.there; two.here];
                if two.here > 1 {
                    (counts[0], counts[1]) = (count, counts[1] + counts[0] - count);
                }
                let (mut own, mut part) = (two.own(total), vec![-1; counts[two.rank]]);
                let reduce_scatter = Call::of(Collective::ReduceScatter).with_count(Blocks::Uneven {
                    counts: &counts,
                    displacements: &[],
                });
                two.run(&reduce_scatter, &mut own, &mut part);
                let offset = displacements(&counts)[two.rank] as usize;
                assert!(part.iter().enumerate().all(|(at, x)| *x == expected(offset + at)));
            }
        });
    }
}

#[test]
fn some_do_not_go_between_groups() {
    with_two(3, 1, |two| {
        let scan = Call::of(Collective::Scan).with_count(1);
        let in_place = Call::of(Collective::Allreduce).with_count(1).with_in_place(true);
        let none = Buffers {
            input: Region::None,
            output: Region::None,
        };
        for call in [scan, in_place] {
            // SAFETY: there are no buffers.
            let refused = unsafe { two.inter.collective("MPI_Scan", &call, &none, None, None) };
            assert_eq!(refused.unwrap_err().class(), ErrorClass::Comm);
        }
        let nobody = Call::of(Collective::Bcast).with_root(two.there).with_count(0);
        // SAFETY: there are no buffers.
        let refused = unsafe { two.inter.collective("MPI_Bcast", &nobody, &none, None, None) };
        assert_eq!(refused.unwrap_err().class(), ErrorClass::Root);
        // A refused call takes no number: the barrier still matches. The same in a duplicate, and together.
        two.inter.barrier().unwrap();
        let again = two.inter.duplicate().unwrap();
        assert!(again.is_inter() && again.context() != two.inter.context());
        again.barrier().unwrap();
        again.merge(two.is_first).unwrap().barrier().unwrap();
    });
}

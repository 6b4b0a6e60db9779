//! Every algorithm of every collective against what MPI says, run in any legal order; and costs against simulations.

mod case;
mod costs;
mod data;
mod hazards;
mod machine;
mod names;
mod plans;

use proptest::{collection::vec, prelude::*};

use case::{Part, check};
use data::Shape;

type Make = fn(&Shape) -> Vec<Part>;

/// All collectives; first those that have a root.
const ALL: [Make; 14] = [
    data::bcast,
    data::gather,
    data::scatter,
    data::reduce,
    data::barrier,
    data::allgather,
    data::alltoall,
    data::alltoallw,
    data::allreduce,
    data::reduce_scatter,
    |shape| data::scan(shape, false),
    |shape| data::scan(shape, true),
    |shape| data::neighbours(shape, true),
    |shape| data::neighbours(shape, false),
];
const ROOTED: usize = 4;

/// All flags, all roots, few ranks.
#[test]
fn small_worlds() {
    for size in 1..=9 {
        for root in 0..size {
            for flags in 0..8_u64 {
                for (length, factor) in [(4, 1), (4, 5), (1, 0)] {
                    let counts = (0..size).map(|rank| (3 + rank) * factor % (length + 1));
                    let shape = Shape {
                        size,
                        root,
                        counts: counts.collect(),
                        even: flags & 1 == 1,
                        commutative: flags & 2 == 2,
                        in_place: flags & 4 == 4,
                        seed: flags + (size * 31 + root * 17) as u64,
                    };
                    for make in ALL.iter().take(if root == 0 { ALL.len() } else { ROOTED }) {
                        check(&make(&shape), shape.seed);
                    }
                }
            }
        }
    }
}

prop_compose! {
    fn shapes()(size in prop_oneof![1..=20_usize, 1..=64_usize, Just(16), Just(32), Just(64)])(
        size in Just(size),
        root in 0..size,
        counts in prop_oneof![vec(0..4_usize, size), vec(prop_oneof![Just(0_usize), 20..70_usize], size)],
        even in any::<bool>(),
        commutative in any::<bool>(),
        in_place in any::<bool>(),
        seed in 0..u64::MAX / 4,
    ) -> Shape {
        // Long vectors are for what is cut; blocks for each rank of each rank would be too many.
        Shape { size, root, counts, even, commutative, in_place, seed }
    }
}

impl Shape {
    fn short(mut self) -> Self {
        for count in &mut self.counts {
            *count %= 4;
        }
        self
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn barrier(shape in shapes()) { check(&data::barrier(&shape), shape.seed); }
    #[test]
    fn bcast(shape in shapes()) { check(&data::bcast(&shape), shape.seed); }
    #[test]
    fn gather(shape in shapes()) { check(&data::gather(&shape.clone().short()), shape.seed); }
    #[test]
    fn scatter(shape in shapes()) { check(&data::scatter(&shape.clone().short()), shape.seed); }
    #[test]
    fn reduce(shape in shapes()) { check(&data::reduce(&shape), shape.seed); }
    #[test]
    fn allreduce(shape in shapes()) { check(&data::allreduce(&shape), shape.seed); }
    #[test]
    fn reduce_scatter(shape in shapes()) { check(&data::reduce_scatter(&shape.clone().short()), shape.seed); }
    #[test]
    fn scan(shape in shapes()) { check(&data::scan(&shape, false), shape.seed); }
    #[test]
    fn exscan(shape in shapes()) { check(&data::scan(&shape, true), shape.seed); }
    #[test]
    fn neighbor_allgather(shape in shapes()) { check(&data::neighbours(&shape.clone().short(), true), shape.seed); }
    #[test]
    fn neighbor_alltoall(shape in shapes()) { check(&data::neighbours(&shape.clone().short(), false), shape.seed); }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    #[test]
    fn allgather(shape in shapes()) { check(&data::allgather(&shape.clone().short()), shape.seed); }
    #[test]
    fn alltoall(shape in shapes()) { check(&data::alltoall(&shape.clone().short()), shape.seed); }
    #[test]
    fn alltoallw(shape in shapes()) { check(&data::alltoallw(&shape), shape.seed); }
}

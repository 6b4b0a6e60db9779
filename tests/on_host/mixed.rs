//! Collectives by memory against the same ones by messages: drawn from seeds, with the same results.

use std::env;

use hikyaku::{
    internals::prng::Prng,
    mpi::{
        collectives::{Algorithm, Call, Collective},
        datatype::{Datatype, Kind},
        engine::{Buffers, Communicator, Region},
        operation::{Operation, Predefined},
    },
};

use super::support::job;

const KINDS: [Collective; 8] = [
    Collective::Barrier,
    Collective::Bcast,
    Collective::Gather,
    Collective::Scatter,
    Collective::Allgather,
    Collective::Alltoall,
    Collective::Reduce,
    Collective::Allreduce,
];
/// Elements: what fits into a line, into a piece, into several.
const COUNTS: [usize; 10] = [0, 1, 2, 6, 7, 100, 256, 2_100, 9_001, 40_000];

fn pick<T: Copy>(prng: &mut Prng, of: &[T]) -> T {
    of[prng.below(of.len() as u64) as usize]
}

/// A call that all ranks make.
struct Drawn {
    kind: Collective,
    root: usize,
    count: usize,
    in_place: bool,
    /// Distance of the elements that move, in the buffers.
    stride: usize,
    operation: Option<Operation>,
}

/// Composes maps x → ax + b, whose halves are a and b: associative, but the order of operands matters.
fn in_order() -> Operation {
    let compose = |left: u64, right: u64| {
        let ([a, b], [c, d]) = ([left as u32, (left >> 32) as u32], [right as u32, (right >> 32) as u32]);
        let (e, f) = (a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d));
        u64::from(f) << 32 | u64::from(e)
    };
    let function = move |input: *const u8, inout: *mut u8, count: u64, _: &Datatype| {
        for at in 0..count as usize {
            let (left, right) = (
                input.cast::<u64>().wrapping_add(at),
                inout.cast::<u64>().wrapping_add(at),
            );
            // SAFETY: so many elements of eight bytes, which need not be aligned.
            unsafe { right.write_unaligned(compose(left.read_unaligned(), right.read_unaligned())) };
        }
    };
    // SAFETY: it touches these elements alone.
    unsafe { Operation::user(false, function) }
}

impl Drawn {
    fn draw(prng: &mut Prng, size: usize) -> Self {
        let kind = pick(prng, &KINDS);
        let operation = match kind {
            Collective::Reduce | Collective::Allreduce if prng.below(3) == 0 => Some(in_order()),
            Collective::Reduce | Collective::Allreduce => Some(Operation::predefined(pick(
                prng,
                &[Predefined::Sum, Predefined::Max, Predefined::Bxor],
            ))),
            _ => None,
        };
        let many = matches!(
            kind,
            Collective::Alltoall | Collective::Scatter | Collective::Gather | Collective::Allgather
        );
        Self {
            kind,
            root: prng.below(size as u64) as usize,
            count: pick(prng, &COUNTS) / if many { size } else { 1 },
            in_place: prng.below(3) == 0 && kind != Collective::Bcast,
            stride: if operation.is_none() {
                1 + prng.below(2) as usize
            } else {
                1
            },
            operation,
        }
    }

    /// What the rank has after the call.
    fn run(&self, comm: &Communicator, salt: u64, algorithm: Option<Algorithm>) -> Vec<i64> {
        let (rank, size) = (comm.rank() as usize, comm.size() as usize);
        let plain = Datatype::predefined(Kind::I64);
        let datatype = match self.stride {
            1 => plain,
            stride => Datatype::resized(0, 8 * stride as i64, &plain).unwrap(),
        };
        let room = size * self.count.max(1) * self.stride;
        let mut input: Vec<i64> = (0..room)
            .map(|at| (at as u64 * 31 + rank as u64 * 977 + salt) as i64)
            .collect();
        let mut output: Vec<i64> = input.iter().map(|x| x ^ 0x55).collect();
        let is_root = rank == self.root;
        let of = |data: &mut Vec<i64>| Region::Plain(data.as_mut_ptr().cast(), &datatype);
        let (mut from, mut into) = (of(&mut input), of(&mut output));
        let counts = if self.kind == Collective::Bcast {
            8 * self.count
        } else {
            self.count
        };
        let mut call = Call::of(self.kind).with_root(self.root).with_count(counts);
        if let Some(operation) = &self.operation {
            call = call.with_commutative(operation.is_commutative());
        }
        let rooted = matches!(self.kind, Collective::Gather | Collective::Scatter | Collective::Reduce);
        if self.in_place && (!rooted || is_root) {
            call = call.with_in_place(true);
            match self.kind {
                Collective::Scatter => into = Region::None,
                _ => from = Region::None,
            }
        }
        match self.kind {
            Collective::Barrier => (from, into) = (Region::None, Region::None),
            Collective::Bcast => from = Region::None,
            Collective::Gather | Collective::Reduce if !is_root => into = Region::None,
            Collective::Scatter if !is_root => from = Region::None,
            _ => {}
        }
        let buffers = Buffers {
            input: from,
            output: into,
        };
        let name = match self.kind {
            Collective::Barrier => "MPI_Barrier",
            Collective::Bcast => "MPI_Bcast",
            Collective::Gather => "MPI_Gather",
            Collective::Scatter => "MPI_Scatter",
            Collective::Allgather => "MPI_Allgather",
            Collective::Alltoall => "MPI_Alltoall",
            Collective::Reduce => "MPI_Reduce",
            _ => "MPI_Allreduce",
        };
        // SAFETY: both are borrowed until it has ended.
        let request = unsafe { comm.collective(name, &call, &buffers, self.operation.as_ref(), algorithm) };
        request.unwrap().wait().unwrap();
        output.extend(input);
        output
    }
}

fn seeds() -> std::ops::Range<u64> {
    let of = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    let from = of("HIKYAKU_SIM_FROM").unwrap_or(1);
    from..from + of("HIKYAKU_SIM_RUNS").unwrap_or(3)
}

#[test]
fn memory_and_messages_give_the_same() {
    for seed in seeds() {
        for size in [2, 3, 4, 7] {
            job(size, |world| {
                let mut prng = Prng::new(seed);
                for turn in 0..60 {
                    let drawn = Drawn::draw(&mut prng, size as usize);
                    let commutes = drawn.operation.as_ref().is_none_or(Operation::is_commutative);
                    let algorithms = drawn.kind.algorithms();
                    let by_messages = algorithms
                        .iter()
                        .find(|one| one.suits(drawn.kind, size as usize, commutes));
                    let here = drawn.run(&world, turn, None);
                    let there = drawn.run(&world, turn, by_messages.copied());
                    assert!(
                        here == there,
                        "seed {seed}, {size} ranks, call {turn}: {:?} of {} elements, root {}, in place: {}, stride {}",
                        drawn.kind,
                        drawn.count,
                        drawn.root,
                        drawn.in_place,
                        drawn.stride,
                    );
                }
            });
        }
    }
}

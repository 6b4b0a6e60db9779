//! Collectives drawn from seeds: what each rank has after a call, whichever way it goes.

use std::env;

use hikyaku::{
    internals::prng::Prng,
    mpi::{
        collectives::{Algorithm, Blocks, Call, Collective, Lengths, Partners, Role, displacements},
        datatype::{Datatype, Kind},
        engine::{Buffers, Communicator, Region},
        operation::{Operation, Predefined},
    },
};

pub(crate) const KINDS: [Collective; 16] = [
    Collective::Barrier,
    Collective::Bcast,
    Collective::Gather,
    Collective::Scatter,
    Collective::Allgather,
    Collective::Alltoall,
    Collective::Reduce,
    Collective::Allreduce,
    Collective::Gatherv,
    Collective::Scatterv,
    Collective::Allgatherv,
    Collective::Alltoallv,
    Collective::ReduceScatter,
    Collective::ReduceScatterBlock,
    Collective::Scan,
    Collective::Exscan,
];
/// Elements: what fits into a line, into a piece, into several.
const COUNTS: [usize; 10] = [0, 1, 2, 6, 7, 100, 256, 2_100, 9_001, 40_000];

fn pick<T: Copy>(prng: &mut Prng, of: &[T]) -> T {
    of[prng.below(of.len() as u64) as usize]
}

/// A call that all ranks make.
pub(crate) struct Drawn {
    pub(crate) kind: Collective,
    root: usize,
    count: usize,
    in_place: bool,
    /// Distance of the elements that move, in the buffers. `None`: one that every second rank has, and the others have not,
    /// so that datatypes differ and signatures do not.
    stride: Option<usize>,
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
    /// One of these collectives.
    pub(crate) fn draw(prng: &mut Prng, kinds: &[Collective], size: usize) -> Self {
        let kind = pick(prng, kinds);
        let operation = match kind {
            _ if !kind.reduces() => None,
            _ if prng.below(3) == 0 => Some(in_order()),
            _ => Some(Operation::predefined(pick(
                prng,
                &[Predefined::Sum, Predefined::Max, Predefined::Bxor],
            ))),
        };
        let many = [kind.input(), kind.output()]
            .iter()
            .any(|role| matches!(role, Role::Blocks | Role::Divided));
        Self {
            kind,
            root: prng.below(size as u64) as usize,
            count: pick(prng, &COUNTS) / if many { size } else { 1 },
            in_place: prng.below(3) == 0 && kind != Collective::Bcast,
            stride: if operation.is_none() {
                pick(prng, &[Some(1), Some(2), None])
            } else {
                Some(1)
            },
            operation,
        }
    }

    /// An algorithm by messages between all ranks.
    pub(crate) fn by_messages(&self, size: usize) -> Option<Algorithm> {
        let commutes = self.operation.as_ref().is_none_or(Operation::is_commutative);
        let mut algorithms = self.kind.algorithms().iter().copied();
        algorithms.find(|one| one.suits(self.kind, size, commutes))
    }

    /// Blocks have lengths of their own.
    fn is_uneven(&self) -> bool {
        self.kind.functions()[0].lengths == Lengths::Each
    }

    /// Elements that a rank has for another one.
    fn len(&self, from: usize, to: usize) -> usize {
        let (from, to) = match self.kind {
            _ if !self.is_uneven() => return self.count,
            Collective::Gatherv | Collective::Allgatherv => (from, 1),
            Collective::Scatterv | Collective::ReduceScatter => (1, to),
            _ => (from, to),
        };
        // (In place, both of a pair have as much.)
        self.count * ((from + to) * 3 % 5) / 2
    }

    /// What the rank has after the call.
    pub(crate) fn run(&self, comm: &Communicator, salt: u64, algorithm: Option<Algorithm>) -> Vec<i64> {
        let (rank, size) = (comm.rank() as usize, comm.size() as usize);
        let plain = Datatype::predefined(Kind::I64);
        let stride = self.stride.unwrap_or(1 + rank % 2);
        let datatype = match stride {
            1 => plain,
            stride => Datatype::resized(0, 8 * stride as i64, &plain).unwrap(),
        };
        let block = 2 * self.count + 1;
        let room = size * block * stride;
        let mut input: Vec<i64> = (0..room)
            .map(|at| (at as u64 * 31 + rank as u64 * 977 + salt) as i64)
            .collect();
        let mut output: Vec<i64> = input.iter().map(|x| x ^ 0x55).collect();
        let is_root = rank == self.root;
        let of = |data: &mut Vec<i64>| Region::Plain(data.as_mut_ptr().cast(), &datatype);
        let (mut from, mut into) = (of(&mut input), of(&mut output));
        let sent: Vec<_> = (0..size).map(|to| self.len(rank, to)).collect();
        let taken: Vec<_> = match self.kind {
            Collective::ReduceScatter => sent.clone(),
            _ => (0..size).map(|from| self.len(from, rank)).collect(),
        };
        let places = |counts| match self.kind {
            Collective::ReduceScatter => displacements(counts),
            // With gaps, the last one first.
            _ => (0..size).rev().map(|at| (at * block) as isize).collect(),
        };
        let (sent_at, taken_at) = (places(&sent), places(&taken));
        let blocks = |role, counts, displacements, single: usize| match role {
            Role::Blocks | Role::Divided if self.is_uneven() => Blocks::Uneven { counts, displacements },
            Role::Packed => (8 * self.count).into(),
            Role::Block => single.into(),
            _ => self.count.into(),
        };
        let (to_root, from_root) = (self.len(rank, self.root), self.len(self.root, rank));
        let mut call = Call::of(self.kind)
            .with_root(self.root)
            .with_input(blocks(self.kind.input(), &sent, &sent_at, to_root))
            .with_output(blocks(self.kind.output(), &taken, &taken_at, from_root));
        if let Some(operation) = &self.operation {
            call = call.with_commutative(operation.is_commutative());
        }
        let is_rooted = self.kind.partners() == Partners::Root;
        if self.in_place && (!is_rooted || is_root) {
            call = call.with_in_place(true);
            match self.kind.input() {
                Role::Blocks if is_rooted => into = Region::None,
                _ => from = Region::None,
            }
        }
        match (self.kind.input(), self.kind.output()) {
            (Role::None, _) => (from, into) = (Region::None, Region::None),
            (Role::Packed, _) => from = Region::None,
            (_, Role::Blocks | Role::Vector) if is_rooted && !is_root => into = Region::None,
            (Role::Blocks, _) if is_rooted && !is_root => from = Region::None,
            _ => {}
        }
        let buffers = Buffers {
            input: from,
            output: into,
        };
        let name = self.kind.functions()[0].blocking;
        // SAFETY: both are borrowed until it has ended.
        let request = unsafe { comm.collective(name, &call, &buffers, self.operation.as_ref(), algorithm) };
        request.unwrap().wait().unwrap();
        output.extend(input);
        output
    }
}

pub(crate) fn seeds() -> std::ops::Range<u64> {
    let of = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    let from = of("HIKYAKU_SIM_FROM").unwrap_or(1);
    from..from + of("HIKYAKU_SIM_RUNS").unwrap_or(3)
}

impl std::fmt::Display for Drawn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            kind,
            root,
            count,
            in_place,
            stride,
            operation,
        } = self;
        let commutes = operation.as_ref().is_none_or(Operation::is_commutative);
        write!(
            f,
            "{kind:?} of {count} elements, root {root}, in place: {in_place}, stride {stride:?}, commutes: {commutes}"
        )
    }
}

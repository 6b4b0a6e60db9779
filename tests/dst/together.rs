//! Collectives: blocking, non-blocking with tests, persistent; by any of their algorithms.

use hikyaku::mpi::{
    collectives::{Algorithm, Call, Collective as Kind, Role},
    engine::{Buffers, Communicator, Region, Request},
    error::Error,
    operation::{Operation, Predefined},
};

use super::{
    prng::Prng,
    safe::{Patience, i64s},
    script::Limits,
};

#[derive(Clone, Copy, Debug)]
enum How {
    Wait,
    Test,
    /// Planned, and started this many times.
    Again(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Together {
    kind: Kind,
    root: usize,
    count: usize,
    how: How,
    algorithm: Option<Algorithm>,
    salt: i64,
}

impl Together {
    pub(crate) fn draw(rng: &mut Prng, ranks: usize, limits: Limits) -> Self {
        use Kind::{Allgather, Allreduce, Alltoall, Barrier, Bcast, Gather, Reduce, ReduceScatterBlock, Scan, Scatter};
        let kinds = [
            Barrier,
            Bcast,
            Reduce,
            Allreduce,
            Gather,
            Scatter,
            Allgather,
            Alltoall,
            ReduceScatterBlock,
            Scan,
        ];
        let kind = rng.pick(&kinds);
        let most = (limits.bytes / 8 / ranks as u64).max(1);
        let count = if rng.chance(50) { 0 } else { rng.skewed(most) as usize };
        let mut this = Self {
            kind,
            root: rng.below(ranks as u64) as usize,
            count,
            how: match rng.below(4) {
                0 => How::Test,
                1 => How::Again(rng.between(1, 4)),
                _ => How::Wait,
            },
            algorithm: None,
            salt: rng.below(1_000_000) as i64,
        };
        let collective = this.call().collective();
        let algorithms = collective.algorithms();
        if rng.chance(700) && !algorithms.is_empty() {
            let algorithm = rng.pick(algorithms);
            this.algorithm = algorithm.suits(collective, ranks, true).then_some(algorithm);
        }
        this
    }

    fn call(&self) -> Call<'static> {
        let &Self { root, count, .. } = self;
        let unit = if self.kind.output() == Role::Packed { 8 } else { 1 };
        Call::of(self.kind).with_root(root).with_count(unit * count)
    }

    fn name(&self) -> &'static str {
        self.kind.functions()[0].blocking
    }

    /// Element `i` of the input of `rank`.
    fn given(&self, rank: usize, i: usize, round: i64) -> i64 {
        (rank as i64 + 1) * 1_000_003 + i as i64 * 31 + self.salt + round * 7
    }

    /// Numbers of elements of the input and output of a rank, with `size` ranks.
    fn lengths(&self, size: usize) -> (usize, usize) {
        let (one, all) = (self.count, self.count * size);
        let elements = |role| match role {
            Role::None => 0,
            Role::Packed | Role::Vector | Role::Block => one,
            Role::Blocks | Role::Divided => all,
        };
        match (self.kind.input(), self.kind.output()) {
            (Role::Packed, Role::Packed) => (0, one),
            (Role::Divided, Role::Divided) => (all, one),
            (input, output) => (elements(input), elements(output)),
        }
    }

    /// Element `i` of the output that `rank` must have; `None`: undefined.
    fn expected(&self, rank: usize, size: usize, i: usize, round: i64) -> Option<i64> {
        let (block, place) = (i / self.count, i % self.count);
        let sum = |ranks: usize, i| (0..ranks).map(|rank| self.given(rank, i, round)).sum();
        Some(match self.kind {
            Kind::Barrier => return None,
            Kind::Reduce | Kind::Gather if rank != self.root => return None,
            Kind::Bcast => self.given(self.root, i, round),
            Kind::Reduce | Kind::Allreduce => sum(size, i),
            Kind::Scan => sum(rank + 1, i),
            Kind::Gather | Kind::Allgather => self.given(block, place, round),
            Kind::Scatter => self.given(self.root, rank * self.count + i, round),
            Kind::Alltoall => self.given(block, rank * self.count + place, round),
            Kind::ReduceScatterBlock => sum(size, rank * self.count + i),
            other => unreachable!("{other} is not drawn"),
        })
    }

    /// Whether the output of `rank` depends on the input of `other`.
    pub(crate) fn needs(&self, rank: usize, other: usize) -> bool {
        match self.kind {
            Kind::Barrier => true,
            _ if self.count == 0 => false,
            Kind::Bcast | Kind::Scatter => other == self.root,
            Kind::Reduce | Kind::Gather => rank == self.root,
            Kind::Scan => rank > other,
            _ => true,
        }
    }

    /// Fills the buffers for a round.
    fn fill(&self, rank: usize, input: &mut [i64], output: &mut [i64], round: i64) {
        input
            .iter_mut()
            .enumerate()
            .for_each(|(i, x)| *x = self.given(rank, i, round));
        output.fill(-1);
        if self.kind == Kind::Bcast && rank == self.root {
            output
                .iter_mut()
                .enumerate()
                .for_each(|(i, x)| *x = self.given(rank, i, round));
        }
    }

    fn check(&self, rank: usize, size: usize, output: &[i64], round: i64) {
        for (i, x) in output.iter().enumerate() {
            let expected = self.expected(rank, size, i, round);
            assert!(
                expected.is_none_or(|expected| expected == *x),
                "rank {rank} of {size}: element {i} is {x}, not {expected:?}, in round {round} of {self:?}"
            );
        }
    }
}

/// Runs the part of this rank, and checks it.
pub(crate) fn come_together(comm: &Communicator, plan: &Together) -> Result<(), Error> {
    let (rank, size) = (comm.rank() as usize, comm.size() as usize);
    let (input, output) = plan.lengths(size);
    // Leaked when something fails: other ranks may still write to it.
    let input = Box::leak(vec![0_i64; input].into_boxed_slice());
    let output = Box::leak(vec![0_i64; output].into_boxed_slice());
    let (input_at, output_at) = (&raw mut *input, &raw mut *output);
    go(comm, plan, rank, size, input_at, output_at)?;
    // SAFETY: they were leaked here, and nothing refers to them any more, since the collective has ended.
    drop(unsafe { (Box::from_raw(input_at), Box::from_raw(output_at)) });
    Ok(())
}

fn go(
    comm: &Communicator,
    plan: &Together,
    rank: usize,
    size: usize,
    input: *mut [i64],
    output: *mut [i64],
) -> Result<(), Error> {
    let datatype = i64s();
    let buffers = Buffers {
        input: Region::Plain(input.cast(), &datatype),
        output: Region::Plain(output.cast(), &datatype),
    };
    let sum = Operation::predefined(Predefined::Sum);
    let (call, name) = (plan.call(), plan.name());
    // SAFETY: nothing runs that uses them.
    let fill = |round| unsafe { plan.fill(rank, &mut *input, &mut *output, round) };
    // SAFETY: as above.
    let check = |round| unsafe { plan.check(rank, size, &*output, round) };
    // SAFETY: the buffers live until the collective has ended, and are not used meanwhile.
    let begin = || unsafe { comm.collective(name, &call, &buffers, Some(&sum), plan.algorithm) };
    match plan.how {
        How::Wait => {
            fill(0);
            begin()?.wait()?;
            check(0);
        }
        How::Test => {
            fill(0);
            test(begin()?)?;
            check(0);
        }
        How::Again(times) => {
            // SAFETY: as above.
            let planned = unsafe { comm.collective_init(name, &call, &buffers, Some(&sum), plan.algorithm) }?;
            for round in 0..times as i64 {
                fill(round);
                planned.start()?.wait()?;
                check(round);
            }
        }
    }
    Ok(())
}

fn test(mut request: Request) -> Result<(), Error> {
    let mut patience = Patience::default();
    while request.test()?.is_none() {
        patience.wait();
    }
    Ok(())
}

//! Collectives with their data, and what MPI says must come out.

use std::collections::BTreeMap;

use hikyaku::mpi::collectives::{Algorithm, Blocks, Call, Collective, Schedule, displacements};

use crate::{
    hazards,
    machine::{Atom, Machine, Memory, Process},
};

/// Any element of a datatype has 1, 2, 3 or 6 atoms, and any block in MPI's sense 6 times something: so each rank may
/// have datatypes of its own.
pub(crate) const BLOCK: usize = 6;

/// One rank's part of a case: its arguments and buffers, and what its output must be afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) arguments: Arguments,
    pub(crate) process: Process,
    pub(crate) expected: BTreeMap<isize, Atom>,
    /// Other cells of the output may change.
    pub(crate) careless: bool,
}

/// [`Call`] with its own memory.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) collective: Collective,
    pub(crate) root: usize,
    pub(crate) input: OwnBlocks,
    pub(crate) output: OwnBlocks,
    pub(crate) sources: Vec<Option<usize>>,
    pub(crate) destinations: Vec<Option<usize>>,
    pub(crate) commutative: bool,
    pub(crate) in_place: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum OwnBlocks {
    Even(usize),
    Uneven(Vec<usize>, Vec<isize>),
}

impl OwnBlocks {
    pub(crate) fn borrow(&self) -> Blocks<'_> {
        match self {
            Self::Even(count) => Blocks::Even { count: *count },
            Self::Uneven(counts, displacements) => Blocks::Uneven { counts, displacements },
        }
    }

    pub(crate) fn offset(&self, index: usize) -> isize {
        match self {
            Self::Even(count) => (count * index) as isize,
            Self::Uneven(_, displacements) => displacements[index],
        }
    }

    /// Blocks of so many elements: either evenly or with displacements that leave gaps, backwards from 7 on.
    pub(crate) fn new(counts: &[usize], even: bool) -> Self {
        if even {
            return Self::Even(counts.first().copied().unwrap_or(0));
        }
        let packed = displacements(counts);
        let spread = packed.iter().enumerate().zip(counts);
        let backwards = spread.map(|((index, offset), count)| 7 - offset - index as isize - *count as isize);
        Self::Uneven(counts.to_vec(), backwards.collect())
    }
}

impl Arguments {
    pub(crate) fn of(collective: Collective) -> Self {
        Self {
            collective,
            root: 0,
            input: OwnBlocks::Even(0),
            output: OwnBlocks::Even(0),
            sources: Vec::new(),
            destinations: Vec::new(),
            commutative: true,
            in_place: false,
        }
    }

    pub(crate) fn call(&self) -> Call<'_> {
        Call::of(self.collective)
            .with_root(self.root)
            .with_input(self.input.borrow())
            .with_output(self.output.borrow())
            .with_neighbours(&self.sources, &self.destinations)
            .with_commutative(self.commutative)
            .with_in_place(self.in_place)
    }
}

/// All algorithms for a collective, with several parameters.
pub(crate) fn algorithms(collective: Collective, size: usize, commutative: bool) -> Vec<Algorithm> {
    let mut all = Vec::new();
    for algorithm in collective.algorithms() {
        match *algorithm {
            Algorithm::Knomial { .. } => all.extend([2, 3, 5].map(|radix| Algorithm::Knomial { radix })),
            Algorithm::Bruck { radix: 4.. } => {}
            Algorithm::Bruck { .. } => all.extend([2, 3, 4, 100].map(|radix| Algorithm::Bruck { radix })),
            Algorithm::Dissemination { .. } => all.extend([2, 4].map(|radix| Algorithm::Dissemination { radix })),
            Algorithm::Chain { .. } => all.extend([0, 2, 3, 100].map(|segments| Algorithm::Chain { segments })),
            other => all.push(other),
        }
    }
    all.retain(|algorithm| algorithm.suits(collective, size, commutative));
    all
}

/// Runs all algorithms on the case and compares.
pub(crate) fn check(parts: &[Part], seed: u64) {
    let size = parts.len();
    let call = parts[0].arguments.call();
    let commutative = call.commutative();
    let all = algorithms(call.collective(), size, commutative);
    assert!(!all.is_empty());
    for (index, algorithm) in all.into_iter().enumerate() {
        let schedule = |(rank, part): (usize, &Part)| part.arguments.call().schedule(rank, size, algorithm).unwrap();
        let schedules: Vec<Schedule> = parts.iter().enumerate().map(schedule).collect();
        for (rank, schedule) in schedules.iter().enumerate() {
            hazards::check(schedule, rank, size);
        }
        let processes: Vec<Process> = parts.iter().map(|part| part.process.clone()).collect();
        for seed in [2 * seed + index as u64, 3 * seed + index as u64 + 1] {
            let outputs = Machine::new(&schedules, &processes, seed).run();
            for (rank, (part, output)) in parts.iter().zip(outputs).enumerate() {
                compare(part, output, commutative).unwrap_or_else(|message| {
                    panic!(
                        "{} by {algorithm}, rank {rank} of {size}: {message}\n{:?}\n{}",
                        call.collective(),
                        part.arguments,
                        schedules[rank]
                    )
                });
            }
        }
    }
}

fn compare(part: &Part, output: Memory, commutative: bool) -> Result<(), String> {
    for (at, atom) in output {
        let before = part.process.output[&at].clone();
        let expected = match part.expected.get(&at) {
            Some(expected) => Some(expected.clone()),
            None if part.careless => continue,
            None => before,
        };
        let mut found = atom;
        if let (true, Some(atom)) = (commutative, &mut found) {
            atom.ranks.sort_unstable();
        }
        if found != expected {
            return Err(format!("output atom {at} is {found:?}, should be {expected:?}"));
        }
    }
    Ok(())
}

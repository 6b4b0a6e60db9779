//! Cases of each collective, from a few numbers.

use std::collections::BTreeMap;

use hikyaku::{internals::prng::Prng, mpi::collectives::Collective};

use crate::{
    case::{Arguments, BLOCK, OwnBlocks, Part},
    machine::{Atom, Memory, Process},
};

/// What a case is made from.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) size: usize,
    pub(crate) root: usize,
    /// Blocks of each rank, in units of 6 atoms; the first one counts where all are even.
    pub(crate) counts: Vec<usize>,
    pub(crate) even: bool,
    pub(crate) commutative: bool,
    pub(crate) in_place: bool,
    pub(crate) seed: u64,
}

impl Shape {
    /// Units of 6 atoms that rank `rank` gives or gets.
    fn count(&self, rank: usize) -> usize {
        if self.even { self.counts[0] } else { self.counts[rank] }
    }

    fn counts(&self) -> Vec<usize> {
        (0..self.size).map(|rank| self.count(rank)).collect()
    }

    fn either(&self, even: Collective, uneven: Collective) -> Collective {
        if self.even { even } else { uneven }
    }

    fn reduction(&self, collective: Collective, vector: OwnBlocks) -> Arguments {
        Arguments {
            input: vector.clone(),
            output: vector,
            commutative: self.commutative,
            in_place: self.in_place,
            ..Arguments::of(collective)
        }
    }

    fn part(&self, arguments: Arguments, process: Process, expected: BTreeMap<isize, Atom>) -> Part {
        Part {
            arguments,
            process,
            expected,
            careless: false,
        }
    }

    /// How many atoms an element has, for input and output of each rank.
    fn units(&self) -> impl FnMut() -> (usize, usize) {
        let mut prng = Prng::new(self.seed);
        let mut unit = move || [1, 2, 3, 6][prng.below(4) as usize];
        move || (unit(), unit())
    }
}

/// The atoms of what `from` has for `to`.
fn block(from: usize, to: usize, count: usize) -> Vec<Atom> {
    let key = |index| (from as u64) << 40 | (to as u64) << 20 | index as u64;
    (0..count * BLOCK)
        .map(|index| Atom {
            key: key(index),
            ranks: vec![from],
        })
        .collect()
}

/// The atoms of one element each of a vector that is reduced.
fn vector(ranks: impl Iterator<Item = usize> + Clone, elements: std::ops::Range<usize>) -> Vec<Atom> {
    let ranks: Vec<usize> = ranks.collect();
    elements
        .map(|index| Atom {
            key: index as u64,
            ranks: ranks.clone(),
        })
        .collect()
}

fn place<T>(memory: &mut BTreeMap<isize, T>, at: isize, atoms: impl IntoIterator<Item = T>) {
    memory.extend((at..).zip(atoms));
}

fn full(atoms: Vec<Atom>) -> impl Iterator<Item = Option<Atom>> {
    atoms.into_iter().map(Some)
}

fn empty(atoms: &[Atom]) -> impl Iterator<Item = Option<Atom>> {
    atoms.iter().map(|_| None)
}

fn blocks(shape: &Shape, counts: &[usize], unit: usize) -> OwnBlocks {
    let elements: Vec<usize> = counts.iter().map(|count| count * BLOCK / unit).collect();
    OwnBlocks::new(&elements, shape.even)
}

pub(crate) fn barrier(shape: &Shape) -> Vec<Part> {
    let part = || {
        shape.part(
            Arguments::of(Collective::Barrier),
            Process {
                units: (1, 1),
                ..Process::default()
            },
            BTreeMap::new(),
        )
    };
    (0..shape.size).map(|_| part()).collect()
}

pub(crate) fn bcast(shape: &Shape) -> Vec<Part> {
    let data = block(shape.root, 0, shape.counts[0]);
    let part = |rank| {
        let (mut output, mut expected) = (Memory::new(), BTreeMap::new());
        if rank == shape.root {
            place(&mut output, 0, full(data.clone()));
        } else {
            place(&mut output, 0, empty(&data));
        }
        place(&mut expected, 0, data.clone());
        let arguments = Arguments {
            root: shape.root,
            output: OwnBlocks::Even(data.len()),
            ..Arguments::of(Collective::Bcast)
        };
        shape.part(
            arguments,
            Process {
                input: Memory::new(),
                output,
                units: (1, 1),
            },
            expected,
        )
    };
    (0..shape.size).map(part).collect()
}

pub(crate) fn gather(shape: &Shape) -> Vec<Part> {
    let mut units = shape.units();
    let part = |rank| {
        let is_root = rank == shape.root;
        let in_place = shape.in_place && is_root;
        // Without an output, scratch memory is in elements of the input.
        let (unit, other) = units();
        let units = if is_root { (unit, other) } else { (unit, unit) };
        let own = block(rank, 0, shape.count(rank));
        let (mut input, mut output, mut expected) = (Memory::new(), Memory::new(), BTreeMap::new());
        if !in_place {
            place(&mut input, 0, full(own.clone()));
        }
        let layout = if is_root {
            blocks(shape, &shape.counts(), units.1)
        } else {
            OwnBlocks::Even(0)
        };
        if is_root {
            for from in 0..shape.size {
                let at = layout.offset(from) * units.1 as isize;
                let data = block(from, 0, shape.count(from));
                place(&mut output, at, empty(&data));
                if in_place && from == rank {
                    place(&mut output, at, full(data.clone()));
                }
                place(&mut expected, at, data);
            }
        }
        let arguments = Arguments {
            root: shape.root,
            input: OwnBlocks::Even(own.len() / if in_place { units.1 } else { units.0 }),
            output: layout,
            in_place: shape.in_place,
            ..Arguments::of(shape.either(Collective::Gather, Collective::Gatherv))
        };
        shape.part(arguments, Process { input, output, units }, expected)
    };
    (0..shape.size).map(part).collect()
}

pub(crate) fn scatter(shape: &Shape) -> Vec<Part> {
    let mut units = shape.units();
    let part = |rank| {
        let is_root = rank == shape.root;
        let in_place = shape.in_place && is_root;
        let units = units();
        let own = block(shape.root, rank, shape.count(rank));
        let (mut input, mut output, mut expected) = (Memory::new(), Memory::new(), BTreeMap::new());
        if !in_place {
            place(&mut output, 0, empty(&own));
            place(&mut expected, 0, own.clone());
        }
        let layout = if is_root {
            blocks(shape, &shape.counts(), units.0)
        } else {
            OwnBlocks::Even(0)
        };
        if is_root {
            for to in 0..shape.size {
                let data = block(rank, to, shape.count(to));
                place(&mut input, layout.offset(to) * units.0 as isize, full(data));
            }
        }
        let arguments = Arguments {
            root: shape.root,
            input: layout,
            output: OwnBlocks::Even(own.len() / units.1),
            in_place: shape.in_place,
            ..Arguments::of(shape.either(Collective::Scatter, Collective::Scatterv))
        };
        shape.part(arguments, Process { input, output, units }, expected)
    };
    (0..shape.size).map(part).collect()
}

pub(crate) fn allgather(shape: &Shape) -> Vec<Part> {
    let mut units = shape.units();
    let part = |rank| {
        let units = units();
        let own = block(rank, 0, shape.count(rank));
        let (mut input, mut output, mut expected) = (Memory::new(), Memory::new(), BTreeMap::new());
        let layout = blocks(shape, &shape.counts(), units.1);
        if !shape.in_place {
            place(&mut input, 0, full(own.clone()));
        }
        for from in 0..shape.size {
            let at = layout.offset(from) * units.1 as isize;
            let data = block(from, 0, shape.count(from));
            place(&mut output, at, empty(&data));
            if shape.in_place && from == rank {
                place(&mut output, at, full(data.clone()));
            }
            place(&mut expected, at, data);
        }
        let arguments = Arguments {
            input: OwnBlocks::Even(own.len() / units.0),
            output: layout,
            in_place: shape.in_place,
            ..Arguments::of(shape.either(Collective::Allgather, Collective::Allgatherv))
        };
        shape.part(arguments, Process { input, output, units }, expected)
    };
    (0..shape.size).map(part).collect()
}

pub(crate) fn alltoall(shape: &Shape) -> Vec<Part> {
    let mut units = shape.units();
    let (size, in_place) = (shape.size, shape.in_place);
    let count = |from: usize, to: usize| match (shape.even, in_place) {
        (true, _) => shape.counts[0],
        // In place both directions are as long.
        (false, true) => shape.counts[(from + to) % size],
        (false, false) => shape.counts[(from + 2 * to) % size],
    };
    let part = |rank| {
        let units = units();
        let (mut input, mut output, mut expected) = (Memory::new(), Memory::new(), BTreeMap::new());
        let sent: Vec<usize> = (0..size).map(|to| count(rank, to)).collect();
        let got: Vec<usize> = (0..size).map(|from| count(from, rank)).collect();
        let (sends, receives) = (blocks(shape, &sent, units.0), blocks(shape, &got, units.1));
        for peer in 0..size {
            let at = receives.offset(peer) * units.1 as isize;
            let data = block(peer, rank, got[peer]);
            place(&mut output, at, empty(&data));
            place(&mut expected, at, data);
            let data = full(block(rank, peer, sent[peer]));
            if in_place {
                place(&mut output, at, data);
            } else {
                place(&mut input, sends.offset(peer) * units.0 as isize, data);
            }
        }
        let arguments = Arguments {
            input: sends,
            output: receives,
            in_place,
            ..Arguments::of(shape.either(Collective::Alltoall, Collective::Alltoallv))
        };
        shape.part(arguments, Process { input, output, units }, expected)
    };
    (0..size).map(part).collect()
}

/// A rank's operand: in the input or, in place, in the output.
fn operand(rank: usize, count: usize, in_place: bool, has_output: bool) -> (Memory, Memory) {
    let (mut input, mut output) = (Memory::new(), Memory::new());
    let data = vector([rank].into_iter(), 0..count);
    if has_output {
        place(&mut output, 0, empty(&data));
    }
    place(if in_place { &mut output } else { &mut input }, 0, full(data));
    (input, output)
}

pub(crate) fn reduce(shape: &Shape) -> Vec<Part> {
    let count = shape.counts[0];
    let part = |rank| {
        let is_root = rank == shape.root;
        let (input, output) = operand(rank, count, shape.in_place && is_root, is_root);
        let mut expected = BTreeMap::new();
        if is_root {
            place(&mut expected, 0, vector(0..shape.size, 0..count));
        }
        let arguments = Arguments {
            root: shape.root,
            ..shape.reduction(Collective::Reduce, OwnBlocks::Even(count))
        };
        shape.part(
            arguments,
            Process {
                input,
                output,
                units: (1, 1),
            },
            expected,
        )
    };
    (0..shape.size).map(part).collect()
}

pub(crate) fn allreduce(shape: &Shape) -> Vec<Part> {
    let count = shape.counts[0];
    let part = |rank| {
        let (input, output) = operand(rank, count, shape.in_place, true);
        let mut expected = BTreeMap::new();
        place(&mut expected, 0, vector(0..shape.size, 0..count));
        let arguments = shape.reduction(Collective::Allreduce, OwnBlocks::Even(count));
        shape.part(
            arguments,
            Process {
                input,
                output,
                units: (1, 1),
            },
            expected,
        )
    };
    (0..shape.size).map(part).collect()
}

pub(crate) fn reduce_scatter(shape: &Shape) -> Vec<Part> {
    let counts = shape.counts();
    let total = counts.iter().sum();
    let part = |rank: usize| {
        let first: usize = counts[..rank].iter().sum();
        let own = vector(0..shape.size, first..first + counts[rank]);
        let (input, mut output) = operand(rank, total, shape.in_place, false);
        if !shape.in_place {
            place(&mut output, 0, empty(&own));
        }
        let mut expected = BTreeMap::new();
        place(&mut expected, 0, own);
        let collective = shape.either(Collective::ReduceScatterBlock, Collective::ReduceScatter);
        let arguments = shape.reduction(collective, OwnBlocks::new(&counts, shape.even));
        let part = shape.part(
            arguments,
            Process {
                input,
                output,
                units: (1, 1),
            },
            expected,
        );
        Part {
            careless: shape.in_place,
            ..part
        }
    };
    (0..shape.size).map(part).collect()
}

pub(crate) fn scan(shape: &Shape, exclusive: bool) -> Vec<Part> {
    let count = shape.counts[0];
    let part = |rank| {
        let (input, output) = operand(rank, count, shape.in_place, true);
        let end = if exclusive { rank } else { rank + 1 };
        let mut expected = BTreeMap::new();
        if end > 0 {
            place(&mut expected, 0, vector(0..end, 0..count));
        }
        let collective = if exclusive {
            Collective::Exscan
        } else {
            Collective::Scan
        };
        let arguments = shape.reduction(collective, OwnBlocks::Even(count));
        shape.part(
            arguments,
            Process {
                input,
                output,
                units: (1, 1),
            },
            expected,
        )
    };
    (0..shape.size).map(part).collect()
}

/// Edges between ranks, some of them several times, some to the own rank, some to nobody.
struct Graph {
    sources: Vec<Vec<Option<usize>>>,
    destinations: Vec<Vec<Option<usize>>>,
    /// For each source of a rank, which one of its destinations this is.
    edges: Vec<Vec<usize>>,
}

impl Graph {
    fn new(shape: &Shape) -> Self {
        let mut prng = Prng::new(shape.seed);
        let none = vec![Vec::new(); shape.size];
        let mut graph = Self {
            sources: none.clone(),
            destinations: none,
            edges: vec![Vec::new(); shape.size],
        };
        for _ in 0..3 * shape.size {
            let mut rank = || prng.below(shape.size as u64) as usize;
            let (from, to) = (rank(), rank());
            if prng.chance(0.1) {
                graph.sources[to].push(None);
                graph.edges[to].push(0);
                graph.destinations[from].push(None);
            } else {
                graph.edges[to].push(graph.destinations[from].len());
                graph.sources[to].push(Some(from));
                graph.destinations[from].push(Some(to));
            }
        }
        graph
    }
}

/// Neighbor_allgather if `same`: all destinations get the same block. Else neighbor_alltoall.
pub(crate) fn neighbours(shape: &Shape, same: bool) -> Vec<Part> {
    let graph = Graph::new(shape);
    let mut units = shape.units();
    // Number of the block that a rank sends to its destination `index`, and its length.
    let sent = |rank: usize, index: usize| {
        let number = if same { 0 } else { index };
        (
            number,
            if shape.even {
                shape.counts[0]
            } else {
                shape.counts[(rank + number) % shape.size]
            },
        )
    };
    let part = |rank: usize| {
        let units = units();
        let (sources, destinations) = (graph.sources[rank].clone(), graph.destinations[rank].clone());
        let (mut input, mut output, mut expected) = (Memory::new(), Memory::new(), BTreeMap::new());
        let arriving: Vec<(usize, usize)> = sources
            .iter()
            .zip(&graph.edges[rank])
            .map(|(from, index)| from.map_or((0, shape.counts[0]), |from| sent(from, *index)))
            .collect();
        let receives = blocks(
            shape,
            &arriving.iter().map(|block| block.1).collect::<Vec<_>>(),
            units.1,
        );
        for (index, from) in sources.iter().enumerate() {
            let at = receives.offset(index) * units.1 as isize;
            let (number, count) = arriving[index];
            place(&mut output, at, empty(&block(0, 0, count)));
            if let Some(from) = *from {
                place(&mut expected, at, block(from, number, count));
            }
        }
        let counts: Vec<usize> = (0..destinations.len().max(1))
            .map(|index| sent(rank, index).1)
            .collect();
        let sends = blocks(shape, &counts[..destinations.len()], units.0);
        let own = counts[0] * BLOCK / units.0;
        for (index, count) in counts.iter().enumerate() {
            let at = if same || index >= destinations.len() {
                0
            } else {
                sends.offset(index) * units.0 as isize
            };
            let number = if same { 0 } else { index };
            place(&mut input, at, full(block(rank, number, *count)));
        }
        let (collective, sent) = if same {
            (Collective::NeighborAllgather, OwnBlocks::Even(own))
        } else {
            (Collective::NeighborAlltoall, sends)
        };
        let arguments = Arguments {
            sources,
            destinations,
            input: sent,
            output: receives,
            ..Arguments::of(collective)
        };
        shape.part(arguments, Process { input, output, units }, expected)
    };
    (0..shape.size).map(part).collect()
}

/// Alltoallw: element `i` of a buffer is all that belongs to peer `i`, here always the same number of atoms, and
/// sometimes nothing.
pub(crate) fn alltoallw(shape: &Shape) -> Vec<Part> {
    let size = shape.size;
    let present = |from: usize, to: usize| usize::from(shape.in_place || shape.counts[(from * 3 + to) % size] > 0);
    let part = |rank| {
        let (mut input, mut output, mut expected) = (Memory::new(), Memory::new(), BTreeMap::new());
        let places: Vec<isize> = (0..size as isize).collect();
        let sends: Vec<usize> = (0..size).map(|to| present(rank, to)).collect();
        let receives: Vec<usize> = (0..size).map(|from| present(from, rank)).collect();
        for peer in 0..size {
            let at = (peer * BLOCK) as isize;
            let data = block(peer, rank, receives[peer]);
            place(&mut output, at, empty(&data));
            place(&mut expected, at, data);
            let memory = if shape.in_place { &mut output } else { &mut input };
            place(memory, at, full(block(rank, peer, sends[peer])));
        }
        let arguments = Arguments {
            input: OwnBlocks::Uneven(sends, places.clone()),
            output: OwnBlocks::Uneven(receives, places),
            in_place: shape.in_place,
            ..Arguments::of(Collective::Alltoallv)
        };
        shape.part(
            arguments,
            Process {
                input,
                output,
                units: (BLOCK, BLOCK),
            },
            expected,
        )
    };
    (0..size).map(part).collect()
}

//! From a call to the message pattern that implements it.

use alloc::vec::Vec;

use super::{
    algorithm::Algorithm,
    blocks::{Blocks, Layout, displacements},
    bruck::{self, Way},
    call::{Call, ScheduleError},
    collective::Collective,
    exchange,
    fold::{self, Reduction},
    member::Member,
    ring,
    scan::Scan,
    schedule::{Buffer, Builder, Schedule},
    tree::{Shape, Tree},
};

impl Call<'_> {
    /// The schedule of `rank` of `size` ranks. All ranks must use the same algorithm.
    ///
    /// # Errors
    ///
    /// An argument is out of range, or the algorithm does not suit the call: [`Algorithm::suits`].
    pub fn schedule(&self, rank: usize, size: usize, algorithm: Algorithm) -> Result<Schedule, ScheduleError> {
        self.check(rank, size, algorithm)?;
        Ok(build(self, Member { rank, size }, algorithm))
    }
}

/// The schedule of `me`. Arguments and algorithm have been checked.
fn build(call: &Call<'_>, me: Member, algorithm: Algorithm) -> Schedule {
    let b = &mut Builder::default();
    let root = call.root().unwrap_or(0);
    // Of a collective with a root, only the root's word counts.
    let in_place = call.in_place && call.has_blocks(me.rank);
    let (input, output) = (
        Layout::new(Buffer::INPUT, call.input),
        Layout::new(Buffer::OUTPUT, call.output),
    );
    let (own_input, own_output) = (input.single(), output.single());
    let (count, commutative) = (call.output.single(), call.commutative());
    let reduction = Reduction { commutative, in_place };
    match call.collective() {
        Collective::Barrier => barrier(b, me, algorithm),
        Collective::Bcast => bcast(b, me, root, count, algorithm),
        Collective::Gather | Collective::Gatherv => {
            let own = if in_place { output.block(root) } else { own_input };
            tree(me, root, algorithm).gather(b, own, output);
        }
        Collective::Scatter | Collective::Scatterv => {
            let own = if in_place { input.block(root) } else { own_output };
            tree(me, root, algorithm).scatter(b, input, own);
        }
        Collective::Allgather | Collective::Allgatherv => {
            if !in_place {
                b.copy(own_input, output.block(me.rank));
            }
            allgather(b, me, output, algorithm);
        }
        Collective::Alltoall | Collective::Alltoallv => {
            alltoall(b, me, (!in_place).then_some(input), output, algorithm)
        }
        Collective::Reduce => reduce(b, me, root, count, reduction, algorithm),
        Collective::Allreduce => allreduce(b, me, count, reduction, algorithm),
        Collective::ReduceScatter | Collective::ReduceScatterBlock => {
            let displacements = &call.output.displacements();
            reduce_scatter(b, me, call.output.packed(displacements), reduction, algorithm);
        }
        collective @ (Collective::Scan | Collective::Exscan) => {
            let scan = Scan {
                count,
                exclusive: collective == Collective::Exscan,
                in_place,
            };
            match algorithm {
                Algorithm::RecursiveDoubling => scan.doubling(b, me),
                _ => scan.chain(b, me, segments(algorithm)),
            }
        }
        Collective::NeighborAllgather => {
            let sent = |_| own_input;
            exchange::neighbours(b, me, (call.sources, output), (call.destinations, sent), call.crossed);
        }
        Collective::NeighborAlltoall => {
            let sent = |index| input.block(index);
            exchange::neighbours(b, me, (call.sources, output), (call.destinations, sent), call.crossed);
        }
    }
    core::mem::take(b).finish()
}

fn tree(me: Member, root: usize, algorithm: Algorithm) -> Tree {
    let shape = match algorithm {
        Algorithm::Knomial { radix } => Shape::Knomial(radix),
        Algorithm::Chain { .. } | Algorithm::Ring => Shape::Chain,
        Algorithm::ScatterAllgather => Shape::Knomial(2),
        _ => Shape::STAR,
    };
    Tree::new(me, root, shape)
}

fn segments(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::Chain { segments } => segments,
        _ => 1,
    }
}

fn barrier(b: &mut Builder, me: Member, algorithm: Algorithm) {
    match algorithm {
        Algorithm::RecursiveDoubling => fold::barrier(b, me),
        Algorithm::Dissemination { radix } => bruck::barrier(b, me, radix),
        _ => tree(me, 0, algorithm).barrier(b),
    }
}

fn bcast(b: &mut Builder, me: Member, root: usize, count: usize, algorithm: Algorithm) {
    let pieces = Blocks::Pieces {
        total: count,
        parts: me.size,
    };
    let layout = Layout::new(Buffer::OUTPUT, pieces);
    match algorithm {
        Algorithm::Ring => {
            tree(me, root, Algorithm::BINOMIAL).scatter_within(b, layout);
            ring::allgather(b, me, layout);
        }
        Algorithm::ScatterAllgather => {
            tree(me, root, Algorithm::BINOMIAL).scatter_within(b, layout);
            bruck::allgather(b, me, layout, 2);
        }
        _ => tree(me, root, algorithm).bcast(b, count, segments(algorithm)),
    }
}

/// The rank's own block is in its place already.
fn allgather(b: &mut Builder, me: Member, layout: Layout<'_>, algorithm: Algorithm) {
    match algorithm {
        Algorithm::Ring => ring::allgather(b, me, layout),
        Algorithm::RecursiveDoubling => fold::allgather(b, me, layout),
        Algorithm::Bruck { radix } => bruck::allgather(b, me, layout, radix),
        Algorithm::NeighbourExchange => ring::neighbour_exchange(b, me, layout),
        _ => exchange::allgather(b, me, layout),
    }
}

fn alltoall(b: &mut Builder, me: Member, input: Option<Layout<'_>>, output: Layout<'_>, algorithm: Algorithm) {
    // In place, the blocks to be sent are first copied out of the way.
    let (mut counts, mut offsets) = (Vec::new(), Vec::new());
    let input = match input {
        Some(input) => input,
        None => {
            counts.extend((0..me.size).map(|rank| output.blocks.count(rank)));
            offsets.extend(displacements(&counts));
            let blocks = Blocks::Uneven {
                counts: &counts,
                displacements: &offsets,
            };
            let copy = Layout::new(b.scratch(counts.iter().sum()), blocks);
            for rank in (0..me.size).filter(|rank| *rank != me.rank) {
                b.copy(output.block(rank), copy.block(rank));
            }
            copy
        }
    };
    if input.buffer == Buffer::INPUT {
        b.copy(input.block(me.rank), output.block(me.rank));
    }
    match algorithm {
        Algorithm::Bruck { radix } => bruck::alltoall(b, me, input, output, radix, Way::Ring),
        Algorithm::RecursiveDoubling => bruck::alltoall(b, me, input, output, 2, Way::Hypercube),
        _ => exchange::alltoall(b, me, input, output, algorithm == Algorithm::Pairwise),
    }
}

fn reduce(b: &mut Builder, me: Member, root: usize, count: usize, reduction: Reduction, algorithm: Algorithm) {
    if algorithm == Algorithm::Rabenseifner {
        return reduction.reduce_by_halving(b, me, root, count);
    }
    let segments = segments(algorithm);
    let source = Buffer::source(reduction.in_place);
    if reduction.commutative || root == 0 {
        tree(me, root, algorithm).reduce(b, count, segments, source, Buffer::OUTPUT);
        return;
    }
    // Operands are in order only from rank 0 on. Rank 0 passes the result on when all of it is there, and not before:
    // the root is busy until then.
    let result = if me.rank == 0 { b.scratch(count) } else { Buffer::OUTPUT };
    tree(me, 0, algorithm).reduce(b, count, segments, source, result);
    b.end_round();
    if me.rank == 0 {
        b.send(root, [result.span(0..count)]);
    } else if me.rank == root {
        b.receive(0, [Buffer::OUTPUT.span(0..count)]);
    }
}

fn allreduce(b: &mut Builder, me: Member, count: usize, reduction: Reduction, algorithm: Algorithm) {
    match algorithm {
        Algorithm::RecursiveDoubling => reduction.allreduce_by_doubling(b, me, count),
        Algorithm::Rabenseifner => reduction.allreduce_by_halving(b, me, count),
        Algorithm::Ring => {
            let blocks = Blocks::Pieces {
                total: count,
                parts: me.size,
            };
            let layout = Layout::new(Buffer::OUTPUT, blocks);
            ring::reduce_scatter(b, me, blocks, reduction.in_place, layout.block(me.rank));
            ring::allgather(b, me, layout);
        }
        _ => {
            reduce(b, me, 0, count, reduction, algorithm);
            bcast(b, me, 0, count, algorithm);
        }
    }
}

fn reduce_scatter(b: &mut Builder, me: Member, blocks: Blocks<'_>, reduction: Reduction, algorithm: Algorithm) {
    let own = Buffer::OUTPUT.span(0..blocks.count(me.rank));
    match algorithm {
        Algorithm::RecursiveHalving => reduction.reduce_scatter(b, me, blocks),
        Algorithm::Ring => ring::reduce_scatter(b, me, blocks, reduction.in_place, own),
        _ => {
            let count = blocks.elements(0..me.size).end;
            let vector = b.scratch(count);
            let tree = tree(me, 0, algorithm);
            tree.reduce(b, count, 1, Buffer::source(reduction.in_place), vector);
            b.end_round();
            let layout = Layout::new(vector, blocks);
            tree.scatter_within(b, layout);
            b.copy(layout.block(me.rank), own);
        }
    }
}

//! From a call to the message pattern that implements it.

use alloc::vec::Vec;

use super::{
    algorithm::Algorithm,
    blocks::{Blocks, Layout, displacements},
    bruck::{self, Way},
    call::{Call, Counts, ScheduleError},
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
    match *call {
        Call::Barrier => barrier(b, me, algorithm),
        Call::Bcast { root, count } => bcast(b, me, root, count, algorithm),
        Call::Gather {
            root,
            input,
            output,
            in_place,
        } => {
            let output = Layout::new(Buffer::OUTPUT, output);
            let stays = in_place && me.rank == root;
            let own = if stays {
                output.block(root)
            } else {
                Buffer::INPUT.span(0..input)
            };
            tree(me, root, algorithm).gather(b, own, output);
        }
        Call::Scatter {
            root,
            input,
            output,
            in_place,
        } => {
            let input = Layout::new(Buffer::INPUT, input);
            let stays = in_place && me.rank == root;
            let own = if stays {
                input.block(root)
            } else {
                Buffer::OUTPUT.span(0..output)
            };
            tree(me, root, algorithm).scatter(b, input, own);
        }
        Call::Allgather {
            input,
            output,
            in_place,
        } => {
            let layout = Layout::new(Buffer::OUTPUT, output);
            if !in_place {
                b.copy(Buffer::INPUT.span(0..input), layout.block(me.rank));
            }
            allgather(b, me, layout, algorithm);
        }
        Call::Alltoall {
            input,
            output,
            in_place,
        } => alltoall(b, me, (!in_place).then_some(input), output, algorithm),
        Call::Reduce {
            root,
            count,
            commutative,
            in_place,
        } => {
            let in_place = in_place && me.rank == root;
            reduce(b, me, root, count, Reduction { commutative, in_place }, algorithm);
        }
        Call::Allreduce {
            count,
            commutative,
            in_place,
        } => allreduce(b, me, count, Reduction { commutative, in_place }, algorithm),
        Call::ReduceScatter {
            counts,
            commutative,
            in_place,
        } => {
            let reduction = Reduction { commutative, in_place };
            match counts {
                Counts::Even(count) => reduce_scatter(b, me, Blocks::Even { count }, reduction, algorithm),
                Counts::Each(counts) => {
                    let displacements = &displacements(counts);
                    reduce_scatter(b, me, Blocks::Uneven { counts, displacements }, reduction, algorithm);
                }
            }
        }
        Call::Scan {
            count,
            exclusive,
            in_place,
        } => {
            let scan = Scan {
                count,
                exclusive,
                in_place,
            };
            match algorithm {
                Algorithm::RecursiveDoubling => scan.doubling(b, me),
                _ => scan.chain(b, me, segments(algorithm)),
            }
        }
        Call::NeighborAllgather {
            sources,
            destinations,
            input,
            output,
        } => {
            let output = Layout::new(Buffer::OUTPUT, output);
            let own = Buffer::INPUT.span(0..input);
            exchange::neighbours(b, me, (sources, output), (destinations, |_| own));
        }
        Call::NeighborAlltoall {
            sources,
            destinations,
            input,
            output,
        } => {
            let output = Layout::new(Buffer::OUTPUT, output);
            let input = Layout::new(Buffer::INPUT, input);
            exchange::neighbours(b, me, (sources, output), (destinations, |index| input.block(index)));
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

fn alltoall(b: &mut Builder, me: Member, input: Option<Blocks<'_>>, output: Blocks<'_>, algorithm: Algorithm) {
    let output = Layout::new(Buffer::OUTPUT, output);
    // In place, the blocks to be sent are first copied out of the way.
    let (mut counts, mut offsets) = (Vec::new(), Vec::new());
    let input = match input {
        Some(blocks) => Layout::new(Buffer::INPUT, blocks),
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

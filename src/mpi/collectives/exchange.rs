//! Every message goes straight from its origin to its destination.

use alloc::vec::Vec;

use super::{
    blocks::Layout,
    member::Member,
    schedule::{Builder, Span},
};

/// The rank's own block to all others, at once.
pub(super) fn allgather(b: &mut Builder, me: Member, layout: Layout<'_>) {
    for distance in 1..me.size {
        b.receive(me.before(distance), [layout.block(me.before(distance))]);
    }
    for distance in 1..me.size {
        b.send(me.after(distance), [layout.block(me.rank)]);
    }
}

/// A different block to each rank: all at once, or one after the other (`pairwise`). The own block is not copied.
pub(super) fn alltoall(b: &mut Builder, me: Member, input: Layout<'_>, output: Layout<'_>, pairwise: bool) {
    for distance in 1..me.size {
        let (from, to) = (me.before(distance), me.after(distance));
        b.receive(from, [output.block(from)]);
        b.send(to, [input.block(to)]);
        if pairwise {
            b.end_round();
        }
    }
}

/// To and from neighbours, all at once. Messages to the same neighbour keep the order of the lists, also those to the
/// own rank, which are copied; if `crossed`, with the two sources of each pair swapped. `None` stands for no neighbour
/// (`MPI_PROC_NULL`).
pub(super) fn neighbours(
    b: &mut Builder,
    me: Member,
    (sources, output): (&[Option<usize>], Layout<'_>),
    (destinations, input): (&[Option<usize>], impl Fn(usize) -> Span),
    crossed: bool,
) {
    let mut to_self = Vec::new();
    for (index, to) in destinations.iter().enumerate() {
        if *to == Some(me.rank) {
            to_self.push(input(index));
        }
    }
    let mut to_self = to_self.into_iter();
    for position in 0..sources.len() {
        let index = position ^ usize::from(crossed && position | 1 < sources.len());
        let Some(from) = sources[index] else { continue };
        if from != me.rank {
            b.receive(from, [output.block(index)]);
        } else if let Some(block) = to_self.next() {
            b.copy(block, output.block(index));
        }
    }
    for (index, to) in destinations.iter().enumerate() {
        if let Some(to) = to.filter(|to| *to != me.rank) {
            b.send(to, [input(index)]);
        }
    }
}

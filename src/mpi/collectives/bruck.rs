//! Bruck's algorithms: logarithmically many rounds for any number of ranks. In round `i` each rank sends at distances
//! that are multiples of `radix`^`i`.

use core::ops::Range;

use super::{
    blocks::Layout,
    member::Member,
    schedule::{Builder, Span},
};

/// 1, `radix`, `radix`², … below `size`.
fn powers(radix: usize, size: usize) -> impl Iterator<Item = usize> {
    core::iter::successors(Some(1_usize), move |power| power.checked_mul(radix)).take_while(move |power| *power < size)
}

/// The multiples of `power` below `radix` times that, and below `size`.
fn multiples(power: usize, radix: usize, size: usize) -> impl Iterator<Item = usize> {
    (power..size).step_by(power).take(radix - 1)
}

/// Dissemination (Hensgen, Finkel, Manber 1988): with each round, a rank has heard of `radix` times as many ranks
/// before it.
pub(super) fn barrier(b: &mut Builder, me: Member, radix: usize) {
    for power in powers(radix, me.size) {
        for distance in multiples(power, radix, me.size) {
            b.await_signal(me.before(distance));
            b.signal(me.after(distance));
        }
        b.end_round();
    }
}

/// Allgather of blocks that lie in their places; with each round a rank has `radix` times as many blocks, from its own
/// on.
pub(super) fn allgather(b: &mut Builder, me: Member, layout: Layout<'_>, radix: usize) {
    for power in powers(radix, me.size) {
        for distance in multiples(power, radix, me.size) {
            let len = power.min(me.size - distance);
            b.receive(me.after(distance), layout.cyclic(me.rank + distance, len, me.size));
            b.send(me.before(distance), layout.cyclic(me.rank, len, me.size));
        }
        b.end_round();
    }
}

/// Which ranks exchange messages in an all-to-all that forwards blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// With ranks at a distance on a ring.
    Ring,
    /// With ranks whose numbers differ in one bit: recursive doubling, for powers of two and radix 2.
    Hypercube,
}

impl Way {
    fn forward(self, me: Member, distance: usize) -> usize {
        match self {
            Self::Ring => me.after(distance),
            Self::Hypercube => me.rank ^ distance,
        }
    }

    fn back(self, me: Member, distance: usize) -> usize {
        match self {
            Self::Ring => me.before(distance),
            Self::Hypercube => me.rank ^ distance,
        }
    }

    /// The distances of all blocks that move on by `step`: those that have the same digit at the position of `power`.
    /// Sender and receiver have them in the same order, which is also the order of their places in memory.
    fn runs(self, me: Member, (power, radix): (usize, usize), step: usize) -> impl Iterator<Item = Range<usize>> {
        let every = power.saturating_mul(radix);
        let turn = match self {
            Self::Ring => 0,
            Self::Hypercube => me.rank / every,
        };
        (0..(me.size - step).div_ceil(every)).map(move |index| {
            let first = step + (index ^ turn) * every;
            first..(first + power).min(me.size)
        })
    }

    /// The places of such a run.
    fn places(self, me: Member, output: Layout<'_>, run: Range<usize>) -> impl Iterator<Item = Span> {
        let first = match self {
            Self::Ring => me.before(run.end - 1),
            Self::Hypercube => (me.rank ^ run.start) & !(run.len() - 1),
        };
        output.cyclic(first, run.len(), me.size)
    }
}

/// A block travels the distance to its rank digit by digit, together with all others that have this digit to go.
/// Blocks of equal size only. The own block is not copied.
///
/// All blocks with a distance to go share a place in the output: that of the rank from which the last one of them
/// comes. In each round in which they move on, what is there is copied into a message, and the next one received. So
/// the blocks of a message lie in runs at equal distances: a schedule needs a few spans for each of its rounds.
pub(super) fn alltoall(b: &mut Builder, me: Member, input: Layout<'_>, output: Layout<'_>, radix: usize, way: Way) {
    let count = output.blocks.count(0);
    let runs = |power, step| way.runs(me, (power, radix), step);
    let all = |power| multiples(power, radix, me.size).flat_map(move |step| runs(power, step));
    // The blocks that move in the first round come straight from the input.
    let later = powers(radix, me.size).skip(1);
    let most = later.map(|power| all(power).map(|run| run.len()).sum::<usize>()).max();
    let messages = b.scratch(most.unwrap_or(0) * count);
    for power in powers(radix, me.size) {
        let is_first = power == 1;
        // Blocks that have not moved yet are copied to their place.
        for distance in all(power).map(|run| run.start).filter(|_| !is_first) {
            let (to, from) = (way.forward(me, distance), way.back(me, distance));
            b.copy(input.block(to), output.block(from));
        }
        let mut at = 0;
        for step in multiples(power, radix, me.size) {
            let (to, from) = (way.forward(me, step), way.back(me, step));
            let places = || runs(power, step).flat_map(|run| way.places(me, output, run));
            let begin = at;
            for part in places().filter(|_| !is_first) {
                b.copy(part, messages.span(at..at + part.count));
                at += part.count;
            }
            b.receive(from, places());
            if is_first {
                b.send(to, runs(power, step).map(|run| input.block(way.forward(me, run.start))));
            } else {
                b.send(to, [messages.span(begin..at)]);
            }
        }
        b.end_round();
    }
}

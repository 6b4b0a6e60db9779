//! Bruck's algorithms: logarithmically many rounds for any number of ranks. In round `i` each rank sends at distances
//! that are multiples of `radix`^`i`.

use alloc::vec::Vec;

use super::{
    blocks::Layout,
    member::Member,
    schedule::{Buffer, Builder, Span},
};

/// 1, `radix`, `radix`², … below `size`.
fn powers(radix: usize, size: usize) -> impl Iterator<Item = usize> {
    core::iter::successors(Some(1_usize), move |power| power.checked_mul(radix)).take_while(move |power| *power < size)
}

/// The multiples of `power` below `radix` times that, and below `size`.
fn multiples(power: usize, radix: usize, size: usize) -> impl Iterator<Item = usize> {
    (power..size).step_by(power).take(radix - 1)
}

/// Dissemination (Hensgen, Finkel, Manber 1988): after each round a rank knows of `radix` times as many ranks before it.
pub(super) fn barrier(b: &mut Builder, me: Member, radix: usize) {
    for power in powers(radix, me.size) {
        for distance in multiples(power, radix, me.size) {
            b.await_signal(me.before(distance));
            b.signal(me.after(distance));
        }
        b.end_round();
    }
}

/// Blocks that lie in their places; after each round a rank has `radix` times as many blocks from its own on.
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

/// Who sends to whom in an exchange of all with all through others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To the ranks after the own one, on a ring.
    Ring,
    /// To ranks whose numbers differ in one bit: recursive doubling, for powers of two and radix 2.
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
}

/// A block travels the distance to its rank digit by digit, together with all others that have this digit to go.
/// Blocks of equal size only. The own block is not copied.
///
/// All blocks with a distance to go share a slot: in each round in which it moves, it is sent from where it is and the
/// next one received elsewhere, by turns in the scratch memory and in the output, so that it ends in the output. There
/// its place is that of the rank from which the last one comes.
pub(super) fn alltoall(b: &mut Builder, me: Member, input: Layout<'_>, output: Layout<'_>, radix: usize, way: Way) {
    let count = output.blocks.count(0);
    let transit = if radix < me.size {
        b.scratch(me.size * count)
    } else {
        Buffer::OUTPUT
    };
    let digits = |mut distance: usize| {
        let mut moves = 0_usize;
        while distance > 0 {
            moves += usize::from(!distance.is_multiple_of(radix));
            distance /= radix;
        }
        moves
    };
    // Where the slot of a distance is after some of its moves.
    let place = |distance: usize, moved: usize| -> Span {
        if moved == 0 {
            input.block(way.forward(me, distance))
        } else if (digits(distance) - moved).is_multiple_of(2) {
            output.block(way.back(me, distance))
        } else {
            transit.span(distance * count..(distance + 1) * count)
        }
    };
    for power in powers(radix, me.size) {
        for step in multiples(power, radix, me.size) {
            // The distances that have the same digit as `step` at the place of `power`.
            let runs = (step..me.size).step_by(power.saturating_mul(radix));
            let slots = runs.flat_map(|run| run..(run + power).min(me.size));
            let moves: Vec<(usize, usize)> = slots.map(|distance| (distance, digits(distance % power))).collect();
            let after = moves.iter().map(|(distance, moved)| place(*distance, moved + 1));
            b.receive(way.back(me, step), after);
            let before = moves.iter().map(|(distance, moved)| place(*distance, *moved));
            b.send(way.forward(me, step), before);
        }
        b.end_round();
    }
}

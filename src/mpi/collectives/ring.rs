//! Blocks that go from neighbour to neighbour on a ring of all ranks.

use super::{
    blocks::{Blocks, Layout},
    member::Member,
    schedule::{Buffer, Builder, Span},
};

/// Each rank's block, from its place in the layout, goes once round.
pub(super) fn allgather(b: &mut Builder, me: Member, layout: Layout<'_>) {
    for distance in 1..me.size {
        b.receive(me.before(1), [layout.block(me.before(distance))]);
        b.send(me.after(1), [layout.block(me.before(distance - 1))]);
        b.end_round();
    }
}

/// Pairs of neighbours pass on the two blocks that they got last, to the neighbour on one side and on the other in
/// turn: half as many rounds as a ring. For an even number of ranks.
pub(super) fn neighbour_exchange(b: &mut Builder, me: Member, layout: Layout<'_>) {
    let is_even = me.rank.is_multiple_of(2);
    let pair = Member {
        rank: me.rank - me.rank % 2,
        ..me
    };
    let mut newest = pair.rank;
    for round in 0..me.size / 2 {
        let forward = is_even == round.is_multiple_of(2);
        let peer = if forward { me.after(1) } else { me.before(1) };
        if round == 0 {
            b.receive(peer, [layout.block(peer)]);
            b.send(peer, [layout.block(me.rank)]);
        } else {
            let distance = round + round % 2;
            let theirs = if forward {
                pair.after(distance)
            } else {
                pair.before(distance)
            };
            b.receive(peer, layout.cyclic(theirs, 2, me.size));
            b.send(peer, layout.cyclic(newest, 2, me.size));
            newest = theirs;
        }
        b.end_round();
    }
}

/// Each block goes once round and is reduced at each rank; the operands must commute. Ends with the own block in
/// `into`.
pub(super) fn reduce_scatter(b: &mut Builder, me: Member, blocks: Blocks<'_>, in_place: bool, into: Span) {
    let own = Layout::new(Buffer::source(in_place), blocks);
    if me.size == 1 {
        b.copy(own.block(0), into);
        return;
    }
    let largest = (0..me.size).map(|rank| blocks.count(rank)).max().unwrap_or(0);
    let slots = [b.scratch(largest), b.scratch(largest)];
    let mut held = own.block(me.before(1));
    let mut arrived = None;
    for round in 0..me.size {
        let last = round + 2 == me.size;
        let arriving = (round + 1 < me.size).then(|| {
            let number = me.before(round + 2);
            // In place, the operands are in the output, which must not be written before all have been used.
            let place = if last && !in_place {
                into
            } else {
                slots[round % 2].span(0..blocks.count(number))
            };
            b.receive(me.before(1), [place]);
            (number, place)
        });
        if let Some((number, place)) = arrived {
            b.reduce(own.block(number), place);
            held = place;
        }
        if arriving.is_some() {
            b.send(me.after(1), [held]);
        }
        b.end_round();
        arrived = arriving;
    }
    b.copy(held, into);
}

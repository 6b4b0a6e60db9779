//! Exchanges between ranks whose numbers differ in one bit: recursive doubling and halving, for any number of ranks.

use alloc::vec::Vec;
use core::ops::Range;

use super::{
    accumulator::{Accumulator, Side, whole},
    blocks::{Blocks, Layout},
    member::Member,
    schedule::{Buffer, Builder},
};

/// Ranks folded to a power of two of groups: as many pairs of neighbours as needed, at the beginning, the others alone.
/// Groups are ranges of ranks in ascending order, so the order of operands is kept.
#[derive(Clone, Copy, Debug)]
struct Fold {
    /// The number of groups is 2 to this power.
    levels: u32,
    /// How many groups are pairs.
    pairs: usize,
    /// The rank that acts for its group, wherever it is in it; by default the higher one of a pair.
    keep: Option<usize>,
}

impl Fold {
    fn new(size: usize, keep: Option<usize>) -> Self {
        let levels = size.ilog2();
        let pairs = size - (1 << levels);
        let keep = keep.filter(|rank| *rank < 2 * pairs);
        Self { levels, pairs, keep }
    }

    fn group(&self, rank: usize) -> usize {
        if rank < 2 * self.pairs {
            rank / 2
        } else {
            rank - self.pairs
        }
    }

    /// The rank that acts for a group.
    fn leader(&self, group: usize) -> usize {
        match self.keep {
            _ if group >= self.pairs => group + self.pairs,
            Some(keep) if keep / 2 == group => keep,
            _ => 2 * group + 1,
        }
    }

    /// The ranks of neighbouring groups.
    fn members(&self, groups: Range<usize>) -> Range<usize> {
        let first = |group: usize| group + group.min(self.pairs);
        first(groups.start)..first(groups.end)
    }

    /// The other rank of a pair, and which one acts for both.
    fn mate(&self, rank: usize) -> Option<Mate> {
        (rank < 2 * self.pairs).then(|| Mate {
            rank: rank ^ 1,
            leads: self.leader(rank / 2) != rank,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Mate {
    rank: usize,
    leads: bool,
}

/// The order in which groups meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meeting {
    /// Neighbours first, then at twice the distance: the order of operands is kept. Group `g` ends with share number
    /// `g` with its bits reversed.
    NearFirst,
    /// The farthest first: operands must commute. Group `g` ends with share number `g`.
    FarFirst,
}

impl Meeting {
    /// From group to number of share, and back.
    fn map(self, number: usize, levels: u32) -> usize {
        match self {
            Self::FarFirst => number,
            Self::NearFirst if levels == 0 => number,
            Self::NearFirst => number.reverse_bits() >> (usize::BITS - levels),
        }
    }
}

/// All shares of a vector, and which group gets which.
#[derive(Clone, Copy, Debug)]
struct Shares<'a> {
    fold: Fold,
    meeting: Meeting,
    blocks: Blocks<'a>,
    /// Whether `blocks` are those of the ranks; otherwise they are the shares themselves.
    of_ranks: bool,
}

impl Shares<'_> {
    /// Pieces of equal size, one for each group.
    fn pieces(fold: Fold, total: usize) -> Self {
        let parts = 1 << fold.levels;
        Self {
            fold,
            meeting: Meeting::NearFirst,
            blocks: Blocks::Pieces { total, parts },
            of_ranks: false,
        }
    }

    /// From group to number of share, and back.
    fn map(&self, number: usize) -> usize {
        self.meeting.map(number, self.fold.levels)
    }

    /// The rank that ends with a share.
    fn leader(&self, share: usize) -> usize {
        self.fold.leader(self.map(share))
    }

    /// The elements of the 2^`level` shares among which `share` is.
    fn elements(&self, share: usize, level: u32) -> Vec<Range<usize>> {
        let shares = aligned(share, level);
        match self.meeting {
            _ if !self.of_ranks => whole(self.blocks.elements(shares)),
            Meeting::FarFirst => whole(self.blocks.elements(self.fold.members(shares))),
            Meeting::NearFirst => {
                let groups = shares.map(|share| self.map(share));
                groups
                    .map(|group| self.blocks.elements(self.fold.members(group..group + 1)))
                    .collect()
            }
        }
    }

    /// The elements that a rank may receive: all if it acts for a mate, else half of them.
    fn window(&self, rank: usize) -> Range<usize> {
        let level = match self.fold.mate(rank) {
            Some(_) => self.fold.levels,
            None => self.fold.levels.saturating_sub(1),
        };
        let all = self.elements(self.map(self.fold.group(rank)), level);
        let first = all.iter().map(|range| range.start).min();
        let end = all.iter().map(|range| range.end).max();
        first.unwrap_or(0)..end.unwrap_or(0)
    }

    /// Reduce-scatter by recursive halving: in each round half of what a group still has goes to a partner, and the
    /// partner's other half comes back. Ends with `share`.
    fn halve(&self, b: &mut Builder, share: usize, accumulator: &mut Accumulator, commutative: bool) {
        let rank = self.leader(share);
        for level in (0..self.fold.levels).rev() {
            let other = share ^ (1 << level);
            let peer = self.leader(other);
            let incoming = (peer, self.elements(share, level), Side::of(peer, rank, commutative));
            accumulator.exchange(b, incoming, (peer, self.elements(other, level)));
        }
    }

    /// The reverse, without reducing: shares come together in `buffer`, at all groups or only where share `root` is.
    fn double(&self, b: &mut Builder, share: usize, buffer: Buffer, root: Option<usize>) {
        for level in 0..self.fold.levels {
            let peer = self.leader(share ^ (1 << level));
            let upwards = root.map(|root| (share ^ root) >> level & 1 == 1);
            let spans = |share| self.elements(share, level).into_iter().map(|range| buffer.span(range));
            if upwards != Some(true) {
                b.receive(peer, spans(share ^ (1 << level)));
            }
            if upwards != Some(false) {
                b.send(peer, spans(share));
            }
            b.end_round();
            if upwards == Some(true) {
                return;
            }
        }
    }
}

/// The 2^`level` numbers from a multiple of that on, among them `number`.
fn aligned(number: usize, level: u32) -> Range<usize> {
    let first = number >> level << level;
    first..first + (1 << level)
}

/// Signals in pairs, at twice the distance in each round.
pub(super) fn barrier(b: &mut Builder, me: Member) {
    let fold = Fold::new(me.size, None);
    let mate = fold.mate(me.rank);
    match mate {
        Some(mate) if mate.leads => {
            b.signal(mate.rank);
            b.await_signal(mate.rank);
            return;
        }
        Some(mate) => b.await_signal(mate.rank),
        None => {}
    }
    b.end_round();
    let group = fold.group(me.rank);
    for level in 0..fold.levels {
        let peer = fold.leader(group ^ (1 << level));
        b.await_signal(peer);
        b.signal(peer);
        b.end_round();
    }
    if let Some(mate) = mate {
        b.signal(mate.rank);
    }
}

/// Blocks that lie in their places come together: twice as many in each round.
pub(super) fn allgather(b: &mut Builder, me: Member, layout: Layout<'_>) {
    let fold = Fold::new(me.size, None);
    let mate = fold.mate(me.rank);
    let all_but = |rank: usize| layout.range(0..rank).chain(layout.range(rank + 1..me.size));
    match mate {
        Some(mate) if mate.leads => {
            b.send(mate.rank, [layout.block(me.rank)]);
            b.receive(mate.rank, all_but(me.rank));
            return;
        }
        Some(mate) => b.receive(mate.rank, [layout.block(mate.rank)]),
        None => {}
    }
    b.end_round();
    let group = fold.group(me.rank);
    for level in 0..fold.levels {
        let other = group ^ (1 << level);
        let peer = fold.leader(other);
        b.receive(peer, layout.range(fold.members(aligned(other, level))));
        b.send(peer, layout.range(fold.members(aligned(group, level))));
        b.end_round();
    }
    if let Some(mate) = mate {
        b.send(mate.rank, all_but(mate.rank));
    }
}

/// The common part of the reductions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduction {
    pub(super) commutative: bool,
    pub(super) in_place: bool,
}

impl Reduction {
    /// Reduces each pair to one operand. `None` for a rank for which its mate acts from now on.
    fn fold(
        self,
        b: &mut Builder,
        me: Member,
        fold: Fold,
        count: usize,
        accumulator: &mut Accumulator,
    ) -> Option<usize> {
        match fold.mate(me.rank) {
            Some(mate) if mate.leads => {
                b.send(mate.rank, [Buffer::source(self.in_place).span(0..count)]);
                b.end_round();
                return None;
            }
            Some(mate) => {
                let side = Side::of(mate.rank, me.rank, self.commutative);
                accumulator.absorb(b, mate.rank, whole(0..count), side);
            }
            None => {}
        }
        Some(fold.group(me.rank))
    }

    /// Whole vectors are exchanged and reduced, at twice the distance in each round.
    pub(super) fn allreduce_by_doubling(self, b: &mut Builder, me: Member, count: usize) {
        let fold = Fold::new(me.size, None);
        let mut accumulator = Accumulator::of_vector(self.in_place, true, 0..count);
        if let Some(group) = self.fold(b, me, fold, count, &mut accumulator) {
            for level in 0..fold.levels {
                let peer = fold.leader(group ^ (1 << level));
                let side = Side::of(peer, me.rank, self.commutative);
                accumulator.exchange(b, (peer, whole(0..count), side), (peer, whole(0..count)));
            }
            accumulator.finish(b, Buffer::OUTPUT, &whole(0..count));
        }
        unfold(b, me, fold, count);
    }

    /// Rabenseifner: recursive halving, then recursive doubling.
    pub(super) fn allreduce_by_halving(self, b: &mut Builder, me: Member, count: usize) {
        let fold = Fold::new(me.size, None);
        let shares = Shares::pieces(fold, count);
        let mut accumulator = Accumulator::of_vector(self.in_place, true, shares.window(me.rank));
        if let Some(group) = self.fold(b, me, fold, count, &mut accumulator) {
            let share = shares.map(group);
            shares.halve(b, share, &mut accumulator, self.commutative);
            accumulator.finish(b, Buffer::OUTPUT, &shares.elements(share, 0));
            shares.double(b, share, Buffer::OUTPUT, None);
        }
        unfold(b, me, fold, count);
    }

    /// Rabenseifner: recursive halving, then a gather along the same pairs. In place only at the root.
    pub(super) fn reduce_by_halving(self, b: &mut Builder, me: Member, root: usize, count: usize) {
        let fold = Fold::new(me.size, Some(root));
        let shares = Shares::pieces(fold, count);
        let is_root = me.rank == root;
        let mut accumulator = Accumulator::of_vector(self.in_place, is_root, shares.window(me.rank));
        if let Some(group) = self.fold(b, me, fold, count, &mut accumulator) {
            let share = shares.map(group);
            shares.halve(b, share, &mut accumulator, self.commutative);
            let mut buffer = accumulator.settle(b);
            if is_root {
                accumulator.finish(b, Buffer::OUTPUT, &shares.elements(share, 0));
                buffer = Buffer::OUTPUT;
            }
            shares.double(b, share, buffer, Some(shares.map(fold.group(root))));
        }
    }

    /// Recursive halving; the blocks of a pair go together.
    pub(super) fn reduce_scatter(self, b: &mut Builder, me: Member, blocks: Blocks<'_>) {
        let fold = Fold::new(me.size, None);
        let count = blocks.elements(0..me.size).end;
        let shares = Shares {
            fold,
            meeting: if self.commutative {
                Meeting::FarFirst
            } else {
                Meeting::NearFirst
            },
            blocks,
            of_ranks: true,
        };
        // Never reduced in the output, because the result may lie where operands do.
        let mut accumulator = Accumulator::new(Buffer::source(self.in_place), false, None, shares.window(me.rank));
        let mine = Buffer::OUTPUT.span(0..blocks.count(me.rank));
        let mate = fold.mate(me.rank);
        if let Some(group) = self.fold(b, me, fold, count, &mut accumulator) {
            shares.halve(b, shares.map(group), &mut accumulator, self.commutative);
            let held = accumulator.settle(b);
            let block = |rank: usize| held.span(blocks.elements(rank..rank + 1));
            b.copy(block(me.rank), mine);
            if let Some(mate) = mate {
                b.send(mate.rank, [block(mate.rank)]);
            }
        } else if let Some(mate) = mate {
            b.receive(mate.rank, [mine]);
        }
    }
}

/// Sends the results to the ranks for which others have acted.
fn unfold(b: &mut Builder, me: Member, fold: Fold, count: usize) {
    b.end_round();
    let all = Buffer::OUTPUT.span(0..count);
    match fold.mate(me.rank) {
        Some(mate) if mate.leads => b.receive(mate.rank, [all]),
        Some(mate) => b.send(mate.rank, [all]),
        None => {}
    }
}

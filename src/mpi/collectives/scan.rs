//! Reductions over all lower ranks: prefixes.

use super::{
    accumulator::{Accumulator, Side, whole},
    blocks::{Blocks, Layout},
    member::Member,
    schedule::{Buffer, Builder},
};

/// Arguments of both algorithms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    pub(super) count: usize,
    /// Without the own operand (exscan): nothing is written at rank 0.
    pub(super) exclusive: bool,
    pub(super) in_place: bool,
}

impl Scan {
    /// From rank to rank, in segments: one is received while the previous one is reduced and passed on.
    pub(super) fn chain(self, b: &mut Builder, me: Member, segments: usize) {
        let parts = segments.clamp(1, self.count.max(1));
        let blocks = Blocks::Pieces {
            total: self.count,
            parts,
        };
        let own = Layout::new(Buffer::source(self.in_place), blocks);
        let output = Layout::new(Buffer::OUTPUT, blocks);
        let (first, last) = (me.rank == 0, me.rank + 1 == me.size);
        if first {
            for segment in 0..parts {
                if !last {
                    b.send(1, [own.block(segment)]);
                }
                if !self.exclusive {
                    b.copy(own.block(segment), output.block(segment));
                }
                b.end_round();
            }
            return;
        }
        let slots = [b.scratch(blocks.count(0)), b.scratch(blocks.count(0))];
        let sum = if self.exclusive && !last {
            b.scratch(blocks.count(0))
        } else {
            slots[0]
        };
        for round in 0..=parts {
            if round < parts {
                b.receive(me.rank - 1, [slots[round % 2].span(0..blocks.count(round))]);
            }
            if let Some(segment) = round.checked_sub(1) {
                let all = 0..blocks.count(segment);
                let lower = slots[segment % 2].span(all.clone());
                let mut passed = output.block(segment);
                if !self.exclusive {
                    b.copy(own.block(segment), passed);
                    b.reduce(lower, passed);
                } else {
                    if !last {
                        passed = sum.span(all);
                        b.copy(own.block(segment), passed);
                        b.reduce(lower, passed);
                    }
                    b.copy(lower, output.block(segment));
                }
                if !last {
                    b.send(me.rank + 1, [passed]);
                }
            }
            b.end_round();
        }
    }

    /// Sums of ranges of ranks are exchanged with the rank whose number differs in one bit; if there is no such rank,
    /// there is nothing beyond that could be missed.
    pub(super) fn doubling(self, b: &mut Builder, me: Member) {
        let all = 0..self.count;
        let result = Buffer::OUTPUT.span(all.clone());
        let mut own = Buffer::source(self.in_place);
        if !self.exclusive {
            b.copy(own.span(all.clone()), result);
        }
        let peers = (0..usize::BITS)
            .map(|bit| 1_usize << bit)
            .take_while(|bit| *bit < me.size);
        if self.in_place && me.size > 1 {
            own = b.scratch(self.count);
            b.copy(result, own.span(all.clone()));
        }
        let mut range = Accumulator::new(own, self.in_place, None, all.clone());
        // Whether the result has been written.
        let mut begun = !self.exclusive;
        let mut lower = false;
        for peer in peers.map(|bit| me.rank ^ bit).filter(|peer| *peer < me.size) {
            self.add(b, lower.then(|| range.pending()).flatten(), &mut begun);
            lower = peer < me.rank;
            let side = Side::of(peer, me.rank, false);
            range.exchange(b, (peer, whole(all.clone()), side), (peer, whole(all.clone())));
        }
        self.add(b, lower.then(|| range.pending()).flatten(), &mut begun);
    }

    /// Adds the sum that has arrived from lower ranks as left operand of the result.
    fn add(self, b: &mut Builder, arrived: Option<Buffer>, begun: &mut bool) {
        let Some(arrived) = arrived else { return };
        let arrived = arrived.span(0..self.count);
        let result = Buffer::OUTPUT.span(0..self.count);
        if core::mem::replace(begun, true) {
            b.reduce(arrived, result);
        } else {
            b.copy(arrived, result);
        }
    }
}

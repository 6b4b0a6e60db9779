//! Trees: broadcast, gather, scatter, reduce and barrier, over trees of any shape.
//!
//! Ranks are counted from the root here (`v`), so that each subtree is a range: what belongs to a subtree is a range of
//! blocks, and what has been reduced in it is a range of operands.

use alloc::vec::Vec;
use core::ops::Range;

use super::{
    blocks::{Blocks, Layout},
    member::Member,
    schedule::{Buffer, Builder, Span},
};

/// The shape of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// K-nomial: the children of a rank differ from it in one of the lowest digits, which are all 0 in its own number,
    /// in the system with this base. 2 is the binomial tree; a base of all ranks or more puts all directly below the
    /// root.
    Knomial(usize),
    /// Each rank has one child.
    Chain,
}

impl Shape {
    /// All directly below the root.
    pub(super) const STAR: Self = Self::Knomial(usize::MAX);
}

/// One rank's place in a tree.
#[derive(Debug)]
pub(super) struct Tree {
    member: Member,
    root: usize,
    /// The own number, counted from the root.
    v: usize,
    parent: Option<usize>,
    /// The subtrees, the small ones first, in ascending order; each begins with the child itself.
    children: Vec<Range<usize>>,
}

impl Tree {
    pub(super) fn new(member: Member, root: usize, shape: Shape) -> Self {
        let size = member.size;
        let v = member.before(root);
        let (parent, children) = match shape {
            Shape::Knomial(radix) => knomial(v, size, radix),
            Shape::Chain => {
                let below = Some(v + 1..size).filter(|below| !below.is_empty());
                (v.checked_sub(1), below.into_iter().collect())
            }
        };
        Self {
            member,
            root,
            v,
            parent: parent.map(|parent| (parent + root) % size),
            children,
        }
    }

    fn rank_of(&self, subtree: &Range<usize>) -> usize {
        (subtree.start + self.root) % self.member.size
    }

    /// The blocks of a subtree.
    fn blocks<'a>(&self, layout: Layout<'a>, subtree: &Range<usize>) -> impl Iterator<Item = Span> + use<'a> {
        layout.cyclic(self.rank_of(subtree), subtree.len(), self.member.size)
    }

    /// The end of the own subtree.
    fn end(&self) -> usize {
        self.children.last().map_or(self.v + 1, |last| last.end)
    }

    /// Signals of all ranks go up, then one of the root comes down.
    pub(super) fn barrier(&self, b: &mut Builder) {
        self.signals_up(b);
        self.signals_down(b);
    }

    /// When the root goes on after this, all ranks have come here.
    pub(super) fn signals_up(&self, b: &mut Builder) {
        for child in &self.children {
            b.await_signal(self.rank_of(child));
        }
        b.end_round();
        if let Some(parent) = self.parent {
            b.signal(parent);
        }
    }

    /// No rank goes on after this before the root has come here.
    pub(super) fn signals_down(&self, b: &mut Builder) {
        if let Some(parent) = self.parent {
            b.await_signal(parent);
            b.end_round();
        }
        for child in self.children.iter().rev() {
            b.signal(self.rank_of(child));
        }
        b.end_round();
    }

    /// The vector in `Output` goes down in segments: one is received while the previous one is passed on.
    pub(super) fn bcast(&self, b: &mut Builder, count: usize, segments: usize) {
        let (pieces, segments) = segmented(Buffer::OUTPUT, count, segments);
        let delay = usize::from(self.parent.is_some());
        for round in 0..segments + delay {
            if let Some(parent) = self.parent
                && round < segments
            {
                b.receive(parent, [pieces.block(round)]);
            }
            if let Some(piece) = round.checked_sub(delay) {
                for child in self.children.iter().rev() {
                    b.send(self.rank_of(child), [pieces.block(piece)]);
                }
            }
            b.end_round();
        }
    }

    /// Operands go up, cut in segments: one is received while the one before is reduced and passed on. The root's
    /// result ends in `target`, which must not be `source` (or where `source` is overwritten before its time).
    pub(super) fn reduce(&self, b: &mut Builder, count: usize, segments: usize, source: Buffer, target: Buffer) {
        let (own, segments) = segmented(source, count, segments);
        let target = Layout { buffer: target, ..own };
        let direct = source != target.buffer;
        let arrivals = segments * self.children.len();
        if arrivals == 0 {
            for segment in 0..segments {
                match self.parent {
                    Some(parent) => b.send(parent, [own.block(segment)]),
                    None => b.copy(own.block(segment), target.block(segment)),
                }
                b.end_round();
            }
            return;
        }
        // One buffer for an arriving segment, one for the reduction, one for the result so far or on its way up.
        let slots: Vec<Buffer> = (0..arrivals.min(3)).map(|_| b.scratch(own.blocks.count(0))).collect();
        let mut arrived = None;
        let mut held = own.block(0);
        for arrival in 0..=arrivals {
            let begun = (arrival < arrivals).then(|| {
                let (segment, child) = (arrival / self.children.len(), arrival % self.children.len());
                let last = child + 1 == self.children.len();
                let into = if last && direct && self.parent.is_none() {
                    target.block(segment)
                } else {
                    slots[arrival % 3].span(0..own.blocks.count(segment))
                };
                b.receive(self.rank_of(&self.children[child]), [into]);
                (segment, child, into)
            });
            if let Some((segment, child, into)) = arrived {
                let left = if child == 0 { own.block(segment) } else { held };
                b.reduce(left, into);
                held = into;
                if child + 1 == self.children.len() {
                    match self.parent {
                        Some(parent) => b.send(parent, [held]),
                        None => b.copy(held, target.block(segment)),
                    }
                }
            }
            b.end_round();
            arrived = begun;
        }
    }

    /// Each rank's `own` block goes up to the root's `output`. On the way, blocks of a subtree are in scratch memory.
    pub(super) fn gather(&self, b: &mut Builder, own: Span, output: Layout<'_>) {
        let Some(parent) = self.parent else {
            for child in &self.children {
                b.receive(self.rank_of(child), self.blocks(output, child));
            }
            b.copy(own, output.block(self.member.rank));
            return;
        };
        let below = self.below(b, own.count);
        for child in &self.children {
            b.receive(self.rank_of(child), [self.in_transit(&below, child)]);
        }
        b.end_round();
        b.send(parent, [own, self.in_transit(&below, &(self.v + 1..self.end()))]);
    }

    /// The root's blocks of `input` go down to each rank's `own`.
    pub(super) fn scatter(&self, b: &mut Builder, input: Layout<'_>, own: Span) {
        let Some(parent) = self.parent else {
            for child in self.children.iter().rev() {
                b.send(self.rank_of(child), self.blocks(input, child));
            }
            b.copy(input.block(self.member.rank), own);
            return;
        };
        let below = self.below(b, own.count);
        b.receive(parent, [own, self.in_transit(&below, &(self.v + 1..self.end()))]);
        b.end_round();
        for child in self.children.iter().rev() {
            b.send(self.rank_of(child), [self.in_transit(&below, child)]);
        }
    }

    /// The root's blocks go down, to the same places of the same buffer everywhere.
    pub(super) fn scatter_within(&self, b: &mut Builder, layout: Layout<'_>) {
        if let Some(parent) = self.parent {
            b.receive(parent, self.blocks(layout, &(self.v..self.end())));
            b.end_round();
        }
        for child in self.children.iter().rev() {
            b.send(self.rank_of(child), self.blocks(layout, child));
        }
        b.end_round();
    }

    /// Scratch memory for the blocks of all ranks below this one.
    fn below(&self, b: &mut Builder, count: usize) -> Layout<'static> {
        let buffer = b.scratch((self.end() - self.v - 1) * count);
        Layout::new(buffer, Blocks::Even { count })
    }

    fn in_transit(&self, below: &Layout<'_>, subtree: &Range<usize>) -> Span {
        let first = self.v + 1;
        below
            .buffer
            .span(below.blocks.elements(subtree.start - first..subtree.end - first))
    }
}

/// Parent and subtrees of `v`.
fn knomial(v: usize, size: usize, radix: usize) -> (Option<usize>, Vec<Range<usize>>) {
    let mut children = Vec::new();
    let mut power = 1_usize;
    while power < size {
        let digit = v / power % radix;
        if digit != 0 {
            return (Some(v - digit * power), children);
        }
        let firsts = (v + power..size).step_by(power).take(radix - 1);
        children.extend(firsts.map(|first| first..first.saturating_add(power).min(size)));
        power = power.saturating_mul(radix);
    }
    (None, children)
}

/// A vector in segments; no more of them than elements, but at least one.
fn segmented(buffer: Buffer, total: usize, segments: usize) -> (Layout<'static>, usize) {
    let parts = segments.clamp(1, total.max(1));
    (Layout::new(buffer, Blocks::Pieces { total, parts }), parts)
}

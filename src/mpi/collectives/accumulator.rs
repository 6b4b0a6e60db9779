//! A running reduction: the rank's own operand and those that arrive, combined in rank order without needless copies.

use alloc::vec::Vec;
use core::{mem, ops::Range};

use super::schedule::{Buffer, Builder, Span};

/// On which side of the partial result an arriving operand belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// It comes from lower ranks.
    Left,
    /// It comes from higher ranks.
    Right,
    /// Operands commute.
    Either,
}

impl Side {
    pub(super) fn of(peer: usize, rank: usize, commutative: bool) -> Self {
        if commutative {
            Self::Either
        } else if peer < rank {
            Self::Left
        } else {
            Self::Right
        }
    }
}

/// A list of one range.
pub(super) fn whole(range: Range<usize>) -> Vec<Range<usize>> {
    Vec::from([range])
}

/// Reductions can only be done into their right operand ([`Step::Reduce`](super::Step::Reduce)). So the result moves to
/// the buffer that holds the right operand, and the buffer of the left one becomes free for the next message.
///
/// An operand that has arrived is reduced in the next round, when the next message may already be on its way.
#[derive(Debug)]
pub(super) struct Accumulator {
    held: Buffer,
    /// Whether `held` may be written.
    writable: bool,
    /// Unused buffers. The last one is used first.
    free: Vec<Buffer>,
    /// The elements for which scratch buffers have room.
    window: Range<usize>,
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    buffer: Buffer,
    ranges: Vec<Range<usize>>,
    side: Side,
}

impl Accumulator {
    /// Begins with the contents of `held`. `output` may be used as memory. Only elements in `window` are ever received.
    pub(super) fn new(held: Buffer, writable: bool, output: Option<Buffer>, window: Range<usize>) -> Self {
        Self {
            held,
            writable,
            free: output.into_iter().collect(),
            window,
            pending: None,
        }
    }

    /// For a reduction whose result fills the output, if there is one.
    pub(super) fn of_vector(in_place: bool, has_output: bool, window: Range<usize>) -> Self {
        let output = (has_output && !in_place).then_some(Buffer::OUTPUT);
        Self::new(Buffer::source(in_place), in_place, output, window)
    }

    /// One round: receive `incoming` from `from`, reduce what arrived before, send `outgoing` of the result to `to`.
    pub(super) fn exchange(
        &mut self,
        b: &mut Builder,
        (from, incoming, side): (usize, Vec<Range<usize>>, Side),
        (to, outgoing): (usize, Vec<Range<usize>>),
    ) {
        let buffer = self.receive(b, from, &incoming);
        self.settle(b);
        b.send(to, self.spans(&outgoing));
        b.end_round();
        self.pending = Some(Pending {
            buffer,
            ranges: incoming,
            side,
        });
    }

    /// One round: receive an operand that is only to be reduced.
    pub(super) fn absorb(&mut self, b: &mut Builder, from: usize, incoming: Vec<Range<usize>>, side: Side) {
        let buffer = self.receive(b, from, &incoming);
        self.settle(b);
        b.end_round();
        self.pending = Some(Pending {
            buffer,
            ranges: incoming,
            side,
        });
    }

    /// The buffer of the last operand that has arrived and has not been reduced.
    pub(super) fn pending(&self) -> Option<Buffer> {
        self.pending.as_ref().map(|pending| pending.buffer)
    }

    /// Reduces the pending operand; gives the buffer of the result.
    pub(super) fn settle(&mut self, b: &mut Builder) -> Buffer {
        let Some(Pending { buffer, ranges, side }) = self.pending.take() else {
            return self.held;
        };
        let (from, into) = if side == Side::Right || (side == Side::Either && !self.writable) {
            let before = mem::replace(&mut self.held, buffer);
            if mem::replace(&mut self.writable, true) {
                self.free.push(before);
            }
            (before, buffer)
        } else {
            if !self.writable {
                let copy = self.take(b);
                for range in &ranges {
                    b.copy(self.held.span(range.clone()), copy.span(range.clone()));
                }
                (self.held, self.writable) = (copy, true);
            }
            self.free.push(buffer);
            (buffer, self.held)
        };
        for range in ranges {
            b.reduce(from.span(range.clone()), into.span(range));
        }
        self.held
    }

    /// Reduces the pending operand; the result ends in these ranges of `into`.
    pub(super) fn finish(&mut self, b: &mut Builder, into: Buffer, ranges: &[Range<usize>]) {
        let held = self.settle(b);
        for range in ranges {
            b.copy(held.span(range.clone()), into.span(range.clone()));
        }
    }

    fn receive(&mut self, b: &mut Builder, from: usize, incoming: &[Range<usize>]) -> Buffer {
        let buffer = self.take(b);
        b.receive(from, incoming.iter().map(|range| buffer.span(range.clone())));
        buffer
    }

    fn spans(&self, ranges: &[Range<usize>]) -> impl Iterator<Item = Span> {
        ranges.iter().map(|range| self.held.span(range.clone()))
    }

    fn take(&mut self, b: &mut Builder) -> Buffer {
        self.free.pop().unwrap_or_else(|| {
            let mut buffer = b.scratch(self.window.len());
            buffer.base -= self.window.start as isize;
            buffer
        })
    }
}

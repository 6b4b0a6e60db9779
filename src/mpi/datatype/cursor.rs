//! From packed offsets to places in memory.

use super::{
    Datatype,
    layout::{Loop, Node, Run, Shape},
};

/// Contiguous bytes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset of the first one from the buffer, bytes.
    pub offset: i64,
    /// Their number; not 0.
    pub len: u64,
}

/// `count` elements of a datatype in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements<'a> {
    node: &'a Node,
    count: u64,
    extent: i64,
    /// Bytes of one element.
    size: u64,
    /// Bytes of all elements. Saturated, which no real memory reaches.
    pub(super) total: u64,
    /// Where they begin, if they are one run.
    pub(super) contiguous: Option<i64>,
}

/// The innermost repetition around a packed position: some turns of the same list of runs.
///
/// Arithmetic on places wraps: intermediate results may be beyond 64 bits, places of data are not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a> {
    /// Of the current turn.
    pub(super) base: i64,
    pub(super) stride: i64,
    /// Including the current one.
    pub(super) turns: u64,
    pub(super) runs: &'a [Run],
    /// Bytes of one turn.
    pub(super) size: u64,
    /// The current run of the current turn, and what of it has passed.
    run: usize,
    passed: u64,
}

impl<'a> Elements<'a> {
    pub(super) fn new(datatype: &'a Datatype, count: u64) -> Self {
        let node = &datatype.0.node;
        Self {
            node,
            count,
            extent: datatype.extent(),
            size: datatype.size(),
            total: datatype.size().saturating_mul(count),
            contiguous: datatype.is_contiguous(count).then_some(node.offset),
        }
    }

    /// Finds the packed byte `position`, which is below `total`.
    pub(super) fn locate(&self, position: u64) -> Batch<'a> {
        let element = position / self.size;
        let mut position = position % self.size;
        let mut base = place(self.node.offset, element, self.extent);
        let mut shape = &self.node.shape;
        let mut outer = Turns {
            left: self.count - element,
            stride: self.extent,
        };
        loop {
            match shape {
                // An empty shape has no positions.
                Shape::Empty => return Batch::new(base, outer, &[], 1, 0, 0),
                Shape::Run(run) => return Batch::new(base, outer, core::slice::from_ref(run), run.len, 0, position),
                Shape::Runs(runs) => {
                    let run = runs.find(position);
                    let passed = position - runs.list[run].start;
                    return Batch::new(base, outer, &runs.list, runs.size, run, passed);
                }
                Shape::Loop(inner) => {
                    let turn = position / inner.child_size;
                    position %= inner.child_size;
                    base = place(base, turn, inner.stride);
                    outer = outer.joined(inner, turn);
                    shape = &inner.child;
                }
                Shape::Parts(parts) => {
                    let part = parts.find(position);
                    position -= part.start;
                    base = base.wrapping_add(part.node.offset);
                    outer = Turns::ONE;
                    shape = &part.node.shape;
                }
            }
        }
    }
}

/// How often what is below comes again at equal distances.
#[derive(Clone, Copy)]
struct Turns {
    left: u64,
    stride: i64,
}

impl Turns {
    const ONE: Self = Self { left: 1, stride: 0 };

    /// Those of `inner` from `turn` on, and of this around it if they continue each other.
    fn joined(self, inner: &Loop, turn: u64) -> Self {
        let left = inner.count - turn;
        let continues = (inner.count as i64).checked_mul(inner.stride) == Some(self.stride);
        Self {
            left: if continues {
                (self.left - 1).saturating_mul(inner.count).saturating_add(left)
            } else {
                left
            },
            stride: inner.stride,
        }
    }
}

impl<'a> Batch<'a> {
    fn new(base: i64, turns: Turns, runs: &'a [Run], size: u64, run: usize, passed: u64) -> Self {
        Self {
            base,
            stride: turns.stride,
            turns: turns.left,
            runs,
            size,
            run,
            passed,
        }
    }

    /// At the beginning of a turn.
    pub(super) fn is_at_turn(&self) -> bool {
        self.run == 0 && self.passed == 0
    }

    /// Nothing is left: locate the next one.
    pub(super) fn is_done(&self) -> bool {
        self.turns == 0
    }

    /// The next contiguous bytes, at most `limit` of them.
    #[inline]
    pub(super) fn step(&mut self, limit: u64) -> Segment {
        let run = &self.runs[self.run];
        let len = limit.min(run.len - self.passed);
        let offset = place(self.base.wrapping_add(run.offset), self.passed, 1);
        self.passed += len;
        if self.passed == run.len {
            self.passed = 0;
            self.skip_runs(1);
        }
        Segment { offset, len }
    }

    /// The next runs of the current turn that fit into `limit` bytes as a whole; none within a run.
    pub(super) fn whole_runs(&self, limit: u64) -> &'a [Run] {
        if self.passed > 0 {
            return &[];
        }
        let next = &self.runs[self.run..];
        let begin = next[0].start;
        &next[..next.partition_point(|run| run.start - begin + run.len <= limit)]
    }

    /// Passes over whole runs, at most those that are left of the current turn.
    #[inline]
    pub(super) fn skip_runs(&mut self, runs: usize) {
        self.run += runs;
        if self.run == self.runs.len() {
            self.run = 0;
            self.skip(1);
        }
    }

    /// Passes over whole turns, at most those that are left.
    pub(super) fn skip(&mut self, turns: u64) {
        self.turns -= turns;
        self.base = place(self.base, turns, self.stride);
    }
}

#[inline]
fn place(base: i64, turns: u64, stride: i64) -> i64 {
    base.wrapping_add(stride.wrapping_mul(turns as i64))
}

/// The runs of memory that hold a range of packed bytes, in packed order. Made by [`Datatype::segments`].
///
/// Stop at any time and go on later with `segments(count, position..end)`: finding the place takes a division per
/// level of nesting.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    elements: Elements<'a>,
    position: u64,
    end: u64,
    batch: Option<Batch<'a>>,
}

impl Segments<'_> {
    /// The packed offset of the next segment.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    #[inline]
    fn next(&mut self) -> Option<Segment> {
        let left = self.end - self.position;
        if left == 0 {
            return None;
        }
        let segment = if let Some(begin) = self.elements.contiguous {
            Segment {
                offset: place(begin, self.position, 1),
                len: left,
            }
        } else {
            let batch = self.batch.get_or_insert_with(|| self.elements.locate(self.position));
            let segment = batch.step(left);
            if batch.is_done() {
                self.batch = None;
            }
            segment
        };
        self.position += segment.len;
        Some(segment)
    }
}

impl core::iter::FusedIterator for Segments<'_> {}

impl Datatype {
    /// The runs of memory that hold the packed bytes `packed` of `count` elements. A range beyond the data is cut off.
    ///
    /// Places are exact if the data of `count` elements are in memory; see [`span`](Self::span).
    #[must_use]
    pub fn segments(&self, count: u64, packed: core::ops::Range<u64>) -> Segments<'_> {
        let elements = Elements::new(self, count);
        let end = packed.end.min(elements.total);
        Segments {
            elements,
            position: packed.start.min(end),
            end,
            batch: None,
        }
    }
}

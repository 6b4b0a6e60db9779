//! Finds elements that share bytes, which makes a datatype unfit for receiving (MPI 3.2.4).

use alloc::vec::Vec;

use super::{Datatype, error::DatatypeError, layout::Shape};

/// Most runs that are checked one by one, where nothing better helps. Sorting that many takes some milliseconds.
const MAX_RUNS: usize = 1 << 16;

impl Datatype {
    /// Whether data may be received into `count` elements.
    ///
    /// Where loops interleave in ways that are hard to analyse, only the first 65,536 runs are checked, one by one.
    /// Lists are sorted for it, so callers should keep the result for a large one.
    ///
    /// # Errors
    /// [`DatatypeError::Overlap`] if a byte would be received twice; [`DatatypeError::Overflow`] as
    /// [`span`](Self::span).
    pub fn check_receive(&self, count: u64) -> Result<(), DatatypeError> {
        self.span(count)?;
        let elements = Level {
            count,
            stride: self.extent(),
        };
        if self.is_contiguous(count) || is_disjoint(&self.0.node.shape, elements) {
            return Ok(());
        }
        let segments = self.segments(count, 0..u64::MAX).take(MAX_RUNS);
        let mut runs: Vec<(i64, i64)> = segments.map(|run| (run.offset, run.offset + run.len as i64)).collect();
        match overlap(&mut runs) {
            Some(offset) => Err(DatatypeError::Overlap { offset }),
            None => Ok(()),
        }
    }
}

/// Copies at equal distances.
struct Level {
    count: u64,
    stride: i64,
}

/// Whether it is certain that `shape`, repeated as `outer` says, shares no bytes with itself.
fn is_disjoint(shape: &Shape, outer: Level) -> bool {
    // The order of nested loops does not matter for what they cover: from the smallest stride outwards, each must
    // step over all that is within.
    let mut levels = Vec::from([outer]);
    let mut core = shape;
    while let Shape::Loop(inner) = core {
        levels.push(Level {
            count: inner.count,
            stride: inner.stride,
        });
        core = &inner.child;
    }
    levels.retain(|level| level.count > 1);
    levels.sort_unstable_by_key(|level| level.stride.unsigned_abs());
    let (low, high) = span(core);
    let mut width = i128::from(high) - i128::from(low);
    for level in levels {
        let stride = i128::from(level.stride.unsigned_abs());
        if stride < width {
            return false;
        }
        width = width.saturating_add(stride.saturating_mul(i128::from(level.count - 1)));
    }
    match core {
        Shape::Runs(runs) => {
            let mut spans: Vec<_> = runs
                .list
                .iter()
                .map(|run| (run.offset, run.offset + run.len as i64))
                .collect();
            overlap(&mut spans).is_none()
        }
        Shape::Parts(parts) => {
            let mut spans: Vec<_> = (parts.list.iter())
                .map(|part| {
                    let (low, high) = span(&part.node.shape);
                    (part.node.offset + low, part.node.offset + high)
                })
                .collect();
            let once = || Level { count: 1, stride: 0 };
            overlap(&mut spans).is_none() && parts.list.iter().all(|part| is_disjoint(&part.node.shape, once()))
        }
        Shape::Empty | Shape::Run(_) | Shape::Loop(_) => true,
    }
}

/// The first byte of the data of `shape` and the one after the last.
fn span(shape: &Shape) -> (i64, i64) {
    let join = |a: (i64, i64), b: (i64, i64)| (a.0.min(b.0), a.1.max(b.1));
    match shape {
        Shape::Empty => (0, 0),
        Shape::Run(run) => (0, run.len as i64),
        Shape::Runs(runs) => {
            let spans = runs.list.iter().map(|run| (run.offset, run.offset + run.len as i64));
            spans.reduce(join).unwrap_or((0, 0))
        }
        Shape::Loop(inner) => {
            let (low, high) = span(&inner.child);
            let last = (inner.count - 1) as i64 * inner.stride;
            (low + last.min(0), high + last.max(0))
        }
        Shape::Parts(parts) => {
            let spans = parts.list.iter().map(|part| {
                let (low, high) = span(&part.node.shape);
                (part.node.offset + low, part.node.offset + high)
            });
            spans.reduce(join).unwrap_or((0, 0))
        }
    }
}

/// A byte that is in two of `spans`; sorts them.
fn overlap(spans: &mut [(i64, i64)]) -> Option<i64> {
    spans.sort_unstable();
    (spans.windows(2).find(|pair| pair[1].0 < pair[0].1)).map(|pair| pair[1].0)
}

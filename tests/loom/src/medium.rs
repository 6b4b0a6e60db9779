//! Memory for boards, small enough that ranks soon write over what others have read.

use std::ops::Range;

use loom::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::segment::Segment;

pub(crate) const LINES: u64 = 2;
pub(crate) const SLOTS: u64 = 1;
pub(crate) const SLOT: usize = 64;
pub(crate) const PAGE: usize = 64;

/// The models' boards have a fence on both sides: loom knows nothing of threads that are interrupted to pass one.
pub(crate) fn barrier_of_all() {}

pub(crate) fn compiler_fence(_: Ordering) {}

/// A rank's mapping.
pub struct Mapped(pub Arc<Segment>);

impl Mapped {
    pub(crate) fn atomic(&self, at: usize) -> &AtomicU64 {
        self.0.atomic(at)
    }

    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        self.0.write(at, bytes);
    }

    pub(crate) fn span(&self, at: usize, len: usize) -> Option<Span<'_>> {
        Some(Span(Some((&self.0, at..at + len))))
    }
}

/// Bytes that can be copied: whole words of a segment, or none.
pub struct Span<'a>(Option<(&'a Segment, Range<usize>)>);

impl Span<'_> {
    pub(crate) fn new(_: &[u8; 0]) -> Self {
        Self(None)
    }

    pub(crate) fn words(&self) -> Vec<u64> {
        let words =
            |(segment, range): &(&Segment, Range<usize>)| range.clone().step_by(8).map(|at| segment.read(at)).collect();
        self.0.as_ref().map(words).unwrap_or_default()
    }
}

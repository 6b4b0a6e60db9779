//! How the elements of a buffer are divided among ranks.

use alloc::vec::Vec;
use core::ops::Range;

use super::schedule::{Buffer, Span};

/// The block of each rank in a buffer, in elements from the buffer's address. A number stands for [`Even`](Self::Even)
/// blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks<'a> {
    /// The same count for each rank, block after block.
    Even {
        /// Elements of one block.
        count: usize,
    },
    /// A count and a displacement for each rank, as the collectives in `v` take them. For alltoallw: the displacements
    /// 0, 1, 2, …, and the count 1 where there is data, 0 where there is none (see [`Span`]).
    Uneven {
        /// Elements of each block.
        counts: &'a [usize],
        /// The first element of each block.
        displacements: &'a [isize],
    },
    /// A vector cut in pieces as even as possible, the first ones one element longer.
    Pieces {
        /// Elements of the vector.
        total: usize,
        /// Number of pieces; at least 1.
        parts: usize,
    },
}

/// Displacements of blocks that lie one after the other.
#[must_use]
pub fn displacements(counts: &[usize]) -> Vec<isize> {
    let sums = counts.iter().scan(0, |sum: &mut usize, count| {
        let before = *sum;
        *sum = sum.saturating_add(*count);
        Some(before as isize)
    });
    sums.collect()
}

impl From<usize> for Blocks<'_> {
    fn from(count: usize) -> Self {
        Self::Even { count }
    }
}

impl<'a> Blocks<'a> {
    /// The same blocks one after the other, given their [displacements](Self::displacements) then.
    pub(super) fn packed(self, displacements: &'a [isize]) -> Self {
        match self {
            Self::Uneven { counts, .. } => Self::Uneven { counts, displacements },
            even => even,
        }
    }
}

impl Blocks<'_> {
    pub(super) const NONE: Self = Self::Even { count: 0 };

    /// Elements of a buffer that has one block.
    pub(in crate::mpi) fn single(&self) -> usize {
        match *self {
            Self::Even { count } => count,
            Self::Uneven { .. } | Self::Pieces { .. } => 0,
        }
    }

    /// Elements of all blocks, `size` of them if they are even.
    pub(in crate::mpi) fn total(&self, size: usize) -> usize {
        match *self {
            Self::Even { count } => count.saturating_mul(size),
            Self::Uneven { counts, .. } => counts.iter().fold(0, |sum: usize, count| sum.saturating_add(*count)),
            Self::Pieces { total, .. } => total,
        }
    }

    /// The displacements of these blocks if they lie one after the other.
    pub(super) fn displacements(&self) -> Vec<isize> {
        match self {
            Self::Uneven { counts, .. } => displacements(counts),
            Self::Even { .. } | Self::Pieces { .. } => Vec::new(),
        }
    }

    /// Elements of block `index`.
    pub(in crate::mpi) fn count(&self, index: usize) -> usize {
        match *self {
            Self::Even { count } => count,
            Self::Uneven { counts, .. } => counts[index],
            Self::Pieces { total, parts } => total / parts + usize::from(index < total % parts),
        }
    }

    /// The first element of block `index`.
    pub(in crate::mpi) fn offset(&self, index: usize) -> isize {
        match *self {
            Self::Even { count } => (index * count) as isize,
            Self::Uneven { displacements, .. } => displacements[index],
            Self::Pieces { total, parts } => (index * (total / parts) + index.min(total % parts)) as isize,
        }
    }

    /// The elements of neighbouring blocks that lie one after the other.
    pub(super) fn elements(&self, blocks: Range<usize>) -> Range<usize> {
        if blocks.is_empty() {
            return 0..0;
        }
        let last = blocks.end - 1;
        self.offset(blocks.start) as usize..self.offset(last) as usize + self.count(last)
    }

    /// Whether neighbouring blocks are always contiguous.
    fn is_dense(&self) -> bool {
        !matches!(self, Self::Uneven { .. })
    }
}

/// Blocks in their buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout<'a> {
    pub(super) buffer: Buffer,
    pub(super) blocks: Blocks<'a>,
}

impl<'a> Layout<'a> {
    pub(super) fn new(buffer: Buffer, blocks: Blocks<'a>) -> Self {
        Self { buffer, blocks }
    }

    /// The span of a buffer that has one block.
    pub(super) fn single(&self) -> Span {
        self.buffer.span(0..self.blocks.single())
    }

    /// The span of one block.
    pub(super) fn block(&self, index: usize) -> Span {
        let offset = self.buffer.base + self.blocks.offset(index);
        Span::run(self.buffer.region, offset, self.blocks.count(index))
    }

    /// The spans of neighbouring blocks; one span if they are always contiguous.
    pub(super) fn range(self, blocks: Range<usize>) -> impl Iterator<Item = Span> {
        let stride = if self.blocks.is_dense() { blocks.len().max(1) } else { 1 };
        blocks.step_by(stride).map(move |index| {
            let last = self.block(index + stride - 1);
            let first = self.block(index);
            Span {
                count: (last.offset - first.offset) as usize + last.count,
                ..first
            }
        })
    }

    /// The spans of `len` blocks from `first` on, wrapping around at `size`.
    pub(super) fn cyclic(self, first: usize, len: usize, size: usize) -> impl Iterator<Item = Span> {
        let first = if first < size { first } else { first % size };
        let end = (first + len).min(size);
        let rest = first + len - end;
        self.range(first..end).chain(self.range(0..rest))
    }
}

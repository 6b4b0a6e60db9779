#![expect(unsafe_code, reason = "operands are memory of the caller")]
//! Reductions of which each rank gets a result of its own, as steps on a board: reduce_scatter and scans.

use alloc::vec::Vec;
use core::ops::Range;

use super::{
    arguments::{Arguments, pieces},
    reductions::{Scratch, Vector},
    steps::Steps,
};
use crate::{
    mpi::{
        collectives::{Blocks, Collective as Kind},
        error::Error,
    },
    span::Span,
};

/// The elements of a block that are in a piece, as places in the vector.
fn within(blocks: &Blocks<'_>, rank: usize, begin: usize, piece: &Range<usize>) -> Range<usize> {
    let count = blocks.count(rank);
    begin + piece.start.min(count)..begin + piece.end.min(count)
}

impl Steps<'_> {
    /// Each rank reduces its block. A step has a piece of each.
    pub(super) fn reduce_scatter(&mut self, arguments: &Arguments<'_>) -> Result<Option<()>, Error> {
        let (rank, size) = (self.rank(), self.size());
        let blocks = &arguments.call.output;
        let Some(vector) = Vector::new(arguments, true, blocks.total(size)) else {
            return Ok(None);
        };
        let longest = (0..size).map(|rank| blocks.count(rank)).max().unwrap_or_default();
        let most = (self.piece() / size / vector.size).max(1);
        let (mut scratch, mut share) = (Scratch::default(), Scratch::default());
        for piece in pieces(longest, most) {
            let mut begin = 0;
            let mut parts = Vec::with_capacity(size);
            for rank in 0..size {
                parts.push(within(blocks, rank, begin, &piece));
                begin += blocks.count(rank);
            }
            let len = parts.iter().map(|part| part.len() * vector.size).sum();
            self.begin(Some(len))?;
            let (mut at, mut mine) = (0, 0..0);
            for (to, part) in parts.iter().enumerate() {
                let bytes = part.len() * vector.size;
                if to == rank {
                    mine = at..at + bytes;
                } else if bytes > 0 {
                    self.board.write(len, at, vector.operand(part));
                }
                at += bytes;
            }
            self.post(len);
            self.await_all(len)?;
            // In place, the result comes where operands are: they are posted already, but for this rank's own.
            let into = share.bytes(mine.len());
            self.combine(&vector, &parts[rank], (size, len, mine.clone()), (into, &mut scratch));
            // SAFETY: so many bytes of the scratch memory were written just now.
            let reduced = unsafe { core::slice::from_raw_parts(into, mine.len()) };
            vector.fill(vector.place(&piece), 0, Span::new(reduced));
            self.end();
        }
        Ok(Some(()))
    }

    /// Each rank reduces the operands of all before it, and in a scan its own.
    pub(super) fn scan(&mut self, arguments: &Arguments<'_>) -> Result<Option<()>, Error> {
        let (rank, size) = (self.rank(), self.size());
        let elements = arguments.call.output.single();
        let Some(vector) = Vector::new(arguments, true, elements) else {
            return Ok(None);
        };
        let ranks = match arguments.call.collective() {
            Kind::Scan => rank + 1,
            _ => rank,
        };
        let most = (self.piece() / vector.size).max(1);
        let mut scratch = Scratch::default();
        for part in pieces(elements, most) {
            let len = part.len() * vector.size;
            // No rank reads the last one's.
            let posts = rank + 1 < size;
            self.begin(posts.then_some(len))?;
            if posts {
                self.board.write(len, 0, vector.operand(&part));
                self.post(len);
            }
            for before in 0..rank {
                self.await_post(before, len)?;
            }
            let into = vector.place(&part);
            self.combine(&vector, &part, (ranks, len, 0..len), (into, &mut scratch));
            self.end();
        }
        Ok(Some(()))
    }
}

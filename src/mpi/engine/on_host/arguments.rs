//! The arguments of a collective on a board, and which collectives go by one.

use core::ops::Range;

use super::medium::SLOT;
use crate::mpi::{
    collectives::{Call, Collective as Kind, Region, Span as Elements},
    datatype::Datatype,
    engine::{
        buffer::Buffer,
        regions::{Buffers, Memory, Region as Data, memory},
    },
    operation::Operation,
};

/// In a scan each rank reduces the operands of all before it: that of many ranks, and of more bytes, is better off with
/// messages.
const SCAN_RANKS: usize = 8;
const SCAN: usize = 2 << 10;

/// The arguments of a collective at this rank.
pub(super) struct Arguments<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) input: Option<Memory>,
    pub(super) output: Option<Memory>,
    /// Sizes of elements, bytes.
    pub(super) sizes: (usize, usize),
    pub(super) operation: Option<&'a Operation>,
}

/// Returns whether a collective with these arguments goes by a board, if there is one: all ranks say the same, since they
/// must agree on all that this depends on.
pub(super) fn suits(call: &Call<'_>, buffers: &Buffers<'_>, size: usize) -> bool {
    let of = |region: &_| match region {
        Data::Plain(_, datatype) => dense(datatype),
        _ => None,
    };
    let element = || match buffers.output {
        Data::None => of(&buffers.input),
        _ => of(&buffers.output),
    };
    let is_at_most = |most: usize| element().is_some_and(|element| element <= most);
    match call.collective() {
        Kind::Barrier | Kind::Bcast | Kind::Gather | Kind::Scatter | Kind::Allgather | Kind::Alltoall => true,
        Kind::Gatherv | Kind::Scatterv | Kind::Allgatherv | Kind::Alltoallv => true,
        Kind::Reduce | Kind::Allreduce => is_at_most(SLOT),
        Kind::ReduceScatter | Kind::ReduceScatterBlock => is_at_most(SLOT / size),
        Kind::Scan | Kind::Exscan if size <= SCAN_RANKS => is_at_most(SLOT),
        Kind::Scan | Kind::Exscan => is_at_most(SCAN.checked_div(call.output.single()).unwrap_or(SCAN)),
        _ => false,
    }
}

/// Bytes of an element, if elements follow each other without gaps.
pub(super) fn dense(datatype: &Datatype) -> Option<usize> {
    let size = datatype.size();
    let is_dense = size > 0 && datatype.extent() == size as i64 && datatype.begin_of_run(2) == Some(0);
    is_dense.then_some(size as usize)
}

/// Elements that follow each other.
pub(super) fn run(offset: isize, count: usize) -> Elements {
    Elements {
        region: Region::Output,
        times: 1,
        offset,
        count,
        stride: 0,
    }
}

/// Pieces of at most `most` bytes; one without bytes if there are none.
pub(super) fn pieces(len: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let count = len.div_ceil(most).max(1);
    (0..count).map(move |index| index * most..len.min((index + 1) * most))
}

impl<'a> Arguments<'a> {
    pub(super) fn new(call: &'a Call<'a>, buffers: &Buffers<'_>, operation: Option<&'a Operation>) -> Self {
        let size = |region: &_| match region {
            Data::Plain(_, datatype) => datatype.size() as usize,
            _ => 0,
        };
        Self {
            call,
            input: memory(buffers.input, call),
            output: memory(buffers.output, call),
            sizes: (size(&buffers.input), size(&buffers.output)),
            operation,
        }
    }

    pub(super) fn output(&self, offset: usize, count: usize) -> Option<Buffer> {
        self.output.as_ref()?.buffer(&run(offset as isize, count))
    }

    /// The output's block for a rank.
    pub(super) fn output_block(&self, rank: usize) -> Option<Buffer> {
        let blocks = &self.call.output;
        self.output
            .as_ref()?
            .buffer(&run(blocks.offset(rank), blocks.count(rank)))
    }

    /// The input's block for a rank.
    pub(super) fn input_block(&self, rank: usize) -> Option<Buffer> {
        let blocks = &self.call.input;
        self.input
            .as_ref()?
            .buffer(&run(blocks.offset(rank), blocks.count(rank)))
    }

    pub(super) fn input(&self, offset: usize, count: usize) -> Option<Buffer> {
        self.input.as_ref()?.buffer(&run(offset as isize, count))
    }
}

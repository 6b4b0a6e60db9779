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
pub(super) fn suits(call: &Call<'_>, buffers: &Buffers<'_>) -> bool {
    match call.collective() {
        Kind::Barrier | Kind::Bcast | Kind::Gather | Kind::Scatter | Kind::Allgather | Kind::Alltoall => true,
        Kind::Reduce | Kind::Allreduce => {
            let of = |region: &_| match region {
                Data::Plain(_, datatype) => Some(is_dense(datatype)),
                _ => None,
            };
            of(&buffers.output).or_else(|| of(&buffers.input)).unwrap_or(false)
        }
        _ => false,
    }
}

/// Elements follow each other without gaps, and each fits into a slot.
fn is_dense(datatype: &Datatype) -> bool {
    let size = datatype.size();
    size > 0 && size <= SLOT as u64 && datatype.extent() == size as i64 && datatype.begin_of_run(2) == Some(0)
}

/// Elements that follow each other.
pub(super) fn run(offset: usize, count: usize) -> Elements {
    Elements {
        region: Region::Output,
        times: 1,
        offset: offset as isize,
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
        self.output.as_ref()?.buffer(&run(offset, count))
    }

    pub(super) fn input(&self, offset: usize, count: usize) -> Option<Buffer> {
        self.input.as_ref()?.buffer(&run(offset, count))
    }
}

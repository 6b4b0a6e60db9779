#![expect(unsafe_code, reason = "data are memory of the caller")]
//! Frequent collectives whose data are one run of bytes and go in one step: from the program's memory and to it, without
//! buffers, scratch memory or the checks of arguments that such calls cannot get wrong.
//!
//! The steps are those of the general way, so ranks whose data lie in another way take that.

use core::{mem::MaybeUninit, ptr, slice};

use super::{arguments::dense, board::ROOM, exchange::LONG, state::State, steps::Steps};
use crate::mpi::{
    collectives::{Blocks, Call, Collective as Kind},
    datatype::Datatype,
    engine::{
        class::Class,
        communicator::Communicator,
        regions::{Buffers, Region},
    },
    error::Error,
    operation::Operation,
};

/// Most bytes of an operand that is reduced here.
const OPERAND: usize = ROOM;

/// An operand, aligned for every datatype.
#[repr(C, align(16))]
struct Operand(MaybeUninit<[u8; OPERAND]>);

impl Operand {
    const fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    fn place(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// What is done in the step.
#[derive(Clone, Copy)]
enum Data<'a> {
    None,
    /// The bytes of one rank come to all others.
    Bcast {
        root: usize,
        data: *mut u8,
        len: usize,
    },
    /// Blocks of so many bytes, one behind the other.
    Alltoall {
        from: *const u8,
        into: *mut u8,
        block: usize,
    },
    Allreduce(Vector<'a>),
}

/// The elements that are reduced.
#[derive(Clone, Copy)]
struct Vector<'a> {
    from: *const u8,
    into: *mut u8,
    operation: &'a Operation,
    datatype: &'a Datatype,
    count: usize,
    len: usize,
}

/// Address and bytes of elements without gaps, at least one.
#[inline]
fn run(region: &Region<'_>, count: usize) -> Option<(*mut u8, usize)> {
    let Region::Plain(base, datatype) = region else {
        return None;
    };
    let begin = datatype.begin_of_small_run(count as u64)?;
    Some((base.wrapping_offset(begin as isize), datatype.size() as usize * count))
}

impl<'a> Data<'a> {
    /// `None`: not these, or something about them is unusual, or wrong.
    #[inline]
    fn of(call: &Call<'_>, buffers: &Buffers<'a>, operation: Option<&'a Operation>, size: usize) -> Option<Self> {
        let Blocks::Even { count } = call.output else {
            return None;
        };
        match call.collective() {
            Kind::Barrier => Some(Self::None),
            Kind::Bcast => {
                let root = call.root().filter(|root| *root < size)?;
                let region = match &buffers.output {
                    Region::None => &buffers.input,
                    output => output,
                };
                let Region::Plain(_, datatype) = region else {
                    return None;
                };
                // (A broadcast counts bytes.)
                let (data, len) = run(region, count.checked_div(datatype.size() as usize)?)?;
                (len == count).then_some(Self::Bcast { root, data, len })
            }
            Kind::Alltoall => {
                let (into, all) = run(&buffers.output, count.checked_mul(size)?)?;
                let from = if call.in_place {
                    into
                } else {
                    let Blocks::Even { count } = call.input else {
                        return None;
                    };
                    let (from, bytes) = run(&buffers.input, count.checked_mul(size)?)?;
                    (bytes == all).then_some(from)?
                };
                let block = all / size;
                // (Larger blocks are streams, also where they go in one step.)
                (block < LONG).then_some(Self::Alltoall { from, into, block })
            }
            Kind::Allreduce => {
                let (into, len) = run(&buffers.output, count)?;
                let Region::Plain(_, datatype) = buffers.output else {
                    return None;
                };
                // (What the program does in an operation of its own may fail.)
                let operation = operation.filter(|operation| operation.as_predefined().is_some())?;
                let suits = len <= OPERAND && dense(datatype).is_some() && operation.check(datatype).is_ok();
                let from = match &buffers.input {
                    _ if call.in_place => into,
                    input @ Region::Plain(_, sent) if sent.kind() == datatype.kind() => run(input, count)?.0,
                    _ => return None,
                };
                suits.then_some(Self::Allreduce(Vector {
                    from,
                    into,
                    operation,
                    datatype,
                    count,
                    len,
                }))
            }
            _ => None,
        }
    }

    /// Bytes of the step.
    const fn len(&self, size: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Bcast { len, .. } => *len,
            Self::Alltoall { block, .. } => *block * size,
            Self::Allreduce(vector) => vector.len,
        }
    }
}

impl Communicator {
    /// Runs a collective if it is such a one. `None`: nothing has been done; the general way says what is wrong, if
    /// something is. It gets number `number`.
    ///
    /// # Safety
    /// See [`collective`](Self::collective).
    #[inline]
    pub(in crate::mpi::engine) unsafe fn short_on_host(
        &self,
        name: &'static str,
        call: &Call<'_>,
        buffers: &Buffers<'_>,
        operation: Option<&Operation>,
        number: u32,
    ) -> Option<Result<(), Error>> {
        let mut state = self.on_host().try_lock()?;
        // (Only a communicator whose collectives may go so has a board.)
        let State::Made(board) = &mut *state else {
            return None;
        };
        if self.is_over() || board.given_up().is_some() {
            return None;
        }
        let size = board.size();
        let data = Data::of(call, buffers, operation, size)?;
        let len = data.len(size);
        let mut steps = Steps {
            board,
            communicator: self,
            members: None,
            name,
            mark: Class::Collective.mark(call, len) as u32,
            bits: self.bits(Class::Collective, number),
            yields: self.engine().yields(),
        };
        if len > steps.piece() {
            return None;
        }
        // SAFETY: the caller's contract.
        Some(unsafe { steps.short(&data) })
    }
}

impl Steps<'_> {
    /// # Safety
    /// The data are those of a collective that this rank is in.
    #[inline]
    unsafe fn short(&mut self, data: &Data<'_>) -> Result<(), Error> {
        let (rank, size) = (self.rank(), self.size());
        match *data {
            Data::None => return self.barrier(),
            Data::Bcast { root, data, len } if root == rank => {
                self.begin(Some(len))?;
                // SAFETY: the caller's contract: these bytes may be read.
                self.board.write(len, 0, unsafe { slice::from_raw_parts(data, len) });
                self.post(len);
            }
            Data::Bcast { root, data, len } => {
                self.begin(None)?;
                self.await_post(root, len)?;
                // SAFETY: the caller's contract: these bytes may be written, and nothing else uses them.
                self.read(root, len, 0..len)
                    .copy_to(unsafe { slice::from_raw_parts_mut(data, len) });
            }
            Data::Alltoall { from, into, block } => {
                let all = block * size;
                self.begin(Some(all))?;
                // SAFETY: as above. (In place the slice is gone before the output is written.)
                self.board.write(all, 0, unsafe { slice::from_raw_parts(from, all) });
                self.post(all);
                // SAFETY: as above; in place they are the same bytes.
                unsafe { ptr::copy(from.add(rank * block), into.add(rank * block), block) };
                for other in self.others() {
                    self.await_post(other, all)?;
                    let bytes = self.read(other, all, rank * block..(rank + 1) * block);
                    // SAFETY: as above.
                    bytes.copy_to(unsafe { slice::from_raw_parts_mut(into.add(other * block), block) });
                }
                self.board.all_have_posted();
            }
            // SAFETY: the caller's contract.
            Data::Allreduce(vector) => unsafe { self.reduce_short(&vector) }?,
        }
        self.end_of(data.len(size));
        Ok(())
    }

    /// Reduces the operands in the order of ranks, as the general way does.
    ///
    /// # Safety
    /// As for [`short`](Self::short).
    #[inline]
    unsafe fn reduce_short(&mut self, vector: &Vector<'_>) -> Result<(), Error> {
        let (rank, last, len) = (self.rank(), self.size() - 1, vector.len);
        self.begin(Some(len))?;
        // SAFETY: the caller's contract: the operand may be read.
        self.board
            .write(len, 0, unsafe { slice::from_raw_parts(vector.from, len) });
        self.post(len);
        self.await_all(len)?;
        let (mut sum, mut operand) = (Operand::new(), Operand::new());
        let take = |from: usize, to: *mut u8| {
            // SAFETY: `to` has room for an operand, which is one of these bytes, and nothing else uses it.
            unsafe {
                if from == rank {
                    ptr::copy_nonoverlapping(vector.from, to, len);
                } else {
                    let bytes = self.read(from, len, 0..len);
                    ptr::copy_nonoverlapping(bytes.as_ptr(), to, len);
                }
            }
        };
        take(last, sum.place());
        for from in (0..last).rev() {
            take(from, operand.place());
            let Vector { datatype, count, .. } = vector;
            // SAFETY: both are `count` elements without gaps, initialised, of different memory.
            let _ = unsafe {
                vector
                    .operation
                    .apply_at(datatype, operand.place(), sum.place(), *count as u64)
            };
        }
        // SAFETY: the caller's contract: the result may be written.
        unsafe { ptr::copy_nonoverlapping(sum.place(), vector.into, len) };
        Ok(())
    }
}

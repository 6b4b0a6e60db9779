#![expect(unsafe_code, reason = "buffers and operands are memory of the caller")]
//! The collectives, as steps on a board.
//!
//! Each rank posts what others need of it, waits for those that it needs itself, and takes what it wants from their places.
//! Longer data go in pieces, each a step of its own, so that one rank writes a piece while others read the one before.

use alloc::vec::Vec;
use core::ops::Range;

use super::{board::SLOT, steps::Steps};
use crate::{
    messaging::MemoryRegion,
    mpi::{
        collectives::{Call, Collective as Kind, Region, Span as Elements},
        datatype::Datatype,
        engine::{
            buffer::Buffer,
            regions::{Buffers, Memory, Region as Data, memory},
        },
        error::Error,
        operation::Operation,
    },
    span::Span,
};

/// Bytes of a piece, where each rank has a core: it stays in that core's cache while the next one is written.
const PIECE: usize = 16 << 10;
/// From so many bytes on, and so many ranks, each rank reduces a part of the vector for all.
const DIVIDED: usize = 2 << 10;
const DIVIDED_RANKS: usize = 3;

/// The arguments of a collective at this rank.
pub(super) struct Arguments<'a> {
    pub(super) call: &'a Call<'a>,
    input: Option<Memory>,
    output: Option<Memory>,
    /// Sizes of elements, bytes.
    sizes: (usize, usize),
    operation: Option<&'a Operation>,
}

/// A vector whose elements are reduced.
struct Vector<'a> {
    /// This rank's operand.
    own: *const u8,
    /// The result, at ranks that get it.
    result: *mut u8,
    /// Bytes of an element.
    size: usize,
    datatype: &'a Datatype,
    operation: &'a Operation,
}

/// Memory in which operands are aligned.
#[derive(Default)]
struct Scratch(Vec<u64>);

impl Scratch {
    fn bytes(&mut self, len: usize) -> *mut u8 {
        if self.0.len() < len.div_ceil(8) {
            self.0.resize(len.div_ceil(8), 0);
        }
        self.0.as_mut_ptr().cast()
    }
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

fn run(offset: usize, count: usize) -> Elements {
    Elements {
        region: Region::Output,
        times: 1,
        offset: offset as isize,
        count,
        stride: 0,
    }
}

/// Pieces of at most `most` bytes; one without bytes if there are none.
fn pieces(len: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
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

    fn output(&self, offset: usize, count: usize) -> Option<Buffer> {
        self.output.as_ref()?.buffer(&run(offset, count))
    }

    fn input(&self, offset: usize, count: usize) -> Option<Buffer> {
        self.input.as_ref()?.buffer(&run(offset, count))
    }
}

impl Steps<'_> {
    /// Bytes that go in one step.
    fn piece(&self) -> usize {
        // A rank that shares its core waits for a turn in each step.
        if self.yields { SLOT } else { PIECE }
    }

    /// Runs the collective. `None`: a buffer does not fit into the address space.
    pub(super) fn run(&mut self, arguments: &Arguments<'_>) -> Result<Option<()>, Error> {
        let call = arguments.call;
        let root = call.root().unwrap_or(0);
        match call.collective() {
            Kind::Barrier => self.barrier().map(Some),
            Kind::Bcast => self.bcast(arguments, root),
            Kind::Gather => self.gather(arguments, Some(root)),
            Kind::Allgather => self.gather(arguments, None),
            Kind::Scatter => self.scatter(arguments, root),
            Kind::Alltoall => self.alltoall(arguments),
            Kind::Reduce => self.reduce(arguments, Some(root)),
            _ => self.reduce(arguments, None),
        }
    }

    fn barrier(&mut self) -> Result<(), Error> {
        self.begin(Some(0))?;
        self.post(0);
        self.await_all(0)?;
        self.end();
        Ok(())
    }

    /// Posts a part of a buffer.
    fn post_part(&mut self, buffer: &Buffer, part: Range<usize>) {
        self.write_part(buffer, part.clone(), (part.len(), 0));
        self.post(part.len());
    }

    /// Writes a part of a buffer; the step has `len` bytes, and the part begins `at` bytes behind the first.
    fn write_part(&mut self, buffer: &Buffer, part: Range<usize>, (len, at): (usize, usize)) {
        if part.is_empty() {
            return;
        }
        if let Some(bytes) = buffer.as_slice() {
            return self.board.write(len, at, &bytes[part]);
        }
        let mut packed = Vec::new();
        buffer.pack(part.start as u64, part.len() as u64, &mut packed);
        self.board.write(len, at, &packed);
    }

    fn bcast(&mut self, arguments: &Arguments<'_>, root: usize) -> Result<Option<()>, Error> {
        let len = arguments.call.output.single();
        let data = if arguments.output.is_some() {
            arguments.output(0, len)
        } else {
            arguments.input(0, len)
        };
        let Some(mut data) = data else { return Ok(None) };
        for part in pieces(len, self.piece()) {
            if self.rank() == root {
                self.begin(Some(part.len()))?;
                self.post_part(&data, part);
            } else {
                self.begin(None)?;
                self.await_post(root, part.len())?;
                data.place(part.start as u64, self.read(root, part.len(), 0..part.len()));
            }
            self.end();
        }
        Ok(Some(()))
    }

    /// Gather at a root, or at all ranks.
    fn gather(&mut self, arguments: &Arguments<'_>, root: Option<usize>) -> Result<Option<()>, Error> {
        let (rank, call) = (self.rank(), arguments.call);
        let takes = root.is_none_or(|root| root == rank);
        let is_in_place = call.in_place && takes;
        let block = call.output.count(rank);
        let own = if is_in_place {
            arguments.output(rank * block, block)
        } else {
            arguments.input(0, call.input.single())
        };
        let Some(own) = own else { return Ok(None) };
        let len = own.len() as usize;
        let mut blocks = Vec::new();
        if takes {
            for from in 0..self.size() {
                let Some(buffer) = arguments.output(from * block, block) else {
                    return Ok(None);
                };
                blocks.push(buffer);
            }
            if !is_in_place {
                blocks[rank].copy_from(&own, &mut Vec::new());
            }
        }
        for part in pieces(len, self.piece()) {
            // A root posts nothing: nobody reads it.
            let posts = root.is_none() || !takes;
            self.begin(posts.then_some(part.len()))?;
            if posts {
                self.post_part(&own, part.clone());
            }
            if takes {
                for from in self.others() {
                    self.await_post(from, part.len())?;
                    blocks[from].place(part.start as u64, self.read(from, part.len(), 0..part.len()));
                }
            }
            if takes {
                self.board.all_have_posted();
            }
            self.end();
        }
        Ok(Some(()))
    }

    fn scatter(&mut self, arguments: &Arguments<'_>, root: usize) -> Result<Option<()>, Error> {
        let (rank, size, call) = (self.rank(), self.size(), arguments.call);
        if rank == root {
            let block = call.input.count(rank);
            let mut blocks = Vec::with_capacity(size);
            for to in 0..size {
                let Some(buffer) = arguments.input(to * block, block) else {
                    return Ok(None);
                };
                blocks.push(buffer);
            }
            if !call.in_place {
                let Some(mut own) = arguments.output(0, call.output.single()) else {
                    return Ok(None);
                };
                own.copy_from(&blocks[rank], &mut Vec::new());
            }
            let len = block * arguments.sizes.0;
            for part in pieces(len, self.piece() / size) {
                self.begin(Some(part.len() * size))?;
                self.write_all(&blocks, &part);
                self.post(part.len() * size);
                self.end();
            }
            return Ok(Some(()));
        }
        let Some(mut own) = arguments.output(0, call.output.single()) else {
            return Ok(None);
        };
        for part in pieces(own.len() as usize, self.piece() / size) {
            self.begin(None)?;
            self.await_post(root, part.len() * size)?;
            own.place(part.start as u64, self.read_mine(root, &part));
            self.end();
        }
        Ok(Some(()))
    }

    fn alltoall(&mut self, arguments: &Arguments<'_>) -> Result<Option<()>, Error> {
        let (rank, size, call) = (self.rank(), self.size(), arguments.call);
        let received = call.output.count(rank);
        let sent = if call.in_place {
            received
        } else {
            call.input.count(rank)
        };
        let (mut from, mut into) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for other in 0..size {
            let Some(receives) = arguments.output(other * received, received) else {
                return Ok(None);
            };
            let sends = if call.in_place {
                arguments.output(other * sent, sent)
            } else {
                arguments.input(other * sent, sent)
            };
            let Some(sends) = sends else { return Ok(None) };
            into.push(receives);
            from.push(sends);
        }
        if !call.in_place {
            into[rank].copy_from(&from[rank], &mut Vec::new());
        }
        let len = received * arguments.sizes.1;
        for part in pieces(len, self.piece() / size) {
            let all = part.len() * size;
            self.begin(Some(all))?;
            self.write_all(&from, &part);
            self.post(all);
            for other in self.others() {
                self.await_post(other, all)?;
                into[other].place(part.start as u64, self.read_mine(other, &part));
            }
            self.board.all_have_posted();
            self.end();
        }
        Ok(Some(()))
    }

    /// Writes the same part of all blocks, one behind the other.
    fn write_all(&mut self, blocks: &[Buffer], part: &Range<usize>) {
        let all = part.len() * blocks.len();
        for (to, block) in blocks.iter().enumerate() {
            if to != self.rank() {
                self.write_part(block, part.clone(), (all, to * part.len()));
            }
        }
    }

    /// The part for this rank of what another one has written so.
    fn read_mine(&self, from: usize, part: &Range<usize>) -> Span<'_> {
        let (rank, len) = (self.rank(), part.len());
        self.read(from, len * self.size(), rank * len..(rank + 1) * len)
    }

    // ---- reductions

    /// Reduces a vector at a root, or at all ranks.
    fn reduce(&mut self, arguments: &Arguments<'_>, root: Option<usize>) -> Result<Option<()>, Error> {
        let (rank, call) = (self.rank(), arguments.call);
        let takes = root.is_none_or(|root| root == rank);
        let base = |memory: &Option<Memory>| {
            memory
                .as_ref()?
                .run(&run(0, 0))
                .map(|(base, datatype)| (base, datatype.clone()))
        };
        let (input, output) = (base(&arguments.input), base(&arguments.output));
        let own = if call.in_place && takes { &output } else { &input };
        let (Some((own, datatype)), Some(operation)) = (own, arguments.operation) else {
            return Ok(None);
        };
        let result = output
            .as_ref()
            .filter(|_| takes)
            .map_or(core::ptr::null_mut(), |(base, _)| *base);
        let elements = if takes {
            call.output.single()
        } else {
            call.input.single()
        };
        if !datatype.fits(elements as u64) {
            return Ok(None);
        }
        let vector = Vector {
            own: *own,
            result,
            size: datatype.size() as usize,
            datatype,
            operation,
        };
        let bytes = elements * vector.size;
        let is_divided = root.is_none() && bytes >= DIVIDED && self.size() >= DIVIDED_RANKS;
        let most = (self.piece() / vector.size).max(1);
        let mut scratch = [Scratch::default(), Scratch::default()];
        for part in pieces(elements, most) {
            if is_divided {
                self.reduce_divided(&vector, part, &mut scratch)?;
            } else {
                self.reduce_piece(&vector, part, (root.is_none() || !takes, takes), &mut scratch[0])?;
            }
        }
        Ok(Some(()))
    }

    /// Each rank that takes the result reduces the piece.
    fn reduce_piece(
        &mut self,
        vector: &Vector<'_>,
        part: Range<usize>,
        (posts, takes): (bool, bool),
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let len = part.len() * vector.size;
        self.begin(posts.then_some(len))?;
        if posts {
            self.board.write(len, 0, vector.operand(&part));
            self.post(len);
        }
        if takes {
            for rank in self.others() {
                self.await_post(rank, len)?;
            }
            self.board.all_have_posted();
            let into = vector.place(&part);
            self.combine(vector, &part, len, 0..len, (into, scratch));
        }
        self.end();
        Ok(())
    }

    /// Each rank reduces its share of the piece, and takes the other shares from the others.
    fn reduce_divided(
        &mut self,
        vector: &Vector<'_>,
        part: Range<usize>,
        [scratch, share]: &mut [Scratch; 2],
    ) -> Result<(), Error> {
        let (rank, size) = (self.rank(), self.size());
        let len = part.len() * vector.size;
        self.begin(Some(len))?;
        self.board.write(len, 0, vector.operand(&part));
        self.post(len);
        self.await_all(len)?;
        let count = part.len();
        let elements = |rank: usize| count * rank / size..count * (rank + 1) / size;
        let bytes = |rank: usize| elements(rank).start * vector.size..elements(rank).end * vector.size;
        let mine = bytes(rank);
        let into = share.bytes(mine.len());
        let own = part.start + elements(rank).start..part.start + elements(rank).end;
        self.combine(vector, &own, len, mine.clone(), (into, scratch));
        self.end();
        self.begin(Some(mine.len()))?;
        // SAFETY: so many bytes of the scratch memory were written just now.
        let reduced = unsafe { core::slice::from_raw_parts(into, mine.len()) };
        if !mine.is_empty() {
            self.board.write(mine.len(), 0, reduced);
        }
        self.post(mine.len());
        let piece = vector.place(&part);
        vector.fill(piece, mine.start, Span::new(reduced));
        for other in self.others() {
            let theirs = bytes(other);
            self.await_post(other, theirs.len())?;
            vector.fill(piece, theirs.start, self.read(other, theirs.len(), 0..theirs.len()));
        }
        self.board.all_have_posted();
        self.end();
        Ok(())
    }

    /// Reduces the operands of all ranks, in their order, to `into`: of the `len` bytes that each has posted, those of
    /// `bytes`, which are the elements `own` of this rank's vector.
    fn combine(
        &self,
        vector: &Vector<'_>,
        own: &Range<usize>,
        len: usize,
        bytes: Range<usize>,
        (into, scratch): (*mut u8, &mut Scratch),
    ) {
        if bytes.is_empty() {
            return;
        }
        let (last, count) = (self.size() - 1, own.len() as u64);
        let operand = scratch.bytes(bytes.len());
        // In place, this rank's operand is where the result comes.
        let own_operand = vector.operand(own);
        let overlaps = own_operand.as_ptr().addr() == into.addr();
        let mut kept = Scratch::default();
        let own_operand = if overlaps && self.rank() != last {
            let place = kept.bytes(bytes.len());
            // SAFETY: both have so many bytes, and the scratch memory is other memory.
            unsafe { place.copy_from_nonoverlapping(own_operand.as_ptr(), bytes.len()) };
            place.cast_const()
        } else {
            own_operand.as_ptr()
        };
        let posted = |rank: usize| self.read(rank, len, bytes.clone());
        // SAFETY: `into` has room for these elements, and nothing else uses it: it is the caller's output, or scratch
        // memory.
        let result = unsafe { core::slice::from_raw_parts_mut(into, bytes.len()) };
        if self.rank() == last {
            if !overlaps {
                // SAFETY: the caller's input, which is other memory.
                unsafe { into.copy_from_nonoverlapping(own_operand, bytes.len()) };
            }
        } else {
            posted(last).copy_to(result);
        }
        for rank in (0..last).rev() {
            let from = if rank == self.rank() {
                own_operand
            } else {
                // SAFETY: the scratch memory has so many bytes, and is used here only.
                posted(rank).copy_to(unsafe { core::slice::from_raw_parts_mut(operand, bytes.len()) });
                operand.cast_const()
            };
            // SAFETY: both are `count` elements without gaps, initialised, of different memory. (The operation was checked
            // for this datatype.)
            let _ = unsafe { vector.operation.apply_at(vector.datatype, from, into, count) };
        }
    }
}

impl Vector<'_> {
    /// Bytes of this rank's operand.
    fn operand(&self, elements: &Range<usize>) -> &[u8] {
        if elements.is_empty() {
            return &[];
        }
        let begin = self.own.wrapping_add(elements.start * self.size);
        // SAFETY: by the contract of the collective these elements, which have no gaps, may be read.
        unsafe { core::slice::from_raw_parts(begin, elements.len() * self.size) }
    }

    /// Where the result's elements begin.
    fn place(&self, elements: &Range<usize>) -> *mut u8 {
        self.result.wrapping_add(elements.start * self.size)
    }

    /// Copies a part of the result to its place, `at` bytes behind `piece`.
    fn fill(&self, piece: *mut u8, at: usize, bytes: Span<'_>) {
        if !bytes.is_empty() {
            // SAFETY: by the contract of the collective the elements of the result may be written, and nothing else uses
            // them.
            bytes.copy_to(unsafe { core::slice::from_raw_parts_mut(piece.wrapping_add(at), bytes.len()) });
        }
    }
}

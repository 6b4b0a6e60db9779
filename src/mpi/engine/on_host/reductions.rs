#![expect(unsafe_code, reason = "operands are memory of the caller")]
//! Reductions, as steps on a board. Operands are taken in the order of ranks, so that all ranks get the same bits.

use alloc::vec::Vec;
use core::ops::Range;

use super::{
    arguments::{Arguments, pieces, run},
    steps::Steps,
};
use crate::{
    mpi::{datatype::Datatype, engine::regions::Memory, error::Error, operation::Operation},
    span::Span,
};

/// From so many bytes on, and so many ranks, each rank reduces a part of the vector for all.
const DIVIDED: usize = 2 << 10;
const DIVIDED_RANKS: usize = 3;

/// A vector whose elements are reduced.
pub(super) struct Vector<'a> {
    /// This rank's operand.
    own: *const u8,
    /// The result, at ranks that get it.
    result: *mut u8,
    /// Bytes of an element.
    pub(super) size: usize,
    datatype: Datatype,
    operation: &'a Operation,
}

/// Memory in which operands are aligned.
#[derive(Default)]
pub(super) struct Scratch(Vec<u64>);

impl Scratch {
    pub(super) fn bytes(&mut self, len: usize) -> *mut u8 {
        if self.0.len() < len.div_ceil(8) {
            self.0.resize(len.div_ceil(8), 0);
        }
        self.0.as_mut_ptr().cast()
    }
}

impl Steps<'_> {
    /// Reduces a vector at a root, or at all ranks.
    pub(super) fn reduce(&mut self, arguments: &Arguments<'_>, root: Option<usize>) -> Result<Option<()>, Error> {
        let (rank, call) = (self.rank(), arguments.call);
        let takes = root.is_none_or(|root| root == rank);
        let elements = if takes {
            call.output.single()
        } else {
            call.input.single()
        };
        let Some(vector) = Vector::new(arguments, takes, elements) else {
            return Ok(None);
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
            self.combine(vector, &part, (self.size(), len, 0..len), (into, scratch));
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
        self.combine(vector, &own, (size, len, mine.clone()), (into, scratch));
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

    /// Reduces the operands of the first `ranks` ranks, in their order, to `into`: of the `len` bytes that each has
    /// posted, those of `bytes`, which are the elements `own` of this rank's vector.
    pub(super) fn combine(
        &self,
        vector: &Vector<'_>,
        own: &Range<usize>,
        (ranks, len, bytes): (usize, usize, Range<usize>),
        (into, scratch): (*mut u8, &mut Scratch),
    ) {
        if bytes.is_empty() || ranks == 0 {
            return;
        }
        let (last, count) = (ranks - 1, own.len() as u64);
        let operand = scratch.bytes(bytes.len());
        // In place, this rank's operand is where the result comes.
        let own_operand = vector.operand(own);
        let overlaps = own_operand.as_ptr().addr() == into.addr();
        let mut kept = Scratch::default();
        let own_operand = if overlaps && self.rank() < last {
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
            let _ = unsafe { vector.operation.apply_at(&vector.datatype, from, into, count) };
        }
    }
}

impl<'a> Vector<'a> {
    /// The vector of a call, in which so many elements are reduced; this rank may take the result. `None`: it does not
    /// fit into the address space.
    pub(super) fn new(arguments: &Arguments<'a>, takes: bool, elements: usize) -> Option<Self> {
        let base = |memory: &Option<Memory>| {
            let memory = memory.as_ref()?;
            memory.run(&run(0, 0)).map(|(base, datatype)| (base, datatype.clone()))
        };
        let (input, output) = (base(&arguments.input), base(&arguments.output));
        let result = output.as_ref().filter(|_| takes).map(|(base, _)| *base);
        let (own, datatype) = if arguments.call.in_place && takes {
            output
        } else {
            input
        }?;
        datatype.fits(elements as u64).then_some(Self {
            own,
            result: result.unwrap_or(core::ptr::null_mut()),
            size: datatype.size() as usize,
            datatype,
            operation: arguments.operation?,
        })
    }
}

impl Vector<'_> {
    /// Bytes of this rank's operand.
    pub(super) fn operand(&self, elements: &Range<usize>) -> &[u8] {
        if elements.is_empty() {
            return &[];
        }
        let begin = self.own.wrapping_add(elements.start * self.size);
        // SAFETY: by the contract of the collective these elements, which have no gaps, may be read.
        unsafe { core::slice::from_raw_parts(begin, elements.len() * self.size) }
    }

    /// Where the result's elements begin.
    pub(super) fn place(&self, elements: &Range<usize>) -> *mut u8 {
        self.result.wrapping_add(elements.start * self.size)
    }

    /// Copies a part of the result to its place, `at` bytes behind `piece`.
    pub(super) fn fill(&self, piece: *mut u8, at: usize, bytes: Span<'_>) {
        if !bytes.is_empty() {
            // SAFETY: by the contract of the collective the elements of the result may be written, and nothing else uses
            // them.
            bytes.copy_to(unsafe { core::slice::from_raw_parts_mut(piece.wrapping_add(at), bytes.len()) });
        }
    }
}

//! Collectives whose blocks have lengths of their own, of which a rank knows only those that it sends or takes itself.
//!
//! A rank that sends posts a *stream*: a table of how many bytes there are for each rank, and then these, in the order of
//! ranks. All read the tables of all streams, so all count the same steps; of the bytes each reads its own.

use alloc::{vec, vec::Vec};
use core::ops::Range;

use super::{arguments::Arguments, medium::SLOT, steps::Steps};
use crate::{
    messaging::MemoryRegion,
    mpi::{collectives::Collective as Kind, engine::buffer::Buffer, error::Error},
};

/// Bytes of a number in a table.
const NUMBER: usize = size_of::<u64>();

/// What this rank sends to each rank, and takes from each; empty where there is nothing, and for itself.
struct Blocks {
    sent: Vec<Buffer>,
    taken: Vec<Buffer>,
    /// The bytes of all that is sent, if what is taken comes to the same places.
    packed: Option<Vec<u8>>,
}

/// What is known of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// All of its bytes.
    len: usize,
    /// Where those for this rank begin, and how many there are.
    at: usize,
    mine: usize,
}

fn nothing() -> Buffer {
    Buffer::join(Vec::new())
}

/// What two ranges have in common. It begins before neither of them, also if it is empty.
fn common(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}

impl Blocks {
    /// Copies this rank's block for itself. `None`: a buffer does not fit into the address space.
    fn new(arguments: &Arguments<'_>, rank: usize, size: usize) -> Option<Self> {
        let call = arguments.call;
        let is_root = call.root() == Some(rank);
        let empty = || (0..size).map(|_| nothing()).collect::<Vec<_>>();
        let (mut sent, mut taken, mut packed) = (empty(), empty(), None);
        let root = call.root().unwrap_or_default();
        match call.collective() {
            Kind::Gatherv if !is_root => sent[root] = arguments.input(0, call.input.single())?,
            Kind::Scatterv if !is_root => taken[root] = arguments.output(0, call.output.single())?,
            Kind::Gatherv => {
                for (from, block) in taken.iter_mut().enumerate() {
                    *block = arguments.output_block(from)?;
                }
                if !call.in_place {
                    taken[rank].copy_from(&arguments.input(0, call.input.single())?, &mut Vec::new());
                }
            }
            Kind::Scatterv => {
                for (to, block) in sent.iter_mut().enumerate() {
                    *block = arguments.input_block(to)?;
                }
                if !call.in_place {
                    let mut own = arguments.output(0, call.output.single())?;
                    own.copy_from(&sent[rank], &mut Vec::new());
                }
            }
            _ => {
                for other in 0..size {
                    taken[other] = arguments.output_block(other)?;
                    sent[other] = if call.in_place {
                        arguments.output_block(other)?
                    } else {
                        arguments.input_block(other)?
                    };
                }
                if !call.in_place {
                    taken[rank].copy_from(&sent[rank], &mut Vec::new());
                }
            }
        }
        (sent[rank], taken[rank]) = (nothing(), nothing());
        if call.in_place && call.root().is_none() {
            let bytes = packed.insert(Vec::new());
            sent.iter().for_each(|block| block.pack(0, block.len(), bytes));
        }
        Some(Self { sent, taken, packed })
    }

    /// Bytes of the stream of this rank.
    fn len(&self) -> usize {
        self.sent.iter().map(|block| block.len() as usize).sum()
    }

    fn table(&self) -> Vec<u8> {
        self.sent.iter().flat_map(|block| block.len().to_le_bytes()).collect()
    }
}

impl Steps<'_> {
    /// Gatherv, scatterv, alltoallv and alltoallw.
    pub(super) fn exchange(&mut self, arguments: &Arguments<'_>) -> Result<Option<()>, Error> {
        let (rank, size) = (self.rank(), self.size());
        let Some(mut blocks) = Blocks::new(arguments, rank, size) else {
            return Ok(None);
        };
        let (kind, root) = (arguments.call.collective(), arguments.call.root());
        let posts = |rank: usize| match kind {
            Kind::Gatherv => root != Some(rank),
            Kind::Scatterv => root == Some(rank),
            _ => true,
        };
        let table = size * NUMBER;
        let own = blocks.len();
        // The first step has the table, too.
        let room = self.piece() - table;
        let first = |len: usize| 0..len.min(room);
        let len = table + first(own).end;
        self.begin(posts(rank).then_some(len))?;
        if posts(rank) {
            self.board.write(len, 0, &blocks.table());
            self.write_stream(&blocks, &first(own), (len, table));
            self.post(len);
        }
        let mut streams = vec![Stream::default(); size];
        for from in self.others().filter(|from| posts(*from)) {
            streams[from] = self.await_table(from, blocks.taken[from].len() as usize, room)?;
            self.take(&mut blocks, from, &streams[from], first(streams[from].len), table)?;
        }
        if kind == Kind::Alltoallv {
            self.board.all_have_posted();
        }
        self.end();
        streams[rank].len = own;
        let longest = streams.iter().map(|stream| stream.len).max().unwrap_or_default();
        let most = self.piece();
        for begin in (room..longest).step_by(most) {
            let part = |len: usize| begin.min(len)..len.min(begin.saturating_add(most));
            let own = part(own);
            self.begin((!own.is_empty()).then_some(own.len()))?;
            if !own.is_empty() {
                self.write_stream(&blocks, &own, (own.len(), 0));
                self.post(own.len());
            }
            for from in self.others() {
                self.take(&mut blocks, from, &streams[from], part(streams[from].len), 0)?;
            }
            self.end();
        }
        Ok(Some(()))
    }

    /// Writes a part of this rank's stream; the step has `len` bytes, and the part begins `at` bytes behind the first.
    fn write_stream(&mut self, blocks: &Blocks, part: &Range<usize>, (len, at): (usize, usize)) {
        if let Some(packed) = &blocks.packed {
            return self.board.write(len, at, &packed[part.clone()]);
        }
        let mut begin = 0;
        for block in &blocks.sent {
            let end = begin + block.len() as usize;
            let inside = common(&(begin..end), part);
            let place = (len, at + inside.start - part.start);
            self.write_part(block, inside.start - begin..inside.end - begin, place);
            begin = end;
        }
    }

    /// Waits for the table of a stream, in which there must be `mine` bytes for this rank.
    fn await_table(&mut self, from: usize, mine: usize, room: usize) -> Result<Stream, Error> {
        let table = self.size() * NUMBER;
        let len = self.await_any(from)?;
        let mut bytes = vec![0; table];
        if (table..=SLOT).contains(&len) {
            self.read(from, len, 0..table).copy_to(&mut bytes);
        }
        let numbers = bytes.chunks_exact(NUMBER);
        let lens: Vec<usize> = numbers
            .map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes) as usize)
            .collect();
        let sum = |lens: &[usize]| lens.iter().fold(0, |sum: usize, len| sum.saturating_add(*len));
        let stream = Stream {
            len: sum(&lens),
            at: sum(&lens[..self.rank()]),
            mine: lens[self.rank()],
        };
        if stream.mine != mine {
            return Err(self.truncated(from, stream.mine, mine));
        }
        if len != table + stream.len.min(room) {
            return Err(self.differs(from));
        }
        Ok(stream)
    }

    /// Takes what a part of a stream has for this rank: waits for it only if there is something. The part begins `at`
    /// bytes behind the first of its step.
    fn take(
        &mut self,
        blocks: &mut Blocks,
        from: usize,
        stream: &Stream,
        part: Range<usize>,
        at: usize,
    ) -> Result<(), Error> {
        let mine = common(&part, &(stream.at..stream.at.saturating_add(stream.mine)));
        if mine.is_empty() {
            return Ok(());
        }
        let len = at + part.len();
        self.await_post(from, len)?;
        let bytes = self.read(from, len, at + mine.start - part.start..at + mine.end - part.start);
        blocks.taken[from].place((mine.start - stream.at) as u64, bytes);
        Ok(())
    }
}

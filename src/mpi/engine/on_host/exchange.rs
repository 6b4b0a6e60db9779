//! Collectives whose blocks have lengths of their own, of which a rank knows only those that it sends or takes itself; and
//! those in which each rank has large blocks for all others.
//!
//! A rank that sends posts a *stream*: a table of how many bytes there are for each rank, and then these, beginning with
//! those for the rank after it. All read the tables of all streams, so all count the same steps; of the bytes each reads
//! its own.
//!
//! *Long* streams, if all ranks send, are read where they lie: behind the table are addresses instead of bytes. If a rank
//! cannot, these streams go by the board as others do.

use alloc::{vec, vec::Vec};
use core::{mem, ops::Range};

use super::{
    arguments::Arguments,
    crossed::{NOWHERE, address},
    medium::SLOT,
    steps::Steps,
};
use crate::{
    messaging::MemoryRegion,
    mpi::{collectives::Collective as Kind, engine::buffer::Buffer, error::Error},
};

/// Bytes of a number in a table: how many bytes there are for a rank, or where they lie.
const NUMBER: usize = size_of::<u64>();
/// In a long stream, blocks have so many bytes on average: then one copy by the system takes less time than the pieces of
/// two, however many ranks there are, and however far apart they run. (All must come to the same, so it is no setting.)
pub(super) const LONG: usize = 32 << 10;

/// What this rank sends to each rank, and takes from each; empty where there is nothing, and for itself.
struct Blocks {
    sent: Vec<Buffer>,
    taken: Vec<Buffer>,
    /// This rank's block for itself, and where it comes to, if that is elsewhere.
    own: (Buffer, Buffer),
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
    /// Of a long one: where these lie in the memory of the rank that sends them.
    address: u64,
    /// And all ranks know where theirs lie.
    is_readable: bool,
}

/// How streams are divided into steps. All ranks come to the same, by the lengths.
#[derive(Clone, Copy)]
struct Division {
    /// Bytes of a table, and of the addresses behind it.
    table: usize,
    /// Bytes of a stream that have room behind its table.
    room: usize,
    /// Streams of so many bytes are long.
    long: usize,
}

impl Division {
    fn is_long(&self, len: usize) -> bool {
        len >= self.long
    }

    /// The bytes of a stream that are in its first step.
    fn first(&self, len: usize) -> usize {
        if self.is_long(len) { 0 } else { len.min(self.room) }
    }

    /// Bytes of the first step of a stream.
    fn first_step(&self, len: usize) -> usize {
        self.table + if self.is_long(len) { self.table } else { self.first(len) }
    }
}

/// All ranks, in the order in which one has bytes for them in its stream: itself last.
fn order(rank: usize, size: usize) -> impl Iterator<Item = usize> {
    (rank + 1..size).chain(0..=rank)
}

/// The numbers of a table.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    bytes.chunks_exact(NUMBER).map(number).collect()
}

fn to_bytes(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    numbers.for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    bytes
}

/// What two ranges have in common. It begins before neither of them, also if it is empty.
fn common(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}

impl Blocks {
    /// `None`: a buffer does not fit into the address space.
    fn new(arguments: &Arguments<'_>, rank: usize, size: usize) -> Option<Self> {
        let call = arguments.call;
        let is_root = call.root() == Some(rank);
        let empty = || vec![Buffer::NOTHING; size];
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
                    sent[rank] = arguments.input(0, call.input.single())?;
                }
            }
            Kind::Scatterv => {
                for (to, block) in sent.iter_mut().enumerate() {
                    *block = arguments.input_block(to)?;
                }
                if !call.in_place {
                    taken[rank] = arguments.output(0, call.output.single())?;
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
                if call.in_place {
                    sent[rank] = Buffer::NOTHING;
                }
            }
        }
        let own = (
            mem::replace(&mut sent[rank], Buffer::NOTHING),
            mem::replace(&mut taken[rank], Buffer::NOTHING),
        );
        if call.in_place && call.root().is_none() {
            let bytes = packed.insert(Vec::new());
            order(rank, size).for_each(|to| sent[to].pack(0, sent[to].len(), bytes));
        }
        Some(Self {
            sent,
            taken,
            own,
            packed,
        })
    }

    /// Bytes of the stream of this rank.
    fn len(&self) -> usize {
        self.sent.iter().map(|block| block.len() as usize).sum()
    }

    /// Where the blocks lie that are sent. (Packed ones are copied twice anyway.)
    fn addresses(&self) -> Vec<u64> {
        match self.packed {
            Some(_) => vec![NOWHERE; self.sent.len()],
            None => self.sent.iter().map(address).collect(),
        }
    }
}

impl Steps<'_> {
    /// Gatherv, scatterv, alltoall, alltoallv and alltoallw.
    pub(super) fn exchange(&mut self, arguments: &Arguments<'_>) -> Result<Option<()>, Error> {
        let (rank, size) = (self.rank(), self.size());
        let Some(mut blocks) = Blocks::new(arguments, rank, size) else {
            return Ok(None);
        };
        let root = arguments.call.root();
        let posts = |rank: usize| match arguments.call.collective() {
            Kind::Gatherv => root != Some(rank),
            Kind::Scatterv => root == Some(rank),
            _ => true,
        };
        let table = size * NUMBER;
        let division = Division {
            table,
            room: self.piece() - table,
            // (Those of one root do not go so: ranks would have to wait for each other.)
            long: if root.is_none() { (size - 1) * LONG } else { usize::MAX },
        };
        let mut streams = vec![Stream::default(); size];
        self.begin(posts(rank).then_some(division.first_step(blocks.len())))?;
        if posts(rank) {
            streams[rank] = self.post_table(&blocks, division);
        }
        blocks.own.1.copy_from(&blocks.own.0, &mut Vec::new());
        for from in self.others().filter(|from| posts(*from)) {
            let mine = blocks.taken[from].len() as usize;
            streams[from] = self.await_table(from, mine, division)?;
            let part = 0..division.first(streams[from].len);
            self.take(&mut blocks, from, &streams[from], part, table)?;
        }
        if root.is_none() {
            self.board.all_have_posted();
        }
        self.end();

        let is_long = |stream: &Stream| division.is_long(stream.len);
        let all_readable = streams.iter().all(|stream| stream.is_readable || !is_long(stream));
        if streams.iter().any(is_long) && all_readable && self.take_long(&mut blocks, &streams, division)? {
            let long = streams.iter_mut().filter(|stream| division.is_long(stream.len));
            long.for_each(|stream| stream.len = 0);
        }
        self.take_rest(&mut blocks, &streams, division)?;
        Ok(Some(()))
    }

    /// Posts the first step of this rank's stream.
    fn post_table(&mut self, blocks: &Blocks, division: Division) -> Stream {
        let own = blocks.len();
        let (len, table) = (division.first_step(own), division.table);
        let mut stream = Stream {
            len: own,
            ..Stream::default()
        };
        self.board.write(len, 0, &to_bytes(blocks.sent.iter().map(Buffer::len)));
        if division.is_long(own) {
            let addresses = blocks.addresses();
            self.board.write(len, table, &to_bytes(addresses.iter().copied()));
            stream.is_readable = !addresses.contains(&NOWHERE);
        }
        self.write_stream(blocks, &(0..division.first(own)), (len, table));
        self.post(len);
        stream
    }

    /// Reads what long streams have for this rank where it lies. Returns whether all ranks could.
    fn take_long(&mut self, blocks: &mut Blocks, streams: &[Stream], division: Division) -> Result<bool, Error> {
        let mut could_read = true;
        for from in self.others() {
            let Stream { len, mine, address, .. } = streams[from];
            if division.is_long(len) && mine > 0 {
                could_read = could_read && self.fill_from(from, address, &mut blocks.taken[from]);
            }
        }
        self.agree_on_read(could_read)
    }

    /// Takes what is left of streams behind their first steps, in pieces.
    fn take_rest(&mut self, blocks: &mut Blocks, streams: &[Stream], division: Division) -> Result<(), Error> {
        let most = self.piece();
        let left = streams
            .iter()
            .map(|stream| stream.len - division.first(stream.len))
            .max();
        for begin in (0..left.unwrap_or_default()).step_by(most) {
            let part = |stream: &Stream| {
                let begin = stream.len.min(division.first(stream.len) + begin);
                begin..stream.len.min(begin.saturating_add(most))
            };
            let own = part(&streams[self.rank()]);
            self.begin((!own.is_empty()).then_some(own.len()))?;
            if !own.is_empty() {
                self.write_stream(blocks, &own, (own.len(), 0));
                self.post(own.len());
            }
            for from in self.others() {
                self.take(blocks, from, &streams[from], part(&streams[from]), 0)?;
            }
            self.end();
        }
        Ok(())
    }

    /// Writes a part of this rank's stream; the step has `len` bytes, and the part begins `at` bytes behind the first.
    fn write_stream(&mut self, blocks: &Blocks, part: &Range<usize>, (len, at): (usize, usize)) {
        if let Some(packed) = &blocks.packed {
            return self.board.write(len, at, &packed[part.clone()]);
        }
        let mut begin = 0;
        for block in order(self.rank(), self.size()).map(|to| &blocks.sent[to]) {
            let end = begin + block.len() as usize;
            let inside = common(&(begin..end), part);
            let place = (len, at + inside.start - part.start);
            self.write_part(block, inside.start - begin..inside.end - begin, place);
            begin = end;
        }
    }

    /// Waits for the first step of a stream, in which there must be `mine` bytes for this rank.
    fn await_table(&mut self, from: usize, mine: usize, division: Division) -> Result<Stream, Error> {
        let (rank, size, table) = (self.rank(), self.size(), division.table);
        let posted = self.await_any(from)?;
        let read = |part: Range<usize>| match (part.end..=SLOT).contains(&posted) {
            true => numbers(&self.read(from, posted, part).to_vec()),
            false => vec![0; size],
        };
        let lens = read(0..table);
        let sum = |ranks: &mut dyn Iterator<Item = usize>| {
            ranks.fold(0, |sum: usize, to| sum.saturating_add(lens[to] as usize))
        };
        let mut stream = Stream {
            len: sum(&mut order(from, size)),
            at: sum(&mut order(from, size).take_while(|to| *to != rank)),
            mine: lens[rank] as usize,
            ..Stream::default()
        };
        if stream.mine != mine {
            return Err(self.truncated(from, stream.mine, mine));
        }
        if posted != division.first_step(stream.len) {
            return Err(self.differs(from));
        }
        if division.is_long(stream.len) {
            let addresses = read(table..2 * table);
            stream.address = addresses[rank];
            stream.is_readable = !addresses.contains(&NOWHERE);
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

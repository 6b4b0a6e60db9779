#![expect(unsafe_code, reason = "buffers are memory of the caller")]
//! Collectives of two levels that move blocks, and reduce nothing.
//!
//! Blocks are bytes here: those of the program, where they are one run, or packed ones. Between hosts they go in *host
//! order*; where that is not the order of ranks, they are put into order in the end.

use alloc::{vec, vec::Vec};
use core::ops::Range;

use super::{
    arguments::run,
    hosts::sums,
    levels::{Run, element},
};
use crate::{
    messaging::MemoryRegion,
    mpi::{
        collectives::{Blocks, Call, Collective as Kind, Role, Way, displacements},
        datatype::{self, Datatype},
        engine::{
            buffer::Buffer,
            regions::{Address, Memory, Region, memory},
        },
        error::Error,
    },
    span::Span,
};

/// Bytes that a stage sends or takes.
#[derive(Clone, Copy)]
struct Bytes {
    base: *mut u8,
    len: usize,
}

impl Bytes {
    fn of(scratch: &mut Vec<u8>) -> Self {
        let (base, len) = (scratch.as_mut_ptr(), scratch.len());
        Self { base, len }
    }

    fn part(self, part: Range<usize>) -> Self {
        let base = self.base.wrapping_add(part.start);
        Self { base, len: part.len() }
    }

    /// Of blocks of so many bytes, some.
    fn blocks(self, bytes: usize, blocks: Range<usize>) -> Self {
        self.part(blocks.start * bytes..blocks.end * bytes)
    }

    fn block(self, bytes: usize, block: usize) -> Self {
        self.blocks(bytes, block..block + 1)
    }

    fn memory(self) -> Memory {
        Memory::Plain(Address(self.base), Datatype::predefined(datatype::Kind::Byte))
    }

    /// The same, as a broadcast has them.
    fn for_bcast(self) -> Memory {
        let byte = Datatype::predefined(datatype::Kind::Byte);
        Memory::Packed(Address(self.base), self.len as u64, byte)
    }

    /// Copies as many bytes.
    ///
    /// # Safety
    /// These may be written, and those read, and nothing else uses them meanwhile. They may be the same.
    unsafe fn copy_from(self, from: *const u8) {
        if self.len > 0 {
            // SAFETY: the caller's contract.
            unsafe { self.base.copy_from(from, self.len) };
        }
    }

    /// Copies blocks to the order of ranks: the first one is that of `order[0]`, and so on. There are so many bytes of each
    /// rank.
    ///
    /// # Safety
    /// See [`copy_from`](Self::copy_from).
    unsafe fn sort(self, blocks: Self, order: &[u32], lens: &[usize]) {
        let places = displacements(lens);
        let mut at = 0;
        for rank in order {
            let (len, place) = (lens[*rank as usize], places[*rank as usize] as usize);
            // SAFETY: the caller's contract.
            unsafe { self.part(place..place + len).copy_from(blocks.part(at..at + len).base) };
            at += len;
        }
    }

    /// The reverse, of blocks of so many bytes: they come in the order of ranks.
    ///
    /// # Safety
    /// See [`copy_from`](Self::copy_from). There is a block of each rank.
    unsafe fn unsort(self, blocks: Self, order: &[u32], bytes: usize) {
        for (at, rank) in order.iter().enumerate() {
            let (from, into) = (blocks.block(bytes, *rank as usize), self.block(bytes, at));
            // SAFETY: the caller's contract.
            unsafe { into.copy_from(from.base) };
        }
    }
}

/// Elements of the program as bytes: where they lie, if they are one run, or packed.
struct Packed {
    run: Option<Bytes>,
    bytes: Vec<u8>,
    buffer: Buffer,
}

impl Packed {
    /// Bytes that are one run.
    fn at(bytes: Bytes) -> Self {
        Self {
            run: Some(bytes),
            bytes: vec![],
            buffer: Buffer::NOTHING,
        }
    }

    /// The first elements of a buffer, of which those are `read`: the others need not have been written yet. `None`: they
    /// do not fit into the address space.
    fn new(memory: &Memory, elements: usize, read: Range<usize>) -> Option<Self> {
        let buffer = memory.buffer(&run(0, elements))?;
        let (base, datatype) = memory.run(&run(0, elements))?;
        let Some(begin) = datatype.begin_of_run(elements as u64) else {
            return Some(Self::copy(buffer, read, element(Some(memory))));
        };
        Some(Self::at(Bytes {
            base: base.wrapping_offset(begin as isize),
            len: buffer.len() as usize,
        }))
    }

    /// The same of blocks with lengths and places of their own.
    fn of_blocks(memory: &Memory, blocks: &Blocks<'_>, size: usize, read: Range<usize>) -> Option<Self> {
        let Blocks::Uneven {
            counts,
            displacements: at,
        } = blocks
        else {
            return Self::new(memory, blocks.total(size), read);
        };
        if displacements(counts) == *at {
            return Self::new(memory, blocks.total(size), read);
        }
        let parts = (0..size).map(|rank| memory.buffer(&run(blocks.offset(rank), blocks.count(rank))));
        let buffer = Buffer::join(parts.collect::<Option<_>>()?);
        Some(Self::copy(buffer, read, element(Some(memory))))
    }

    fn copy(buffer: Buffer, read: Range<usize>, element: usize) -> Self {
        let mut bytes = Vec::with_capacity(buffer.len() as usize);
        bytes.resize(read.start * element, 0);
        buffer.pack((read.start * element) as u64, (read.len() * element) as u64, &mut bytes);
        bytes.resize(buffer.len() as usize, 0);
        Self {
            run: None,
            bytes,
            buffer,
        }
    }

    fn bytes(&mut self) -> Bytes {
        self.run.unwrap_or_else(|| Bytes::of(&mut self.bytes))
    }

    /// Puts packed bytes to their places.
    fn unpack(mut self) {
        if self.run.is_none() {
            MemoryRegion::place(&mut self.buffer, 0, Span::new(&self.bytes));
        }
    }
}

/// Scratch memory for blocks. (What no address space has ends the program, as memory does that the system has not.)
fn scratch(blocks: usize, bytes: usize) -> Vec<u8> {
    vec![0; blocks.saturating_mul(bytes)]
}

/// An allgather of blocks of so many bytes, of which this rank's is the one at `own`.
fn allgather<'a>(counts: &'a [usize], displacements: &'a [isize], own: usize) -> Call<'a> {
    let blocks = Blocks::Uneven { counts, displacements };
    Call::of(Kind::Allgatherv).with_input(counts[own]).with_output(blocks)
}

impl Run<'_> {
    fn rank(&self) -> usize {
        self.communicator.rank() as usize
    }

    fn size(&self) -> usize {
        self.hosts.order.len()
    }

    /// The first elements of a buffer of the program, of which those are `read`.
    fn packed(&self, region: Region<'_>, elements: usize, read: Range<usize>) -> Option<Packed> {
        Packed::new(&memory(region, self.asked.call)?, elements, read)
    }

    /// What a rank sends: so many elements, or in place bytes of its result.
    fn sent(&self, elements: usize, placed: Bytes) -> Option<Packed> {
        if self.asked.call.in_place {
            return Some(Packed::at(placed));
        }
        self.packed(self.asked.buffers.input, elements, 0..elements)
    }

    // ---- stages

    /// The rank at `place` gets the blocks of all ranks of this host, `into`, which only it has. All have as many bytes,
    /// unless there are lengths.
    fn collect(
        &mut self,
        place: usize,
        own: Bytes,
        into: Option<Bytes>,
        lens: Option<&[usize]>,
    ) -> Result<Option<()>, Error> {
        let before = &self.hosts.here[..self.hosts.place];
        let at = match lens {
            Some(lens) => before.iter().map(|rank| lens[*rank as usize]).sum(),
            None => before.len() * own.len,
        };
        if let (1, Some(into)) = (self.hosts.here.len(), into) {
            // SAFETY: both are of this rank, which uses neither meanwhile, and of this length.
            unsafe { into.part(0..own.len).copy_from(own.base) };
            return Ok(Some(()));
        }
        let in_place = into.is_some_and(|into| into.part(at..at + own.len).base == own.base);
        let (input, output) = ((!in_place).then(|| own.memory()), into.map(Bytes::memory));
        let call = |kind| Call::of(kind).with_root(place).with_in_place(in_place);
        let Some(lens) = lens else {
            return self.within(&call(Kind::Gather).with_count(own.len), (input, output));
        };
        let counts: Vec<_> = self.hosts.here.iter().map(|rank| lens[*rank as usize]).collect();
        let displacements = displacements(&counts);
        let blocks = Blocks::Uneven {
            counts: &counts,
            displacements: &displacements,
        };
        self.within(
            &call(Kind::Gatherv).with_input(own.len).with_output(blocks),
            (input, output),
        )
    }

    /// Each rank of this host gets its block from the one at `place`, which has them all. Without a place for the own one,
    /// that stays where it is.
    fn spread(
        &mut self,
        place: usize,
        from: Option<Bytes>,
        (own, len): (Option<Bytes>, usize),
    ) -> Result<Option<()>, Error> {
        if let (1, Some(from)) = (self.hosts.here.len(), from) {
            if let Some(own) = own {
                // SAFETY: both are of this rank, which uses neither meanwhile, and of this length.
                unsafe { own.copy_from(from.base) };
            }
            return Ok(Some(()));
        }
        let call = Call::of(Kind::Scatter).with_root(place).with_count(len);
        let call = call.with_in_place(own.is_none());
        self.within(&call, (from.map(Bytes::memory), own.map(Bytes::memory)))
    }

    /// One rank of each host does the collective with blocks of whole hosts, in which there are `bytes` for each rank.
    fn move_between(
        &mut self,
        ranks: &[u32],
        (bytes, in_place): (usize, bool),
        (input, output): (Option<Bytes>, Option<Bytes>),
    ) -> Result<Option<()>, Error> {
        let hosts = self.hosts;
        let (_, host, _) = self.root();
        let counts: Vec<_> = hosts.sizes.iter().map(|ranks| ranks * bytes).collect();
        let displacements = displacements(&counts);
        let one = Blocks::from(counts[hosts.own]);
        let all = if hosts.shape.is_even {
            one
        } else {
            Blocks::Uneven {
                counts: &counts,
                displacements: &displacements,
            }
        };
        let kind = self.asked.call.collective().among_hosts(hosts.shape.is_even);
        let blocks = |role| if role == Role::Blocks { all } else { one };
        let call = Call::of(kind)
            .with_root(host)
            .with_in_place(in_place)
            .with_input(blocks(kind.input()))
            .with_output(blocks(kind.output()));
        self.between(ranks, 1, &call, (input.map(Bytes::memory), output.map(Bytes::memory)))
    }

    /// The same with the root of the collective, which leads its host.
    fn move_with_root(&mut self, of: (usize, bool), both: (Option<Bytes>, Option<Bytes>)) -> Result<Option<()>, Error> {
        let ranks = self.hosts.with_root(self.root().0);
        self.move_between(&ranks, of, both)
    }

    /// The blocks of this host among those of all ranks, in host order.
    fn of_host(&self, all: Bytes, bytes: usize) -> Bytes {
        let before = self.hosts.before();
        all.blocks(bytes, before..before + self.hosts.here.len())
    }

    // ---- collectives

    pub(super) fn gather(&mut self) -> Result<Option<()>, Error> {
        let (asked, hosts, rank, size) = (self.asked, self.hosts, self.rank(), self.size());
        let (root, _, place) = self.root();
        if rank != root {
            let elements = asked.call.input.single();
            let Some(mut own) = self.packed(asked.buffers.input, elements, 0..elements) else {
                return Ok(None);
            };
            let own = own.bytes();
            let leads = hosts.place == place;
            let mut blocks = scratch(if leads { hosts.here.len() } else { 0 }, own.len);
            let of_host = leads.then(|| Bytes::of(&mut blocks));
            let done = self.collect(place, own, of_host, None)?;
            if done.is_none() || !leads {
                return Ok(done);
            }
            return self.move_with_root((own.len, false), (of_host, None));
        }
        let elements = asked.call.output.total(size);
        let placed = asked
            .call
            .in_place
            .then(|| elements / size * rank..elements / size * (rank + 1));
        let Some(mut result) = self.packed(asked.buffers.output, elements, placed.unwrap_or_default()) else {
            return Ok(None);
        };
        let bytes = result.bytes().len / size;
        let Some(mut own) = self.sent(asked.call.input.single(), result.bytes().block(bytes, rank)) else {
            return Ok(None);
        };
        let own = own.bytes();
        let is_direct = hosts.shape.is_ordered;
        let mut blocks = scratch(if is_direct { 0 } else { size }, bytes);
        let all = if is_direct {
            result.bytes()
        } else {
            Bytes::of(&mut blocks)
        };
        let done = self.collect(place, own, Some(self.of_host(all, bytes)), None)?;
        if done.is_none() || self.move_with_root((bytes, true), (None, Some(all)))?.is_none() {
            return Ok(None);
        }
        if !is_direct {
            // SAFETY: by the contract of the collective the elements of the result may be written, and nothing else uses
            // them; or these are scratch memory, as the blocks are.
            unsafe { result.bytes().sort(all, &hosts.order, &vec![bytes; size]) };
        }
        result.unpack();
        Ok(Some(()))
    }

    pub(super) fn scatter(&mut self) -> Result<Option<()>, Error> {
        let asked = self.asked;
        let (root, _, place) = self.root();
        let is_root = self.rank() == root;
        if is_root && asked.call.in_place {
            return self.scatter_from_root(None);
        }
        let Some(mut result) = self.packed(asked.buffers.output, asked.call.output.single(), 0..0) else {
            return Ok(None);
        };
        let own = result.bytes();
        let done = if is_root {
            self.scatter_from_root(Some(own))?
        } else {
            let leads = self.hosts.place == place;
            let mut blocks = scratch(if leads { self.hosts.here.len() } else { 0 }, own.len);
            let of_host = leads.then(|| Bytes::of(&mut blocks));
            if leads {
                self.move_with_root((own.len, false), (None, of_host))?;
            }
            self.spread(place, of_host, (Some(own), own.len))?
        };
        result.unpack();
        Ok(done)
    }

    fn scatter_from_root(&mut self, own: Option<Bytes>) -> Result<Option<()>, Error> {
        let (asked, hosts, size) = (self.asked, self.hosts, self.size());
        let elements = asked.call.input.total(size);
        let Some(mut input) = self.packed(asked.buffers.input, elements, 0..elements) else {
            return Ok(None);
        };
        let mut all = input.bytes();
        let bytes = all.len / size;
        let is_direct = hosts.shape.is_ordered;
        let mut blocks = scratch(if is_direct { 0 } else { size }, bytes);
        if !is_direct {
            let sorted = Bytes::of(&mut blocks);
            // SAFETY: by the contract of the collective the elements may be read; or these are scratch memory. The blocks
            // are other memory.
            unsafe { sorted.unsort(all, &hosts.order, bytes) };
            all = sorted;
        }
        self.move_with_root((bytes, true), (Some(all), None))?;
        let of_host = Some(self.of_host(all, bytes));
        self.spread(hosts.place, of_host, (own, bytes))
    }

    /// Allgather, and allgatherv: all ranks know all lengths.
    pub(super) fn allgather(&mut self, way: Way) -> Result<Option<()>, Error> {
        let (asked, hosts, rank, size) = (self.asked, self.hosts, self.rank(), self.size());
        let blocks = &asked.call.output;
        let Some(output) = memory(asked.buffers.output, asked.call) else {
            return Ok(None);
        };
        let before = (0..rank).fold(0, |sum: usize, rank| sum.saturating_add(blocks.count(rank)));
        let placed = asked
            .call
            .in_place
            .then(|| before..before.saturating_add(blocks.count(rank)));
        let Some(mut result) = Packed::of_blocks(&output, blocks, size, placed.unwrap_or_default()) else {
            return Ok(None);
        };
        let element = element(Some(&output));
        let lens: Vec<_> = (0..size).map(|rank| blocks.count(rank) * element).collect();
        let begin = before * element;
        let placed = result.bytes().part(begin..begin + lens[rank]);
        let Some(mut own) = self.sent(asked.call.input.single(), placed) else {
            return Ok(None);
        };
        let own = own.bytes();
        let by_place = (way == Way::Shares).then(|| hosts.by_place());
        let order = by_place.as_deref().unwrap_or(&hosts.order);
        let is_direct = order.is_sorted();
        let mut blocks = scratch(1, if is_direct { 0 } else { result.bytes().len });
        let all = if is_direct {
            result.bytes()
        } else {
            Bytes::of(&mut blocks)
        };
        let done = match way {
            Way::Shares => self.allgather_shares(own, all, (order, &lens))?,
            _ => self.allgather_by_leaders(own, all, &lens)?,
        };
        if !is_direct {
            // SAFETY: as in a gather.
            unsafe { result.bytes().sort(all, order, &lens) };
        }
        result.unpack();
        Ok(done)
    }

    fn allgather_by_leaders(&mut self, own: Bytes, all: Bytes, lens: &[usize]) -> Result<Option<()>, Error> {
        let (hosts, leads) = (self.hosts, self.leads());
        let counts = sums(&hosts.order, hosts.sizes.iter().copied(), lens);
        let begin = counts[..hosts.own].iter().sum();
        let of_host = leads.then(|| all.part(begin..begin + counts[hosts.own]));
        let is_even = self.asked.call.collective() == Kind::Allgather;
        if self.collect(0, own, of_host, (!is_even).then_some(lens))?.is_none() {
            return Ok(None);
        }
        if leads {
            let displacements = displacements(&counts);
            let call = allgather(&counts, &displacements, hosts.own);
            self.between(&hosts.firsts, 1, &call.with_in_place(true), (None, Some(all.memory())))?;
        }
        self.bcast_within(Some(all.for_bcast()), all.len)
    }

    /// The ranks at one place of all hosts gather theirs, and each host gathers those of all places.
    fn allgather_shares(
        &mut self,
        own: Bytes,
        all: Bytes,
        (order, lens): (&[u32], &[usize]),
    ) -> Result<Option<()>, Error> {
        let (hosts, place) = (self.hosts, self.hosts.place);
        let of_places = hosts.here.iter().map(|_| hosts.peers.len());
        let counts = sums(order, of_places, lens);
        let begin = counts[..place].iter().sum();
        let of_place = all.part(begin..begin + counts[place]);

        let of_peers: Vec<_> = hosts.peers.iter().map(|rank| lens[*rank as usize]).collect();
        let begins = displacements(&of_peers);
        let in_place = of_place.base.wrapping_offset(begins[hosts.own]) == own.base;
        let call = allgather(&of_peers, &begins, hosts.own).with_in_place(in_place);
        let own = (!in_place).then(|| own.memory());
        self.between(&hosts.peers, hosts.here.len(), &call, (own, Some(of_place.memory())))?;

        let displacements = displacements(&counts);
        let call = allgather(&counts, &displacements, place).with_in_place(true);
        self.within(&call, (None, Some(all.memory())))
    }

    /// Leaders exchange all blocks of their hosts.
    pub(super) fn alltoall(&mut self) -> Result<Option<()>, Error> {
        let (asked, size) = (self.asked, self.size());
        let (call, elements) = (asked.call, asked.call.output.total(size));
        let read = 0..if call.in_place { elements } else { 0 };
        let Some(mut result) = self.packed(asked.buffers.output, elements, read) else {
            return Ok(None);
        };
        let into = result.bytes();
        let Some(mut sent) = self.sent(call.input.total(size), into) else {
            return Ok(None);
        };
        let own = sent.bytes();
        let mut blocks = scratch(if self.leads() { self.hosts.here.len() } else { 0 }, own.len);
        let of_host = self.leads().then(|| Bytes::of(&mut blocks));
        if self.collect(0, own, of_host, None)?.is_none() {
            return Ok(None);
        }
        if self.leads() {
            self.exchange_between(&mut blocks, own.len / size)?;
        }
        let of_host = self.leads().then(|| Bytes::of(&mut blocks));
        let done = self.spread(0, of_host, (Some(into), own.len))?;
        result.unpack();
        Ok(done)
    }

    /// Exchanges the blocks of this host with those of others: what its ranks send, in the order of places and then of
    /// ranks, becomes what they take.
    fn exchange_between(&mut self, blocks: &mut Vec<u8>, bytes: usize) -> Result<Option<()>, Error> {
        let (hosts, size, here) = (self.hosts, self.size(), self.hosts.here.len());
        let mut sent = Vec::with_capacity(blocks.len());
        let mut order = &hosts.order[..];
        for ranks in &hosts.sizes {
            let (of_host, others) = order.split_at(*ranks);
            for place in 0..here {
                for rank in of_host {
                    let block = place * size + *rank as usize;
                    sent.extend_from_slice(&blocks[block * bytes..(block + 1) * bytes]);
                }
            }
            order = others;
        }
        let both = (Some(Bytes::of(&mut sent)), Some(Bytes::of(blocks)));
        self.move_between(&hosts.firsts, (here * bytes, false), both)?;
        let mut taken = blocks.chunks_exact(bytes.max(1));
        for rank in &hosts.order {
            for (place, block) in taken.by_ref().take(here).enumerate() {
                let at = (place * size + *rank as usize) * bytes;
                sent[at..at + bytes].copy_from_slice(block);
            }
        }
        *blocks = sent;
        Ok(Some(()))
    }
}

//! The collectives, as steps on a board. (Reductions are beside.)
//!
//! Each rank posts what others need of it, waits for those that it needs itself, and takes what it wants from their places.
//! Longer data go in pieces, each a step of its own, so that one rank writes a piece while others read the one before.

use alloc::vec::Vec;
use core::ops::Range;

use super::{
    arguments::{Arguments, pieces},
    exchange::LONG,
    steps::Steps,
};
use crate::{
    messaging::MemoryRegion,
    mpi::{collectives::Collective as Kind, engine::buffer::Buffer, error::Error},
    span::Span,
};

impl Steps<'_> {
    /// Runs the collective. `None`: a buffer does not fit into the address space.
    pub(super) fn run(&mut self, arguments: &Arguments<'_>) -> Result<Option<()>, Error> {
        let call = arguments.call;
        let root = call.root().unwrap_or(0);
        match call.collective() {
            Kind::Barrier => self.barrier().map(Some),
            Kind::Bcast => self.bcast(arguments, root),
            Kind::Gather => self.gather(arguments, Some(root)),
            Kind::Allgather | Kind::Allgatherv => self.gather(arguments, None),
            Kind::Scatter => self.scatter(arguments, root),
            Kind::Alltoall => self.alltoall(arguments),
            Kind::Gatherv | Kind::Scatterv | Kind::Alltoallv => self.exchange(arguments),
            Kind::ReduceScatter | Kind::ReduceScatterBlock => self.reduce_scatter(arguments),
            Kind::Scan | Kind::Exscan => self.scan(arguments),
            Kind::Reduce => self.reduce(arguments, Some(root)),
            _ => self.reduce(arguments, None),
        }
    }

    #[inline]
    pub(super) fn barrier(&mut self) -> Result<(), Error> {
        self.begin(Some(0))?;
        self.post(0);
        self.await_all(0)?;
        self.end_of(0);
        Ok(())
    }

    /// The first rank waits until all others have come.
    pub(super) fn arrive(&mut self) -> Result<(), Error> {
        let leads = self.rank() == 0;
        self.begin((!leads).then_some(0))?;
        if leads {
            self.await_all(0)?;
        } else {
            self.post(0);
        }
        self.end();
        Ok(())
    }

    /// The others wait for the first rank.
    pub(super) fn release(&mut self) -> Result<(), Error> {
        let leads = self.rank() == 0;
        self.begin(leads.then_some(0))?;
        if leads {
            self.post(0);
        } else {
            self.await_post(0, 0)?;
        }
        self.end();
        Ok(())
    }

    /// Posts a part of a buffer.
    fn post_part(&mut self, buffer: &Buffer, part: Range<usize>) {
        self.write_part(buffer, part.clone(), (part.len(), 0));
        self.post(part.len());
    }

    /// Writes a part of a buffer; the step has `len` bytes, and the part begins `at` bytes behind the first.
    pub(super) fn write_part(&mut self, buffer: &Buffer, part: Range<usize>, (len, at): (usize, usize)) {
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

    /// Gather at a root, or at all ranks: then the blocks may have lengths of their own.
    fn gather(&mut self, arguments: &Arguments<'_>, root: Option<usize>) -> Result<Option<()>, Error> {
        let (rank, call) = (self.rank(), arguments.call);
        let takes = root.is_none_or(|root| root == rank);
        let is_in_place = call.in_place && takes;
        let own = if is_in_place {
            arguments.output_block(rank)
        } else {
            arguments.input(0, call.input.single())
        };
        let Some(own) = own else { return Ok(None) };
        let len = own.len() as usize;
        let mut blocks = Vec::new();
        if takes {
            for from in 0..self.size() {
                let Some(buffer) = arguments.output_block(from) else {
                    return Ok(None);
                };
                blocks.push(buffer);
            }
            if !is_in_place {
                blocks[rank].copy_from(&own, &mut Vec::new());
            }
        }
        let longest = blocks.iter().map(|block| block.len() as usize).max().unwrap_or(len);
        for part in pieces(longest, self.piece()) {
            let of = |len: u64| part.start.min(len as usize)..part.end.min(len as usize);
            let mine = of(own.len());
            // A root posts nothing: nobody reads it.
            let posts = root.is_none() || !takes;
            self.begin(posts.then_some(mine.len()))?;
            if posts {
                self.post_part(&own, mine);
            }
            if takes {
                for from in self.others() {
                    let part = of(blocks[from].len());
                    self.await_post(from, part.len())?;
                    blocks[from].place(part.start as u64, self.read(from, part.len(), 0..part.len()));
                }
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
        if !call.in_place && received.saturating_mul(arguments.sizes.1) >= LONG {
            // (A rank with smaller blocks posts data.)
            self.begin_with_tables();
            return self.exchange(arguments);
        }
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
}

#![expect(unsafe_code, reason = "buffers are memory of the caller")]
//! Collectives of two levels: within hosts by their boards, and between hosts by messages of one rank of each (the
//! leaders), or of all ranks, each for its share of the vector.
//!
//! A collective is put together from others, of the ranks of a host and of one rank of each host. All their messages have
//! the bits of the one that the program has called, and the group of its communicator: what ends that one ends these.

use alloc::{sync::Arc, vec, vec::Vec};
use core::ops::Range;

use super::{arguments::Arguments, asked::Asked, board::Board, hosts::Hosts, state::TwoLevels, steps::Steps};
use crate::{
    messaging::MemoryRegion,
    mpi::{
        collectives::{Blocks, Call, Collective as Kind, Policy, Way, displacements},
        datatype::{self, Datatype},
        engine::{
            Communicator,
            buffer::Buffer,
            collective::{Collective, Planned},
            regions::{Address, Memory, memory},
        },
        error::{Error, ErrorClass},
    },
    span::Span,
};

/// Runs a collective in two levels. `None`: it is better off in one, or a buffer does not fit into the address space.
///
/// # Safety
/// See [`Communicator::collective`].
pub(super) unsafe fn run(
    levels: &mut TwoLevels,
    communicator: &Communicator,
    asked: &Asked<'_>,
) -> Option<Result<(), Error>> {
    let way = levels.way(&communicator.engine().policy, asked);
    if way == Way::Flat {
        return None;
    }
    let TwoLevels { hosts, board, .. } = levels;
    let mut run = Run {
        communicator,
        asked,
        hosts,
        board: board.as_mut(),
    };
    if let Some(steps) = run.steps().filter(|steps| steps.board.given_up().is_some()) {
        return Some(Err(steps.failed()));
    }
    let ended = match asked.call.collective() {
        Kind::Barrier => run.barrier().map(Some),
        Kind::Bcast => run.bcast(way),
        Kind::Reduce => run.reduce(),
        Kind::Gather => run.gather(),
        Kind::Scatter => run.scatter(),
        Kind::Allgather | Kind::Allgatherv => run.allgather(way),
        Kind::Alltoall => run.alltoall(),
        Kind::ReduceScatter | Kind::ReduceScatterBlock => run.reduce_scatter(way),
        Kind::Scan | Kind::Exscan => run.scan(),
        _ => run.allreduce(way),
    };
    ended.transpose()
}

/// A collective that runs.
pub(super) struct Run<'a> {
    pub(super) communicator: &'a Communicator,
    pub(super) asked: &'a Asked<'a>,
    pub(super) hosts: &'a Hosts,
    board: Option<&'a mut Board>,
}

/// The memory of a stage.
pub(super) type Both = (Option<Memory>, Option<Memory>);

/// The elements of a share.
fn share(count: usize, of: usize, shares: usize) -> Range<usize> {
    count * of / shares..count * (of + 1) / shares
}

/// Bytes of an element.
pub(super) fn element(memory: Option<&Memory>) -> usize {
    match memory {
        Some(Memory::Plain(_, datatype)) => datatype.size() as usize,
        _ => 1,
    }
}

/// Elements of a vector without gaps, from one on.
fn from(vector: &Memory, element: usize) -> Option<Memory> {
    let Memory::Plain(base, datatype) = vector else {
        return None;
    };
    let bytes = element * datatype.size() as usize;
    Some(Memory::Plain(Address(base.0.wrapping_add(bytes)), datatype.clone()))
}

/// The same vector as bytes, which may be cut anywhere.
fn packed(vector: &Memory, count: usize) -> Option<Memory> {
    let Memory::Plain(base, datatype) = vector else {
        return None;
    };
    Some(Memory::Packed(*base, count as u64, datatype.clone()))
}

impl Run<'_> {
    fn steps(&mut self) -> Option<Steps<'_>> {
        let board = self.board.as_deref_mut()?;
        Some(Steps {
            board,
            communicator: self.communicator,
            members: Some(&self.hosts.here),
            name: self.asked.name,
            mark: self.asked.mark,
            bits: self.asked.bits,
            yields: self.communicator.engine().yields(),
        })
    }

    // ---- stages

    /// The ranks of this host do something.
    pub(super) fn within(&mut self, call: &Call<'_>, (input, output): Both) -> Result<Option<()>, Error> {
        let operation = self.asked.operation;
        if let Some(mut steps) = self.steps() {
            return steps.run(&Arguments {
                call,
                sizes: (element(input.as_ref()), element(output.as_ref())),
                input,
                output,
                operation,
            });
        }
        let hosts = self.hosts;
        match hosts.here.len() {
            1 => Ok(Some(())),
            _ => self.by_messages((&hosts.here, hosts.place), hosts.here.len(), call, (input, output)),
        }
    }

    /// One rank of each host do something, or some such groups, `each` of a host. If that fails, it has failed for the ranks
    /// of this host, too.
    pub(super) fn between(
        &mut self,
        ranks: &[u32],
        each: usize,
        call: &Call<'_>,
        both: Both,
    ) -> Result<Option<()>, Error> {
        let done = self.by_messages((ranks, self.hosts.own), each, call, both);
        if let Err(error) = &done
            && let Some(steps) = self.steps()
        {
            steps.give_up(error);
        }
        done
    }

    /// Some ranks, of which this one is the one at `index`, do something by messages.
    fn by_messages(
        &self,
        (ranks, index): (&[u32], usize),
        each: usize,
        call: &Call<'_>,
        (input, output): Both,
    ) -> Result<Option<()>, Error> {
        let (comm, asked) = (self.communicator, self.asked);
        let policy = Policy::new(comm.engine().policy.model_between(each, &self.hosts.shape));
        let (elements, _) = call.extent(ranks.len());
        let bytes = elements * element(output.as_ref().or(input.as_ref()));
        let algorithm = policy.choose(call.collective(), ranks.len(), bytes, call.commutative());
        let schedule = call.schedule(index, ranks.len(), algorithm);
        let schedule = schedule.map_err(|_| comm.locate(Error::new(ErrorClass::Intern, asked.name)))?;
        let none = || Memory::none(&Datatype::predefined(datatype::Kind::Byte));
        let scratch = output.as_ref().or(input.as_ref()).cloned();
        let planned = Planned::new(Collective {
            schedule: Arc::new(schedule.among(ranks)),
            input: input.unwrap_or_else(none),
            output: output.unwrap_or_else(none),
            scratch: scratch.unwrap_or_else(none),
            operation: asked.operation.cloned(),
            group: comm.group().clone(),
            bits: asked.bits,
            mark: asked.mark.into(),
        });
        comm.start_collective(asked.name, &planned)?.finish()?;
        Ok(Some(()))
    }

    // ---- collectives

    pub(super) fn leads(&self) -> bool {
        self.hosts.place == 0
    }

    /// The root, its host, and the place of the rank that leads this rank's host.
    pub(super) fn root(&self) -> (usize, usize, usize) {
        let (hosts, root) = (self.hosts, self.asked.call.root().unwrap_or(0));
        let host = hosts.host_of(root);
        let place = if host == hosts.own { hosts.place_of(root) } else { 0 };
        (root, host, place)
    }

    /// The ranks of this host get the bytes of the first one.
    pub(super) fn bcast_within(&mut self, bytes: Option<Memory>, len: usize) -> Result<Option<()>, Error> {
        let bcast = Call::of(Kind::Bcast).with_count(len);
        self.within(&bcast, (None, bytes))
    }

    fn barrier(&mut self) -> Result<(), Error> {
        let (hosts, call) = (self.hosts, Call::of(Kind::Barrier));
        match self.steps() {
            Some(mut steps) => steps.arrive()?,
            None => _ = self.within(&call, (None, None))?,
        }
        if self.leads() {
            self.between(&hosts.firsts, 1, &call, (None, None))?;
        }
        match self.steps() {
            Some(mut steps) => steps.release(),
            None => self.within(&call, (None, None)).map(drop),
        }
    }

    fn bcast(&mut self, way: Way) -> Result<Option<()>, Error> {
        let (asked, root) = (self.asked, self.asked.call.root().unwrap_or(0));
        let len = asked.call.output.single();
        let data = memory(asked.buffers.output, asked.call).or_else(|| memory(asked.buffers.input, asked.call));
        let Some(Memory::Packed(base, count, datatype)) = data else {
            return Ok(None);
        };
        if let Some(begin) = datatype.begin_of_run(count) {
            return self.bcast_bytes(way, (base.0.wrapping_offset(begin as isize), len));
        }
        // SAFETY: by the contract of the collective the elements are the caller's.
        let Some(mut buffer) = (unsafe { Buffer::new(base.0, count, &datatype) }) else {
            return Ok(None);
        };
        let mut bytes = Vec::with_capacity(len);
        if self.communicator.rank() as usize == root {
            buffer.pack(0, len as u64, &mut bytes);
        }
        bytes.resize(len, 0);
        let done = self.bcast_bytes(way, (bytes.as_mut_ptr(), len))?;
        if self.communicator.rank() as usize != root {
            MemoryRegion::place(&mut buffer, 0, Span::new(&bytes));
        }
        Ok(done)
    }

    fn bcast_bytes(&mut self, way: Way, (base, len): (*mut u8, usize)) -> Result<Option<()>, Error> {
        let hosts = self.hosts;
        let (root, host, place) = self.root();
        let here = host == hosts.own;
        let byte = Datatype::predefined(datatype::Kind::Byte);
        let memory = |part: &Range<usize>| {
            let base = Address(base.wrapping_add(part.start));
            Some(Memory::Packed(base, part.len() as u64, byte.clone()))
        };
        let call = |root: usize, len: usize| Call::of(Kind::Bcast).with_root(root).with_count(len);
        if way == Way::Leaders {
            if hosts.place == place {
                let ranks = hosts.with_root(root);
                self.between(&ranks, 1, &call(host, len), (None, memory(&(0..len))))?;
            }
            return self.within(&call(place, len), (None, memory(&(0..len))));
        }
        let shares = hosts.here.len();
        let part = share(len, hosts.place, shares);
        if here {
            self.within(&call(place, len), (None, memory(&(0..len))))?;
        }
        self.between(&hosts.peers, shares, &call(host, part.len()), (None, memory(&part)))?;
        if here {
            return Ok(Some(()));
        }
        self.take_shares(len, memory(&(0..len)))
    }

    /// The ranks of this host take the others' shares of a vector.
    fn take_shares(&mut self, count: usize, vector: Option<Memory>) -> Result<Option<()>, Error> {
        let counts = self.shares(count);
        let displacements = displacements(&counts);
        let blocks = Blocks::Uneven {
            counts: &counts,
            displacements: &displacements,
        };
        let own = counts[self.hosts.place];
        let call = Call::of(Kind::Allgatherv).with_input(own).with_output(blocks);
        self.within(&call.with_in_place(true), (None, vector))
    }

    fn shares(&self, count: usize) -> Vec<usize> {
        let shares = self.hosts.here.len();
        (0..shares).map(|of| share(count, of, shares).len()).collect()
    }

    fn reduce(&mut self) -> Result<Option<()>, Error> {
        let (asked, hosts) = (self.asked, self.hosts);
        let (root, host, place) = self.root();
        let (ranks, takes) = (hosts.with_root(root), self.communicator.rank() as usize == root);
        let in_place = asked.call.in_place && takes;
        let count = if takes {
            asked.call.output.single()
        } else {
            asked.call.input.single()
        };
        let call = Call::of(Kind::Reduce)
            .with_count(count)
            .with_commutative(asked.call.commutative());
        let input = memory(asked.buffers.input, asked.call).filter(|_| !in_place);
        let output = memory(asked.buffers.output, asked.call).filter(|_| takes);
        if hosts.here.len() == 1 {
            let call = call.with_root(host).with_in_place(in_place);
            return self.between(&ranks, 1, &call, (input, output));
        }
        // The operand of this host, at the rank that passes it on.
        let mut operand = vec![];
        let reduced = match (&output, &input) {
            (Some(output), _) => Some(output.clone()),
            (None, Some(Memory::Plain(_, datatype))) if hosts.place == place => {
                operand.resize((count * datatype.size() as usize).div_ceil(8), 0_u64);
                Some(Memory::Plain(Address(operand.as_mut_ptr().cast()), datatype.clone()))
            }
            _ => None,
        };
        let done = self.within(&call.with_root(place).with_in_place(in_place), (input, reduced.clone()))?;
        if done.is_none() || hosts.place != place {
            return Ok(done);
        }
        let both = if takes { (None, reduced) } else { (reduced, None) };
        self.between(&ranks, 1, &call.with_root(host).with_in_place(takes), both)
    }

    fn allreduce(&mut self, way: Way) -> Result<Option<()>, Error> {
        let (asked, hosts) = (self.asked, self.hosts);
        let (count, in_place) = (asked.call.output.single(), asked.call.in_place);
        let Some(output) = memory(asked.buffers.output, asked.call) else {
            return Ok(None);
        };
        let input = memory(asked.buffers.input, asked.call).filter(|_| !in_place);
        let call = |kind: Kind| Call::of(kind).with_commutative(asked.call.commutative());
        let between = call(Kind::Allreduce).with_count(count);
        if hosts.here.len() == 1 {
            let between = between.with_in_place(in_place);
            return self.between(&hosts.firsts, 1, &between, (input, Some(output)));
        }
        let operand = input.unwrap_or_else(|| output.clone());
        if way == Way::Shares {
            let counts = self.shares(count);
            let part = share(count, hosts.place, counts.len());
            let displacements = displacements(&counts);
            let blocks = Blocks::Uneven {
                counts: &counts,
                displacements: &displacements,
            };
            let own = from(&output, part.start);
            // In place too, since a rank writes no element before all have read it.
            let scatter = call(Kind::ReduceScatter).with_input(count).with_output(blocks);
            if self.within(&scatter, (Some(operand), own.clone()))?.is_none() {
                return Ok(None);
            }
            let between = between.with_count(part.len()).with_in_place(true);
            self.between(&hosts.peers, counts.len(), &between, (None, own))?;
            return self.take_shares(count, Some(output));
        }
        let call = call(Kind::Reduce)
            .with_count(count)
            .with_in_place(in_place && self.leads());
        let result = Some(output.clone()).filter(|_| self.leads());
        if self.within(&call, (Some(operand), result))?.is_none() {
            return Ok(None);
        }
        if self.leads() {
            let between = between.with_in_place(true);
            self.between(&hosts.firsts, 1, &between, (None, Some(output.clone())))?;
        }
        self.bcast_within(packed(&output, count), count * element(Some(&output)))
    }
}

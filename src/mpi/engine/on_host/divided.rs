#![expect(unsafe_code, reason = "operands are memory of the caller")]
//! Reductions of two levels of which each rank gets a result of its own: reduce_scatter and scans.

use alloc::{vec, vec::Vec};

use super::{hosts::sums, levels::Run};
use crate::mpi::{
    collectives::{Blocks, Call, Collective as Kind, Way, displacements},
    datatype::Datatype,
    engine::regions::{Address, Memory, memory},
    error::Error,
};

/// Elements without gaps that are reduced: of the program, or of scratch memory.
#[derive(Clone, Copy)]
struct Elements<'a> {
    base: *mut u8,
    datatype: &'a Datatype,
}

impl Elements<'_> {
    fn memory(self) -> Memory {
        Memory::Plain(Address(self.base), self.datatype.clone())
    }

    fn at(self, element: usize) -> Self {
        let bytes = element * self.datatype.size() as usize;
        let base = self.base.wrapping_add(bytes);
        Self { base, ..self }
    }

    /// Copies so many elements.
    ///
    /// # Safety
    /// These may be written, and those read; nothing else uses them meanwhile, and they are other memory.
    unsafe fn copy_from(self, from: Self, count: usize) {
        if count > 0 {
            let bytes = count * self.datatype.size() as usize;
            // SAFETY: the caller's contract.
            unsafe { self.base.copy_from_nonoverlapping(from.base, bytes) };
        }
    }
}

/// Scratch memory, aligned for operands.
struct Scratch(Vec<u64>);

impl Scratch {
    fn new(elements: usize, datatype: &Datatype) -> Self {
        let bytes = elements.saturating_mul(datatype.size() as usize);
        Self(vec![0; bytes.div_ceil(8)])
    }

    fn elements<'a>(&mut self, datatype: &'a Datatype) -> Elements<'a> {
        let base = self.0.as_mut_ptr().cast();
        Elements { base, datatype }
    }
}

/// The arguments of a rank.
struct Reduced<'a> {
    /// This rank's operand: in place, it is where the result comes.
    operand: Elements<'a>,
    result: Elements<'a>,
}

fn uneven<'a>(counts: &'a [usize], displacements: &'a [isize]) -> Blocks<'a> {
    Blocks::Uneven { counts, displacements }
}

/// Copies the blocks of a vector, which are in the order of ranks, to another order.
///
/// # Safety
/// See [`Elements::copy_from`].
unsafe fn arrange(from: Elements<'_>, into: Elements<'_>, order: &[u32], counts: &[usize]) {
    let places = displacements(counts);
    let mut at = 0;
    for rank in order {
        let (count, place) = (counts[*rank as usize], places[*rank as usize] as usize);
        // SAFETY: the caller's contract.
        unsafe { into.at(at).copy_from(from.at(place), count) };
        at += count;
    }
}

impl Run<'_> {
    /// A collective of this kind, with the operation of the program.
    fn reducing<'b>(&self, kind: Kind) -> Call<'b> {
        Call::of(kind).with_commutative(self.asked.call.commutative())
    }

    /// `None`: a buffer is missing.
    fn reduced<'b>(&self, memories: &'b (Option<Memory>, Option<Memory>)) -> Option<Reduced<'b>> {
        let elements = |memory: &'b Option<Memory>| match memory {
            Some(Memory::Plain(base, datatype)) => Some(Elements { base: base.0, datatype }),
            _ => None,
        };
        let result = elements(&memories.1)?;
        let operand = if self.asked.call.in_place {
            result
        } else {
            elements(&memories.0)?
        };
        Some(Reduced { operand, result })
    }

    fn memories(&self) -> (Option<Memory>, Option<Memory>) {
        let asked = self.asked;
        (
            memory(asked.buffers.input, asked.call),
            memory(asked.buffers.output, asked.call),
        )
    }

    pub(super) fn reduce_scatter(&mut self, way: Way) -> Result<Option<()>, Error> {
        let memories = self.memories();
        let Some(vector) = self.reduced(&memories) else {
            return Ok(None);
        };
        let size = self.hosts.order.len();
        let counts: Vec<_> = (0..size).map(|rank| self.asked.call.output.count(rank)).collect();
        match way {
            Way::Shares => self.reduce_scatter_shares(&vector, &counts),
            _ => self.reduce_scatter_by_leaders(&vector, &counts),
        }
    }

    /// Each host reduces to its first rank. These ranks reduce and divide that among their hosts, and each host among its
    /// ranks.
    fn reduce_scatter_by_leaders(&mut self, vector: &Reduced<'_>, counts: &[usize]) -> Result<Option<()>, Error> {
        let (hosts, leads, here) = (self.hosts, self.hosts.place == 0, self.hosts.here.len());
        let (datatype, total) = (vector.result.datatype, counts.iter().sum());
        let mut of_host = Scratch::new(if leads { total } else { 0 }, datatype);
        let of_host = of_host.elements(datatype);
        if here == 1 {
            // SAFETY: by the contract of the collective the operand may be read; the scratch memory has as many elements.
            unsafe { of_host.copy_from(vector.operand, total) };
        } else {
            let call = self.reducing(Kind::Reduce).with_count(total);
            let both = (Some(vector.operand.memory()), leads.then(|| of_host.memory()));
            if self.within(&call, both)?.is_none() {
                return Ok(None);
            }
        }
        let of_hosts = sums(&hosts.order, hosts.sizes.iter().copied(), counts);
        let mut own = Scratch::new(if leads { of_hosts[hosts.own] } else { 0 }, datatype);
        let own = if here == 1 {
            vector.result
        } else {
            own.elements(datatype)
        };
        if leads {
            let is_direct = hosts.shape.is_ordered;
            let mut arranged = Scratch::new(if is_direct { 0 } else { total }, datatype);
            let arranged = arranged.elements(datatype);
            let operand = if is_direct { of_host } else { arranged };
            if !is_direct {
                // SAFETY: both are scratch memory of so many elements.
                unsafe { arrange(of_host, arranged, &hosts.order, counts) };
            }
            self.divide_between((&hosts.firsts, 1), &of_hosts, (operand, own))?;
        }
        if here == 1 {
            return Ok(Some(()));
        }
        let of_ranks: Vec<_> = hosts.here.iter().map(|rank| counts[*rank as usize]).collect();
        let displacements = displacements(&of_ranks);
        let call = Call::of(Kind::Scatterv)
            .with_input(uneven(&of_ranks, &displacements))
            .with_output(of_ranks[hosts.place]);
        self.within(&call, (leads.then(|| own.memory()), Some(vector.result.memory())))
    }

    /// Each rank of a host reduces what is for the ranks at its place on all hosts; these reduce and divide that.
    fn reduce_scatter_shares(&mut self, vector: &Reduced<'_>, counts: &[usize]) -> Result<Option<()>, Error> {
        let (hosts, order) = (self.hosts, self.hosts.by_place());
        let (datatype, total) = (vector.result.datatype, counts.iter().sum());
        let is_direct = order.is_sorted();
        let mut arranged = Scratch::new(if is_direct { 0 } else { total }, datatype);
        let arranged = arranged.elements(datatype);
        if !is_direct {
            // SAFETY: by the contract of the collective the operand may be read; the scratch memory has as many elements.
            unsafe { arrange(vector.operand, arranged, &order, counts) };
        }
        let operand = if is_direct { vector.operand } else { arranged };
        let of_places = sums(&order, hosts.here.iter().map(|_| hosts.peers.len()), counts);
        let displacements = displacements(&of_places);
        let mut own = Scratch::new(of_places[hosts.place], datatype);
        let own = own.elements(datatype);
        let call = self
            .reducing(Kind::ReduceScatter)
            .with_count(uneven(&of_places, &displacements));
        if self
            .within(&call, (Some(operand.memory()), Some(own.memory())))?
            .is_none()
        {
            return Ok(None);
        }
        let of_peers: Vec<_> = hosts.peers.iter().map(|rank| counts[*rank as usize]).collect();
        self.divide_between((&hosts.peers, hosts.here.len()), &of_peers, (own, vector.result))
    }

    /// One rank of each host, `each` of a host, reduce a vector, and get so many elements of it each.
    fn divide_between(
        &mut self,
        (ranks, each): (&[u32], usize),
        counts: &[usize],
        (operand, result): (Elements<'_>, Elements<'_>),
    ) -> Result<Option<()>, Error> {
        let displacements = displacements(counts);
        let call = self
            .reducing(Kind::ReduceScatter)
            .with_input(counts.iter().sum::<usize>());
        let call = call.with_output(uneven(counts, &displacements));
        self.between(ranks, each, &call, (Some(operand.memory()), Some(result.memory())))
    }

    /// Scan, and exscan: each host does it, the last ranks of hosts find out what all hosts before theirs come to, and all
    /// ranks put that on the left of what they have. Hosts have the next ranks, one after the other.
    pub(super) fn scan(&mut self) -> Result<Option<()>, Error> {
        let memories = self.memories();
        let Some(vector) = self.reduced(&memories) else {
            return Ok(None);
        };
        let (hosts, is_inclusive) = (self.hosts, self.asked.call.collective() == Kind::Scan);
        let (count, in_place) = (self.asked.call.output.single(), self.asked.call.in_place);
        let (datatype, last) = (vector.result.datatype, hosts.here.len() - 1);
        let is_last = hosts.place == last;
        // What an exscan's last rank adds to what is before it, for the next host.
        let mut of_host = Scratch::new(if is_last && !is_inclusive { count } else { 0 }, datatype);
        let of_host = of_host.elements(datatype);
        if is_last && !is_inclusive {
            // SAFETY: by the contract of the collective the operand may be read; the scratch memory has as many elements.
            unsafe { of_host.copy_from(vector.operand, count) };
        }
        if last > 0 {
            let call = Call::of(self.asked.call.collective()).with_count(count);
            let input = (!in_place).then(|| vector.operand.memory());
            let both = (input, Some(vector.result.memory()));
            if self.within(&call.with_in_place(in_place), both)?.is_none() {
                return Ok(None);
            }
        } else if is_inclusive && !in_place {
            // SAFETY: by the contract of the collective both are of so many elements.
            unsafe { vector.result.copy_from(vector.operand, count) };
        }
        let mut before = Scratch::new(count, datatype);
        let before = before.elements(datatype);
        if is_last {
            if !is_inclusive && last > 0 {
                self.put_left(vector.result, of_host, count);
            }
            let sum = if is_inclusive { vector.result } else { of_host };
            let call = self.reducing(Kind::Exscan).with_count(count);
            self.between(&hosts.lasts(), 1, &call, (Some(sum.memory()), Some(before.memory())))?;
        }
        if hosts.own == 0 {
            return Ok(Some(()));
        }
        let bytes = count * datatype.size() as usize;
        let call = Call::of(Kind::Bcast).with_root(last).with_count(bytes);
        let packed = Memory::Packed(Address(before.base), count as u64, datatype.clone());
        if self.within(&call, (None, Some(packed)))?.is_none() {
            return Ok(None);
        }
        if is_inclusive || hosts.place > 0 {
            self.put_left(before, vector.result, count);
        } else {
            // SAFETY: by the contract of the collective the result has so many elements, as the scratch memory.
            unsafe { vector.result.copy_from(before, count) };
        }
        Ok(Some(()))
    }

    /// Reduces elements with those before them.
    fn put_left(&self, before: Elements<'_>, elements: Elements<'_>, count: usize) {
        if let (Some(operation), true) = (self.asked.operation, count > 0) {
            // SAFETY: both are so many elements without gaps, initialised, of different memory. (The operation was checked
            // for this datatype.)
            let _ = unsafe { operation.apply_at(elements.datatype, before.base, elements.base, count as u64) };
        }
    }
}

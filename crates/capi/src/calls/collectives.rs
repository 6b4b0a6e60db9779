#![expect(unsafe_code, reason = "buffers are the program's")]
//! Collectives (MPI 6, and 8.6 for those of neighbours). Each body prepares one; [`Then`] says what becomes of it.

use hikyaku::mpi::{
    collectives::{self, Blocks, Collective, NOBODY, ROOT},
    datatype,
    engine::{Buffers, PROC_NULL, Region, uninterrupted},
    error::ErrorClass,
};

use super::{
    Done, Then, give,
    point_to_point::{elements, scope},
};
use crate::{
    border::{Addresses, Buffer, Call, Count, Counts, Failure, Handles, Rank},
    objects::{Comm, Communicator, Datatype, Held, Neighbours, Op, Type},
};

#[doc(hidden)]
#[macro_export]
macro_rules! collective_calls {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::collectives! { $abi;
                "Barrier" "barrier" => collectives::barrier(comm: Comm);
                "Bcast" "bcast" + c => collectives::bcast(
                    buffer: Buffer, count: Count, datatype: Type, root: Rank, comm: Comm);
                "Gather" "gather" + c => collectives::gather(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcount: Count,
                    recvtype: Type, root: Rank, comm: Comm);
                "Gatherv" "gatherv" + c => collectives::gatherv(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcounts: Counts,
                    displs: Counts, recvtype: Type, root: Rank, comm: Comm);
                "Scatter" "scatter" + c => collectives::scatter(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcount: Count,
                    recvtype: Type, root: Rank, comm: Comm);
                "Scatterv" "scatterv" + c => collectives::scatterv(
                    sendbuf: Buffer, sendcounts: Counts, displs: Counts, sendtype: Type, recvbuf: Buffer,
                    recvcount: Count, recvtype: Type, root: Rank, comm: Comm);
                "Allgather" "allgather" + c => collectives::allgather(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcount: Count,
                    recvtype: Type, comm: Comm);
                "Allgatherv" "allgatherv" + c => collectives::allgatherv(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcounts: Counts,
                    displs: Counts, recvtype: Type, comm: Comm);
                "Alltoall" "alltoall" + c => collectives::alltoall(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcount: Count,
                    recvtype: Type, comm: Comm);
                "Alltoallv" "alltoallv" + c => collectives::alltoallv(
                    sendbuf: Buffer, sendcounts: Counts, sdispls: Counts, sendtype: Type, recvbuf: Buffer,
                    recvcounts: Counts, rdispls: Counts, recvtype: Type, comm: Comm);
                "Alltoallw" "alltoallw" + c => collectives::alltoallw(
                    sendbuf: Buffer, sendcounts: Counts, sdispls: Counts, sendtypes: Handles<Datatype>,
                    recvbuf: Buffer, recvcounts: Counts, rdispls: Counts, recvtypes: Handles<Datatype>, comm: Comm);
                "Reduce" "reduce" + c => collectives::reduce(
                    sendbuf: Buffer, recvbuf: Buffer, count: Count, datatype: Type, op: Op, root: Rank, comm: Comm);
                "Allreduce" "allreduce" + c => collectives::allreduce(
                    sendbuf: Buffer, recvbuf: Buffer, count: Count, datatype: Type, op: Op, comm: Comm);
                "Reduce_scatter" "reduce_scatter" + c => collectives::reduce_scatter(
                    sendbuf: Buffer, recvbuf: Buffer, recvcounts: Counts, datatype: Type, op: Op, comm: Comm);
                "Reduce_scatter_block" "reduce_scatter_block" + c => collectives::reduce_scatter_block(
                    sendbuf: Buffer, recvbuf: Buffer, recvcount: Count, datatype: Type, op: Op, comm: Comm);
                "Scan" "scan" + c => collectives::scan(
                    sendbuf: Buffer, recvbuf: Buffer, count: Count, datatype: Type, op: Op, comm: Comm);
                "Exscan" "exscan" + c => collectives::exscan(
                    sendbuf: Buffer, recvbuf: Buffer, count: Count, datatype: Type, op: Op, comm: Comm);
                "Neighbor_allgather" "neighbor_allgather" + c => collectives::neighbor_allgather(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcount: Count,
                    recvtype: Type, comm: Comm);
                "Neighbor_allgatherv" "neighbor_allgatherv" + c => collectives::neighbor_allgatherv(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcounts: Counts,
                    displs: Counts, recvtype: Type, comm: Comm);
                "Neighbor_alltoall" "neighbor_alltoall" + c => collectives::neighbor_alltoall(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, recvbuf: Buffer, recvcount: Count,
                    recvtype: Type, comm: Comm);
                "Neighbor_alltoallv" "neighbor_alltoallv" + c => collectives::neighbor_alltoallv(
                    sendbuf: Buffer, sendcounts: Counts, sdispls: Counts, sendtype: Type, recvbuf: Buffer,
                    recvcounts: Counts, rdispls: Counts, recvtype: Type, comm: Comm);
                "Neighbor_alltoallw" "neighbor_alltoallw" + c => collectives::neighbor_alltoallw(
                    sendbuf: Buffer, sendcounts: Counts, sdispls: Addresses, sendtypes: Handles<Datatype>,
                    recvbuf: Buffer, recvcounts: Counts, rdispls: Addresses, recvtypes: Handles<Datatype>,
                    comm: Comm);
            }
        };
    };
}

/// A collective that is being prepared.
struct Prepared<'a> {
    call: Call,
    comm: Comm,
    object: &'a Communicator,
    what: collectives::Call<'a>,
    input: Region<'a>,
    output: Region<'a>,
    op: Option<&'a crate::objects::Operation>,
}

impl<'a> Prepared<'a> {
    fn new(call: Call, comm: Comm, object: &'a Communicator, collective: Collective) -> Self {
        Self {
            call,
            comm,
            object,
            what: collectives::Call::of(collective),
            input: Region::None,
            output: Region::None,
            op: None,
        }
    }

    fn with(self, what: impl FnOnce(collectives::Call<'a>) -> collectives::Call<'a>) -> Self {
        Self {
            what: what(self.what),
            ..self
        }
    }

    fn input(self, input: Region<'a>) -> Self {
        Self { input, ..self }
    }

    fn output(self, output: Region<'a>) -> Self {
        Self { output, ..self }
    }

    fn by(self, op: &'a crate::objects::Operation) -> Self {
        Self { op: Some(op), ..self }.with(|what| what.with_commutative(op.operation.is_commutative()))
    }

    /// Begins it, waits for it or plans it.
    fn run(self, then: Then) -> Done {
        // The engine knows functions without the ending of those with large counts.
        let name = self.call.name.strip_suffix("_c").unwrap_or(self.call.name);
        let buffers = Buffers {
            input: self.input,
            output: self.output,
        };
        let (comm, op) = (&self.object.comm, self.op.map(|op| &op.operation));
        if let Then::Plan(request) = then {
            // SAFETY: the program's buffers, as MPI demands.
            let planned = unsafe { comm.collective_init(name, &self.what, &buffers, op, None)? };
            give(request, planned, scope(self.comm));
            return Ok(());
        }
        // SAFETY: the program's buffers, as MPI demands.
        let begun = unsafe { comm.collective(name, &self.what, &buffers, op, None)? };
        if let Then::Begin(request) = then {
            give(request, begun, scope(self.comm));
            return Ok(());
        }
        begun.wait()?;
        Ok(())
    }
}

/// Runs a collective on memory of this crate, and waits for its end. Nothing leaves this function before: if the
/// network fails, all requests end.
pub(crate) fn complete(
    call: Call,
    comm: &hikyaku::mpi::engine::Communicator,
    what: &collectives::Call<'_>,
    buffers: &Buffers<'_>,
) -> Done {
    // SAFETY: the caller borrows the memory, and waits here until the end.
    uninterrupted(|| unsafe { comm.collective(call.name, what, buffers, None, None) }?.wait())?;
    Ok(())
}

/// The part of a process in a collective with a root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It is the root.
    Root,
    /// It has a part, and another one is the root.
    Other,
    /// Its group is that of the root, and it has no part.
    Aside,
}

fn part(comm: &Communicator, root: Rank) -> Result<(Part, usize), Failure> {
    let comm = &comm.comm;
    let wrong = |size: i32| Failure::value(ErrorClass::Root, "root", root.0.into(), 0, i64::from(size) - 1);
    if let Some(size) = comm.remote_size() {
        return match root.0 {
            Rank::ROOT => Ok((Part::Root, ROOT)),
            PROC_NULL => Ok((Part::Aside, NOBODY)),
            rank if (0..size).contains(&rank) => Ok((Part::Other, rank as usize)),
            _ => Err(wrong(size)),
        };
    }
    if !(0..comm.size()).contains(&root.0) {
        return Err(wrong(comm.size()));
    }
    let part = if comm.rank() == root.0 { Part::Root } else { Part::Other };
    Ok((part, root.0 as usize))
}

/// The number of ranks to which blocks belong.
fn partners(comm: &Communicator) -> usize {
    comm.comm.remote_size().unwrap_or_else(|| comm.comm.size()) as usize
}

/// Elements of a datatype at an address.
struct Side {
    base: Buffer,
    datatype: Held<Datatype>,
}

impl Side {
    fn new(base: Buffer, datatype: Type) -> Result<Self, Failure> {
        let datatype = datatype.get()?;
        datatype.for_message()?;
        Ok(Self { base, datatype })
    }

    fn region(&self) -> Region<'_> {
        Region::Plain(self.base.0, self.datatype())
    }

    fn datatype(&self) -> &datatype::Datatype {
        &self.datatype.datatype
    }

    /// A number of elements; 0 if they have no bytes.
    fn count(&self, count: i64) -> Result<usize, Failure> {
        let count = elements("count", count)? as usize;
        if self.datatype().size() == 0 || count == 0 {
            return Ok(0);
        }
        if self.base.0.is_null() && self.datatype().kind().is_some() {
            return Err(Failure::text(ErrorClass::Buffer, "the buffer is a null pointer"));
        }
        Ok(count)
    }

    /// Blocks of these lengths at these places.
    fn blocks(&self, counts: Counts, displs: Counts, len: usize) -> Result<Lists, Failure> {
        let counts: Result<_, _> = counts.list(len).into_iter().map(|count| self.count(count)).collect();
        let displacements = displs.list(len).into_iter().map(|place| place as isize).collect();
        Ok(Lists {
            counts: counts?,
            displacements,
        })
    }
}

/// Lengths and places of blocks.
struct Lists {
    counts: Vec<usize>,
    displacements: Vec<isize>,
}

impl Lists {
    fn blocks(&self) -> Blocks<'_> {
        Blocks::Uneven {
            counts: &self.counts,
            displacements: &self.displacements,
        }
    }
}

pub fn barrier(call: Call, comm: Comm, then: Then) -> Done {
    let object = comm.get()?;
    Prepared::new(call, comm, &object, Collective::Barrier).run(then)
}

pub fn bcast(call: Call, buffer: Buffer, count: Count, datatype: Type, root: Rank, comm: Comm, then: Then) -> Done {
    let object = comm.get()?;
    let (part, root) = part(&object, root)?;
    let prepared = Prepared::new(call, comm, &object, Collective::Bcast).with(|what| what.with_root(root));
    if part == Part::Aside {
        // The buffer, count and datatype mean nothing here.
        return prepared.run(then);
    }
    let side = Side::new(buffer, datatype)?;
    let bytes = side.datatype().packed_size(side.count(count.0)? as u64)? as usize;
    let prepared = prepared.with(|what| what.with_count(bytes));
    match part {
        Part::Root if object.comm.is_inter() => prepared.input(side.region()),
        _ => prepared.output(side.region()),
    }
    .run(then)
}

pub fn gather(
    call: Call,
    sendbuf: Buffer,
    sendcount: Count,
    sendtype: Type,
    recvbuf: Buffer,
    recvcount: Count,
    recvtype: Type,
    root: Rank,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let (part, root) = part(&object, root)?;
    let prepared = Prepared::new(call, comm, &object, Collective::Gather).with(|what| what.with_root(root));
    let (mut from, mut into) = (None, None);
    if part == Part::Root {
        into = Some(Side::new(recvbuf, recvtype)?);
    }
    if part == Part::Other || part == Part::Root && !object.comm.is_inter() && !sendbuf.is_in_place() {
        from = Some(Side::new(sendbuf, sendtype)?);
    }
    one_to_blocks(
        prepared,
        (&from, sendcount),
        (&into, |into: &Side| Ok(into.count(recvcount.0)?.into())),
        then,
    )
}

/// A block from each, and blocks of all for those that have `into`. Without `from` the own block is in its place.
fn one_to_blocks<'a>(
    prepared: Prepared<'a>,
    (from, sendcount): (&'a Option<Side>, Count),
    (into, blocks): (&'a Option<Side>, impl FnOnce(&'a Side) -> Result<Blocks<'a>, Failure>),
    then: Then,
) -> Done {
    let mut prepared = prepared;
    let is_one_group = !prepared.object.comm.is_inter();
    if let Some(into) = into {
        let blocks = blocks(into)?;
        prepared = prepared.output(into.region()).with(|what| what.with_output(blocks));
        if from.is_none() && is_one_group {
            prepared = prepared.with(|what| what.with_in_place(true));
            if let Blocks::Even { count } = blocks {
                prepared = prepared.with(|what| what.with_input(count));
            }
        }
    }
    if let Some(from) = from {
        let count = from.count(sendcount.0)?;
        prepared = prepared.input(from.region()).with(|what| what.with_input(count));
    }
    prepared.run(then)
}

pub fn gatherv(
    call: Call,
    sendbuf: Buffer,
    sendcount: Count,
    sendtype: Type,
    recvbuf: Buffer,
    recvcounts: Counts,
    displs: Counts,
    recvtype: Type,
    root: Rank,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let (part, root) = part(&object, root)?;
    let prepared = Prepared::new(call, comm, &object, Collective::Gatherv).with(|what| what.with_root(root));
    let (mut from, mut into, mut lists) = (None, None, None);
    if part == Part::Root {
        let side = Side::new(recvbuf, recvtype)?;
        lists = Some(side.blocks(recvcounts, displs, partners(&object))?);
        into = Some(side);
    }
    if part == Part::Other || part == Part::Root && !object.comm.is_inter() && !sendbuf.is_in_place() {
        from = Some(Side::new(sendbuf, sendtype)?);
    }
    let blocks = lists.as_ref().map_or(Blocks::Even { count: 0 }, Lists::blocks);
    one_to_blocks(prepared, (&from, sendcount), (&into, |_: &Side| Ok(blocks)), then)
}

/// Blocks for all from those that have `from`, and a block for each. Without `into` the own block stays in its place.
fn blocks_to_one<'a>(
    prepared: Prepared<'a>,
    (from, blocks): (&'a Option<Side>, Blocks<'a>),
    (into, recvcount): (&'a Option<Side>, Count),
    then: Then,
) -> Done {
    let mut prepared = prepared;
    let is_one_group = !prepared.object.comm.is_inter();
    if let Some(from) = from {
        prepared = prepared.input(from.region()).with(|what| what.with_input(blocks));
        if into.is_none() && is_one_group {
            prepared = prepared.with(|what| what.with_in_place(true));
            if let Blocks::Even { count } = blocks {
                prepared = prepared.with(|what| what.with_output(count));
            }
        }
    }
    if let Some(into) = into {
        let count = into.count(recvcount.0)?;
        prepared = prepared.output(into.region()).with(|what| what.with_output(count));
    }
    prepared.run(then)
}

pub fn scatter(
    call: Call,
    sendbuf: Buffer,
    sendcount: Count,
    sendtype: Type,
    recvbuf: Buffer,
    recvcount: Count,
    recvtype: Type,
    root: Rank,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let (part, root) = part(&object, root)?;
    let prepared = Prepared::new(call, comm, &object, Collective::Scatter).with(|what| what.with_root(root));
    let (mut from, mut into, mut count) = (None, None, 0);
    if part == Part::Root {
        let side = Side::new(sendbuf, sendtype)?;
        count = side.count(sendcount.0)?;
        from = Some(side);
    }
    if part == Part::Other || part == Part::Root && !object.comm.is_inter() && !recvbuf.is_in_place() {
        into = Some(Side::new(recvbuf, recvtype)?);
    }
    blocks_to_one(prepared, (&from, count.into()), (&into, recvcount), then)
}

pub fn scatterv(
    call: Call,
    sendbuf: Buffer,
    sendcounts: Counts,
    displs: Counts,
    sendtype: Type,
    recvbuf: Buffer,
    recvcount: Count,
    recvtype: Type,
    root: Rank,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let (part, root) = part(&object, root)?;
    let prepared = Prepared::new(call, comm, &object, Collective::Scatterv).with(|what| what.with_root(root));
    let (mut from, mut into, mut lists) = (None, None, None);
    if part == Part::Root {
        let side = Side::new(sendbuf, sendtype)?;
        lists = Some(side.blocks(sendcounts, displs, partners(&object))?);
        from = Some(side);
    }
    if part == Part::Other || part == Part::Root && !object.comm.is_inter() && !recvbuf.is_in_place() {
        into = Some(Side::new(recvbuf, recvtype)?);
    }
    let blocks = lists.as_ref().map_or(Blocks::Even { count: 0 }, Lists::blocks);
    blocks_to_one(prepared, (&from, blocks), (&into, recvcount), then)
}

/// The buffer to send, unless it is in place.
fn sending(sendbuf: Buffer, sendtype: Type) -> Result<Option<Side>, Failure> {
    (!sendbuf.is_in_place())
        .then(|| Side::new(sendbuf, sendtype))
        .transpose()
}

pub fn allgather(
    call: Call,
    sendbuf: Buffer,
    sendcount: Count,
    sendtype: Type,
    recvbuf: Buffer,
    recvcount: Count,
    recvtype: Type,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let (from, into) = (sending(sendbuf, sendtype)?, Some(Side::new(recvbuf, recvtype)?));
    let prepared = Prepared::new(call, comm, &object, Collective::Allgather);
    one_to_blocks(
        prepared,
        (&from, sendcount),
        (&into, |into: &Side| Ok(into.count(recvcount.0)?.into())),
        then,
    )
}

pub fn allgatherv(
    call: Call,
    sendbuf: Buffer,
    sendcount: Count,
    sendtype: Type,
    recvbuf: Buffer,
    recvcounts: Counts,
    displs: Counts,
    recvtype: Type,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let (from, into) = (sending(sendbuf, sendtype)?, Side::new(recvbuf, recvtype)?);
    let lists = into.blocks(recvcounts, displs, partners(&object))?;
    let prepared = Prepared::new(call, comm, &object, Collective::Allgatherv);
    let (into, blocks) = (Some(into), lists.blocks());
    one_to_blocks(prepared, (&from, sendcount), (&into, |_: &Side| Ok(blocks)), then)
}

/// Blocks for all, and blocks from all.
fn exchange<'a>(
    prepared: Prepared<'a>,
    from: Option<(Region<'a>, Blocks<'a>)>,
    into: (Region<'a>, Blocks<'a>),
    then: Then,
) -> Done {
    let prepared = prepared.output(into.0).with(|what| what.with_output(into.1));
    match from {
        Some((region, blocks)) => prepared.input(region).with(|what| what.with_input(blocks)),
        None => prepared.with(|what| what.with_in_place(true)),
    }
    .run(then)
}

pub fn alltoall(
    call: Call,
    sendbuf: Buffer,
    sendcount: Count,
    sendtype: Type,
    recvbuf: Buffer,
    recvcount: Count,
    recvtype: Type,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let (from, into) = (sending(sendbuf, sendtype)?, Side::new(recvbuf, recvtype)?);
    let sent = match &from {
        Some(from) => Some((from.region(), from.count(sendcount.0)?.into())),
        None => None,
    };
    let received = (into.region(), into.count(recvcount.0)?.into());
    let prepared = Prepared::new(call, comm, &object, Collective::Alltoall);
    exchange(prepared, sent, received, then)
}

pub fn alltoallv(
    call: Call,
    sendbuf: Buffer,
    sendcounts: Counts,
    sdispls: Counts,
    sendtype: Type,
    recvbuf: Buffer,
    recvcounts: Counts,
    rdispls: Counts,
    recvtype: Type,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let (len, from, into) = (
        partners(&object),
        sending(sendbuf, sendtype)?,
        Side::new(recvbuf, recvtype)?,
    );
    let sent = match &from {
        Some(from) => Some(from.blocks(sendcounts, sdispls, len)?),
        None => None,
    };
    let received = into.blocks(recvcounts, rdispls, len)?;
    let sent = from.as_ref().zip(sent.as_ref());
    let prepared = Prepared::new(call, comm, &object, Collective::Alltoallv);
    let sent = sent.map(|(from, lists)| (from.region(), lists.blocks()));
    exchange(prepared, sent, (into.region(), received.blocks()), then)
}

/// A number of elements; 0 if they have no bytes.
fn elements_of(count: i64, has_data: bool) -> Result<u64, Failure> {
    Ok(if has_data { elements("count", count)? } else { 0 })
}

/// Blocks of datatypes of their own: each is one element.
struct Each {
    base: Buffer,
    elements: Vec<(i64, u64, datatype::Datatype)>,
    lists: Lists,
}

impl Each {
    fn new(
        base: Buffer,
        len: usize,
        counts: Counts,
        place: impl Fn(usize) -> i64,
        types: Handles<Datatype>,
    ) -> Result<Self, Failure> {
        let mut elements = Vec::with_capacity(len);
        for index in 0..len {
            let side = Side::new(base, types.get(index))?;
            // A null pointer is `MPI_BOTTOM`: then the places are addresses.
            let has_data = side.datatype().size() > 0;
            let count = elements_of(counts.get(index), has_data)?;
            elements.push((place(index), count, side.datatype().clone()));
        }
        let has_data = |one: &(i64, u64, datatype::Datatype)| usize::from(one.1 > 0);
        let lists = Lists {
            counts: elements.iter().map(has_data).collect(),
            displacements: (0..len as isize).collect(),
        };
        Ok(Self { base, elements, lists })
    }

    fn both(&self) -> (Region<'_>, Blocks<'_>) {
        (Region::Each(self.base.0, &self.elements), self.lists.blocks())
    }
}

pub fn alltoallw(
    call: Call,
    sendbuf: Buffer,
    sendcounts: Counts,
    sdispls: Counts,
    sendtypes: Handles<Datatype>,
    recvbuf: Buffer,
    recvcounts: Counts,
    rdispls: Counts,
    recvtypes: Handles<Datatype>,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let len = partners(&object);
    let mut from = None;
    if !sendbuf.is_in_place() {
        from = Some(Each::new(
            sendbuf,
            len,
            sendcounts,
            |index| sdispls.get(index),
            sendtypes,
        )?);
    }
    let mut into = Each::new(recvbuf, len, recvcounts, |index| rdispls.get(index), recvtypes)?;
    if from.is_none() {
        into.lists.counts.fill(1);
    }
    let prepared = Prepared::new(call, comm, &object, Collective::Alltoallv);
    exchange(prepared, from.as_ref().map(Each::both), into.both(), then)
}

pub fn reduce(
    call: Call,
    sendbuf: Buffer,
    recvbuf: Buffer,
    count: Count,
    datatype: Type,
    op: Op,
    root: Rank,
    comm: Comm,
    then: Then,
) -> Done {
    let (object, op) = (comm.get()?, op.get()?);
    let (part, root) = part(&object, root)?;
    if part == Part::Aside {
        // Buffers, count and datatype mean nothing here.
        let prepared = Prepared::new(call, comm, &object, Collective::Reduce);
        return prepared.with(|what| what.with_root(root)).by(&op).run(then);
    }
    let (from, into) = (Side::new(sendbuf, datatype)?, Side::new(recvbuf, datatype)?);
    op.operation.check(from.datatype())?;
    let mut prepared = Prepared::new(call, comm, &object, Collective::Reduce)
        .with(|what| what.with_root(root))
        .by(&op);
    let is_in_place = part == Part::Root && sendbuf.is_in_place();
    if part == Part::Root {
        prepared = prepared.output(into.region());
    }
    if part == Part::Other || part == Part::Root && !object.comm.is_inter() && !is_in_place {
        prepared = prepared.input(from.region());
    }
    let side = if part == Part::Root { &into } else { &from };
    let count = side.count(count.0)?;
    prepared
        .with(|what| what.with_count(count).with_in_place(is_in_place))
        .run(then)
}

/// A reduction whose result all get.
fn reduction(
    call: Call,
    (sendbuf, recvbuf, datatype): (Buffer, Buffer, Type),
    (op, comm): (Op, Comm),
    collective: Collective,
    count: impl FnOnce(&Side, &Communicator) -> Result<Result<usize, Vec<usize>>, Failure>,
    then: Then,
) -> Done {
    let (object, op) = (comm.get()?, op.get()?);
    let (from, into) = (Side::new(sendbuf, datatype)?, Side::new(recvbuf, datatype)?);
    op.operation.check(into.datatype())?;
    let count = count(&into, &object)?;
    let blocks = match &count {
        Ok(count) => (*count).into(),
        Err(counts) => Blocks::Uneven {
            counts,
            displacements: &[],
        },
    };
    let is_in_place = sendbuf.is_in_place();
    let input = if is_in_place { Region::None } else { from.region() };
    Prepared::new(call, comm, &object, collective)
        .by(&op)
        .with(|what| what.with_count(blocks).with_in_place(is_in_place))
        .input(input)
        .output(into.region())
        .run(then)
}

/// Reductions of as many elements as one count says, whose result all get.
macro_rules! reductions_of_a_count {
    ($($name:ident: $collective:ident),*) => {
        $(pub fn $name(
            call: Call,
            sendbuf: Buffer,
            recvbuf: Buffer,
            count: Count,
            datatype: Type,
            op: Op,
            comm: Comm,
            then: Then,
        ) -> Done {
            let what = (sendbuf, recvbuf, datatype);
            let count = |side: &Side, _: &Communicator| Ok(Ok(side.count(count.0)?));
            reduction(call, what, (op, comm), Collective::$collective, count, then)
        })*
    };
}

reductions_of_a_count!(allreduce: Allreduce, reduce_scatter_block: ReduceScatterBlock, scan: Scan, exscan: Exscan);

pub fn reduce_scatter(
    call: Call,
    sendbuf: Buffer,
    recvbuf: Buffer,
    recvcounts: Counts,
    datatype: Type,
    op: Op,
    comm: Comm,
    then: Then,
) -> Done {
    let what = (sendbuf, recvbuf, datatype);
    let counts = |side: &Side, object: &Communicator| {
        let all = recvcounts.list(object.comm.size() as usize).into_iter();
        // A rank without elements of its own may have no buffer.
        let some = Side {
            base: if side.base.0.is_null() { sendbuf } else { side.base },
            datatype: datatype.get()?,
        };
        let counts: Result<Vec<usize>, Failure> = all.map(|count| some.count(count)).collect();
        Ok(Err(counts?))
    };
    reduction(call, what, (op, comm), Collective::ReduceScatter, counts, then)
}

/// A collective with the neighbours.
fn among<'a>(
    call: Call,
    comm: Comm,
    object: &'a Communicator,
    near: &'a Neighbours,
    collective: Collective,
) -> Prepared<'a> {
    Prepared::new(call, comm, object, collective).with(|what| what.with_neighbours(&near.sources, &near.destinations))
}

pub fn neighbor_allgather(
    call: Call,
    sendbuf: Buffer,
    sendcount: Count,
    sendtype: Type,
    recvbuf: Buffer,
    recvcount: Count,
    recvtype: Type,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let near = object.neighbours()?;
    let (from, into) = (Some(Side::new(sendbuf, sendtype)?), Some(Side::new(recvbuf, recvtype)?));
    let prepared = among(call, comm, &object, &near, Collective::NeighborAllgather);
    one_to_blocks(
        prepared,
        (&from, sendcount),
        (&into, |into: &Side| Ok(into.count(recvcount.0)?.into())),
        then,
    )
}

pub fn neighbor_allgatherv(
    call: Call,
    sendbuf: Buffer,
    sendcount: Count,
    sendtype: Type,
    recvbuf: Buffer,
    recvcounts: Counts,
    displs: Counts,
    recvtype: Type,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let near = object.neighbours()?;
    let (from, into) = (Some(Side::new(sendbuf, sendtype)?), Side::new(recvbuf, recvtype)?);
    let lists = into.blocks(recvcounts, displs, near.sources.len())?;
    let prepared = among(call, comm, &object, &near, Collective::NeighborAllgather);
    let (into, blocks) = (Some(into), lists.blocks());
    one_to_blocks(prepared, (&from, sendcount), (&into, |_: &Side| Ok(blocks)), then)
}

pub fn neighbor_alltoall(
    call: Call,
    sendbuf: Buffer,
    sendcount: Count,
    sendtype: Type,
    recvbuf: Buffer,
    recvcount: Count,
    recvtype: Type,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let near = object.neighbours()?;
    let (from, into) = (Side::new(sendbuf, sendtype)?, Side::new(recvbuf, recvtype)?);
    let sent = (from.region(), from.count(sendcount.0)?.into());
    let received = (into.region(), into.count(recvcount.0)?.into());
    let prepared = among(call, comm, &object, &near, Collective::NeighborAlltoall);
    exchange(prepared, Some(sent), received, then)
}

pub fn neighbor_alltoallv(
    call: Call,
    sendbuf: Buffer,
    sendcounts: Counts,
    sdispls: Counts,
    sendtype: Type,
    recvbuf: Buffer,
    recvcounts: Counts,
    rdispls: Counts,
    recvtype: Type,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let near = object.neighbours()?;
    let (from, into) = (Side::new(sendbuf, sendtype)?, Side::new(recvbuf, recvtype)?);
    let sent = from.blocks(sendcounts, sdispls, near.destinations.len())?;
    let received = into.blocks(recvcounts, rdispls, near.sources.len())?;
    let prepared = among(call, comm, &object, &near, Collective::NeighborAlltoall);
    exchange(
        prepared,
        Some((from.region(), sent.blocks())),
        (into.region(), received.blocks()),
        then,
    )
}

pub fn neighbor_alltoallw(
    call: Call,
    sendbuf: Buffer,
    sendcounts: Counts,
    sdispls: Addresses,
    sendtypes: Handles<Datatype>,
    recvbuf: Buffer,
    recvcounts: Counts,
    rdispls: Addresses,
    recvtypes: Handles<Datatype>,
    comm: Comm,
    then: Then,
) -> Done {
    let object = comm.get()?;
    let near = object.neighbours()?;
    let (outward, inward) = (near.destinations.len(), near.sources.len());
    let from = Each::new(sendbuf, outward, sendcounts, |index| sdispls.get(index), sendtypes)?;
    let into = Each::new(recvbuf, inward, recvcounts, |index| rdispls.get(index), recvtypes)?;
    let prepared = among(call, comm, &object, &near, Collective::NeighborAlltoall);
    exchange(prepared, Some(from.both()), into.both(), then)
}

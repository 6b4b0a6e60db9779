//! The barrier, and collectives that carry data from or to a root (MPI 6.3 to 6.6).

use hikyaku::mpi::collectives::{Blocks, Collective};

use super::{
    blocks::{blocks_to_one, one_to_blocks},
    buffers::{Lists, Side},
    prepared::{Part, Prepared, has_own, part, partners},
};
use crate::{
    border::{Buffer, Call, Count, Counts, Rank},
    calls::{Done, Then},
    objects::{Comm, Type},
};

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
    if has_own(part, &object, sendbuf) {
        from = Some(Side::new(sendbuf, sendtype)?);
    }
    one_to_blocks(
        prepared,
        (&from, sendcount),
        (&into, |into: &Side| Ok(into.count(recvcount.0)?.into())),
        then,
    )
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
    if has_own(part, &object, sendbuf) {
        from = Some(Side::new(sendbuf, sendtype)?);
    }
    let blocks = lists.as_ref().map_or(Blocks::Even { count: 0 }, Lists::blocks);
    one_to_blocks(prepared, (&from, sendcount), (&into, |_: &Side| Ok(blocks)), then)
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
    if has_own(part, &object, recvbuf) {
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
    if has_own(part, &object, recvbuf) {
        into = Some(Side::new(recvbuf, recvtype)?);
    }
    let blocks = lists.as_ref().map_or(Blocks::Even { count: 0 }, Lists::blocks);
    blocks_to_one(prepared, (&from, blocks), (&into, recvcount), then)
}

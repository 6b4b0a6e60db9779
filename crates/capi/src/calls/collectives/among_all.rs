//! Collectives that carry data from all to all (MPI 6.7, 6.8).

use hikyaku::mpi::collectives::Collective;

use super::{
    blocks::{exchange, one_to_blocks},
    buffers::{Each, Side, sending},
    prepared::{Prepared, partners},
};
use crate::{
    border::{Buffer, Call, Count, Counts, Handles},
    calls::{Done, Then},
    objects::{Comm, Datatype, Type},
};

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
            &sendcounts.list(len)?,
            &sdispls.list(len)?,
            sendtypes.iter(len)?,
        )?);
    }
    let (counts, places) = (recvcounts.list(len)?, rdispls.list(len)?);
    let mut into = Each::new(recvbuf, &counts, &places, recvtypes.iter(len)?)?;
    if from.is_none() {
        into.lists.counts.fill(1);
    }
    let prepared = Prepared::new(call, comm, &object, Collective::Alltoallv);
    exchange(prepared, from.as_ref().map(Each::both), into.both(), then)
}

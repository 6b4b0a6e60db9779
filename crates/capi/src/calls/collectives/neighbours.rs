//! Collectives of neighbours (MPI 8.6 to 8.8).

use hikyaku::mpi::collectives::Collective;

use super::{
    blocks::{exchange, one_to_blocks},
    buffers::{Each, Side},
    prepared::Prepared,
};
use crate::{
    border::{Addresses, Buffer, Call, Count, Counts, Handles},
    calls::{Done, Then},
    objects::{Comm, Communicator, Datatype, Neighbours, Type},
};

/// A collective with the neighbours.
fn among<'a>(
    call: Call,
    comm: Comm,
    object: &'a Communicator,
    near: &'a Neighbours,
    collective: Collective,
) -> Prepared<'a> {
    Prepared::new(call, comm, object, collective).with(|what| {
        what.with_neighbours(&near.sources, &near.destinations)
            .with_crossed(near.crossed)
    })
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
    let (counts, places) = (sendcounts.list(outward)?, sdispls.list(outward)?);
    let from = Each::new(sendbuf, &counts, &places, sendtypes.iter(outward)?)?;
    let (counts, places) = (recvcounts.list(inward)?, rdispls.list(inward)?);
    let into = Each::new(recvbuf, &counts, &places, recvtypes.iter(inward)?)?;
    let prepared = among(call, comm, &object, &near, Collective::NeighborAlltoall);
    exchange(prepared, Some(from.both()), into.both(), then)
}

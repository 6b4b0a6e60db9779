#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Sending and receiving at once.

use hikyaku::mpi::{
    engine::{ANY_TAG, Mode},
    error::Error,
};

use super::{
    Destination, Source, Status,
    message::Value,
    transfer::{Incoming, Outgoing},
};
use crate::{
    Tag,
    datatype::{Buffer, BufferMut, Equivalence, Place, bytes},
    topology::handle,
};

const CALL: &str = "MPI_Sendrecv";

/// Sends from one place and receives into another; both are borrowed meanwhile.
fn exchange<D: Destination, S: Source>(
    call: &'static str,
    (from, destination, sendtag): (&Place, &D, Tag),
    (into, source, receivetag): (&Place, &S, Tag),
) -> Result<Status, Error> {
    let incoming = Incoming {
        source: source.source_rank(),
        tag: receivetag,
    };
    let outgoing = Outgoing {
        mode: Mode::Standard,
        destination: destination.destination_rank(),
        tag: sendtag,
    };
    let run = || {
        // SAFETY: borrowed by our caller, and waited for below.
        let mut receiving = unsafe { incoming.begin(&handle(source).comm, into) };
        let sent = outgoing.send(&handle(destination).comm, from);
        if sent.is_err() {
            // The answer may never come.
            receiving.cancel();
        }
        let received = receiving.wait();
        sent.and(received)
    };
    let (data, to) = ((from.count, &from.datatype), (outgoing.destination, sendtag));
    let comm = &handle(destination).comm;
    let exchanged = comm.message_as_one(call, data, to, Some(into.bytes()), run, |status| Some(*status));
    exchanged.map(Status::new)
}

/// Sends a value and receives one, with tags (`MPI_Sendrecv`).
///
/// # Errors
/// A process is lost, the communicator is revoked, or the message is not such a value.
pub fn send_receive_with_tags<M, D, R, S>(
    msg: &M,
    destination: &D,
    sendtag: Tag,
    source: &S,
    receivetag: Tag,
) -> Result<(R, Status), Error>
where
    M: Equivalence,
    D: Destination,
    R: Equivalence,
    S: Source,
{
    let value = Value::<R>::new();
    let status = exchange(
        CALL,
        (&Place::of(msg), destination, sendtag),
        (&value.place(), source, receivetag),
    )?;
    value.received(CALL, status)
}

/// Sends a value and receives one.
///
/// # Errors
/// As [`send_receive_with_tags`].
///
/// ```
/// use mpi::{point_to_point as p2p, traits::*};
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let next = world.process_at_rank((world.rank() + 1) % world.size());
/// let (received, _): (f64, _) = p2p::send_receive(&0.5_f64, &next, &world.any_process())?;
/// assert_eq!(received, 0.5);
/// # Ok::<_, mpi::Error>(())
/// ```
pub fn send_receive<R, M, D, S>(msg: &M, destination: &D, source: &S) -> Result<(R, Status), Error>
where
    M: Equivalence,
    D: Destination,
    R: Equivalence,
    S: Source,
{
    send_receive_with_tags(msg, destination, Tag::default(), source, ANY_TAG)
}

/// Sends a buffer and receives into another, with tags (`MPI_Sendrecv`).
///
/// # Errors
/// A process is lost, the communicator is revoked, or the message is longer than the buffer.
pub fn send_receive_into_with_tags<M, D, B, S>(
    msg: &M,
    destination: &D,
    sendtag: Tag,
    buf: &mut B,
    source: &S,
    receivetag: Tag,
) -> Result<Status, Error>
where
    M: Buffer + ?Sized,
    D: Destination,
    B: BufferMut + ?Sized,
    S: Source,
{
    exchange(
        CALL,
        (&Place::of(msg), destination, sendtag),
        (&Place::of_mut(buf), source, receivetag),
    )
}

/// Sends a buffer and receives into another.
///
/// # Errors
/// As [`send_receive_into_with_tags`].
pub fn send_receive_into<M, D, B, S>(msg: &M, destination: &D, buf: &mut B, source: &S) -> Result<Status, Error>
where
    M: Buffer + ?Sized,
    D: Destination,
    B: BufferMut + ?Sized,
    S: Source,
{
    send_receive_into_with_tags(msg, destination, Tag::default(), buf, source, ANY_TAG)
}

/// Sends a buffer and receives into the same, with tags (`MPI_Sendrecv_replace`).
///
/// # Errors
/// A process is lost, the communicator is revoked, or the message is longer than the buffer.
pub fn send_receive_replace_into_with_tags<B, D, S>(
    buf: &mut B,
    destination: &D,
    sendtag: Tag,
    source: &S,
    receivetag: Tag,
) -> Result<Status, Error>
where
    B: BufferMut + ?Sized,
    D: Destination,
    S: Source,
{
    let into = Place::of_mut(buf);
    let mut copy = into.pack();
    let from = Place {
        base: copy.as_mut_ptr(),
        count: copy.len() as u64,
        datatype: bytes(),
        validator: None,
    };
    exchange(
        "MPI_Sendrecv_replace",
        (&from, destination, sendtag),
        (&into, source, receivetag),
    )
}

/// Sends a buffer and receives into the same.
///
/// # Errors
/// As [`send_receive_replace_into_with_tags`].
pub fn send_receive_replace_into<B, D, S>(buf: &mut B, destination: &D, source: &S) -> Result<Status, Error>
where
    B: BufferMut + ?Sized,
    D: Destination,
    S: Source,
{
    send_receive_replace_into_with_tags(buf, destination, Tag::default(), source, ANY_TAG)
}

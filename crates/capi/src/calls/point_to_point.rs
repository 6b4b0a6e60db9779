#![expect(unsafe_code, reason = "buffers are the program's")]
//! Messages (MPI 3.2 to 3.7, 3.10).

use hikyaku::mpi::{
    datatype,
    engine::{self, Mode, PROC_NULL, Status},
    error::{Detail, Error, ErrorClass},
};

use super::{Done, give};
use crate::{
    border::{
        Argument, Buffer, Call, Count, Failure, InOut, Narrow, OutCount, OutPointer, OutStatus, Rank, Scope, Tag,
    },
    objects::{Buffered, Comm, Communicator, Owner, Pending, RequestObject, Session, Type, Work, lock},
};

#[doc(hidden)]
#[macro_export]
macro_rules! point_to_point {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Send" + c => point_to_point::send(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm);
                "Ssend" + c => point_to_point::ssend(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm);
                "Rsend" + c => point_to_point::rsend(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm);
                "Bsend" + c => point_to_point::bsend(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm);
                "Isend" + c => point_to_point::isend(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    request: InOut<RequestObject>);
                "Issend" + c => point_to_point::issend(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    request: InOut<RequestObject>);
                "Irsend" + c => point_to_point::irsend(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    request: InOut<RequestObject>);
                "Ibsend" + c => point_to_point::ibsend(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    request: InOut<RequestObject>);
                "Recv" + c => point_to_point::recv(
                    buf: Buffer, count: Count, datatype: Type, source: Rank, tag: Tag, comm: Comm, status: OutStatus);
                "Irecv" + c => point_to_point::irecv(
                    buf: Buffer, count: Count, datatype: Type, source: Rank, tag: Tag, comm: Comm,
                    request: InOut<RequestObject>);
                "Sendrecv" + c => point_to_point::sendrecv(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, dest: Rank, sendtag: Tag,
                    recvbuf: Buffer, recvcount: Count, recvtype: Type, source: Rank, recvtag: Tag,
                    comm: Comm, status: OutStatus);
                "Isendrecv" + c => point_to_point::isendrecv(
                    sendbuf: Buffer, sendcount: Count, sendtype: Type, dest: Rank, sendtag: Tag,
                    recvbuf: Buffer, recvcount: Count, recvtype: Type, source: Rank, recvtag: Tag,
                    comm: Comm, request: InOut<RequestObject>);
                "Sendrecv_replace" + c => point_to_point::sendrecv_replace(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, sendtag: Tag, source: Rank, recvtag: Tag,
                    comm: Comm, status: OutStatus);
                "Isendrecv_replace" + c => point_to_point::isendrecv_replace(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, sendtag: Tag, source: Rank, recvtag: Tag,
                    comm: Comm, request: InOut<RequestObject>);
                "Buffer_attach" + c => point_to_point::buffer_attach(buffer: Buffer, size: Count);
                "Buffer_detach" + c => point_to_point::buffer_detach(buffer: OutPointer, size: OutCount);
                "Buffer_flush" => point_to_point::buffer_flush();
                "Buffer_iflush" => point_to_point::buffer_iflush(request: InOut<RequestObject>);
                "Comm_attach_buffer" + c => point_to_point::comm_attach_buffer(
                    comm: Comm, buffer: Buffer, size: Count);
                "Comm_detach_buffer" + c => point_to_point::comm_detach_buffer(
                    comm: Comm, buffer: OutPointer, size: OutCount);
                "Comm_flush_buffer" => point_to_point::comm_flush_buffer(comm: Comm);
                "Comm_iflush_buffer" => point_to_point::comm_iflush_buffer(
                    comm: Comm, request: InOut<RequestObject>);
                "Session_attach_buffer" + c => point_to_point::session_attach_buffer(
                    session: Session, buffer: Buffer, size: Count);
                "Session_detach_buffer" + c => point_to_point::session_detach_buffer(
                    session: Session, buffer: OutPointer, size: OutCount);
                "Session_flush_buffer" => point_to_point::session_flush_buffer(session: Session);
                "Session_iflush_buffer" => point_to_point::session_iflush_buffer(
                    session: Session, request: InOut<RequestObject>);
            }
        };
    };
}

/// A number of elements.
#[inline]
pub(crate) fn elements(argument: &'static str, count: i64) -> Result<u64, Failure> {
    u64::try_from(count).map_err(|_| Failure::value(ErrorClass::Count, argument, count, 0, i64::MAX))
}

/// A communicator as an object with an error handler.
pub(crate) fn scope(comm: Comm) -> Option<Scope> {
    <Comm as Argument<crate::abi::Standard, Narrow>>::scope(&comm)
}

/// The elements of a message.
pub(crate) struct Elements<'a> {
    pub(crate) base: *mut u8,
    pub(crate) count: u64,
    pub(crate) datatype: &'a datatype::Datatype,
}

/// Checks what a message consists of.
#[inline]
pub(crate) fn message(buf: Buffer, count: i64, datatype: &crate::objects::Datatype) -> Result<Elements<'_>, Failure> {
    let (count, datatype) = (elements("count", count)?, datatype.for_message()?);
    if buf.is_in_place() {
        return Err(Failure::text(
            ErrorClass::Buffer,
            "MPI_IN_PLACE is no buffer of a message",
        ));
    }
    // A null pointer is `MPI_BOTTOM`: then the datatype has addresses.
    if buf.0.is_null() && count > 0 && datatype.size() > 0 && datatype.kind().is_some() {
        return Err(Failure::text(ErrorClass::Buffer, "the buffer is a null pointer"));
    }
    Ok(Elements {
        base: buf.0,
        count,
        datatype,
    })
}

/// A message from any source goes nowhere.
#[inline]
pub(crate) fn destination(rank: Rank) -> Result<i32, Failure> {
    if rank.0 >= 0 || rank.0 == PROC_NULL {
        return Ok(rank.0);
    }
    Err(Failure::value(
        ErrorClass::Rank,
        "destination",
        rank.0.into(),
        0,
        i32::MAX.into(),
    ))
}

/// Sends a simple message, if that ends at once. Returns whether it did; else nothing was done.
#[inline(always)]
fn sent_at_once(mode: Mode, what: (Buffer, Count, Type), (dest, tag, comm): (Rank, Tag, Comm)) -> bool {
    let Some((object, datatype)) = simple(what, comm) else {
        return false;
    };
    let (base, count, to) = (what.0.0, what.1.0 as u64, (dest.0, tag.0));
    // SAFETY: the program's buffer, as MPI demands.
    dest.0 >= 0 && unsafe { object.send_at_once(mode, base, count, datatype, to) }
}

#[inline(always)]
fn sent(mode: Mode, what: (Buffer, Count, Type), to: (Rank, Tag, Comm)) -> Done {
    if sent_at_once(mode, what, to) {
        return Ok(());
    }
    sent_in_full(mode, what, to)
}

#[inline(never)]
fn sent_in_full(
    mode: Mode,
    (buf, count, datatype): (Buffer, Count, Type),
    (dest, tag, comm): (Rank, Tag, Comm),
) -> Done {
    let (comm, datatype) = (comm.get()?, datatype.get()?);
    let what = message(buf, count.0, &datatype)?;
    // SAFETY: the program's buffer, as MPI demands.
    unsafe {
        comm.comm
            .send(mode, what.base, what.count, what.datatype, destination(dest)?, tag.0)?;
    }
    Ok(())
}

#[inline(always)]
pub fn send(_call: Call, buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm) -> Done {
    sent(Mode::Standard, (buf, count, datatype), (dest, tag, comm))
}

pub fn ssend(_call: Call, buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm) -> Done {
    sent(Mode::Synchronous, (buf, count, datatype), (dest, tag, comm))
}

pub fn rsend(_call: Call, buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm) -> Done {
    sent(Mode::Ready, (buf, count, datatype), (dest, tag, comm))
}

pub fn bsend(_call: Call, buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm) -> Done {
    let (comm, datatype) = (comm.get()?, datatype.get()?);
    let what = message(buf, count.0, &datatype)?;
    buffered(&comm, &what, destination(dest)?, tag.0)
}

/// Sends with an attached buffer.
fn buffered(comm: &Communicator, what: &Elements<'_>, dest: i32, tag: i32) -> Done {
    Buffered::with_that_of(comm, |used| {
        let message = (what.base.cast_const(), what.count, what.datatype);
        // SAFETY: the program's buffer, as MPI demands.
        Ok(unsafe { lock(&used.messages).send(&comm.comm, message, (dest, tag)) }?)
    })
}

/// The communicator and the datatype of a message that is simple: both are predefined, and it has elements.
#[inline(always)]
fn simple(
    (buf, count, datatype): (Buffer, Count, Type),
    comm: Comm,
) -> Option<(&'static engine::Communicator, &'static datatype::Datatype)> {
    let (comm, datatype) = (comm.predefined()?, datatype.predefined()?);
    let is_simple = count.0 > 0 && !buf.0.is_null() && !buf.is_in_place();
    is_simple.then_some((&comm.comm, &datatype.datatype))
}

#[inline(always)]
fn begun(mode: Mode, what: (Buffer, Count, Type), to: (Rank, Tag, Comm), request: InOut<RequestObject>) -> Done {
    if sent_at_once(mode, what, to) {
        request.set(Pending::SENT);
        return Ok(());
    }
    begun_in_full(mode, what, to, request)
}

#[inline(never)]
fn begun_in_full(
    mode: Mode,
    (buf, count, datatype): (Buffer, Count, Type),
    (dest, tag, comm): (Rank, Tag, Comm),
    request: InOut<RequestObject>,
) -> Done {
    let (object, datatype) = (comm.get()?, datatype.get()?);
    let (what, dest) = (message(buf, count.0, &datatype)?, destination(dest)?);
    // SAFETY: the program's buffer, as MPI demands.
    let one = unsafe {
        object
            .comm
            .isend(mode, what.base, what.count, what.datatype, dest, tag.0)?
    };
    if one.communicator().is_none() {
        // It ended when it began, and no tool is told.
        request.set(Pending::SENT);
    } else {
        give(request, one, scope(comm));
    }
    Ok(())
}

type Place = InOut<RequestObject>;

#[inline(always)]
pub fn isend(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    dest: Rank,
    tag: Tag,
    comm: Comm,
    request: Place,
) -> Done {
    begun(Mode::Standard, (buf, count, datatype), (dest, tag, comm), request)
}

pub fn issend(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    dest: Rank,
    tag: Tag,
    comm: Comm,
    request: Place,
) -> Done {
    begun(Mode::Synchronous, (buf, count, datatype), (dest, tag, comm), request)
}

pub fn irsend(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    dest: Rank,
    tag: Tag,
    comm: Comm,
    request: Place,
) -> Done {
    begun(Mode::Ready, (buf, count, datatype), (dest, tag, comm), request)
}

pub fn ibsend(
    call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    dest: Rank,
    tag: Tag,
    comm: Comm,
    request: Place,
) -> Done {
    bsend(call, buf, count, datatype, dest, tag, comm)?;
    give(request, Work::Done(Status::EMPTY), scope(comm));
    Ok(())
}

#[inline(always)]
pub fn recv(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    source: Rank,
    tag: Tag,
    comm: Comm,
    status: OutStatus,
) -> Done {
    let (comm, datatype) = (comm.get()?, datatype.get()?);
    let what = message(buf, count.0, &datatype)?;
    // SAFETY: the program's buffer, as MPI demands.
    let received = unsafe { comm.comm.receive(what.base, what.count, what.datatype, source.0, tag.0) };
    match received {
        Ok(received) => {
            status.set(&received);
            Ok(())
        }
        Err(error) => {
            status_of_error(&error, status);
            Err(error.into())
        }
    }
}

/// The status of an operation that has failed says as much as is known.
pub(super) fn status_of_error(error: &Error, status: OutStatus) {
    if let (Detail::Truncated { room, .. }, Some(source), Some(tag)) = (error.detail(), error.peer(), error.tag()) {
        status.set(&Status {
            source,
            tag,
            len: *room,
            cancelled: false,
        });
    }
}

#[inline(always)]
pub fn irecv(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    source: Rank,
    tag: Tag,
    comm: Comm,
    request: Place,
) -> Done {
    if let Some((object, datatype)) = simple((buf, count, datatype), comm) {
        let (from, word) = ((source.0, tag.0), comm.handle().0);
        // SAFETY: the program's buffer, as MPI demands.
        let numbered = unsafe { object.ireceive_numbered(buf.0, count.0 as u64, datatype, from, word) };
        if let Some(number) = numbered {
            request.set(Pending::numbered(number));
            return Ok(());
        }
    }
    irecv_in_full((buf, count, datatype), (source, tag, comm), request)
}

#[inline(never)]
fn irecv_in_full(
    (buf, count, datatype): (Buffer, Count, Type),
    (source, tag, comm): (Rank, Tag, Comm),
    request: Place,
) -> Done {
    let (object, datatype) = (comm.get()?, datatype.get()?);
    let what = message(buf, count.0, &datatype)?;
    let (from, word) = ((source.0, tag.0), comm.handle().0);
    // SAFETY: the program's buffer, as MPI demands.
    let numbered = unsafe {
        object
            .comm
            .ireceive_numbered(what.base, what.count, what.datatype, from, word)
    };
    if let Some(number) = numbered {
        request.set(Pending::numbered(number));
        return Ok(());
    }
    // SAFETY: as above.
    let one = unsafe {
        object
            .comm
            .ireceive(what.base, what.count, what.datatype, source.0, tag.0)?
    };
    give(request, one, scope(comm));
    Ok(())
}

/// Begins a receive and a send.
fn both(
    comm: &engine::Communicator,
    (from, dest, sendtag): (&Elements<'_>, Rank, Tag),
    (into, source, recvtag): (&Elements<'_>, Rank, Tag),
) -> Result<(engine::Request, engine::Request), Failure> {
    let dest = destination(dest)?;
    // SAFETY: the program's buffers, as MPI demands, or memory of the caller that lives until both have ended.
    unsafe {
        let receive = comm.ireceive(into.base, into.count, into.datatype, source.0, recvtag.0)?;
        let send = comm.isend(Mode::Standard, from.base, from.count, from.datatype, dest, sendtag.0);
        match send {
            Ok(send) => Ok((send, receive)),
            Err(error) => {
                // The receive must not stay behind with a buffer that the program believes its own.
                receive.cancel();
                let _ = receive.wait();
                Err(error.into())
            }
        }
    }
}

fn end_both(pair: Result<(engine::Request, engine::Request), Failure>) -> Result<Status, Failure> {
    let (send, receive) = pair?;
    let received = receive.wait();
    send.wait()?;
    Ok(received?)
}

pub fn sendrecv(
    _call: Call,
    sendbuf: Buffer,
    sendcount: Count,
    sendtype: Type,
    dest: Rank,
    sendtag: Tag,
    recvbuf: Buffer,
    recvcount: Count,
    recvtype: Type,
    source: Rank,
    recvtag: Tag,
    comm: Comm,
    status: OutStatus,
) -> Done {
    let (comm, sendtype, recvtype) = (comm.get()?, sendtype.get()?, recvtype.get()?);
    let from = message(sendbuf, sendcount.0, &sendtype)?;
    let into = message(recvbuf, recvcount.0, &recvtype)?;
    let pair = both(&comm.comm, (&from, dest, sendtag), (&into, source, recvtag));
    status.set(&end_both(pair)?);
    Ok(())
}

pub fn isendrecv(
    _call: Call,
    sendbuf: Buffer,
    sendcount: Count,
    sendtype: Type,
    dest: Rank,
    sendtag: Tag,
    recvbuf: Buffer,
    recvcount: Count,
    recvtype: Type,
    source: Rank,
    recvtag: Tag,
    comm: Comm,
    request: Place,
) -> Done {
    let (object, sendtype, recvtype) = (comm.get()?, sendtype.get()?, recvtype.get()?);
    let from = message(sendbuf, sendcount.0, &sendtype)?;
    let into = message(recvbuf, recvcount.0, &recvtype)?;
    let (send, receive) = both(&object.comm, (&from, dest, sendtag), (&into, source, recvtag))?;
    give(request, Work::both(send, receive, Vec::new()), scope(comm));
    Ok(())
}

/// The bytes of a message, packed.
pub(crate) fn packed(what: &Elements<'_>) -> Result<Vec<u8>, Failure> {
    let len = what.datatype.packed_size(what.count)?;
    let len = usize::try_from(len).map_err(|_| ErrorClass::NoMem)?;
    let mut bytes = Vec::with_capacity(len);
    let room = &mut bytes.spare_capacity_mut()[..len];
    // SAFETY: the program's buffer, as MPI demands.
    let packed = unsafe { what.datatype.pack_at(what.base, what.count, 0, room) };
    // SAFETY: so many bytes have just been written.
    unsafe { bytes.set_len(packed) };
    Ok(bytes)
}

/// Begins the exchange of a buffer against a message, with a copy of its bytes that lives as long as that lasts.
fn replace(
    comm: &engine::Communicator,
    what: &Elements<'_>,
    (dest, sendtag): (Rank, Tag),
    (source, recvtag): (Rank, Tag),
) -> Result<(engine::Request, engine::Request, Vec<u8>), Failure> {
    let mut copy = packed(what)?;
    let bytes = datatype::Datatype::predefined(datatype::Kind::Byte);
    let from = Elements {
        base: copy.as_mut_ptr(),
        count: copy.len() as u64,
        datatype: &bytes,
    };
    let (send, receive) = both(comm, (&from, dest, sendtag), (what, source, recvtag))?;
    Ok((send, receive, copy))
}

pub fn sendrecv_replace(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    dest: Rank,
    sendtag: Tag,
    source: Rank,
    recvtag: Tag,
    comm: Comm,
    status: OutStatus,
) -> Done {
    let (comm, datatype) = (comm.get()?, datatype.get()?);
    let what = message(buf, count.0, &datatype)?;
    let (send, receive, copy) = replace(&comm.comm, &what, (dest, sendtag), (source, recvtag))?;
    let received = end_both(Ok((send, receive)));
    drop(copy);
    status.set(&received?);
    Ok(())
}

pub fn isendrecv_replace(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    dest: Rank,
    sendtag: Tag,
    source: Rank,
    recvtag: Tag,
    comm: Comm,
    request: Place,
) -> Done {
    let (object, datatype) = (comm.get()?, datatype.get()?);
    let what = message(buf, count.0, &datatype)?;
    let (send, receive, copy) = replace(&object.comm, &what, (dest, sendtag), (source, recvtag))?;
    give(request, Work::both(send, receive, copy), scope(comm));
    Ok(())
}

fn attach(owner: Owner, buffer: Buffer, size: Count) -> Done {
    let size = elements("size", size.0).map_err(|_| ErrorClass::Arg)?;
    owner.with(|used| used.attach(buffer, size))?
}

fn detach(call: Call, owner: Owner, buffer: OutPointer, size: OutCount) -> Done {
    let Some((attached, bytes)) = owner.with(Buffered::detach)? else {
        buffer.set(core::ptr::null_mut());
        return size.set(0);
    };
    // `MPI_BUFFER_AUTOMATIC` comes back as it is written by the program.
    if attached.is_automatic() {
        buffer.set(core::ptr::with_exposed_provenance_mut(call.encoding.buffer_automatic));
        return size.set(0);
    }
    buffer.set(attached.0.cast());
    size.set(bytes)
}

fn flush(owner: Owner) -> Done {
    owner.with(|used| lock(&used.messages).flush())
}

/// Begins to wait until the messages of a buffer are sent.
fn begin_flush(owner: Owner, request: Place, scope: Option<Scope>) -> Done {
    owner.with(|_| ())?;
    give(request, Work::Flushing(owner), scope);
    Ok(())
}

pub fn buffer_attach(_call: Call, buffer: Buffer, size: Count) -> Done {
    attach(Owner::Process, buffer, size)
}

pub fn buffer_detach(call: Call, buffer: OutPointer, size: OutCount) -> Done {
    detach(call, Owner::Process, buffer, size)
}

pub fn buffer_flush(_call: Call) -> Done {
    flush(Owner::Process)
}

pub fn buffer_iflush(_call: Call, request: Place) -> Done {
    begin_flush(Owner::Process, request, None)
}

pub fn comm_attach_buffer(_call: Call, comm: Comm, buffer: Buffer, size: Count) -> Done {
    attach(Owner::Comm(comm), buffer, size)
}

pub fn comm_detach_buffer(call: Call, comm: Comm, buffer: OutPointer, size: OutCount) -> Done {
    detach(call, Owner::Comm(comm), buffer, size)
}

pub fn comm_flush_buffer(_call: Call, comm: Comm) -> Done {
    flush(Owner::Comm(comm))
}

pub fn comm_iflush_buffer(_call: Call, comm: Comm, request: Place) -> Done {
    begin_flush(Owner::Comm(comm), request, scope(comm))
}

pub fn session_attach_buffer(_call: Call, session: Session, buffer: Buffer, size: Count) -> Done {
    attach(Owner::Session(session), buffer, size)
}

pub fn session_detach_buffer(call: Call, session: Session, buffer: OutPointer, size: OutCount) -> Done {
    detach(call, Owner::Session(session), buffer, size)
}

pub fn session_flush_buffer(_call: Call, session: Session) -> Done {
    flush(Owner::Session(session))
}

pub fn session_iflush_buffer(_call: Call, session: Session, request: Place) -> Done {
    let scope = Scope {
        sort: crate::abi::Sort::Session,
        handle: session.handle(),
    };
    begin_flush(Owner::Session(session), request, Some(scope))
}

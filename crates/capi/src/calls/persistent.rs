#![expect(unsafe_code, reason = "buffers are the program's")]
//! Persistent messages (MPI 3.9) and partitioned ones (MPI 4).

use hikyaku::mpi::{
    engine::{self, Mode},
    error::ErrorClass,
};

use super::{
    Done, give,
    point_to_point::{Elements, destination, elements, message, scope},
};
use crate::{
    border::{Buffer, Call, Count, Failure, InOut, Int, Ints, Offset, Out, Rank, Tag},
    objects::{Comm, Info, Pending, RequestObject, Type},
};

#[doc(hidden)]
#[macro_export]
macro_rules! persistent {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Send_init" + c => persistent::send_init(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    request: InOut<RequestObject>);
                "Ssend_init" + c => persistent::ssend_init(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    request: InOut<RequestObject>);
                "Rsend_init" + c => persistent::rsend_init(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    request: InOut<RequestObject>);
                "Bsend_init" + c => persistent::bsend_init(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    request: InOut<RequestObject>);
                "Recv_init" + c => persistent::recv_init(
                    buf: Buffer, count: Count, datatype: Type, source: Rank, tag: Tag, comm: Comm,
                    request: InOut<RequestObject>);
                "Psend_init" => persistent::psend_init(
                    buf: Buffer, partitions: Int, count: Offset, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    info: Info, request: InOut<RequestObject>);
                "Precv_init" => persistent::precv_init(
                    buf: Buffer, partitions: Int, count: Offset, datatype: Type, source: Rank, tag: Tag, comm: Comm,
                    info: Info, request: InOut<RequestObject>);
                "Pready" => persistent::pready(partition: Int, request: Pending);
                "Pready_range" => persistent::pready_range(low: Int, high: Int, request: Pending);
                "Pready_list" => persistent::pready_list(length: Int, partitions: Ints, request: Pending);
                "Parrived" => persistent::parrived(request: Pending, partition: Int, flag: Out<i32>);
            }
        };
    };
}

type Place = InOut<RequestObject>;

fn planned_send(
    mode: Mode,
    (buf, count, datatype): (Buffer, Count, Type),
    (dest, tag, comm): (Rank, Tag, Comm),
    request: Place,
) -> Done {
    let (object, datatype) = (comm.get()?, datatype.get()?);
    let Elements { base, count, datatype } = message(buf, count.0, &datatype)?;
    let what = (base.cast_const(), count, datatype);
    // SAFETY: the program's buffer, as MPI demands from start to end.
    let made = unsafe { object.comm.send_init(mode, what, destination(dest)?, tag.0) }?;
    give(request, made, scope(comm));
    Ok(())
}

pub fn send_init(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    dest: Rank,
    tag: Tag,
    comm: Comm,
    request: Place,
) -> Done {
    planned_send(Mode::Standard, (buf, count, datatype), (dest, tag, comm), request)
}

pub fn ssend_init(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    dest: Rank,
    tag: Tag,
    comm: Comm,
    request: Place,
) -> Done {
    planned_send(Mode::Synchronous, (buf, count, datatype), (dest, tag, comm), request)
}

pub fn rsend_init(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    dest: Rank,
    tag: Tag,
    comm: Comm,
    request: Place,
) -> Done {
    planned_send(Mode::Ready, (buf, count, datatype), (dest, tag, comm), request)
}

pub fn bsend_init(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    dest: Rank,
    tag: Tag,
    comm: Comm,
    request: Place,
) -> Done {
    let (object, datatype) = (comm.get()?, datatype.get()?);
    let Elements { base, count, datatype } = message(buf, count.0, &datatype)?;
    let what = (base.cast_const(), count, datatype);
    // SAFETY: the program's buffer, as MPI demands at each start.
    let made = unsafe { object.comm.buffered_send_init(what, destination(dest)?, tag.0) }?;
    give(request, made, scope(comm));
    Ok(())
}

pub fn recv_init(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    source: Rank,
    tag: Tag,
    comm: Comm,
    request: Place,
) -> Done {
    let (object, datatype) = (comm.get()?, datatype.get()?);
    let Elements { base, count, datatype } = message(buf, count.0, &datatype)?;
    // SAFETY: the program's buffer, as MPI demands from start to end.
    let made = unsafe { object.comm.receive_init((base, count, datatype), source.0, tag.0) }?;
    give(request, made, scope(comm));
    Ok(())
}

fn parts(partitions: Int, count: Offset) -> Result<(u32, u64), Failure> {
    let parts = u32::try_from(partitions.0).map_err(|_| ErrorClass::Arg)?;
    Ok((parts, elements("count", count.0)?))
}

pub fn psend_init(
    _call: Call,
    buf: Buffer,
    partitions: Int,
    count: Offset,
    datatype: Type,
    dest: Rank,
    tag: Tag,
    comm: Comm,
    _info: Info,
    request: Place,
) -> Done {
    let (object, datatype) = (comm.get()?, datatype.get()?);
    let (parts, what) = (parts(partitions, count)?, message(buf, count.0, &datatype)?);
    // SAFETY: the program's buffer, as MPI demands.
    let send = unsafe { object.comm.psend_init(what.base, parts, what.datatype, dest.0, tag.0)? };
    give(request, send, scope(comm));
    Ok(())
}

pub fn precv_init(
    _call: Call,
    buf: Buffer,
    partitions: Int,
    count: Offset,
    datatype: Type,
    source: Rank,
    tag: Tag,
    comm: Comm,
    _info: Info,
    request: Place,
) -> Done {
    let (object, datatype) = (comm.get()?, datatype.get()?);
    let (parts, what) = (parts(partitions, count)?, message(buf, count.0, &datatype)?);
    // SAFETY: the program's buffer, as MPI demands.
    let receive = unsafe {
        object
            .comm
            .precv_init(what.base, parts, what.datatype, source.0, tag.0)?
    };
    give(request, receive, scope(comm));
    Ok(())
}

fn not_partitioned() -> Failure {
    Failure::text(
        ErrorClass::Request,
        "the request is none of partitioned messages of this side",
    )
}

fn partition(number: i32) -> Result<u32, Failure> {
    u32::try_from(number).map_err(|_| ErrorClass::Arg.into())
}

/// Says that partitions are ready.
fn ready(request: Pending, say: impl FnOnce(&engine::PartitionedSend) -> Result<(), Failure>) -> Done {
    say(request.get()?.send().ok_or_else(not_partitioned)?)
}

pub fn pready(_call: Call, number: Int, request: Pending) -> Done {
    let number = partition(number.0)?;
    ready(request, |send| Ok(send.ready(number)?))
}

pub fn pready_range(_call: Call, low: Int, high: Int, request: Pending) -> Done {
    let (low, high) = (partition(low.0)?, partition(high.0)?);
    ready(request, |send| Ok(send.ready_range(low..high + 1)?))
}

pub fn pready_list(_call: Call, length: Int, partitions: Ints, request: Pending) -> Done {
    let length = usize::try_from(length.0).map_err(|_| ErrorClass::Arg)?;
    let list: Result<Vec<u32>, Failure> = partitions.list(length)?.into_iter().map(partition).collect();
    let list = list?;
    ready(request, |send| Ok(send.ready_list(&list)?))
}

pub fn parrived(_call: Call, request: Pending, number: Int, flag: Out<i32>) -> Done {
    if request.is_null() {
        flag.set_flag(true);
        return Ok(());
    }
    let request = request.get()?;
    let (receive, is_active) = request.receive().ok_or_else(not_partitioned)?;
    // All partitions of an inactive request have arrived.
    let arrived = !is_active || receive.arrived(partition(number.0)?)?;
    flag.set_flag(arrived);
    Ok(())
}

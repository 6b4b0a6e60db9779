#![expect(unsafe_code, reason = "buffers are the program's")]
//! Persistent messages (MPI 3.9) and partitioned ones (MPI 4).

use std::sync::Mutex;

use hikyaku::mpi::{
    datatype,
    engine::{self, Mode, Status},
    error::ErrorClass,
};

use super::{
    Done, give_planned,
    point_to_point::{Elements, buffered, elements, message, scope},
};
use crate::{
    border::{Buffer, Call, Count, Failure, InOut, Int, Ints, Offset, Out, Rank, Tag},
    objects::{Begun, Comm, Communicator, Info, Pending, Request, Starter, Type, lock},
};

#[doc(hidden)]
#[macro_export]
macro_rules! persistent {
    ($abi:ty) => {
        const _: () = {
            use ::std::sync::Mutex;
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Send_init" + c => persistent::send_init(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    request: InOut<Mutex<Request>>);
                "Ssend_init" + c => persistent::ssend_init(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    request: InOut<Mutex<Request>>);
                "Rsend_init" + c => persistent::rsend_init(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    request: InOut<Mutex<Request>>);
                "Bsend_init" + c => persistent::bsend_init(
                    buf: Buffer, count: Count, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    request: InOut<Mutex<Request>>);
                "Recv_init" + c => persistent::recv_init(
                    buf: Buffer, count: Count, datatype: Type, source: Rank, tag: Tag, comm: Comm,
                    request: InOut<Mutex<Request>>);
                "Psend_init" => persistent::psend_init(
                    buf: Buffer, partitions: Int, count: Offset, datatype: Type, dest: Rank, tag: Tag, comm: Comm,
                    info: Info, request: InOut<Mutex<Request>>);
                "Precv_init" => persistent::precv_init(
                    buf: Buffer, partitions: Int, count: Offset, datatype: Type, source: Rank, tag: Tag, comm: Comm,
                    info: Info, request: InOut<Mutex<Request>>);
                "Pready" => persistent::pready(partition: Int, request: Pending);
                "Pready_range" => persistent::pready_range(low: Int, high: Int, request: Pending);
                "Pready_list" => persistent::pready_list(length: Int, partitions: Ints, request: Pending);
                "Parrived" => persistent::parrived(request: Pending, partition: Int, flag: Out<i32>);
            }
        };
    };
}

type Place = InOut<Mutex<Request>>;

/// The arguments of a persistent message.
struct Plan {
    comm: engine::Communicator,
    base: Buffer,
    count: u64,
    datatype: datatype::Datatype,
    rank: i32,
    tag: i32,
}

// SAFETY: the address is the program's buffer, which MPI lets the library use from any thread.
unsafe impl Send for Plan {}

impl Plan {
    fn new(
        (buf, count, datatype): (Buffer, Count, Type),
        (rank, tag, comm): (Rank, Tag, Comm),
    ) -> Result<Self, Failure> {
        let (comm, datatype) = (comm.get()?, datatype.get()?);
        let Elements { base, count, datatype } = message(buf, count.0, &datatype)?;
        // What is wrong is said now, and not by each start.
        if rank.0 >= comm.comm.remote_size().unwrap_or_else(|| comm.comm.size()) || rank.0 == i32::MIN {
            return Err(ErrorClass::Rank.into());
        }
        if tag.0 == i32::MIN {
            return Err(ErrorClass::Tag.into());
        }
        Ok(Self {
            comm: comm.comm.clone(),
            base: Buffer(base),
            count,
            datatype: datatype.clone(),
            rank: rank.0,
            tag: tag.0,
        })
    }

    fn send(&self, mode: Mode) -> Result<Begun, Failure> {
        let Self {
            comm,
            base,
            count,
            datatype,
            ..
        } = self;
        // SAFETY: the program's buffer, as MPI demands from start to end.
        let begun = unsafe { comm.isend(mode, base.0, *count, datatype, self.rank, self.tag) };
        Ok(begun?.into())
    }

    fn receive(&self) -> Result<Begun, Failure> {
        let Self {
            comm,
            base,
            count,
            datatype,
            ..
        } = self;
        // SAFETY: the program's buffer, as MPI demands from start to end.
        let begun = unsafe { comm.ireceive(base.0, *count, datatype, self.rank, self.tag) };
        Ok(begun?.into())
    }
}

fn planned_send(mode: Mode, what: (Buffer, Count, Type), whither: (Rank, Tag, Comm), request: Place) -> Done {
    let plan = Plan::new(what, whither)?;
    let starter = Starter::Message(Box::new(move || plan.send(mode)));
    give_planned(request, starter, scope(whither.2))
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
    let plan = Plan::new((buf, count, datatype), (dest, tag, comm))?;
    let begin = move || {
        let plan = &plan;
        let what = Elements {
            base: plan.base.0,
            count: plan.count,
            datatype: &plan.datatype,
        };
        let object: &Communicator = &*comm.get()?;
        buffered(object, &what, plan.rank, plan.tag)?;
        Ok(Begun::Done(Status::EMPTY))
    };
    give_planned(request, Starter::Message(Box::new(begin)), scope(comm))
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
    let plan = Plan::new((buf, count, datatype), (source, tag, comm))?;
    let starter = Starter::Message(Box::new(move || plan.receive()));
    give_planned(request, starter, scope(comm))
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
    give_planned(request, Starter::Send(send), scope(comm))
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
    give_planned(request, Starter::Receive(receive), scope(comm))
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
    match &lock(&*request.get()?).starter {
        Some(Starter::Send(send)) => say(send),
        _ => Err(not_partitioned()),
    }
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
    let list: Result<Vec<u32>, Failure> = partitions.list(length).into_iter().map(partition).collect();
    let list = list?;
    ready(request, |send| Ok(send.ready_list(&list)?))
}

pub fn parrived(_call: Call, request: Pending, number: Int, flag: Out<i32>) -> Done {
    if request.is_null() {
        flag.set_flag(true);
        return Ok(());
    }
    let request = request.get()?;
    let request = lock(&request);
    let Some(Starter::Receive(receive)) = &request.starter else {
        return Err(not_partitioned());
    };
    // All partitions of an inactive request have arrived.
    let arrived = !request.is_active() || receive.arrived(partition(number.0)?)?;
    flag.set_flag(arrived);
    Ok(())
}

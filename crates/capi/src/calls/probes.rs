#![expect(unsafe_code, reason = "buffers are the program's")]
//! Probes and matched messages (MPI 3.8).

use std::sync::Mutex;

use hikyaku::mpi::{
    engine::{self, MatchedMessage, Status},
    error::ErrorClass,
};

use super::{
    Done, give,
    point_to_point::{message, scope},
};
use crate::{
    border::{Buffer, Call, Count, Failure, InOut, Out, OutStatus, Rank, Tag},
    objects::{Comm, Matched, Message, RequestObject, Type, Work, lock},
    process,
};

#[doc(hidden)]
#[macro_export]
macro_rules! probes {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Probe" => probes::probe(source: Rank, tag: Tag, comm: Comm, status: OutStatus);
                "Iprobe" => probes::iprobe(source: Rank, tag: Tag, comm: Comm, flag: Out<i32>, status: OutStatus);
                "Mprobe" => probes::mprobe(
                    source: Rank, tag: Tag, comm: Comm, message: InOut<Matched>, status: OutStatus);
                "Improbe" => probes::improbe(
                    source: Rank, tag: Tag, comm: Comm, flag: Out<i32>, message: InOut<Matched>, status: OutStatus);
                "Mrecv" + c => probes::mrecv(
                    buf: Buffer, count: Count, datatype: Type, message: InOut<Matched>, status: OutStatus);
                "Imrecv" + c => probes::imrecv(
                    buf: Buffer, count: Count, datatype: Type, message: InOut<Matched>,
                    request: InOut<RequestObject>);
            }
        };
    };
}

/// `MPI_MESSAGE_NO_PROC`.
const NO_PROC: Message = Message::number(0x129);

type Place = InOut<Matched>;

pub fn probe(_call: Call, source: Rank, tag: Tag, comm: Comm, status: OutStatus) -> Done {
    status.set(&comm.get()?.comm.probe(source.0, tag.0)?);
    Ok(())
}

pub fn iprobe(_call: Call, source: Rank, tag: Tag, comm: Comm, flag: Out<i32>, status: OutStatus) -> Done {
    let found = comm.get()?.comm.iprobe(source.0, tag.0)?;
    flag.set_flag(found.is_some());
    if let Some(found) = found {
        status.set(&found);
    }
    Ok(())
}

fn hand_out(found: MatchedMessage, message: Place, status: OutStatus) {
    let ended = found.status();
    status.set(&ended);
    message.set(match ended {
        Status::NULL => NO_PROC,
        _ => Message::insert(Mutex::new(Some(found))),
    });
}

pub fn mprobe(_call: Call, source: Rank, tag: Tag, comm: Comm, message: Place, status: OutStatus) -> Done {
    let object = comm.get()?;
    let word = comm.handle().0;
    if let Some((number, found)) = object.comm.mprobe_numbered(source.0, tag.0, word) {
        status.set(&found);
        message.set(Message::numbered(number));
        return Ok(());
    }
    hand_out(object.comm.mprobe(source.0, tag.0)?, message, status);
    Ok(())
}

pub fn improbe(
    _call: Call,
    source: Rank,
    tag: Tag,
    comm: Comm,
    flag: Out<i32>,
    message: Place,
    status: OutStatus,
) -> Done {
    let found = comm.get()?.comm.improbe(source.0, tag.0)?;
    flag.set_flag(found.is_some());
    match found {
        Some(found) => hand_out(found, message, status),
        None => message.set(Message::NULL),
    }
    Ok(())
}

/// Takes the message that a handle stands for; `None` is one of no process.
fn take(message: Place) -> Result<Option<MatchedMessage>, Failure> {
    let named = message.get();
    if named == NO_PROC {
        message.set(Message::NULL);
        return Ok(None);
    }
    let object = named.remove()?;
    message.set(Message::NULL);
    let taken = lock(&object).take();
    taken.map(Some).ok_or_else(|| ErrorClass::Request.into())
}

pub fn mrecv(_call: Call, buf: Buffer, count: Count, datatype: Type, from: Place, status: OutStatus) -> Done {
    let datatype = datatype.get()?;
    let what = message(buf, count.0, &datatype)?;
    if let (Some(number), Some(joined)) = (from.get().number_of(), process::joined()) {
        // SAFETY: the program's buffer, as MPI demands.
        let received = unsafe {
            joined
                .engine
                .mreceive_numbered(number, what.base, what.count, what.datatype)
        };
        if let Some(received) = received {
            from.set(Message::NULL);
            status.set(&received);
            return Ok(());
        }
    }
    let received = match take(from)? {
        None => Status::NULL,
        // SAFETY: the program's buffer, as MPI demands.
        Some(message) => unsafe { engine::Communicator::mreceive(message, what.base, what.count, what.datatype)? },
    };
    status.set(&received);
    Ok(())
}

pub fn imrecv(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    from: Place,
    request: InOut<RequestObject>,
) -> Done {
    let datatype = datatype.get()?;
    let what = message(buf, count.0, &datatype)?;
    let begun = match take(from)? {
        None => Work::Done(Status::NULL),
        // SAFETY: the program's buffer, as MPI demands.
        Some(message) => unsafe {
            engine::Communicator::imreceive(message, what.base, what.count, what.datatype)?.into()
        },
    };
    give(request, begun, scope(Comm::NULL));
    Ok(())
}

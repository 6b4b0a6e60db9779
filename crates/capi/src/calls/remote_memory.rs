#![expect(unsafe_code, reason = "buffers are the program's")]
//! Operations on windows (MPI 12.3).

use hikyaku::mpi::{
    engine::{self, Operands, Target},
    error::{Error, ErrorClass},
};

use super::{Done, give, point_to_point::elements};
use crate::{
    border::{Address, Buffer, Call, Count, Failure, InOut, Rank, Scope},
    objects::{Datatype, Held, Op, RequestObject, Type, Win, Window},
};

#[doc(hidden)]
#[macro_export]
macro_rules! remote_memory {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Put" + c => remote_memory::put(
                    origin_addr: Buffer, origin_count: Count, origin_datatype: Type, target_rank: Rank,
                    target_disp: Address, target_count: Count, target_datatype: Type, win: Win);
                "Get" + c => remote_memory::get(
                    origin_addr: Buffer, origin_count: Count, origin_datatype: Type, target_rank: Rank,
                    target_disp: Address, target_count: Count, target_datatype: Type, win: Win);
                "Accumulate" + c => remote_memory::accumulate(
                    origin_addr: Buffer, origin_count: Count, origin_datatype: Type, target_rank: Rank,
                    target_disp: Address, target_count: Count, target_datatype: Type, op: Op, win: Win);
                "Get_accumulate" + c => remote_memory::get_accumulate(
                    origin_addr: Buffer, origin_count: Count, origin_datatype: Type, result_addr: Buffer,
                    result_count: Count, result_datatype: Type, target_rank: Rank, target_disp: Address,
                    target_count: Count, target_datatype: Type, op: Op, win: Win);
                "Rput" + c => remote_memory::rput(
                    origin_addr: Buffer, origin_count: Count, origin_datatype: Type, target_rank: Rank,
                    target_disp: Address, target_count: Count, target_datatype: Type, win: Win,
                    request: InOut<RequestObject>);
                "Rget" + c => remote_memory::rget(
                    origin_addr: Buffer, origin_count: Count, origin_datatype: Type, target_rank: Rank,
                    target_disp: Address, target_count: Count, target_datatype: Type, win: Win,
                    request: InOut<RequestObject>);
                "Raccumulate" + c => remote_memory::raccumulate(
                    origin_addr: Buffer, origin_count: Count, origin_datatype: Type, target_rank: Rank,
                    target_disp: Address, target_count: Count, target_datatype: Type, op: Op, win: Win,
                    request: InOut<RequestObject>);
                "Rget_accumulate" + c => remote_memory::rget_accumulate(
                    origin_addr: Buffer, origin_count: Count, origin_datatype: Type, result_addr: Buffer,
                    result_count: Count, result_datatype: Type, target_rank: Rank, target_disp: Address,
                    target_count: Count, target_datatype: Type, op: Op, win: Win, request: InOut<RequestObject>);
                "Fetch_and_op" => remote_memory::fetch_and_op(
                    origin_addr: Buffer, result_addr: Buffer, datatype: Type, target_rank: Rank,
                    target_disp: Address, op: Op, win: Win);
                "Compare_and_swap" => remote_memory::compare_and_swap(
                    origin_addr: Buffer, compare_addr: Buffer, result_addr: Buffer, datatype: Type,
                    target_rank: Rank, target_disp: Address, win: Win);
            }
        };
    };
}

type Place = InOut<RequestObject>;

/// Elements of this process.
struct Near {
    base: Buffer,
    count: u64,
    datatype: Held<Datatype>,
}

impl Near {
    fn new((base, count, datatype): (Buffer, Count, Type)) -> Result<Self, Failure> {
        let datatype = datatype.get()?;
        datatype.for_message()?;
        Ok(Self {
            base,
            count: elements("count", count.0)?,
            datatype,
        })
    }

    fn operands(&self) -> Operands<'_> {
        Operands {
            base: self.base.0,
            count: self.count,
            datatype: &self.datatype.datatype,
        }
    }
}

/// Elements of a target.
struct Far {
    rank: i32,
    displacement: i64,
    count: u64,
    datatype: Held<Datatype>,
}

impl Far {
    fn new((rank, displacement, count, datatype): (Rank, Address, Count, Type)) -> Result<Self, Failure> {
        let datatype = datatype.get()?;
        datatype.for_message()?;
        Ok(Self {
            rank: rank.0,
            displacement: displacement.0,
            count: elements("target_count", count.0)?,
            datatype,
        })
    }

    fn target(&self) -> Target<'_> {
        Target {
            rank: self.rank,
            displacement: self.displacement,
            count: self.count,
            datatype: &self.datatype.datatype,
        }
    }
}

fn begun(win: Win, request: Place, one: Result<engine::Request, Error>) -> Done {
    let scope = Scope {
        sort: crate::abi::Sort::Win,
        handle: win.handle(),
    };
    give(request, one?, Some(scope));
    Ok(())
}

pub fn put(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    rank: Rank,
    disp: Address,
    target_count: Count,
    target_datatype: Type,
    win: Win,
) -> Done {
    let object: Held<Window> = win.get()?;
    let (near, far) = (
        Near::new((buf, count, datatype))?,
        Far::new((rank, disp, target_count, target_datatype))?,
    );
    // SAFETY: the program's buffer, as MPI demands until the epoch ends.
    unsafe { object.window.put(&near.operands(), &far.target()) }.map_err(Failure::from)
}

pub fn get(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    rank: Rank,
    disp: Address,
    target_count: Count,
    target_datatype: Type,
    win: Win,
) -> Done {
    let object: Held<Window> = win.get()?;
    let (near, far) = (
        Near::new((buf, count, datatype))?,
        Far::new((rank, disp, target_count, target_datatype))?,
    );
    // SAFETY: the program's buffer, as MPI demands until the epoch ends.
    unsafe { object.window.get(&near.operands(), &far.target()) }.map_err(Failure::from)
}

pub fn accumulate(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    rank: Rank,
    disp: Address,
    target_count: Count,
    target_datatype: Type,
    op: Op,
    win: Win,
) -> Done {
    let (object, op) = (win.get()?, op.get()?);
    let (near, far) = (
        Near::new((buf, count, datatype))?,
        Far::new((rank, disp, target_count, target_datatype))?,
    );
    // SAFETY: the program's buffer, as MPI demands until the epoch ends.
    unsafe { object.window.accumulate(&near.operands(), &far.target(), &op.operation) }.map_err(Failure::from)
}

/// The origin of an operation that may have none: with `MPI_NO_OP` it is not looked at.
fn origin(what: (Buffer, Count, Type), op: &crate::objects::Operation) -> Result<Option<Near>, Failure> {
    use hikyaku::mpi::operation::Predefined;
    if op.operation.as_predefined() == Some(Predefined::NoOp) {
        return Ok(None);
    }
    Near::new(what).map(Some)
}

pub fn get_accumulate(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    result: Buffer,
    result_count: Count,
    result_datatype: Type,
    rank: Rank,
    disp: Address,
    target_count: Count,
    target_datatype: Type,
    op: Op,
    win: Win,
) -> Done {
    let (object, op) = (win.get()?, op.get()?);
    let near = origin((buf, count, datatype), &op)?;
    let into = Near::new((result, result_count, result_datatype))?;
    let far = Far::new((rank, disp, target_count, target_datatype))?;
    let near = near.as_ref().map(Near::operands);
    // SAFETY: the program's buffers, as MPI demands until the epoch ends.
    unsafe {
        object
            .window
            .get_accumulate(near.as_ref(), &into.operands(), &far.target(), &op.operation)
    }
    .map_err(Failure::from)
}

pub fn rput(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    rank: Rank,
    disp: Address,
    target_count: Count,
    target_datatype: Type,
    win: Win,
    request: Place,
) -> Done {
    let object: Held<Window> = win.get()?;
    let (near, far) = (
        Near::new((buf, count, datatype))?,
        Far::new((rank, disp, target_count, target_datatype))?,
    );
    // SAFETY: the program's buffer, as MPI demands until the request has ended.
    begun(win, request, unsafe {
        object.window.rput(&near.operands(), &far.target())
    })
}

pub fn rget(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    rank: Rank,
    disp: Address,
    target_count: Count,
    target_datatype: Type,
    win: Win,
    request: Place,
) -> Done {
    let object: Held<Window> = win.get()?;
    let (near, far) = (
        Near::new((buf, count, datatype))?,
        Far::new((rank, disp, target_count, target_datatype))?,
    );
    // SAFETY: the program's buffer, as MPI demands until the request has ended.
    begun(win, request, unsafe {
        object.window.rget(&near.operands(), &far.target())
    })
}

pub fn raccumulate(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    rank: Rank,
    disp: Address,
    target_count: Count,
    target_datatype: Type,
    op: Op,
    win: Win,
    request: Place,
) -> Done {
    let (object, op) = (win.get()?, op.get()?);
    let (near, far) = (
        Near::new((buf, count, datatype))?,
        Far::new((rank, disp, target_count, target_datatype))?,
    );
    // SAFETY: the program's buffer, as MPI demands until the request has ended.
    let one = unsafe {
        object
            .window
            .raccumulate(&near.operands(), &far.target(), &op.operation)
    };
    begun(win, request, one)
}

pub fn rget_accumulate(
    _call: Call,
    buf: Buffer,
    count: Count,
    datatype: Type,
    result: Buffer,
    result_count: Count,
    result_datatype: Type,
    rank: Rank,
    disp: Address,
    target_count: Count,
    target_datatype: Type,
    op: Op,
    win: Win,
    request: Place,
) -> Done {
    let (object, op) = (win.get()?, op.get()?);
    let near = origin((buf, count, datatype), &op)?;
    let into = Near::new((result, result_count, result_datatype))?;
    let far = Far::new((rank, disp, target_count, target_datatype))?;
    let near = near.as_ref().map(Near::operands);
    // SAFETY: the program's buffers, as MPI demands until the request has ended.
    let one = unsafe {
        object
            .window
            .rget_accumulate(near.as_ref(), &into.operands(), &far.target(), &op.operation)
    };
    begun(win, request, one)
}

/// The kind of a predefined datatype.
fn kind(datatype: Type) -> Result<hikyaku::mpi::datatype::Kind, Failure> {
    let derived = || Failure::text(ErrorClass::Type, "the datatype is not predefined");
    datatype.get()?.datatype.kind().ok_or_else(derived)
}

pub fn fetch_and_op(
    _call: Call,
    buf: Buffer,
    result: Buffer,
    datatype: Type,
    rank: Rank,
    disp: Address,
    op: Op,
    win: Win,
) -> Done {
    let (object, op, kind) = (win.get()?, op.get()?, kind(datatype)?);
    // With `MPI_NO_OP` the origin may be no address.
    let from = if buf.0.is_null() { result.0 } else { buf.0 };
    // SAFETY: the program's buffers, as MPI demands until the epoch ends.
    unsafe {
        object
            .window
            .fetch_and_op(from, result.0, kind, (rank.0, disp.0), &op.operation)
    }
    .map_err(Failure::from)
}

pub fn compare_and_swap(
    _call: Call,
    buf: Buffer,
    compare: Buffer,
    result: Buffer,
    datatype: Type,
    rank: Rank,
    disp: Address,
    win: Win,
) -> Done {
    let (object, kind) = (win.get()?, kind(datatype)?);
    // SAFETY: the program's buffers, as MPI demands until the epoch ends.
    unsafe {
        object
            .window
            .compare_and_swap(buf.0, compare.0, result.0, kind, (rank.0, disp.0))
    }
    .map_err(Failure::from)
}

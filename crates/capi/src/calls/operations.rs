#![expect(unsafe_code, reason = "operations and buffers are the program's")]
//! Operations of reductions (MPI 6.9.5 to 6.9.7).

use hikyaku::mpi::error::ErrorClass;

use super::{Done, point_to_point::elements};
use crate::{
    border::{Buffer, Call, Count, Failure, Flag, InOut, Out, Pointer},
    objects::{Function, Op, Operation, Type},
};

#[doc(hidden)]
#[macro_export]
macro_rules! operations {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Op_create" => operations::op_create(user_fn: Pointer, commute: Flag, op: InOut<Operation>);
                "Op_create_c" => operations::op_create_wide(user_fn: Pointer, commute: Flag, op: InOut<Operation>);
                "Op_free" => operations::op_free(op: InOut<Operation>);
                "Op_commutative" => operations::op_commutative(op: Op, commute: Out<i32>);
                "Reduce_local" + c => operations::reduce_local(
                    inbuf: Buffer, inoutbuf: Buffer, count: Count, datatype: Type, op: Op);
            }
        };
    };
}

fn create(call: Call, user_fn: Pointer, commute: Flag, wide: bool, op: InOut<Operation>) -> Done {
    if user_fn.0 == 0 {
        return Err(Failure::text(ErrorClass::Arg, "the function is a null pointer"));
    }
    let function = Function {
        address: user_fn.0,
        wide,
        encoding: call.encoding,
    };
    // SAFETY: the program says that it is such a function.
    op.set(Op::insert(unsafe { Operation::user(function, commute.0) }));
    Ok(())
}

pub fn op_create(call: Call, user_fn: Pointer, commute: Flag, op: InOut<Operation>) -> Done {
    create(call, user_fn, commute, false, op)
}

pub fn op_create_wide(call: Call, user_fn: Pointer, commute: Flag, op: InOut<Operation>) -> Done {
    create(call, user_fn, commute, true, op)
}

pub fn op_free(_call: Call, op: InOut<Operation>) -> Done {
    op.get().remove()?;
    op.set(Op::NULL);
    Ok(())
}

pub fn op_commutative(_call: Call, op: Op, commute: Out<i32>) -> Done {
    commute.set_flag(op.get()?.operation.is_commutative());
    Ok(())
}

pub fn reduce_local(_call: Call, inbuf: Buffer, inoutbuf: Buffer, count: Count, datatype: Type, op: Op) -> Done {
    let (op, datatype) = (op.get()?, datatype.get()?);
    let count = elements("count", count.0)?;
    if inbuf.is_in_place() || inoutbuf.is_in_place() {
        return Err(Failure::text(ErrorClass::Buffer, "MPI_IN_PLACE is no operand here"));
    }
    // SAFETY: the program's buffers, as MPI demands.
    unsafe {
        op.operation
            .apply_at(datatype.for_message()?, inbuf.0, inoutbuf.0, count)?;
    }
    Ok(())
}

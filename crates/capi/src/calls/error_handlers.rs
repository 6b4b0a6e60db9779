//! Error codes and error handlers (MPI 9.3, 9.4).

use hikyaku::mpi::error::ErrorClass;

use super::{Done, tools::trouble};
use crate::{
    abi::Sort,
    border::{Call, Failure, InOut, Int, NewString, Out, Pointer, Scope},
    errors,
    objects::{Comm, Errhandler, Handler, lock},
};

#[doc(hidden)]
#[macro_export]
macro_rules! error_handlers {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Comm_create_errhandler" => error_handlers::comm_create_errhandler(
                    function: Pointer, errhandler: InOut<Handler>);
                "Comm_set_errhandler" => error_handlers::comm_set_errhandler(comm: Comm, errhandler: Errhandler);
                "Comm_get_errhandler" => error_handlers::comm_get_errhandler(comm: Comm, errhandler: InOut<Handler>);
                "Comm_call_errhandler" => error_handlers::comm_call_errhandler(comm: Comm, errorcode: Int);
                "Errhandler_free" => error_handlers::errhandler_free(errhandler: InOut<Handler>);
                "Error_string" => error_handlers::error_string(errorcode: Int, string: NewString, resultlen: Out<i32>);
                "Error_class" => error_handlers::error_class(errorcode: Int, errorclass: Out<i32>);
            }
        };
    };
}

pub fn comm_create_errhandler(_call: Call, function: Pointer, errhandler: InOut<Handler>) -> Done {
    errhandler.set(Handler::calling(function.0, Sort::Comm));
    Ok(())
}

pub fn comm_set_errhandler(_call: Call, comm: Comm, errhandler: Errhandler) -> Done {
    let comm = comm.get()?;
    *lock(&comm.handler) = Handler::for_sort(Sort::Comm, errhandler)?;
    Ok(())
}

pub fn comm_get_errhandler(_call: Call, comm: Comm, errhandler: InOut<Handler>) -> Done {
    errhandler.set(Handler::give(&lock(&comm.get()?.handler)));
    Ok(())
}

pub fn comm_call_errhandler(call: Call, comm: Comm, errorcode: Int) -> Done {
    comm.get()?;
    let scope = Scope {
        sort: Sort::Comm,
        handle: comm.handle(),
    };
    errors::handle(call, Some(scope), errorcode.0);
    Ok(())
}

pub fn errhandler_free(_call: Call, errhandler: InOut<Handler>) -> Done {
    Handler::free(errhandler.get())?;
    errhandler.set(Errhandler::NULL);
    Ok(())
}

pub fn error_string(call: Call, errorcode: Int, string: NewString, resultlen: Out<i32>) -> Done {
    let text = errors::codes(call.encoding, |codes| codes.text(errorcode.0).map(String::from));
    let text = text.or_else(|| trouble::text(call.encoding, errorcode.0).map(String::from));
    let text = text.ok_or_else(|| Failure::text(ErrorClass::Arg, "there is no such error code"))?;
    resultlen.set(string.set(text.as_bytes(), 512) as i32);
    Ok(())
}

pub fn error_class(call: Call, errorcode: Int, errorclass: Out<i32>) -> Done {
    let class = errors::codes(call.encoding, |codes| codes.class(errorcode.0));
    errorclass.set(class.unwrap_or(errorcode.0));
    Ok(())
}

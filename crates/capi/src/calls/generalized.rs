#![expect(unsafe_code, reason = "calls functions of the program")]
//! Generalised requests (MPI 13.2): operations of the program.

use core::ffi::c_void;
use std::sync::Mutex;

use hikyaku::mpi::{
    engine::{AnyRequest, Communicator, Completer, Generalized, Status},
    error::{Detail, Error, ErrorClass},
};

use super::{Done, communicators::engine, give};
use crate::{
    abi::Encoding,
    border::{Call, Failure, InOut, OutStatus, Pointer},
    objects::{Pending, RequestObject, lock},
};

#[doc(hidden)]
#[macro_export]
macro_rules! generalized {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Grequest_start" => generalized::grequest_start(
                    query_fn: Pointer, free_fn: Pointer, cancel_fn: Pointer, extra_state: Pointer,
                    request: InOut<RequestObject>);
                "Grequest_complete" => generalized::grequest_complete(request: Pending);
            }
        };
    };
}

/// Those that are not complete; the program may have freed their requests.
static RUNNING: Mutex<Vec<(Pending, Completer)>> = Mutex::new(Vec::new());

/// The callbacks: addresses of functions, and their first argument.
struct Callbacks {
    encoding: &'static Encoding,
    query: usize,
    free: usize,
    cancel: usize,
    extra: usize,
}

/// A pointer of the program as a function gets it.
fn pointer(address: usize) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(address)
}

/// The result of a callback.
fn result(code: i32) -> Result<(), Error> {
    let failed = Error::new(ErrorClass::Other, "MPI_Grequest_start").with_detail(Detail::Code(code));
    if code == 0 { Ok(()) } else { Err(failed) }
}

impl Generalized for Callbacks {
    fn query(&mut self) -> Result<Status, Error> {
        type Query = unsafe extern "C-unwind" fn(*mut c_void, *mut i32) -> i32;
        let mut memory = [0; 8];
        let status = OutStatus::of_memory(&mut memory, self.encoding);
        status.set(&Status::EMPTY);
        // SAFETY: the program says that it is such a function.
        let code = unsafe {
            let query: Query = core::mem::transmute(pointer(self.query));
            query(pointer(self.extra), memory.as_mut_ptr())
        };
        result(code)?;
        let given = OutStatus::of_memory(&mut memory, self.encoding).get();
        Ok(given.map_or(Status::EMPTY, |given| given.status))
    }

    fn cancel(&mut self, complete: bool) -> Result<(), Error> {
        type Cancel = unsafe extern "C-unwind" fn(*mut c_void, i32) -> i32;
        // SAFETY: as above.
        result(unsafe {
            let cancel: Cancel = core::mem::transmute(pointer(self.cancel));
            cancel(pointer(self.extra), complete.into())
        })
    }

    fn free(&mut self) -> Result<(), Error> {
        type Free = unsafe extern "C-unwind" fn(*mut c_void) -> i32;
        // SAFETY: as above.
        result(unsafe {
            let free: Free = core::mem::transmute(pointer(self.free));
            free(pointer(self.extra))
        })
    }
}

pub fn grequest_start(
    call: Call,
    query_fn: Pointer,
    free_fn: Pointer,
    cancel_fn: Pointer,
    extra_state: Pointer,
    request: InOut<RequestObject>,
) -> Done {
    if [query_fn, free_fn, cancel_fn].iter().any(|function| function.0 == 0) {
        return Err(Failure::text(ErrorClass::Arg, "a callback is a null pointer"));
    }
    let callbacks = Callbacks {
        encoding: call.encoding,
        query: query_fn.0,
        free: free_fn.0,
        cancel: cancel_fn.0,
        extra: extra_state.0,
    };
    let own = Communicator::own(&engine()?);
    let (begun, completer) = AnyRequest::generalized(&own, Box::new(callbacks))?;
    give(request, begun, None);
    lock(&RUNNING).push((request.get(), completer));
    Ok(())
}

pub fn grequest_complete(_call: Call, request: Pending) -> Done {
    let mut running = lock(&RUNNING);
    let place = running.iter().position(|(known, _)| *known == request);
    let wrong = || Failure::text(ErrorClass::Request, "it is no generalised request, or it is complete");
    let (_, completer) = running.swap_remove(place.ok_or_else(wrong)?);
    drop(running);
    Ok(completer.complete()?)
}

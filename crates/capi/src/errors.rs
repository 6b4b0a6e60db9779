#![expect(unsafe_code, reason = "calls functions of the program")]
//! Error codes, and how error handlers are called.

use core::{ffi::c_void, fmt::Write as _};
use std::sync::Mutex;

use hikyaku::mpi::{
    error::Error,
    error_code::{ErrorCodes, ErrorHandler},
};

use crate::{
    abi::{Encoding, Handle, Sort, class_number},
    border::{Call, Failure, Scope, native_handle},
    objects::{Callback, Comm, Communicator, Held, Object as _, Session, Win, lock},
    process,
};

/// The codes of this process.
static CODES: Mutex<Option<ErrorCodes>> = Mutex::new(None);

/// Calls `f` with the codes.
pub(crate) fn codes<R>(encoding: &Encoding, f: impl FnOnce(&mut ErrorCodes) -> R) -> R {
    let make = || match encoding.column {
        0 => ErrorCodes::new(|class| class_number(0, class), 0x3fff),
        _ => ErrorCodes::new(|class| class_number(1, class), 0x3fff_ffff),
    };
    f(lock(&CODES).get_or_insert_with(make))
}

/// The code of a failure, of which the text is remembered.
pub(crate) fn code(call: Call, scope: Option<Scope>, failure: &Failure) -> i32 {
    match failure.error(call.name) {
        Ok(error) => {
            let error = located(scope, error);
            codes(call.encoding, |codes| codes.note(&error))
        }
        Err(code) => code,
    }
}

/// An error with its communicator, if it has one, and this process's rank there; else with its rank among all.
fn located(scope: Option<Scope>, error: Error) -> Error {
    let of_scope = scope.filter(|scope| scope.sort == Sort::Comm);
    let of_scope = of_scope.and_then(|scope| Comm::new(scope.handle).find());
    let error = match (error.communicator(), &of_scope) {
        (None, Some(comm)) => error.on_communicator(comm.comm.context()),
        _ => error,
    };
    let world = || Comm::WORLD.find();
    let comm = match (error.communicator(), of_scope) {
        (Some(context), None) => find(context).or_else(world),
        (_, comm) => comm.or_else(world),
    };
    comm.map_or(error, |comm| error.at_rank(comm.comm.rank()))
}

/// The communicator of the program with this context.
fn find(context: u32) -> Option<Held<Communicator>> {
    let mut all = Communicator::table().all().into_iter();
    let found = all.find(|(_, comm)| comm.comm.context() == context);
    found.map(|(_, comm)| Held::Counted(comm))
}

/// The handler of an object; that of `MPI_COMM_SELF` if there is no object, or it has none.
fn handler_of(scope: Option<Scope>) -> (ErrorHandler<Callback>, Scope) {
    let own = Scope {
        sort: Sort::Comm,
        handle: Handle(0x102),
    };
    let find = |scope: Scope| match scope.sort {
        Sort::Comm => Comm::new(scope.handle).find().map(|comm| lock(&comm.handler).does),
        Sort::Win => Win::new(scope.handle).find().map(|window| lock(&window.handler).does),
        Sort::Session => Session::new(scope.handle)
            .find()
            .map(|session| lock(&session.handler).does),
        _ => None,
    };
    for scope in scope.into_iter().chain([own]) {
        if let Some(handler) = find(scope) {
            return (handler, scope);
        }
    }
    (ErrorHandler::Fatal, own)
}

/// Has the error handler deal with a failure; returns the code for the program.
#[cold]
#[inline(never)]
pub(crate) fn raise(call: Call, scope: Option<Scope>, failure: Failure) -> i32 {
    if let Failure::Told(code) = failure {
        return code;
    }
    let code = code(call, scope, &failure);
    handle(call, scope, code);
    code
}

/// Calls the error handler for a code.
pub(crate) fn handle(call: Call, scope: Option<Scope>, code: i32) {
    let (handler, scope) = handler_of(scope);
    match handler {
        ErrorHandler::Return => {}
        ErrorHandler::Call(Callback { function, .. }) => {
            // SAFETY: the program has given it as such a function; an object takes no handler for another sort.
            unsafe { call_handler(call.encoding, function, scope, code) };
        }
        ErrorHandler::Fatal | ErrorHandler::Abort => {
            let told = |codes: &mut ErrorCodes| {
                let text = codes.text(code).map_or_else(|| "unknown error".to_owned(), Into::into);
                (text, codes.class(code).unwrap_or(code))
            };
            let (mut text, class): (String, i32) = codes(call.encoding, told);
            if let Some(joined) = process::joined() {
                let _ = write!(text, " (process {})", joined.engine.process());
            }
            eprintln!("hikyaku: {text}");
            process::abort(class, &text);
        }
    }
}

/// # Safety
/// `function` is an error handler for objects of this sort.
unsafe fn call_handler(encoding: &'static Encoding, function: usize, scope: Scope, mut code: i32) {
    type Function = unsafe extern "C-unwind" fn(*mut c_void, *mut i32, ...);
    let address: *const c_void = core::ptr::with_exposed_provenance(function);
    // SAFETY: the caller's contract.
    let function: Function = unsafe { core::mem::transmute(address) };
    let mut handle = native_handle(encoding, scope.sort, scope.handle);
    // SAFETY: the caller's contract. A handle is as long as this or half of it, whose place is the same.
    unsafe { function((&raw mut handle).cast(), &raw mut code) };
}

#![expect(unsafe_code, reason = "calls functions of the program")]
//! Error codes and error handlers.
//!
//! A code is the number of its class in the low eight bits, and above them, if there is more to say than the class does,
//! the place of its text among the latest ones.

use core::{ffi::c_void, fmt::Write as _};
use std::sync::{Arc, LazyLock, Mutex};

use hikyaku::mpi::{error::ErrorClass, error_code::ErrorCodes};

use crate::{
    abi::{Encoding, Handle, Sort, class_number, class_of_number},
    border::{Call, Failure, Scope, native_handle},
    objects::{Comm, Errhandler, Session, Win, lock},
    process,
};

/// Bits of a class in a code.
const CLASS_BITS: u32 = 8;
/// Texts that are kept; with the class they fill the codes up to the standard ABI's `MPI_ERR_LASTCODE`, 0x3fff.
const TEXTS: usize = 63;

/// Texts of the latest codes, and the place of the next one.
static LATEST: Mutex<(usize, Vec<(i32, String)>)> = Mutex::new((0, Vec::new()));

/// An error handler.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// `MPI_ERRORS_ARE_FATAL`.
    Fatal,
    /// `MPI_ERRORS_ABORT`.
    Abort,
    /// `MPI_ERRORS_RETURN`.
    Return,
    /// A function of the program.
    User {
        /// Its address.
        function: usize,
        /// The sort of objects that it is for.
        sort: Sort,
    },
}

impl Handler {
    /// `MPI_ERRORS_ARE_FATAL`.
    pub const FATAL: Errhandler = Errhandler::number(0x141);
    /// `MPI_ERRORS_RETURN`.
    pub const RETURN: Errhandler = Errhandler::number(0x143);

    pub(crate) fn predefined(number: u32) -> Option<&'static Arc<Self>> {
        static ALL: LazyLock<[Arc<Handler>; 3]> =
            LazyLock::new(|| [Handler::Fatal, Handler::Abort, Handler::Return].map(Arc::new));
        ALL.get(number.checked_sub(0x141)? as usize)
    }
}

/// Makes a code of a failure, and remembers its text.
pub(crate) fn code(call: Call, failure: &Failure) -> i32 {
    if let Failure::Code(code) | Failure::Told(code) = failure {
        return *code;
    }
    let class = class_number(call.encoding.column, failure.class());
    let mut text = String::new();
    // A string takes whatever is written to it.
    let _ = failure.describe(call.name, &mut text);
    let mut latest = lock(&LATEST);
    let (next, texts) = &mut *latest;
    let place = *next;
    *next = (place + 1) % TEXTS;
    let code = (place as i32 + 1) << CLASS_BITS | class;
    match texts.get_mut(place) {
        Some(old) => *old = (code, text),
        None => texts.push((code, text)),
    }
    code
}

/// The classes and codes that the program has added.
static ADDED: Mutex<Option<ErrorCodes>> = Mutex::new(None);

/// Calls `f` with the classes and codes of the program.
pub(crate) fn added<R>(encoding: &Encoding, f: impl FnOnce(&mut ErrorCodes) -> R) -> R {
    let make = || match encoding.column {
        0 => ErrorCodes::new(|class| class_number(0, class), 0x3fff),
        _ => ErrorCodes::new(|class| class_number(1, class), 0x3fff_ffff),
    };
    f(lock(&ADDED).get_or_insert_with(make))
}

/// The largest code in use (`MPI_LASTUSEDCODE`).
pub(crate) fn last_used(encoding: &Encoding) -> i32 {
    added(encoding, |codes| codes.last_used())
}

/// The number of the class of a code.
pub(crate) fn class_of(code: i32) -> i32 {
    if let Some(class) = lock(&ADDED)
        .as_ref()
        .and_then(|added| added.class(code))
        .filter(|_| code > 0x3fff)
    {
        return class;
    }
    if (0..1 << (CLASS_BITS + 6)).contains(&code) {
        code & ((1 << CLASS_BITS) - 1)
    } else {
        code
    }
}

/// The text of a code.
pub(crate) fn text_of(encoding: &Encoding, code: i32) -> Option<String> {
    let latest = lock(&LATEST);
    if let Some((_, text)) = latest.1.iter().find(|(kept, _)| *kept == code) {
        return Some(text.clone());
    }
    if code > 0x3fff {
        return added(encoding, |codes| codes.text(code).map(std::borrow::Cow::into_owned));
    }
    let class = class_of_number(encoding.column, class_of(code))?;
    Some(match class {
        ErrorClass::Success => class.description().to_owned(),
        _ => format!("{}: {}", class.name(), class.description()),
    })
}

/// The handler of an object; that of `MPI_COMM_SELF` if there is no object, or it has none.
fn handler_of(scope: Option<Scope>) -> (Errhandler, Scope) {
    let own = Scope {
        sort: Sort::Comm,
        handle: Handle(0x102),
    };
    let find = |scope: Scope| match scope.sort {
        Sort::Comm => Comm::new(scope.handle).find().map(|comm| *lock(&comm.handler)),
        Sort::Win => Win::new(scope.handle).find().map(|window| *lock(&window.handler)),
        Sort::Session => Session::new(scope.handle).find().map(|session| *lock(&session.handler)),
        _ => None,
    };
    for scope in scope.into_iter().chain([own]) {
        if let Some(handler) = find(scope) {
            return (handler, scope);
        }
    }
    (Handler::FATAL, own)
}

/// Has the error handler deal with a failure; returns the code for the program.
#[cold]
#[inline(never)]
pub(crate) fn raise(call: Call, scope: Option<Scope>, failure: Failure) -> i32 {
    if let Failure::Told(code) = failure {
        return code;
    }
    let code = code(call, &failure);
    handle(call, scope, code);
    code
}

/// Calls the error handler for a code.
pub(crate) fn handle(call: Call, scope: Option<Scope>, code: i32) {
    let (handler, scope) = handler_of(scope);
    let handler = handler.find();
    match handler.as_deref().map(|handler| **handler) {
        Some(Handler::Return) => {}
        Some(Handler::User { function, sort }) if sort == scope.sort => {
            // SAFETY: the program has given it as such a function.
            unsafe { call_handler(call.encoding, function, scope, code) };
        }
        _ => {
            let mut text = text_of(call.encoding, code).unwrap_or_else(|| "unknown error".to_owned());
            if let Some(joined) = process::joined() {
                let _ = write!(text, " (process {})", joined.engine.process());
            }
            eprintln!("hikyaku: {text}");
            process::abort(class_of(code), &text);
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

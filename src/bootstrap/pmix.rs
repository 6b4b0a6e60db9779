//! PMIx: the library of the launcher, loaded when it is needed.
//!
//! Its calls may wait for ever, so a thread makes them, for which callers wait with a time-out. The layouts below are
//! those of `pmix_common.h`, the same since PMIx 2; keys and constants are those of the PMIx standard.
#![expect(unsafe_code, reason = "calls of a C library")]

use std::{
    env,
    error::Error,
    ffi::{CStr, CString, c_char, c_int},
    ptr,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    time::Duration,
};

use libloading::Library;

use super::{
    Exchange, Launcher,
    environment::{Environment, names},
    error::{BootstrapError, Cause},
    exchange::{Program, Starter},
    identity::Identity,
};
use crate::helper;

const LIBRARIES: [&str; 2] = ["libpmix.so.2", "libpmix.so"];

const SUCCESS: c_int = 0;
const NOT_FOUND: c_int = -46;
const EVERY_RANK: u32 = u32::MAX - 1;
const GLOBAL: u8 = 3;
const BOOL: u16 = 1;
const UINT16: u16 = 13;
const UINT32: u16 = 14;
const BYTE_OBJECT: u16 = 27;
const RANK: u16 = 40;

#[repr(C)]
#[derive(Clone, Copy)]
struct Process {
    namespace: [u8; 256],
    rank: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Bytes {
    start: *mut c_char,
    length: usize,
}

#[repr(C)]
union Data {
    flag: bool,
    uint16: u16,
    uint32: u32,
    bytes: Bytes,
    /// The largest member is an environment variable: two pointers and a character.
    size: [usize; 3],
}

#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
struct Info {
    key: [u8; 512],
    flags: u32,
    value: Value,
}

/// A program to spawn.
#[repr(C)]
struct App {
    command: *mut c_char,
    arguments: *mut *mut c_char,
    environment: *mut *mut c_char,
    directory: *mut c_char,
    processes: c_int,
    info: *mut Info,
    infos: usize,
}

type Init = unsafe extern "C" fn(*mut Process, *const Info, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *const Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Process, usize, *const Info, usize) -> c_int;
type Get = unsafe extern "C" fn(*const Process, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Spawn = unsafe extern "C" fn(*const Info, usize, *const App, usize, *mut u8) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *const Process, usize) -> c_int;
type ValueFree = unsafe extern "C" fn(*mut Value, usize);

/// The functions of the library.
struct Api {
    init: Init,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    finalize: Finalize,
    abort: Abort,
    spawn: Spawn,
    error_string: ErrorString,
    /// Not in all versions; without it, values are leaked.
    value_free: Option<ValueFree>,
}

impl Api {
    fn load() -> Result<Self, String> {
        let mut tried = Vec::new();
        for name in LIBRARIES {
            // SAFETY: loading runs the library's initialisers, which are trusted in a system library.
            match unsafe { Library::new(name) } {
                // SAFETY: the functions have the types that the PMIx standard gives them. The library is never
                // unloaded: its threads would not survive that.
                Ok(library) => return unsafe { Self::of(Box::leak(Box::new(library))) }.map_err(|e| reason(&e)),
                Err(error) => tried.push(reason(&error)),
            }
        }
        Err(format!("PMIx is needed (Debian: libpmix2): {}", tried.join("; ")))
    }

    /// # Safety
    /// `library` is PMIx of version 2 or later.
    unsafe fn of(library: &'static Library) -> Result<Self, libloading::Error> {
        // SAFETY: by the caller's contract the library is PMIx, whose functions have these types.
        unsafe {
            Ok(Self {
                init: *library.get(b"PMIx_Init\0")?,
                put: *library.get(b"PMIx_Put\0")?,
                commit: *library.get(b"PMIx_Commit\0")?,
                fence: *library.get(b"PMIx_Fence\0")?,
                get: *library.get(b"PMIx_Get\0")?,
                finalize: *library.get(b"PMIx_Finalize\0")?,
                abort: *library.get(b"PMIx_Abort\0")?,
                spawn: *library.get(b"PMIx_Spawn\0")?,
                error_string: *library.get(b"PMIx_Error_string\0")?,
                value_free: library.get(b"PMIx_Value_free\0").ok().map(|symbol| *symbol),
            })
        }
    }

    /// Starts programs, each with its words and its number of processes, in this directory and with this variable.
    fn spawn(
        &self,
        programs: Vec<(Vec<CString>, c_int)>,
        directory: &CString,
        variable: &CString,
    ) -> Result<(), c_int> {
        let lists = |words: &[CString]| -> Vec<*mut c_char> {
            let words = words.iter().map(|word| c_copy(word));
            words.chain([ptr::null_mut()]).collect()
        };
        // The library may lengthen these lists by `realloc`, so they are what `malloc` has given; what it makes of them
        // is not known, so they are never given back.
        let apps: Vec<App> = programs
            .iter()
            .map(|(words, processes)| App {
                command: words.first().map_or(ptr::null_mut(), |word| c_copy(word)),
                arguments: c_list(&lists(words)),
                environment: c_list(&lists(std::slice::from_ref(variable))),
                directory: c_copy(directory),
                processes: *processes,
                info: ptr::null_mut(),
                infos: 0,
            })
            .collect();
        let mut namespace = [0_u8; 256];
        // SAFETY: the programs outlive the call; there is room for the name of a namespace.
        done(unsafe { (self.spawn)(ptr::null(), 0, apps.as_ptr(), apps.len(), namespace.as_mut_ptr()) })
    }

    fn text(&self, status: c_int) -> String {
        // SAFETY: any status may be asked for; the text is static.
        let text = unsafe { (self.error_string)(status) };
        if text.is_null() {
            return format!("PMIx status {status}");
        }
        // SAFETY: the library gives a text that ends with a zero.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        // It does not know those of the launcher.
        let known = Some(text).filter(|text| !text.contains("NOT FOUND"));
        known.map_or_else(
            || format!("PMIx status {status}"),
            |text| format!("PMIx status {status}, {text}"),
        )
    }

    fn init(&self) -> Result<Process, c_int> {
        let mut me = Process {
            namespace: [0; 256],
            rank: 0,
        };
        // SAFETY: `me` is a place for one process; no attributes are passed.
        done(unsafe { (self.init)(&raw mut me, ptr::null(), 0) })?;
        Ok(me)
    }

    fn put(&self, key: &CString, value: &[u8]) -> Result<(), c_int> {
        let value = Value {
            kind: BYTE_OBJECT,
            data: Data {
                bytes: Bytes {
                    start: value.as_ptr().cast_mut().cast(),
                    length: value.len(),
                },
            },
        };
        // SAFETY: key and value outlive the call, which copies both and does not write to them.
        done(unsafe { (self.put)(GLOBAL, key.as_ptr(), &raw const value) })
    }

    fn fence(&self) -> Result<(), c_int> {
        let mut collect = Info {
            key: [0; 512],
            flags: 0,
            value: Value {
                kind: BOOL,
                data: Data { size: [0; 3] },
            },
        };
        let key = b"pmix.collect";
        collect.key[..key.len()].copy_from_slice(key);
        collect.value.data.flag = true;
        // SAFETY: no argument.
        done(unsafe { (self.commit)() })?;
        // SAFETY: no processes means all of the namespace; one attribute, which outlives the call.
        done(unsafe { (self.fence)(ptr::null(), 0, &raw const collect, 1) })
    }

    /// `None` if there is no such key.
    fn get<T>(&self, of: &Process, key: &CString, read: impl FnOnce(&Value) -> Option<T>) -> Result<Option<T>, c_int> {
        let mut value = ptr::null_mut();
        // SAFETY: process and key outlive the call; it stores a pointer to a value if it succeeds.
        let status = unsafe { (self.get)(of, key.as_ptr(), ptr::null(), 0, &raw mut value) };
        if status == NOT_FOUND {
            return Ok(None);
        }
        done(status)?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: the call has succeeded, so the pointer is to a value to which no other reference exists.
        let result = read(unsafe { &*value });
        if let Some(free) = self.value_free {
            // SAFETY: the value is owned here, and not used any more: `read` gives no reference out.
            unsafe { free(value, 1) };
        }
        Ok(result)
    }
}

/// A copy that C may give back.
fn c_copy(text: &CStr) -> *mut c_char {
    // SAFETY: the text ends with a zero.
    unsafe { libc::strdup(text.as_ptr()) }
}

/// A copy of a list that C may give back.
fn c_list(list: &[*mut c_char]) -> *mut *mut c_char {
    // SAFETY: any size may be asked for.
    let copy: *mut *mut c_char = unsafe { libc::malloc(size_of_val(list)) }.cast();
    if !copy.is_null() {
        // SAFETY: there is room for as many, in memory that nobody else has.
        unsafe { ptr::copy_nonoverlapping(list.as_ptr(), copy, list.len()) };
    }
    copy
}

/// The message of the system's loader, which names the library or the function; the error itself only says which call
/// has failed.
fn reason(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

fn done(status: c_int) -> Result<(), c_int> {
    if status == SUCCESS { Ok(()) } else { Err(status) }
}

impl Value {
    fn number(&self) -> Option<u32> {
        // SAFETY: the kind says which member is set.
        unsafe {
            match self.kind {
                UINT16 => Some(u32::from(self.data.uint16)),
                UINT32 | RANK => Some(self.data.uint32),
                _ => None,
            }
        }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        if self.kind != BYTE_OBJECT {
            return None;
        }
        // SAFETY: the kind says which member is set.
        let bytes = unsafe { self.data.bytes };
        if bytes.length == 0 || bytes.start.is_null() {
            return Some(Vec::new());
        }
        // SAFETY: the library says that there are so many bytes, and keeps them as long as the value.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.start.cast::<u8>(), bytes.length) };
        Some(bytes.to_vec())
    }
}

type Call = Box<dyn FnOnce(&Api) + Send>;

/// The thread that makes PMIx calls.
struct Worker {
    calls: Sender<Call>,
    timeout: Duration,
}

impl Worker {
    fn start(timeout: Duration) -> Result<Self, BootstrapError> {
        let (calls, todo) = mpsc::channel::<Call>();
        let (loaded, result) = mpsc::channel();
        let fail = |cause| BootstrapError::new(Launcher::Pmix, "loading the PMIx library", cause);
        let work = move || {
            let api = match Api::load() {
                Ok(api) => api,
                Err(error) => return drop(loaded.send(Err(error))),
            };
            let _ = loaded.send(Ok(()));
            for call in todo {
                call(&api);
            }
        };
        let thread = helper::spawn("hikyaku PMIx", work);
        thread.map_err(|error| fail(error.into()))?;
        match wait_for(&result, timeout) {
            Ok(Ok(())) => Ok(Self { calls, timeout }),
            Ok(Err(error)) => Err(fail(Cause::Library(error))),
            Err(cause) => Err(fail(cause)),
        }
    }

    /// Has the thread make `call`, and waits for it.
    fn call<T: Send + 'static>(
        &self,
        doing: &str,
        call: impl FnOnce(&Api) -> Result<T, c_int> + Send + 'static,
    ) -> Result<T, BootstrapError> {
        let (answer, result) = mpsc::channel();
        let call = Box::new(move |api: &Api| {
            let outcome = call(api).map_err(|status| api.text(status));
            drop(answer.send(outcome));
        });
        let outcome = match self.calls.send(call) {
            Ok(()) => wait_for(&result, self.timeout),
            Err(_) => Err(Cause::Closed),
        };
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(reason)) => Err(BootstrapError::new(Launcher::Pmix, doing, Cause::Refused(reason))),
            Err(cause) => Err(BootstrapError::new(Launcher::Pmix, doing, cause)),
        }
    }
}

fn wait_for<T>(result: &Receiver<T>, timeout: Duration) -> Result<T, Cause> {
    result.recv_timeout(timeout).map_err(|error| match error {
        RecvTimeoutError::Timeout => Cause::TimedOut(timeout),
        RecvTimeoutError::Disconnected => Cause::Closed,
    })
}

struct Pmix {
    worker: Worker,
    me: Process,
}

fn c_string(text: &str) -> CString {
    let until_nul = text.split('\0').next().unwrap_or_default();
    CString::new(until_nul).unwrap_or_default()
}

/// Joins the job of a launcher with PMIx.
pub(super) fn join(
    environment: &Environment,
    timeout: Duration,
) -> Result<(Box<dyn Starter>, Identity), BootstrapError> {
    let worker = Worker::start(timeout)?;
    let me = worker.call("initialising", Api::init)?;
    let pmix = Pmix { worker, me };
    let size = pmix.number(EVERY_RANK, "pmix.job.size")?;
    let size = size.ok_or_else(|| {
        let cause = Cause::Refused("it does not know how many processes there are".into());
        BootstrapError::new(Launcher::Pmix, "asking for pmix.job.size", cause)
    })?;
    let mut identity = Identity::new(Launcher::Pmix, me.rank, size)?;
    let local_size = pmix.number(EVERY_RANK, "pmix.local.size")?;
    identity.local = Option::zip(pmix.number(me.rank, "pmix.lrank")?, local_size);
    identity.app = pmix.number(me.rank, "pmix.appnum")?.unwrap_or(0);
    let known = |name: &str| environment.get(name)?.parse().ok();
    let open_mpi = || Option::zip(known("OMPI_COMM_WORLD_LOCAL_RANK"), known("OMPI_COMM_WORLD_LOCAL_SIZE"));
    identity.local = identity.local.or_else(open_mpi);
    Ok((Box::new(pmix), identity))
}

impl Pmix {
    const fn process(&self, rank: u32) -> Process {
        Process { rank, ..self.me }
    }

    /// A number that the launcher has about a rank; any failure counts as not having it.
    fn number(&self, rank: u32, key: &str) -> Result<Option<u32>, BootstrapError> {
        let (of, name) = (self.process(rank), c_string(key));
        let doing = format!("asking for {key}");
        self.worker
            .call(&doing, move |api| Ok(api.get(&of, &name, Value::number).ok().flatten()))
    }
}

impl Exchange for Pmix {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        let doing = format!("putting '{key}'");
        let (key, value) = (c_string(key), value.to_vec());
        self.worker.call(&doing, move |api| api.put(&key, &value))
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        self.worker.call("waiting for all ranks", Api::fence)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let doing = format!("getting '{key}' of rank {rank}");
        let (of, key) = (self.process(rank), c_string(key));
        self.worker.call(&doing, move |api| api.get(&of, &key, Value::bytes))
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        self.worker.call("finalizing", |api| {
            // SAFETY: no attributes are passed; nothing is called afterwards.
            done(unsafe { (api.finalize)(ptr::null(), 0) })
        })
    }

    fn abort(&mut self, code: u8, message: &str) {
        let message = c_string(message);
        // This process ends, whether the message could be sent or not.
        let _ = self.worker.call("aborting", move |api| {
            // SAFETY: no processes means all of the namespace; the message outlives the call.
            done(unsafe { (api.abort)(c_int::from(code), message.as_ptr(), ptr::null(), 0) })
        });
    }
}

impl Starter for Pmix {
    fn start(&mut self, programs: &[Program], contact: &str) -> Result<(), BootstrapError> {
        let c_program = |program: &Program| {
            let words = program.command.iter().map(|word| c_string(word)).collect();
            (words, c_int::try_from(program.processes).unwrap_or(c_int::MAX))
        };
        let programs: Vec<(Vec<CString>, c_int)> = programs.iter().map(c_program).collect();
        let variable = c_string(&format!("{}={contact}", names::CONTACT));
        let directory = env::current_dir().unwrap_or_default();
        let directory = c_string(&directory.to_string_lossy());
        let doing = "spawning processes";
        let started = self
            .worker
            .call(doing, move |api| api.spawn(programs, &directory, &variable));
        started.map_err(|error| match error.cause() {
            Cause::Refused(reason) => {
                let reason = format!("{reason}; it may have no slots left");
                BootstrapError::new(Launcher::Pmix, doing, Cause::Refused(reason))
            }
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        // SAFETY: there is no such library, so nothing is loaded.
        let error = unsafe { Library::new("libhikyaku-is-not-there.so") }.unwrap_err();
        assert!(
            reason(&error).contains("libhikyaku-is-not-there.so"),
            "{}",
            reason(&error)
        );
    }

    /// As a C compiler lays them out on 64 bits.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn layouts() {
        assert_eq!((size_of::<Process>(), offset_of!(Process, rank)), (260, 256));
        assert_eq!((size_of::<Value>(), offset_of!(Value, data)), (32, 8));
        assert_eq!((size_of::<Info>(), offset_of!(Info, value)), (552, 520));
        assert_eq!((size_of::<App>(), offset_of!(App, info)), (56, 40));
    }
}

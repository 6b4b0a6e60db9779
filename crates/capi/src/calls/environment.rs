#![expect(unsafe_code, reason = "allocates memory for the program")]
//! Beginning, end and surroundings (MPI 9, 11).

use std::{
    alloc::{Layout, alloc, dealloc},
    sync::OnceLock,
    thread,
    time::Instant,
};

use hikyaku::mpi::error::ErrorClass;

use super::Done;
use crate::{
    abi::ThreadLevel,
    border::{Address, Buffer, Call, Constant, Failure, Int, NewString, Out, OutConstant, OutPointer, Pointer},
    objects::{Comm, Info},
    process,
};

#[doc(hidden)]
#[macro_export]
macro_rules! environment {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Init" => environment::init(argc: Pointer, argv: Pointer);
                "Init_thread" => environment::init_thread(
                    argc: Pointer, argv: Pointer, required: Constant<ThreadLevel>, provided: OutConstant<ThreadLevel>);
                "Finalize" => environment::finalize();
                "Initialized" => environment::initialized(flag: Out<i32>);
                "Finalized" => environment::finalized(flag: Out<i32>);
                "Query_thread" => environment::query_thread(provided: OutConstant<ThreadLevel>);
                "Is_thread_main" => environment::is_thread_main(flag: Out<i32>);
                "Abort" => environment::abort(comm: Comm, errorcode: Int);
                "Get_processor_name" => environment::get_processor_name(name: NewString, resultlen: Out<i32>);
                "Get_version" => environment::get_version(version: Out<i32>, subversion: Out<i32>);
                "Get_library_version" => environment::get_library_version(version: NewString, resultlen: Out<i32>);
                "Abi_get_version" => environment::abi_get_version(major: Out<i32>, minor: Out<i32>);
                "Alloc_mem" => environment::alloc_mem(size: Address, info: Info, baseptr: OutPointer);
                "Free_mem" => environment::free_mem(base: Buffer);
                "Get_address" => environment::get_address(location: Pointer, address: Out<i64>);
                "Pcontrol" => environment::pcontrol(level: Int);
            }
            $crate::values! { $abi;
                "Wtime"() -> f64 => $crate::calls::environment::wtime();
                "Wtick"() -> f64 => 1e-9;
                "Aint_add"(base: i64, disp: i64) -> i64 => base.wrapping_add(disp);
                "Aint_diff"(addr1: i64, addr2: i64) -> i64 => addr1.wrapping_sub(addr2);
            }
        };
    };
}

pub fn init(call: Call, _argc: Pointer, _argv: Pointer) -> Done {
    let _ = call;
    process::begin(ThreadLevel::SINGLE)
}

pub fn init_thread(
    _call: Call,
    _argc: Pointer,
    _argv: Pointer,
    required: Constant<ThreadLevel>,
    provided: OutConstant<ThreadLevel>,
) -> Done {
    let required = required.0.clamp(ThreadLevel::SINGLE, ThreadLevel::MULTIPLE);
    process::begin(required)?;
    provided.set(required);
    Ok(())
}

pub fn finalize(_call: Call) -> Done {
    process::end()
}

pub fn initialized(_call: Call, flag: Out<i32>) -> Done {
    flag.set_flag(process::has_begun());
    Ok(())
}

pub fn finalized(_call: Call, flag: Out<i32>) -> Done {
    flag.set_flag(process::is_over());
    Ok(())
}

pub fn query_thread(_call: Call, provided: OutConstant<ThreadLevel>) -> Done {
    let (_, level) = process::main_thread().ok_or_else(not_begun)?;
    provided.set(level);
    Ok(())
}

pub fn is_thread_main(_call: Call, flag: Out<i32>) -> Done {
    let (main, _) = process::main_thread().ok_or_else(not_begun)?;
    flag.set_flag(main == thread::current().id());
    Ok(())
}

fn not_begun() -> Failure {
    Failure::text(ErrorClass::Other, "MPI has not begun")
}

pub fn abort(call: Call, _comm: Comm, errorcode: Int) -> Done {
    process::abort(errorcode.0, &format!("{} with code {}", call.name, errorcode.0))
}

pub fn get_processor_name(_call: Call, name: NewString, resultlen: Out<i32>) -> Done {
    let host = nix::unistd::gethostname().unwrap_or_default();
    // The shorter of the two `MPI_MAX_PROCESSOR_NAME`.
    let len = name.set(host.to_string_lossy().as_bytes(), 128);
    resultlen.set(len as i32);
    Ok(())
}

pub fn get_version(_call: Call, version: Out<i32>, subversion: Out<i32>) -> Done {
    version.set(5);
    subversion.set(0);
    Ok(())
}

pub fn get_library_version(_call: Call, version: NewString, resultlen: Out<i32>) -> Done {
    let len = version.set(concat!("hikyaku ", env!("CARGO_PKG_VERSION")).as_bytes(), 8192);
    resultlen.set(len as i32);
    Ok(())
}

pub fn abi_get_version(call: Call, major: Out<i32>, minor: Out<i32>) -> Done {
    let version = call.encoding.version.unwrap_or((-1, -1));
    major.set(version.0);
    minor.set(version.1);
    Ok(())
}

/// Bytes before memory of `MPI_Alloc_mem`, in which its length is: the alignment of the memory.
const BEFORE: usize = 64;

pub fn alloc_mem(_call: Call, size: Address, _info: Info, baseptr: OutPointer) -> Done {
    let no_memory = || Failure::text(ErrorClass::NoMem, "there is not so much memory");
    let size = usize::try_from(size.0).map_err(|_| Failure::value(ErrorClass::Arg, "size", size.0, 0, i64::MAX))?;
    let len = size.checked_add(BEFORE).ok_or_else(no_memory)?;
    let layout = Layout::from_size_align(len, BEFORE).map_err(|_| no_memory())?;
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc(layout) };
    if start.is_null() {
        return Err(no_memory());
    }
    // SAFETY: there is room for a number at the start, and the memory is longer than `BEFORE`.
    unsafe {
        start.cast::<usize>().write(len);
        baseptr.set(start.add(BEFORE).cast());
    }
    Ok(())
}

pub fn free_mem(_call: Call, base: Buffer) -> Done {
    if base.0.is_null() {
        return Ok(());
    }
    // SAFETY: the program has it from `MPI_Alloc_mem`, as MPI demands, which has written the length there.
    unsafe {
        let start = base.0.sub(BEFORE);
        let len = start.cast::<usize>().read();
        if let Ok(layout) = Layout::from_size_align(len, BEFORE) {
            dealloc(start, layout);
        }
    }
    Ok(())
}

pub fn get_address(_call: Call, location: Pointer, address: Out<i64>) -> Done {
    address.set(location.0 as i64);
    Ok(())
}

pub fn pcontrol(_call: Call, _level: Int) -> Done {
    Ok(())
}

/// Seconds since some time in the past.
#[must_use]
pub fn wtime() -> f64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_secs_f64()
}

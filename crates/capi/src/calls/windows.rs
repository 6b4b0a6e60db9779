#![expect(unsafe_code, reason = "windows are memory of the program")]
//! Windows, how they are made and what is attached to them (MPI 12.2), and their epochs (MPI 12.5).

use core::ffi::c_void;

use hikyaku::mpi::{
    engine::{self, LockKind, PROC_NULL},
    error::ErrorClass,
};

use super::{Done, attributes};
use crate::{
    abi::{Flavor, Keyval, Lock, Sort},
    border::{
        Address, Buffer, Call, Constant, Count, Failure, InOut, Int, NewString, Out, OutCount, OutPointer, Pointer,
        Rank, Scope, Text,
    },
    errors,
    objects::{Comm, Errhandler, Handler, Held, Info, InfoObject, Ranks, Win, Window, lock},
};

#[doc(hidden)]
#[macro_export]
macro_rules! windows {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Win_create" + c => windows::create(
                    base: Buffer, size: Address, disp_unit: Count, info: Info, comm: Comm, win: InOut<Window>);
                "Win_allocate" + c => windows::allocate(
                    size: Address, disp_unit: Count, info: Info, comm: Comm, baseptr: OutPointer,
                    win: InOut<Window>);
                "Win_allocate_shared" + c => windows::allocate_shared(
                    size: Address, disp_unit: Count, info: Info, comm: Comm, baseptr: OutPointer,
                    win: InOut<Window>);
                "Win_shared_query" + c => windows::shared_query(
                    win: Win, rank: Rank, size: Out<i64>, disp_unit: OutCount, baseptr: OutPointer);
                "Win_create_dynamic" => windows::create_dynamic(info: Info, comm: Comm, win: InOut<Window>);
                "Win_attach" => windows::attach(win: Win, base: Buffer, size: Address);
                "Win_detach" => windows::detach(win: Win, base: Buffer);
                "Win_free" => windows::free(win: InOut<Window>);
                "Win_get_group" => windows::get_group(win: Win, group: InOut<Group>);
                "Win_get_name" => windows::get_name(win: Win, name: NewString, resultlen: Out<i32>);
                "Win_set_name" => windows::set_name(win: Win, name: Text);
                "Win_get_info" => windows::get_info(win: Win, info: InOut<InfoObject>);
                "Win_set_info" => windows::set_info(win: Win, info: Info);
                "Win_create_errhandler" => windows::create_errhandler(
                    function: Pointer, errhandler: InOut<Handler>);
                "Win_set_errhandler" => windows::set_errhandler(win: Win, errhandler: Errhandler);
                "Win_get_errhandler" => windows::get_errhandler(win: Win, errhandler: InOut<Handler>);
                "Win_call_errhandler" => windows::call_errhandler(win: Win, errorcode: Int);
                "Win_create_keyval" => windows::create_keyval(
                    copy_fn: Pointer, delete_fn: Pointer, keyval: Out<i32>, extra_state: Pointer);
                "Win_free_keyval" => windows::free_keyval(keyval: Out<i32>);
                "Win_set_attr" => windows::set_attr(win: Win, keyval: Constant<Keyval>, value: Pointer);
                "Win_get_attr" => windows::get_attr(
                    win: Win, keyval: Constant<Keyval>, value: OutPointer, flag: Out<i32>);
                "Win_delete_attr" => windows::delete_attr(win: Win, keyval: Constant<Keyval>);
                "Win_fence" => windows::fence(assert: Int, win: Win);
                "Win_lock" => windows::lock_one(kind: Constant<Lock>, rank: Rank, assert: Int, win: Win);
                "Win_lock_all" => windows::lock_all(assert: Int, win: Win);
                "Win_unlock" => windows::unlock(rank: Rank, win: Win);
                "Win_unlock_all" => windows::unlock_all(win: Win);
                "Win_flush" => windows::flush(rank: Rank, win: Win);
                "Win_flush_all" => windows::flush_all(win: Win);
                "Win_flush_local" => windows::flush(rank: Rank, win: Win);
                "Win_flush_local_all" => windows::flush_all(win: Win);
                "Win_sync" => windows::sync(win: Win);
                "Win_post" => windows::post(group: Ranks, assert: Int, win: Win);
                "Win_start" => windows::start(group: Ranks, assert: Int, win: Win);
                "Win_complete" => windows::complete(win: Win);
                "Win_wait" => windows::wait(win: Win);
                "Win_test" => windows::test(win: Win, flag: Out<i32>);
            }
        };
    };
}

type Place = InOut<Window>;

fn extent(size: Address, unit: Count) -> Result<(u64, u32), Failure> {
    let size = u64::try_from(size.0).map_err(|_| Failure::value(ErrorClass::Size, "size", size.0, 0, i64::MAX))?;
    let wrong = |_| Failure::value(ErrorClass::Disp, "disp_unit", unit.0, 1, u32::MAX.into());
    Ok((size, u32::try_from(unit.0).map_err(wrong)?))
}

fn hand_out(call: Call, win: Place, window: engine::Window, flavor: i32) {
    win.set(Win::insert(Window::new(window, call.encoding, flavor)));
}

pub fn create(call: Call, base: Buffer, size: Address, disp_unit: Count, _info: Info, comm: Comm, win: Place) -> Done {
    let (object, (size, unit)) = (comm.get()?, extent(size, disp_unit)?);
    // SAFETY: the program's memory, as MPI demands until the window is freed.
    let window = unsafe { engine::Window::create(&object.comm, base.0, size, unit)? };
    hand_out(call, win, window, Flavor::CREATE);
    Ok(())
}

pub fn allocate(
    call: Call,
    size: Address,
    disp_unit: Count,
    _info: Info,
    comm: Comm,
    baseptr: OutPointer,
    win: Place,
) -> Done {
    let (object, (size, unit)) = (comm.get()?, extent(size, disp_unit)?);
    let window = engine::Window::allocate(&object.comm, size, unit)?;
    baseptr.set(window.base().cast());
    hand_out(call, win, window, Flavor::ALLOCATE);
    Ok(())
}

pub fn allocate_shared(
    call: Call,
    size: Address,
    disp_unit: Count,
    _info: Info,
    comm: Comm,
    baseptr: OutPointer,
    win: Place,
) -> Done {
    let (object, (size, unit)) = (comm.get()?, extent(size, disp_unit)?);
    let window = engine::Window::allocate_shared(&object.comm, size, unit)?;
    baseptr.set(window.shared_query(object.comm.rank())?.0.cast());
    hand_out(call, win, window, Flavor::SHARED);
    Ok(())
}

pub fn shared_query(
    _call: Call,
    win: Win,
    rank: Rank,
    size: Out<i64>,
    disp_unit: OutCount,
    baseptr: OutPointer,
) -> Done {
    let (base, len, unit) = win.get()?.window.shared_query(rank.0)?;
    size.set(len as i64);
    disp_unit.set(unit.into())?;
    baseptr.set(base.cast());
    Ok(())
}

pub fn create_dynamic(call: Call, _info: Info, comm: Comm, win: Place) -> Done {
    let window = engine::Window::create_dynamic(&comm.get()?.comm)?;
    hand_out(call, win, window, Flavor::DYNAMIC);
    Ok(())
}

pub fn attach(_call: Call, win: Win, base: Buffer, size: Address) -> Done {
    let (object, (size, _)) = (win.get()?, extent(size, Count(1))?);
    // SAFETY: the program's memory, as MPI demands until it is detached.
    unsafe { object.window.attach(base.0, size)? };
    Ok(())
}

pub fn detach(_call: Call, win: Win, base: Buffer) -> Done {
    Ok(win.get()?.window.detach(base.0)?)
}

pub fn free(_call: Call, win: Place) -> Done {
    let named = win.get();
    let object = named.get()?;
    object.attributes.clear(&named.handle()).map_err(Failure::Code)?;
    object.window.free()?;
    named.remove()?;
    win.set(Win::NULL);
    Ok(())
}

pub fn get_group(_call: Call, win: Win, group: InOut<hikyaku::mpi::group::Group>) -> Done {
    group.set(Ranks::insert(win.get()?.window.communicator().group().clone()));
    Ok(())
}

pub fn get_name(_call: Call, win: Win, name: NewString, resultlen: Out<i32>) -> Done {
    // The null handle has a name, too.
    let text = match win.is_null() {
        true => "MPI_WIN_NULL".to_owned(),
        false => lock(&win.get()?.name).clone(),
    };
    resultlen.set(name.set(text.as_bytes(), 128) as i32);
    Ok(())
}

pub fn set_name(_call: Call, win: Win, name: Text) -> Done {
    *lock(&win.get()?.name) = name.text();
    Ok(())
}

pub fn get_info(_call: Call, win: Win, info: InOut<InfoObject>) -> Done {
    win.get()?;
    info.set(Info::insert(InfoObject::default()));
    Ok(())
}

pub fn set_info(_call: Call, win: Win, info: Info) -> Done {
    win.get()?;
    info.get()?;
    Ok(())
}

pub fn create_errhandler(_call: Call, function: Pointer, errhandler: InOut<Handler>) -> Done {
    errhandler.set(Handler::calling(function.0, Sort::Win));
    Ok(())
}

pub fn set_errhandler(_call: Call, win: Win, errhandler: Errhandler) -> Done {
    let object = win.get()?;
    *lock(&object.handler) = Handler::for_sort(Sort::Win, errhandler)?;
    Ok(())
}

pub fn get_errhandler(_call: Call, win: Win, errhandler: InOut<Handler>) -> Done {
    errhandler.set(Handler::give(&lock(&win.get()?.handler)));
    Ok(())
}

pub fn call_errhandler(call: Call, win: Win, errorcode: Int) -> Done {
    win.get()?;
    let scope = Scope {
        sort: Sort::Win,
        handle: win.handle(),
    };
    errors::handle(call, Some(scope), errorcode.0);
    Ok(())
}

pub fn create_keyval(call: Call, copy_fn: Pointer, delete_fn: Pointer, keyval: Out<i32>, extra: Pointer) -> Done {
    attributes::create(call, Sort::Win, copy_fn, delete_fn, keyval, extra)
}

pub fn free_keyval(call: Call, keyval: Out<i32>) -> Done {
    attributes::free(call, Sort::Win, keyval)
}

pub fn set_attr(_call: Call, win: Win, keyval: Constant<Keyval>, value: Pointer) -> Done {
    attributes::set(Sort::Win, (win.handle(), &win.get()?.attributes), keyval, value)
}

pub fn get_attr(_call: Call, win: Win, keyval: Constant<Keyval>, value: OutPointer, flag: Out<i32>) -> Done {
    let object = win.get()?;
    let numbers = &object.numbers;
    let place: *const c_void = match keyval.0 {
        Keyval::WIN_BASE => object.window.base().cast(),
        Keyval::WIN_SIZE => (&raw const numbers.size).cast(),
        Keyval::WIN_DISP_UNIT => (&raw const numbers.unit).cast(),
        Keyval::WIN_CREATE_FLAVOR => (&raw const numbers.flavor).cast(),
        Keyval::WIN_MODEL => (&raw const numbers.model).cast(),
        _ => return attributes::get(Sort::Win, &object.attributes, keyval, value, flag),
    };
    value.set(place.cast_mut());
    flag.set_flag(true);
    Ok(())
}

pub fn delete_attr(_call: Call, win: Win, keyval: Constant<Keyval>) -> Done {
    attributes::delete(Sort::Win, (win.handle(), &win.get()?.attributes), keyval)
}

/// Calls a function of the engine on a window.
fn on(win: Win, run: impl FnOnce(&engine::Window) -> Result<(), hikyaku::mpi::error::Error>) -> Done {
    let object: Held<Window> = win.get()?;
    Ok(run(&object.window)?)
}

pub fn fence(_call: Call, _assert: Int, win: Win) -> Done {
    on(win, engine::Window::fence)
}

pub fn lock_one(_call: Call, kind: Constant<Lock>, rank: Rank, _assert: Int, win: Win) -> Done {
    let kind = match kind.0 {
        Lock::EXCLUSIVE => LockKind::Exclusive,
        Lock::SHARED => LockKind::Shared,
        _ => return Err(Failure::text(ErrorClass::Locktype, "there is no such kind of lock")),
    };
    if rank.0 == PROC_NULL {
        win.get()?;
        return Ok(());
    }
    on(win, |window| window.lock(kind, rank.0))
}

pub fn lock_all(_call: Call, _assert: Int, win: Win) -> Done {
    on(win, engine::Window::lock_all)
}

/// The same for a rank, unless it is none.
fn at(win: Win, rank: Rank, run: impl FnOnce(&engine::Window, i32) -> Result<(), hikyaku::mpi::error::Error>) -> Done {
    if rank.0 == PROC_NULL {
        win.get()?;
        return Ok(());
    }
    on(win, |window| run(window, rank.0))
}

pub fn unlock(_call: Call, rank: Rank, win: Win) -> Done {
    at(win, rank, engine::Window::unlock)
}

pub fn unlock_all(_call: Call, win: Win) -> Done {
    on(win, engine::Window::unlock_all)
}

pub fn flush(_call: Call, rank: Rank, win: Win) -> Done {
    at(win, rank, engine::Window::flush)
}

pub fn flush_all(_call: Call, win: Win) -> Done {
    on(win, engine::Window::flush_all)
}

pub fn sync(_call: Call, win: Win) -> Done {
    on(win, engine::Window::sync)
}

pub fn post(_call: Call, group: Ranks, _assert: Int, win: Win) -> Done {
    let group = group.get()?;
    on(win, |window| window.post(&group))
}

pub fn start(_call: Call, group: Ranks, _assert: Int, win: Win) -> Done {
    let group = group.get()?;
    on(win, |window| window.start(&group))
}

pub fn complete(_call: Call, win: Win) -> Done {
    on(win, engine::Window::complete)
}

pub fn wait(_call: Call, win: Win) -> Done {
    on(win, engine::Window::wait)
}

pub fn test(_call: Call, win: Win, flag: Out<i32>) -> Done {
    flag.set_flag(win.get()?.window.test()?);
    Ok(())
}

#![expect(unsafe_code, reason = "writes where the program says")]
//! Performance variables (MPI 15.3.7): the counters of the engine, which always run.

use hikyaku::mpi::engine::Engine;

use super::{
    state::{self, ALL_HANDLES, by_index, tell},
    trouble::{Told, Trouble},
};
use crate::{
    abi::{Bind, PvarClass, Verbosity},
    border::{Buffer, Constant, InOut, Int, NewString, Out, OutConstant, OutPointer, Pointer, Text},
    objects::{Datatype, Type},
    process,
};

/// `MPI_UNSIGNED_LONG_LONG`: all are numbers of 64 bits.
const UNSIGNED_LONG_LONG: Type = Type::number(0x20f);

/// A counter: name, class, meaning, and how it is read.
type Counter = (&'static str, i32, &'static str, fn(&Engine) -> u64);

pub(super) const ALL: &[Counter] = &[
    (
        "eager",
        PvarClass::COUNTER,
        "messages sent with their payload",
        |engine| engine.stats().eager,
    ),
    (
        "rendezvous",
        PvarClass::COUNTER,
        "messages sent by rendezvous",
        |engine| engine.stats().rendezvous,
    ),
    (
        "converted",
        PvarClass::COUNTER,
        "small messages sent by rendezvous for lack of credit",
        |engine| engine.stats().converted,
    ),
    (
        "unexpected",
        PvarClass::COUNTER,
        "messages that came before their receive",
        |engine| engine.stats().unexpected,
    ),
    (
        "unexpected_bytes",
        PvarClass::LEVEL,
        "bytes of unexpected messages that are kept now",
        |engine| engine.stats().unexpected_bytes,
    ),
    (
        "unexpected_peak",
        PvarClass::HIGHWATERMARK,
        "the most bytes of unexpected messages",
        |engine| engine.stats().unexpected_peak,
    ),
    (
        "malformed",
        PvarClass::COUNTER,
        "messages that were dropped",
        |engine| engine.stats().malformed,
    ),
    (
        "window_served",
        PvarClass::COUNTER,
        "requests of other processes to windows of this one",
        |engine| engine.window_stats().served,
    ),
    (
        "window_refused",
        PvarClass::COUNTER,
        "requests to windows that were refused",
        |engine| engine.window_stats().refused,
    ),
];

pub fn get_num(num: Out<i32>) -> Told {
    state::check()?;
    num.set(ALL.len() as i32);
    Ok(())
}

pub fn get_info(
    index: Int,
    name: NewString,
    name_len: Out<i32>,
    verbosity: OutConstant<Verbosity>,
    var_class: OutConstant<PvarClass>,
    datatype: InOut<Datatype>,
    enumtype: OutPointer,
    desc: NewString,
    desc_len: Out<i32>,
    bind: OutConstant<Bind>,
    readonly: Out<i32>,
    continuous: Out<i32>,
    atomic: Out<i32>,
) -> Told {
    let (_, (text, class, meaning, _)) = by_index(ALL, index)?;
    tell(text, name, name_len);
    tell(meaning, desc, desc_len);
    verbosity.set(Verbosity::USER_BASIC);
    var_class.set(*class);
    datatype.set(UNSIGNED_LONG_LONG);
    enumtype.set(core::ptr::null_mut());
    bind.set(Bind::NO_OBJECT);
    readonly.set_flag(true);
    continuous.set_flag(true);
    atomic.set_flag(false);
    Ok(())
}

pub fn get_index(name: Text, var_class: Constant<PvarClass>, index: Out<i32>) -> Told {
    state::check()?;
    let name = name.text();
    let is_it = |counter: &Counter| counter.0 == name && counter.1 == var_class.0;
    index.set(ALL.iter().position(is_it).ok_or(Trouble::Name)? as i32);
    Ok(())
}

pub fn session_create(session: OutPointer) -> Told {
    state::make_session(session)
}

pub fn session_free(session: OutPointer) -> Told {
    state::free_session(session)
}

pub fn handle_alloc(session: Pointer, index: Int, _object: Pointer, handle: OutPointer, count: Out<i32>) -> Told {
    let (index, _) = by_index(ALL, index)?;
    state::make_counter(session.0, index, handle)?;
    count.set(1);
    Ok(())
}

pub fn handle_free(session: Pointer, handle: OutPointer) -> Told {
    state::free_counter(session.0, handle)
}

/// Starts or stops counters, none of which can be; of all handles that is none.
pub fn switch(session: Pointer, handle: Pointer) -> Told {
    refuse(session, handle, Trouble::NoStartStop)
}

/// Sets counters to their beginning, none of which can be; of all handles that is none.
pub fn reset(session: Pointer, handle: Pointer) -> Told {
    refuse(session, handle, Trouble::NoWrite)
}

fn refuse(session: Pointer, handle: Pointer, trouble: Trouble) -> Told {
    if handle.0 == ALL_HANDLES {
        return state::check_session(session.0);
    }
    state::counter(session.0, handle.0)?;
    Err(trouble)
}

pub fn read(session: Pointer, handle: Pointer, buf: Buffer) -> Told {
    let (_, _, _, read) = ALL[state::counter(session.0, handle.0)?];
    let value = process::joined().map_or(0, |joined| read(&joined.engine));
    if !buf.0.is_null() {
        // SAFETY: the program has room for a value of the datatype that it was told.
        unsafe { buf.0.cast::<u64>().write_unaligned(value) };
    }
    Ok(())
}

pub fn write(session: Pointer, handle: Pointer) -> Told {
    state::counter(session.0, handle.0)?;
    Err(Trouble::NoWrite)
}

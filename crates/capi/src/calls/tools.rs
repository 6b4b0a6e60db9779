#![expect(unsafe_code, reason = "writes where the program says")]
//! The interface of tools (MPI 15.3). Control variables are the settings of this process, which stand since its start;
//! performance variables are the engine's counters, which always run. There are no events.
//!
//! Handles are places in these lists, so they need no memory. No error handler is called.

use std::{
    collections::BTreeSet,
    sync::{Mutex, OnceLock},
};

use hikyaku::{
    environment::{Environment, VARIABLES, Variable},
    mpi::engine::Engine,
};

use crate::{
    abi::{Bind, Encoding, PvarClass, SettingScope, ThreadLevel, Verbosity},
    border::{Buffer, Constant, InOut, Int, NewString, Out, OutConstant, OutInts, OutPointer, Pointer, Text},
    objects::{Datatype, Type, lock},
    process,
};

#[doc(hidden)]
#[macro_export]
macro_rules! tools {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::tool_functions! { $abi;
                "T_init_thread" => init_thread(required: Constant<ThreadLevel>, provided: OutConstant<ThreadLevel>);
                "T_finalize" => finalize();
                "T_enum_get_info" => no_handle();
                "T_enum_get_item" => no_handle();
                "T_cvar_get_num" => cvar_get_num(num: Out<i32>);
                "T_cvar_get_info" => cvar_get_info(
                    index: Int, name: NewString, name_len: Out<i32>, verbosity: OutConstant<Verbosity>,
                    datatype: InOut<Datatype>, enumtype: OutPointer, desc: NewString, desc_len: Out<i32>,
                    bind: OutConstant<Bind>, scope: OutConstant<SettingScope>);
                "T_cvar_get_index" => cvar_get_index(name: Text, index: Out<i32>);
                "T_cvar_handle_alloc" => cvar_handle_alloc(
                    index: Int, object: Pointer, handle: OutPointer, count: Out<i32>);
                "T_cvar_handle_free" => cvar_handle_free(handle: OutPointer);
                "T_cvar_read" => cvar_read(handle: Pointer, buf: NewString);
                "T_cvar_write" => cvar_write(handle: Pointer);
                "T_pvar_get_num" => pvar_get_num(num: Out<i32>);
                "T_pvar_get_info" => pvar_get_info(
                    index: Int, name: NewString, name_len: Out<i32>, verbosity: OutConstant<Verbosity>,
                    var_class: OutConstant<PvarClass>, datatype: InOut<Datatype>, enumtype: OutPointer,
                    desc: NewString, desc_len: Out<i32>, bind: OutConstant<Bind>, readonly: Out<i32>,
                    continuous: Out<i32>, atomic: Out<i32>);
                "T_pvar_get_index" => pvar_get_index(name: Text, var_class: Constant<PvarClass>, index: Out<i32>);
                "T_pvar_session_create" => pvar_session_create(session: OutPointer);
                "T_pvar_session_free" => pvar_session_free(session: OutPointer);
                "T_pvar_handle_alloc" => pvar_handle_alloc(
                    session: Pointer, index: Int, object: Pointer, handle: OutPointer, count: Out<i32>);
                "T_pvar_handle_free" => pvar_handle_free(session: Pointer, handle: OutPointer);
                "T_pvar_start" => pvar_switch(session: Pointer, handle: Pointer);
                "T_pvar_stop" => pvar_switch(session: Pointer, handle: Pointer);
                "T_pvar_read" => pvar_read(session: Pointer, handle: Pointer, buf: Buffer);
                "T_pvar_write" => pvar_change(session: Pointer, handle: Pointer);
                "T_pvar_reset" => pvar_change(session: Pointer, handle: Pointer);
                "T_pvar_readreset" => pvar_change(session: Pointer, handle: Pointer);
                "T_category_get_num" => category_get_num(num: Out<i32>);
                "T_category_get_num_events" => category_get_num_events(index: Int, num: Out<i32>);
                "T_category_get_info" => category_get_info(
                    index: Int, name: NewString, name_len: Out<i32>, desc: NewString, desc_len: Out<i32>,
                    num_cvars: Out<i32>, num_pvars: Out<i32>, num_categories: Out<i32>);
                "T_category_get_index" => category_get_index(name: Text, index: Out<i32>);
                "T_category_get_cvars" => category_get_cvars(index: Int, len: Int, indices: OutInts);
                "T_category_get_pvars" => category_get_pvars(index: Int, len: Int, indices: OutInts);
                "T_category_get_events" => category_get_none(index: Int);
                "T_category_get_categories" => category_get_none(index: Int);
                "T_category_changed" => category_changed(update_number: Out<i32>);
                "T_event_get_num" => none(num: Out<i32>);
                "T_event_get_info" => no_index();
                "T_event_get_index" => no_name();
                "T_event_handle_alloc" => no_index();
                "T_event_handle_free" => no_handle();
                "T_event_handle_get_info" => no_handle();
                "T_event_handle_set_info" => no_handle();
                "T_event_register_callback" => no_handle();
                "T_event_callback_get_info" => no_handle();
                "T_event_callback_set_info" => no_handle();
                "T_event_set_dropped_handler" => no_handle();
                "T_event_read" => no_handle();
                "T_event_copy" => no_handle();
                "T_event_get_timestamp" => no_handle();
                "T_event_get_source" => no_handle();
                "T_source_get_num" => none(num: Out<i32>);
                "T_source_get_info" => no_index();
                "T_source_get_timestamp" => no_index();
            }
        };
    };
}

/// Why a function of tools has failed: its number in both ABIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// `MPI_T_ERR_NOT_INITIALIZED`.
    NotInitialized,
    /// `MPI_T_ERR_INVALID_INDEX`.
    Index,
    /// `MPI_T_ERR_INVALID_SESSION`.
    Session,
    /// `MPI_T_ERR_INVALID_HANDLE`.
    Handle,
    /// `MPI_T_ERR_INVALID_NAME`.
    Name,
    /// `MPI_T_ERR_CVAR_SET_NEVER`.
    SetNever,
    /// `MPI_T_ERR_PVAR_NO_WRITE`.
    NoWrite,
    /// `MPI_T_ERR_PVAR_NO_STARTSTOP`.
    NoStartStop,
}

type Told = Result<(), Trouble>;

/// The result for the program.
#[must_use]
pub fn end(encoding: &Encoding, told: Told) -> i32 {
    let Err(trouble) = told else { return 0 };
    let numbers = match trouble {
        Trouble::NotInitialized => [1003, 60],
        Trouble::Index => [1007, 62],
        Trouble::Session => [1009, 67],
        Trouble::Handle => [1010, 64],
        Trouble::Name => [1011, 73],
        Trouble::SetNever => [1015, 69],
        Trouble::NoWrite => [1016, 71],
        Trouble::NoStartStop => [1017, 70],
    };
    numbers[encoding.column]
}

/// How often the interface has begun, and not ended.
static BEGUN: Mutex<u32> = Mutex::new(0);

fn check_begun() -> Told {
    if *lock(&BEGUN) > 0 {
        Ok(())
    } else {
        Err(Trouble::NotInitialized)
    }
}

pub fn init_thread(required: Constant<ThreadLevel>, provided: OutConstant<ThreadLevel>) -> Told {
    *lock(&BEGUN) += 1;
    provided.set(required.0.clamp(ThreadLevel::SINGLE, ThreadLevel::MULTIPLE));
    Ok(())
}

pub fn finalize() -> Told {
    check_begun()?;
    *lock(&BEGUN) -= 1;
    Ok(())
}

pub fn no_handle() -> Told {
    check_begun()?;
    Err(Trouble::Handle)
}

pub fn no_index() -> Told {
    check_begun()?;
    Err(Trouble::Index)
}

pub fn no_name() -> Told {
    check_begun()?;
    Err(Trouble::Name)
}

pub fn none(num: Out<i32>) -> Told {
    check_begun()?;
    num.set(0);
    Ok(())
}

/// Gives a text of which the program says how much it has room for, and the length of the whole.
fn tell(text: &str, to: NewString, len: Out<i32>) {
    if len.is_null() {
        return;
    }
    to.set(text.as_bytes(), usize::try_from(len.get()).unwrap_or(0));
    len.set(text.len() as i32 + 1);
}

fn number(handle: usize) -> *mut core::ffi::c_void {
    core::ptr::without_provenance_mut(handle)
}

/// The settings with their values, as they stand since the first look.
fn settings() -> &'static [(&'static Variable, String)] {
    static ALL: OnceLock<Vec<(&'static Variable, String)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let environment = Environment::of_process();
        let of_users = VARIABLES.iter().filter(|variable| variable.part.is_for_users());
        let value = |variable: &'static Variable| {
            let set = environment.text(variable.name).map(String::from);
            (variable, set.unwrap_or_else(|| variable.default.to_owned()))
        };
        of_users.map(value).collect()
    })
}

fn setting(index: i32) -> Result<&'static (&'static Variable, String), Trouble> {
    check_begun()?;
    let found = usize::try_from(index).ok().and_then(|index| settings().get(index));
    found.ok_or(Trouble::Index)
}

pub fn cvar_get_num(num: Out<i32>) -> Told {
    check_begun()?;
    num.set(settings().len() as i32);
    Ok(())
}

pub fn cvar_get_info(
    index: Int,
    name: NewString,
    name_len: Out<i32>,
    verbosity: OutConstant<Verbosity>,
    datatype: InOut<Datatype>,
    enumtype: OutPointer,
    desc: NewString,
    desc_len: Out<i32>,
    bind: OutConstant<Bind>,
    scope: OutConstant<SettingScope>,
) -> Told {
    let (variable, _) = setting(index.0)?;
    tell(variable.name, name, name_len);
    tell(&format!("{} ({})", variable.meaning, variable.takes), desc, desc_len);
    verbosity.set(Verbosity::USER_BASIC);
    // Texts.
    datatype.set(Type::number(0x243));
    enumtype.set(core::ptr::null_mut());
    bind.set(Bind::NO_OBJECT);
    scope.set(SettingScope::READONLY);
    Ok(())
}

pub fn cvar_get_index(name: Text, index: Out<i32>) -> Told {
    check_begun()?;
    let name = name.text();
    let found = settings().iter().position(|(variable, _)| variable.name == name);
    index.set(found.ok_or(Trouble::Name)? as i32);
    Ok(())
}

pub fn cvar_handle_alloc(index: Int, _object: Pointer, handle: OutPointer, count: Out<i32>) -> Told {
    let (_, value) = setting(index.0)?;
    handle.set(number(index.0 as usize + 1));
    count.set(value.len() as i32 + 1);
    Ok(())
}

pub fn cvar_handle_free(handle: OutPointer) -> Told {
    check_begun()?;
    handle.set(core::ptr::null_mut());
    Ok(())
}

fn setting_of(handle: Pointer) -> Result<&'static (&'static Variable, String), Trouble> {
    check_begun()?;
    let index = handle.0.checked_sub(1).and_then(|index| settings().get(index));
    index.ok_or(Trouble::Handle)
}

pub fn cvar_read(handle: Pointer, buf: NewString) -> Told {
    let (_, value) = setting_of(handle)?;
    buf.set(value.as_bytes(), value.len() + 1);
    Ok(())
}

pub fn cvar_write(handle: Pointer) -> Told {
    setting_of(handle)?;
    Err(Trouble::SetNever)
}

/// A counter: name, class, meaning, and how it is read.
type Counter = (&'static str, i32, &'static str, fn(&Engine) -> u64);

const COUNTERS: &[Counter] = &[
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

/// Handles of counters are their places, after null and `MPI_T_PVAR_ALL_HANDLES`.
const ALL_HANDLES: usize = 1;

/// Sessions: the number of the latest one, and those that have not ended.
static SESSIONS: Mutex<(usize, BTreeSet<usize>)> = Mutex::new((0, BTreeSet::new()));

fn counter(index: i32) -> Result<&'static Counter, Trouble> {
    check_begun()?;
    let found = usize::try_from(index).ok().and_then(|index| COUNTERS.get(index));
    found.ok_or(Trouble::Index)
}

fn check_session(session: usize) -> Told {
    check_begun()?;
    match lock(&SESSIONS).1.contains(&session) {
        true => Ok(()),
        false => Err(Trouble::Session),
    }
}

fn counter_of(session: Pointer, handle: Pointer) -> Result<&'static Counter, Trouble> {
    check_session(session.0)?;
    let index = handle.0.checked_sub(ALL_HANDLES + 1);
    index.and_then(|index| COUNTERS.get(index)).ok_or(Trouble::Handle)
}

pub fn pvar_get_num(num: Out<i32>) -> Told {
    check_begun()?;
    num.set(COUNTERS.len() as i32);
    Ok(())
}

pub fn pvar_get_info(
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
    let (text, class, meaning, _) = counter(index.0)?;
    tell(text, name, name_len);
    tell(meaning, desc, desc_len);
    verbosity.set(Verbosity::USER_BASIC);
    var_class.set(*class);
    // `MPI_UNSIGNED_LONG_LONG`.
    datatype.set(Type::number(0x20f));
    enumtype.set(core::ptr::null_mut());
    bind.set(Bind::NO_OBJECT);
    readonly.set_flag(true);
    continuous.set_flag(true);
    atomic.set_flag(false);
    Ok(())
}

pub fn pvar_get_index(name: Text, var_class: Constant<PvarClass>, index: Out<i32>) -> Told {
    check_begun()?;
    let name = name.text();
    let is_it = |counter: &Counter| counter.0 == name && counter.1 == var_class.0;
    index.set(COUNTERS.iter().position(is_it).ok_or(Trouble::Name)? as i32);
    Ok(())
}

pub fn pvar_session_create(session: OutPointer) -> Told {
    check_begun()?;
    let mut sessions = lock(&SESSIONS);
    sessions.0 += 1;
    let made = sessions.0;
    sessions.1.insert(made);
    session.set(number(made));
    Ok(())
}

pub fn pvar_session_free(session: OutPointer) -> Told {
    check_session(session.get())?;
    lock(&SESSIONS).1.remove(&session.get());
    session.set(core::ptr::null_mut());
    Ok(())
}

pub fn pvar_handle_alloc(session: Pointer, index: Int, _object: Pointer, handle: OutPointer, count: Out<i32>) -> Told {
    check_session(session.0)?;
    counter(index.0)?;
    handle.set(number(index.0 as usize + ALL_HANDLES + 1));
    count.set(1);
    Ok(())
}

pub fn pvar_handle_free(session: Pointer, handle: OutPointer) -> Told {
    counter_of(session, Pointer(handle.get()))?;
    handle.set(core::ptr::null_mut());
    Ok(())
}

/// Counters always run; of all handles, those that can be started or stopped are none.
pub fn pvar_switch(session: Pointer, handle: Pointer) -> Told {
    check_session(session.0)?;
    if handle.0 == ALL_HANDLES {
        return Ok(());
    }
    counter_of(session, handle)?;
    Err(Trouble::NoStartStop)
}

pub fn pvar_read(session: Pointer, handle: Pointer, buf: Buffer) -> Told {
    let (_, _, _, read) = counter_of(session, handle)?;
    let value = process::joined().map_or(0, |joined| read(&joined.engine));
    if !buf.0.is_null() {
        // SAFETY: the program has room for a value of the datatype that it was told.
        unsafe { buf.0.cast::<u64>().write_unaligned(value) };
    }
    Ok(())
}

pub fn pvar_change(session: Pointer, handle: Pointer) -> Told {
    check_session(session.0)?;
    if handle.0 == ALL_HANDLES {
        return Ok(());
    }
    counter_of(session, handle)?;
    Err(Trouble::NoWrite)
}

/// The categories: name and meaning.
const CATEGORIES: [(&str, &str); 2] = [
    ("settings", "settings of this process, which the environment gives"),
    ("counters", "counters of messages and windows of this process"),
];

fn category(index: Int) -> Result<usize, Trouble> {
    check_begun()?;
    let found = usize::try_from(index.0).ok().filter(|index| *index < CATEGORIES.len());
    found.ok_or(Trouble::Index)
}

/// The numbers of control variables and of performance variables of a category.
fn sizes(category: usize) -> [usize; 2] {
    [[settings().len(), 0], [0, COUNTERS.len()]][category]
}

pub fn category_get_num(num: Out<i32>) -> Told {
    check_begun()?;
    num.set(CATEGORIES.len() as i32);
    Ok(())
}

pub fn category_get_num_events(index: Int, num: Out<i32>) -> Told {
    category(index)?;
    num.set(0);
    Ok(())
}

pub fn category_get_info(
    index: Int,
    name: NewString,
    name_len: Out<i32>,
    desc: NewString,
    desc_len: Out<i32>,
    num_cvars: Out<i32>,
    num_pvars: Out<i32>,
    num_categories: Out<i32>,
) -> Told {
    let found = category(index)?;
    let (text, meaning) = CATEGORIES[found];
    tell(text, name, name_len);
    tell(meaning, desc, desc_len);
    let [cvars, pvars] = sizes(found);
    num_cvars.set(cvars as i32);
    num_pvars.set(pvars as i32);
    num_categories.set(0);
    Ok(())
}

pub fn category_get_index(name: Text, index: Out<i32>) -> Told {
    check_begun()?;
    let name = name.text();
    let found = CATEGORIES.iter().position(|category| category.0 == name);
    index.set(found.ok_or(Trouble::Name)? as i32);
    Ok(())
}

pub fn category_get_cvars(index: Int, len: Int, indices: OutInts) -> Told {
    let [cvars, _] = sizes(category(index)?);
    indices.fill((0..len.0.max(0)).take(cvars));
    Ok(())
}

pub fn category_get_pvars(index: Int, len: Int, indices: OutInts) -> Told {
    let [_, pvars] = sizes(category(index)?);
    indices.fill((0..len.0.max(0)).take(pvars));
    Ok(())
}

pub fn category_get_none(index: Int) -> Told {
    category(index).map(drop)
}

pub fn category_changed(update_number: Out<i32>) -> Told {
    check_begun()?;
    update_number.set(0);
    Ok(())
}

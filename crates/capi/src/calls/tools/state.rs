//! What tools have: how often they have begun the interface, their handles and their sessions.

use core::{ffi::c_void, ptr};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use super::trouble::{Told, Trouble};
use crate::{
    abi::ThreadLevel,
    border::{Constant, Int, NewString, Out, OutConstant, OutPointer},
    objects::lock,
};

/// `MPI_T_PVAR_ALL_HANDLES`.
pub(super) const ALL_HANDLES: usize = 1;

/// All that tools have made. A number is given out once, so that the use of one that was freed is noticed.
#[derive(Debug)]
struct Tools {
    /// How often the interface has begun and not ended.
    begun: u32,
    /// The latest number of a handle or session; those of constants are not given out.
    latest: usize,
    /// Handles of settings: the index of each.
    settings: BTreeMap<usize, usize>,
    sessions: BTreeSet<usize>,
    /// Handles of counters: session and index of each.
    counters: BTreeMap<usize, (usize, usize)>,
}

static TOOLS: Mutex<Tools> = Mutex::new(Tools {
    begun: 0,
    latest: ALL_HANDLES,
    settings: BTreeMap::new(),
    sessions: BTreeSet::new(),
    counters: BTreeMap::new(),
});

impl Tools {
    fn number(&mut self) -> usize {
        self.latest += 1;
        self.latest
    }

    fn check_session(&self, session: usize) -> Told {
        self.sessions.contains(&session).then_some(()).ok_or(Trouble::Session)
    }

    fn counter(&self, session: usize, handle: usize) -> Result<usize, Trouble> {
        self.check_session(session)?;
        let found = self.counters.get(&handle).filter(|(of, _)| *of == session);
        found.map(|(_, index)| *index).ok_or(Trouble::Handle)
    }
}

/// Calls `f` with what tools have, if the interface has begun.
fn with<R>(f: impl FnOnce(&mut Tools) -> Result<R, Trouble>) -> Result<R, Trouble> {
    let mut tools = lock(&TOOLS);
    if tools.begun == 0 {
        return Err(Trouble::NotInitialized);
    }
    f(&mut tools)
}

/// Hands a new number to the program.
fn give(to: OutPointer, make: impl FnOnce(&mut Tools) -> Result<usize, Trouble>) -> Told {
    with(|tools| {
        if to.is_null() {
            return Err(Trouble::Invalid);
        }
        to.set(ptr::without_provenance_mut(make(tools)?));
        Ok(())
    })
}

/// Takes a number from the program.
fn take(from: OutPointer, free: impl FnOnce(&mut Tools, usize) -> Told) -> Told {
    with(|tools| {
        free(tools, from.get())?;
        from.set(ptr::null_mut::<c_void>());
        Ok(())
    })
}

/// Checks that the interface has begun.
pub(super) fn check() -> Told {
    with(|_| Ok(()))
}

pub fn init_thread(required: Constant<ThreadLevel>, provided: OutConstant<ThreadLevel>) -> Told {
    lock(&TOOLS).begun += 1;
    provided.set(required.0.clamp(ThreadLevel::SINGLE, ThreadLevel::MULTIPLE));
    Ok(())
}

/// With the last one everything ends that tools have made.
pub fn finalize() -> Told {
    with(|tools| {
        tools.begun -= 1;
        if tools.begun == 0 {
            tools.settings.clear();
            tools.sessions.clear();
            tools.counters.clear();
        }
        Ok(())
    })
}

/// Makes a handle of the setting with this index.
pub(super) fn make_setting(index: usize, handle: OutPointer) -> Told {
    give(handle, |tools| {
        let number = tools.number();
        tools.settings.insert(number, index);
        Ok(number)
    })
}

/// Frees a handle of a setting.
pub(super) fn free_setting(handle: OutPointer) -> Told {
    take(handle, |tools, handle| {
        let freed = tools.settings.remove(&handle);
        freed.map(drop).ok_or(Trouble::Handle)
    })
}

/// The index of the setting with this handle.
pub(super) fn setting(handle: usize) -> Result<usize, Trouble> {
    with(|tools| tools.settings.get(&handle).copied().ok_or(Trouble::Handle))
}

/// Begins a session.
pub(super) fn make_session(session: OutPointer) -> Told {
    give(session, |tools| {
        let number = tools.number();
        tools.sessions.insert(number);
        Ok(number)
    })
}

/// Ends a session, with its handles.
pub(super) fn free_session(session: OutPointer) -> Told {
    take(session, |tools, session| {
        tools.check_session(session)?;
        tools.sessions.remove(&session);
        tools.counters.retain(|_, (of, _)| *of != session);
        Ok(())
    })
}

/// Checks that this is a session.
pub(super) fn check_session(session: usize) -> Told {
    with(|tools| tools.check_session(session))
}

/// Makes a handle of the counter with this index.
pub(super) fn make_counter(session: usize, index: usize, handle: OutPointer) -> Told {
    give(handle, |tools| {
        tools.check_session(session)?;
        let number = tools.number();
        tools.counters.insert(number, (session, index));
        Ok(number)
    })
}

/// Frees a handle of a counter.
pub(super) fn free_counter(session: usize, handle: OutPointer) -> Told {
    take(handle, |tools, handle| {
        tools.counter(session, handle)?;
        tools.counters.remove(&handle);
        Ok(())
    })
}

/// The index of the counter with this handle.
pub(super) fn counter(session: usize, handle: usize) -> Result<usize, Trouble> {
    with(|tools| tools.counter(session, handle))
}

/// The one of `all` with this index, and the index.
pub(super) fn by_index<T>(all: &[T], index: Int) -> Result<(usize, &T), Trouble> {
    check()?;
    let found = usize::try_from(index.0).ok();
    found
        .and_then(|index| Some((index, all.get(index)?)))
        .ok_or(Trouble::Index)
}

/// Gives a text of which the program says how much it has room for, and the length of the whole.
pub(super) fn tell(text: &str, to: NewString, len: Out<i32>) {
    if len.is_null() {
        return;
    }
    to.set(text.as_bytes(), usize::try_from(len.get()).unwrap_or(0));
    len.set(text.len() as i32 + 1);
}

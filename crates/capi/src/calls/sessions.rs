//! Sessions (MPI 11.3).

use std::sync::Mutex;

use hikyaku::mpi::{engine::Engine, error::ErrorClass, group, info::Info as Hints};

use super::{Done, communicators::engine, groups, infos::give};
use crate::{
    abi::Sort,
    border::{Call, Failure, InOut, Int, NewString, Out, Pointer, Scope, Text},
    errors,
    objects::{Buffered, Errhandler, Handler, Info, InfoObject, Ranks, Session, SessionObject, lock},
    process,
};

#[doc(hidden)]
#[macro_export]
macro_rules! sessions {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Session_init" => sessions::session_init(
                    info: Info, errhandler: Errhandler, session: InOut<SessionObject>);
                "Session_finalize" => sessions::session_finalize(session: InOut<SessionObject>);
                "Session_get_info" => sessions::session_get_info(session: Session, info_used: InOut<InfoObject>);
                "Session_get_num_psets" => sessions::session_get_num_psets(
                    session: Session, info: Info, npset_names: Out<i32>);
                "Session_get_nth_pset" => sessions::session_get_nth_pset(
                    session: Session, info: Info, n: Int, pset_len: Out<i32>, pset_name: NewString);
                "Session_get_pset_info" => sessions::session_get_pset_info(
                    session: Session, pset_name: Text, info: InOut<InfoObject>);
                "Group_from_session_pset" => sessions::group_from_session_pset(
                    session: Session, pset_name: Text, newgroup: InOut<Group>);
                "Session_create_errhandler" => sessions::session_create_errhandler(
                    function: Pointer, errhandler: InOut<Handler>);
                "Session_set_errhandler" => sessions::session_set_errhandler(
                    session: Session, errhandler: Errhandler);
                "Session_get_errhandler" => sessions::session_get_errhandler(
                    session: Session, errhandler: InOut<Handler>);
                "Session_call_errhandler" => sessions::session_call_errhandler(session: Session, errorcode: Int);
            }
        };
    };
}

pub fn session_init(_call: Call, _info: Info, errhandler: Errhandler, session: InOut<SessionObject>) -> Done {
    let handler = Handler::for_sort(Sort::Session, errhandler)?;
    process::begin_session()?;
    session.set(Session::insert(SessionObject {
        handler: Mutex::new(handler),
        buffered: Buffered::default(),
    }));
    Ok(())
}

pub fn session_finalize(_call: Call, session: InOut<SessionObject>) -> Done {
    session.get().remove()?;
    session.set(Session::NULL);
    process::end_session()
}

pub fn session_get_info(_call: Call, session: Session, info_used: InOut<InfoObject>) -> Done {
    session.get()?;
    let mut hints = Hints::default();
    hints.set("thread_level", "MPI_THREAD_MULTIPLE");
    give(info_used, hints);
    Ok(())
}

pub fn session_get_num_psets(_call: Call, session: Session, _info: Info, npset_names: Out<i32>) -> Done {
    session.get()?;
    npset_names.set(Engine::PROCESS_SETS.len() as i32);
    Ok(())
}

pub fn session_get_nth_pset(
    _call: Call,
    session: Session,
    _info: Info,
    n: Int,
    pset_len: Out<i32>,
    pset_name: NewString,
) -> Done {
    session.get()?;
    let name = usize::try_from(n.0)
        .ok()
        .and_then(|number| Engine::PROCESS_SETS.get(number));
    let last = Engine::PROCESS_SETS.len() as i64 - 1;
    let name = name.ok_or_else(|| Failure::value(ErrorClass::Arg, "n", n.0.into(), 0, last))?;
    pset_name.set(name.as_bytes(), usize::try_from(pset_len.get()).unwrap_or(0));
    pset_len.set(name.len() as i32 + 1);
    Ok(())
}

fn set(session: Session, name: Text) -> Result<group::Group, Failure> {
    session.get()?;
    let found = engine()?.process_set(&name.text());
    found.ok_or_else(|| Failure::text(ErrorClass::Arg, "there is no such process set"))
}

pub fn session_get_pset_info(_call: Call, session: Session, pset_name: Text, info: InOut<InfoObject>) -> Done {
    let mut hints = Hints::default();
    hints.set("mpi_size", &set(session, pset_name)?.size().to_string());
    give(info, hints);
    Ok(())
}

pub fn group_from_session_pset(_call: Call, session: Session, pset_name: Text, newgroup: InOut<group::Group>) -> Done {
    let made = Ranks::insert(set(session, pset_name)?);
    groups::note_session(made, session);
    newgroup.set(made);
    Ok(())
}

pub fn session_create_errhandler(_call: Call, function: Pointer, errhandler: InOut<Handler>) -> Done {
    errhandler.set(Handler::calling(function.0, Sort::Session));
    Ok(())
}

pub fn session_set_errhandler(_call: Call, session: Session, errhandler: Errhandler) -> Done {
    let object = session.get()?;
    *lock(&object.handler) = Handler::for_sort(Sort::Session, errhandler)?;
    Ok(())
}

pub fn session_get_errhandler(_call: Call, session: Session, errhandler: InOut<Handler>) -> Done {
    errhandler.set(Handler::give(&lock(&session.get()?.handler)));
    Ok(())
}

pub fn session_call_errhandler(call: Call, session: Session, errorcode: Int) -> Done {
    session.get()?;
    let scope = Scope {
        sort: Sort::Session,
        handle: session.handle(),
    };
    errors::handle(call, Some(scope), errorcode.0);
    Ok(())
}

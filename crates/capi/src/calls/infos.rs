//! Info objects (MPI 10), and names of communicators (MPI 7.8).

use std::sync::Mutex;

use hikyaku::mpi::{error::ErrorClass, info::Info as Hints};

use super::Done;
use crate::{
    border::{Call, Failure, InOut, Int, NewString, Out, Pointer, Text},
    objects::{Comm, Info, InfoObject, lock},
};

#[doc(hidden)]
#[macro_export]
macro_rules! infos {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Info_create" => infos::info_create(info: InOut<InfoObject>);
                "Info_create_env" => infos::info_create_env(argc: Int, argv: Pointer, info: InOut<InfoObject>);
                "Info_free" => infos::info_free(info: InOut<InfoObject>);
                "Info_dup" => infos::info_dup(info: Info, newinfo: InOut<InfoObject>);
                "Info_set" => infos::info_set(info: Info, key: Text, value: Text);
                "Info_get" => infos::info_get(
                    info: Info, key: Text, valuelen: Int, value: NewString, flag: Out<i32>);
                "Info_get_string" => infos::info_get_string(
                    info: Info, key: Text, buflen: Out<i32>, value: NewString, flag: Out<i32>);
                "Info_get_valuelen" => infos::info_get_valuelen(
                    info: Info, key: Text, valuelen: Out<i32>, flag: Out<i32>);
                "Info_get_nkeys" => infos::info_get_nkeys(info: Info, nkeys: Out<i32>);
                "Info_get_nthkey" => infos::info_get_nthkey(info: Info, n: Int, key: NewString);
                "Info_delete" => infos::info_delete(info: Info, key: Text);
                "Comm_set_info" => infos::comm_set_info(comm: Comm, info: Info);
                "Comm_get_info" => infos::comm_get_info(comm: Comm, info_used: InOut<InfoObject>);
                "Comm_set_name" => infos::comm_set_name(comm: Comm, name: Text);
                "Comm_get_name" => infos::comm_get_name(comm: Comm, name: NewString, resultlen: Out<i32>);
            }
        };
    };
}

/// `MPI_MAX_INFO_KEY` and `MPI_MAX_INFO_VAL`, with the zero at the end.
const fn limits(call: Call) -> (usize, usize) {
    ([256, 255][call.encoding.column], 1024)
}
/// `MPI_MAX_OBJECT_NAME`, with the zero at the end.
const NAME: usize = 128;

/// A key, if it may be one.
fn key(call: Call, key: Text) -> Result<String, Failure> {
    let key = key.text();
    if key.is_empty() || key.len() >= limits(call).0 {
        return Err(Failure::text(ErrorClass::InfoKey, "the key is empty, or too long"));
    }
    Ok(key)
}

/// Hands out an info object.
pub(crate) fn give(to: InOut<InfoObject>, hints: Hints) {
    to.set(Info::insert(InfoObject(Mutex::new(hints))));
}

pub fn info_create(_call: Call, info: InOut<InfoObject>) -> Done {
    give(info, Hints::default());
    Ok(())
}

pub fn info_create_env(_call: Call, _argc: Int, _argv: Pointer, info: InOut<InfoObject>) -> Done {
    give(info, InfoObject::of_process());
    Ok(())
}

pub fn info_free(_call: Call, info: InOut<InfoObject>) -> Done {
    info.get().remove()?;
    info.set(Info::NULL);
    Ok(())
}

pub fn info_dup(_call: Call, info: Info, newinfo: InOut<InfoObject>) -> Done {
    let hints = lock(&info.get()?.0).clone();
    give(newinfo, hints);
    Ok(())
}

pub fn info_set(call: Call, info: Info, name: Text, value: Text) -> Done {
    let (object, name, value) = (info.get()?, key(call, name)?, value.text());
    if info.is_predefined() {
        return Err(Failure::text(
            ErrorClass::Info,
            "it is predefined, and cannot be changed",
        ));
    }
    if value.len() >= limits(call).1 {
        return Err(Failure::text(ErrorClass::InfoValue, "the value is too long"));
    }
    lock(&object.0).set(&name, &value);
    Ok(())
}

pub fn info_get(call: Call, info: Info, name: Text, valuelen: Int, value: NewString, flag: Out<i32>) -> Done {
    let (object, name) = (info.get()?, key(call, name)?);
    let wrong = |_| Failure::text(ErrorClass::Arg, "valuelen is negative");
    let room = usize::try_from(valuelen.0).map_err(wrong)?;
    let hints = lock(&object.0);
    let found = hints.get(&name);
    flag.set_flag(found.is_some());
    if let Some(found) = found {
        value.set(found.as_bytes(), room + 1);
    }
    Ok(())
}

pub fn info_get_string(call: Call, info: Info, name: Text, buflen: Out<i32>, value: NewString, flag: Out<i32>) -> Done {
    let (object, name) = (info.get()?, key(call, name)?);
    let hints = lock(&object.0);
    let found = hints.get(&name);
    flag.set_flag(found.is_some());
    if let Some(found) = found {
        value.set(found.as_bytes(), usize::try_from(buflen.get()).unwrap_or(0));
        buflen.set(found.len() as i32 + 1);
    }
    Ok(())
}

pub fn info_get_valuelen(call: Call, info: Info, name: Text, valuelen: Out<i32>, flag: Out<i32>) -> Done {
    let (object, name) = (info.get()?, key(call, name)?);
    let hints = lock(&object.0);
    let found = hints.get(&name);
    flag.set_flag(found.is_some());
    if let Some(found) = found {
        valuelen.set(found.len() as i32);
    }
    Ok(())
}

pub fn info_get_nkeys(_call: Call, info: Info, nkeys: Out<i32>) -> Done {
    nkeys.set(lock(&info.get()?.0).len() as i32);
    Ok(())
}

pub fn info_get_nthkey(call: Call, info: Info, n: Int, to: NewString) -> Done {
    let object = info.get()?;
    let hints = lock(&object.0);
    let found = usize::try_from(n.0).ok().and_then(|number| hints.key(number));
    let last = hints.len() as i64 - 1;
    let found = found.ok_or_else(|| Failure::value(ErrorClass::Arg, "n", n.0.into(), 0, last))?;
    to.set(found.as_bytes(), limits(call).0);
    Ok(())
}

pub fn info_delete(call: Call, info: Info, name: Text) -> Done {
    let (object, name) = (info.get()?, key(call, name)?);
    let missing = || Failure::text(ErrorClass::InfoNokey, "there is no such key");
    lock(&object.0).remove(&name).then_some(()).ok_or_else(missing)
}

/// Hints for communicators: there are none that this library knows.
pub fn comm_set_info(_call: Call, comm: Comm, info: Info) -> Done {
    comm.get()?;
    if !info.is_null() {
        info.get()?;
    }
    Ok(())
}

pub fn comm_get_info(_call: Call, comm: Comm, info_used: InOut<InfoObject>) -> Done {
    comm.get()?;
    give(info_used, Hints::default());
    Ok(())
}

/// A name, cut to the length that names have.
pub(crate) fn name(text: Text) -> String {
    let bytes = text.bytes();
    String::from_utf8_lossy(&bytes[..bytes.len().min(NAME - 1)]).into_owned()
}

pub fn comm_set_name(_call: Call, comm: Comm, text: Text) -> Done {
    let object = comm.get()?;
    *lock(&object.name) = name(text);
    Ok(())
}

pub fn comm_get_name(_call: Call, comm: Comm, to: NewString, resultlen: Out<i32>) -> Done {
    // The null communicator has a name, too.
    let text = if comm.is_null() {
        "MPI_COMM_NULL".to_owned()
    } else {
        lock(&comm.get()?.name).clone()
    };
    resultlen.set(to.set(text.as_bytes(), NAME) as i32);
    Ok(())
}

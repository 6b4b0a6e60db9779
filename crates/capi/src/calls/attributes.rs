#![expect(unsafe_code, reason = "takes callbacks of the program")]
//! Attributes (MPI 7.7, 12.2.6, 16.1).

use core::ffi::c_void;
use std::sync::atomic::{AtomicI32, Ordering};

use hikyaku::mpi::{
    engine::{ANY_SOURCE, PROC_NULL, TAG_UB},
    error::ErrorClass,
};

use super::Done;
use crate::{
    abi::{Handle, Keyval, Sort},
    border::{Call, Constant, Failure, Out, OutPointer, Pointer, Rank},
    errors,
    objects::{Attributes, Callbacks, Comm, Type, create_key, free_key, key},
    process,
};

#[doc(hidden)]
#[macro_export]
macro_rules! attributes {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Comm_create_keyval" => attributes::comm_create_keyval(
                    copy_fn: Pointer, delete_fn: Pointer, keyval: Out<i32>, extra_state: Pointer);
                "Comm_free_keyval" => attributes::comm_free_keyval(keyval: Out<i32>);
                "Comm_set_attr" => attributes::comm_set_attr(comm: Comm, keyval: Constant<Keyval>, value: Pointer);
                "Comm_get_attr" => attributes::comm_get_attr(
                    comm: Comm, keyval: Constant<Keyval>, value: OutPointer, flag: Out<i32>);
                "Comm_delete_attr" => attributes::comm_delete_attr(comm: Comm, keyval: Constant<Keyval>);
                "Type_create_keyval" => attributes::type_create_keyval(
                    copy_fn: Pointer, delete_fn: Pointer, keyval: Out<i32>, extra_state: Pointer);
                "Type_free_keyval" => attributes::type_free_keyval(keyval: Out<i32>);
                "Type_set_attr" => attributes::type_set_attr(datatype: Type, keyval: Constant<Keyval>, value: Pointer);
                "Type_get_attr" => attributes::type_get_attr(
                    datatype: Type, keyval: Constant<Keyval>, value: OutPointer, flag: Out<i32>);
                "Type_delete_attr" => attributes::type_delete_attr(datatype: Type, keyval: Constant<Keyval>);
                "Keyval_create" => attributes::comm_create_keyval(
                    copy_fn: Pointer, delete_fn: Pointer, keyval: Out<i32>, extra_state: Pointer);
                "Keyval_free" => attributes::comm_free_keyval(keyval: Out<i32>);
                "Attr_put" => attributes::comm_set_attr(comm: Comm, keyval: Constant<Keyval>, value: Pointer);
                "Attr_get" => attributes::comm_get_attr(
                    comm: Comm, keyval: Constant<Keyval>, value: OutPointer, flag: Out<i32>);
                "Attr_delete" => attributes::comm_delete_attr(comm: Comm, keyval: Constant<Keyval>);
            }
        };
    };
}

type Key = Constant<Keyval>;

pub(crate) fn create(call: Call, sort: Sort, copy: Pointer, delete: Pointer, keyval: Out<i32>, extra: Pointer) -> Done {
    let callbacks = Callbacks {
        copy: copy.0,
        delete: delete.0,
        extra: extra.0,
    };
    // SAFETY: the program says that they are.
    keyval.set(unsafe { create_key(call.encoding, sort, callbacks) }?);
    Ok(())
}

pub(crate) fn free(call: Call, sort: Sort, keyval: Out<i32>) -> Done {
    free_key(sort, keyval.get())?;
    keyval.set(crate::border::encode_constant::<Keyval>(call.encoding, Keyval::INVALID));
    Ok(())
}

/// The key of an attribute that programs may change.
fn own(
    sort: Sort,
    keyval: Key,
) -> Result<std::sync::Arc<hikyaku::mpi::attribute::Keyval<Handle, usize, i32>>, Failure> {
    if (Keyval::TAG_UB..=Keyval::WIN_MODEL).contains(&keyval.0) {
        return Err(Failure::text(ErrorClass::Keyval, "the attribute is MPI's own"));
    }
    key(sort, keyval.0)
}

pub(crate) fn set(sort: Sort, (object, all): (Handle, &Attributes), keyval: Key, value: Pointer) -> Done {
    all.set(&object, &own(sort, keyval)?, value.0).map_err(Failure::Code)
}

pub(crate) fn get(sort: Sort, all: &Attributes, keyval: Key, value: OutPointer, flag: Out<i32>) -> Done {
    let found = all.get(&key(sort, keyval.0)?);
    flag.set_flag(found.is_some());
    if let Some(found) = found {
        value.set(core::ptr::with_exposed_provenance_mut(found));
    }
    Ok(())
}

pub(crate) fn delete(sort: Sort, (object, all): (Handle, &Attributes), keyval: Key) -> Done {
    let deleted = all.delete(&object, &own(sort, keyval)?).map_err(Failure::Code)?;
    let missing = || Failure::text(ErrorClass::Keyval, "there is no such attribute");
    deleted.then_some(()).ok_or_else(missing)
}

/// The address of a predefined attribute of communicators, in memory that stays.
fn predefined(call: Call, keyval: i32) -> Option<*mut c_void> {
    static PLACES: [[AtomicI32; 7]; 2] = [const { [const { AtomicI32::new(0) }; 7] }; 2];
    let joined = process::joined()?;
    let value = match keyval {
        Keyval::TAG_UB => TAG_UB,
        Keyval::IO => Rank::encode(call.encoding, ANY_SOURCE),
        Keyval::HOST => Rank::encode(call.encoding, PROC_NULL),
        Keyval::WTIME_IS_GLOBAL => 0,
        Keyval::APPNUM => joined.app_number as i32,
        Keyval::LASTUSEDCODE => errors::codes(call.encoding, |codes| codes.last_used()),
        Keyval::UNIVERSE_SIZE => joined.engine.size() as i32,
        _ => return None,
    };
    let place = &PLACES[call.encoding.column][(keyval - Keyval::TAG_UB) as usize];
    place.store(value, Ordering::Relaxed);
    Some(place.as_ptr().cast())
}

pub fn comm_create_keyval(call: Call, copy_fn: Pointer, delete_fn: Pointer, keyval: Out<i32>, extra: Pointer) -> Done {
    create(call, Sort::Comm, copy_fn, delete_fn, keyval, extra)
}

pub fn comm_free_keyval(call: Call, keyval: Out<i32>) -> Done {
    free(call, Sort::Comm, keyval)
}

pub fn comm_set_attr(_call: Call, comm: Comm, keyval: Key, value: Pointer) -> Done {
    set(Sort::Comm, (comm.handle(), &comm.get()?.attributes), keyval, value)
}

pub fn comm_get_attr(call: Call, comm: Comm, keyval: Key, value: OutPointer, flag: Out<i32>) -> Done {
    let object = comm.get()?;
    if let Some(address) = predefined(call, keyval.0) {
        value.set(address);
        flag.set_flag(true);
        return Ok(());
    }
    get(Sort::Comm, &object.attributes, keyval, value, flag)
}

pub fn comm_delete_attr(_call: Call, comm: Comm, keyval: Key) -> Done {
    delete(Sort::Comm, (comm.handle(), &comm.get()?.attributes), keyval)
}

pub fn type_create_keyval(call: Call, copy_fn: Pointer, delete_fn: Pointer, keyval: Out<i32>, extra: Pointer) -> Done {
    create(call, Sort::Type, copy_fn, delete_fn, keyval, extra)
}

pub fn type_free_keyval(call: Call, keyval: Out<i32>) -> Done {
    free(call, Sort::Type, keyval)
}

pub fn type_set_attr(_call: Call, datatype: Type, keyval: Key, value: Pointer) -> Done {
    set(
        Sort::Type,
        (datatype.handle(), &datatype.get()?.attributes),
        keyval,
        value,
    )
}

pub fn type_get_attr(_call: Call, datatype: Type, keyval: Key, value: OutPointer, flag: Out<i32>) -> Done {
    get(Sort::Type, &datatype.get()?.attributes, keyval, value, flag)
}

pub fn type_delete_attr(_call: Call, datatype: Type, keyval: Key) -> Done {
    delete(Sort::Type, (datatype.handle(), &datatype.get()?.attributes), keyval)
}

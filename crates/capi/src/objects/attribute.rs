#![expect(unsafe_code, reason = "calls functions of the program")]
//! Attributes and their keys.

use core::ffi::c_void;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use hikyaku::mpi::{attribute, error::ErrorClass};

use super::lock;
use crate::{
    abi::{Encoding, Handle, Sort},
    border::{Failure, native_handle},
};

/// The attributes of an object: pointers of the program.
pub type Attributes = attribute::Attributes<Handle, usize, i32>;
type Keyval = attribute::Keyval<Handle, usize, i32>;

/// Keys by their numbers, with the sort of objects that each is for.
type Keys = BTreeMap<i32, (Sort, Arc<Keyval>)>;

/// The number of the latest key of the process, and the keys.
static KEYS: Mutex<(i32, Keys)> = Mutex::new((FIRST, BTreeMap::new()));
/// Keys of programs are above this, and below those that MPICH predefines.
const FIRST: i32 = 10_000;
const LAST: i32 = 0x2000_0000;

/// The callbacks of a key.
#[derive(Clone, Copy, Debug)]
pub struct Callbacks {
    /// The address of the function that copies; 0: nothing is copied; 1: the pointer is.
    pub copy: usize,
    /// The address of the function that deletes; 0: there is none.
    pub delete: usize,
    /// Its first argument that is the program's.
    pub extra: usize,
}

type Copy = unsafe extern "C-unwind" fn(i64, i32, *mut c_void, *mut c_void, *mut c_void, *mut i32) -> i32;
type Delete = unsafe extern "C-unwind" fn(i64, i32, *mut c_void, *mut c_void) -> i32;

/// A pointer of the program as a function gets it.
fn pointer(address: usize) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(address)
}

/// A new key for objects of this sort.
///
/// # Errors
/// There are no more.
///
/// # Safety
/// The callbacks are such functions.
pub unsafe fn create_key(encoding: &'static Encoding, sort: Sort, callbacks: Callbacks) -> Result<i32, Failure> {
    let mut keys = lock(&KEYS);
    let number = keys.0 + 1;
    if number == LAST {
        return Err(Failure::text(ErrorClass::Other, "there are no more attribute keys"));
    }
    let Callbacks { copy, delete, extra } = callbacks;
    let copy = move |object: &Handle, value: &usize| match copy {
        0 => Ok(None),
        1 => Ok(Some(*value)),
        address => {
            // SAFETY: the caller's contract.
            let copy: Copy = unsafe { core::mem::transmute(pointer(address)) };
            let (mut made, mut is_made) = (core::ptr::null_mut::<c_void>(), 0);
            let object = native_handle(encoding, sort, *object);
            let to: *mut c_void = (&raw mut made).cast();
            // SAFETY: as above. A handle that is an `int` is the lower half of its argument.
            let code = unsafe { copy(object, number, pointer(extra), pointer(*value), to, &raw mut is_made) };
            if code == 0 {
                Ok((is_made != 0).then(|| made.expose_provenance()))
            } else {
                Err(code)
            }
        }
    };
    let delete = move |object: &Handle, value: usize| {
        if delete == 0 {
            return Ok(());
        }
        // SAFETY: the caller's contract.
        let delete: Delete = unsafe { core::mem::transmute(pointer(delete)) };
        let object = native_handle(encoding, sort, *object);
        // SAFETY: as above.
        let code = unsafe { delete(object, number, pointer(value), pointer(extra)) };
        if code == 0 { Ok(()) } else { Err(code) }
    };
    keys.0 = number;
    keys.1.insert(number, (sort, Arc::new(Keyval::new(copy, delete))));
    Ok(number)
}

/// The key of this number.
///
/// # Errors
/// There is none, or it is for objects of another sort.
pub fn key(sort: Sort, number: i32) -> Result<Arc<Keyval>, Failure> {
    let keys = lock(&KEYS);
    let found = keys.1.get(&number).filter(|found| found.0 == sort);
    found
        .map(|(_, key)| Arc::clone(key))
        .ok_or_else(|| Failure::text(ErrorClass::Keyval, "the program has made no such key, or has freed it"))
}

/// Frees a key; attributes that have it keep their callbacks.
///
/// # Errors
/// As [`key`].
pub fn free_key(sort: Sort, number: i32) -> Result<(), Failure> {
    key(sort, number)?;
    lock(&KEYS).1.remove(&number);
    Ok(())
}

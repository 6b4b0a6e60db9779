#![expect(unsafe_code, reason = "calls functions of the program")]
//! Operations of reductions.

use core::ffi::c_void;
use std::sync::{Arc, LazyLock};

use hikyaku::mpi::{
    datatype::Datatype,
    operation::{self, Predefined},
};

use crate::{
    abi::{Encoding, Handle, Sort},
    border::native_handle,
    objects::Datatype as Named,
};

/// The predefined operations: the standard's numbers.
const PREDEFINED: &[(u32, Predefined)] = &[
    (0x21, Predefined::Sum),
    (0x22, Predefined::Min),
    (0x23, Predefined::Max),
    (0x24, Predefined::Prod),
    (0x28, Predefined::Band),
    (0x29, Predefined::Bor),
    (0x2a, Predefined::Bxor),
    (0x30, Predefined::Land),
    (0x31, Predefined::Lor),
    (0x32, Predefined::Lxor),
    (0x38, Predefined::Minloc),
    (0x39, Predefined::Maxloc),
    (0x3c, Predefined::Replace),
    (0x3d, Predefined::NoOp),
];

/// A function of the program that reduces.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its address.
    pub address: usize,
    /// It takes counts of type `MPI_Count`.
    pub wide: bool,
    /// The ABI of the program.
    pub encoding: &'static Encoding,
}

/// An operation of the program.
#[derive(Debug)]
pub struct Operation {
    /// The engine's.
    pub operation: operation::Operation,
}

impl Operation {
    pub(super) fn predefined(number: u32) -> Option<&'static Arc<Self>> {
        static ALL: LazyLock<Vec<(u32, Arc<Operation>)>> = LazyLock::new(|| {
            let make = |(number, predefined): &(u32, Predefined)| {
                let operation = operation::Operation::predefined(*predefined);
                (*number, Arc::new(Operation { operation }))
            };
            PREDEFINED.iter().map(make).collect()
        });
        ALL.iter().find(|row| row.0 == number).map(|row| &row.1)
    }

    /// The operation that `function` is. Only threads of the program that are inside a call run it.
    ///
    /// # Safety
    /// It is an `MPI_User_function`, or an `MPI_User_function_c` if it is `wide`, and does what MPI demands of one.
    #[must_use]
    pub unsafe fn user(function: Function, is_commutative: bool) -> Self {
        let run = move |input: *const u8, inout: *mut u8, count: u64, datatype: &Datatype| {
            Named::lend(datatype, |handle| {
                // SAFETY: the caller's contract, and the engine's: these are elements of that type.
                unsafe { function.call(input, inout, count, (datatype, handle)) }
            });
        };
        // SAFETY: the caller's contract.
        let operation = unsafe { operation::Operation::user(is_commutative, run) };
        Self {
            operation: operation.in_calls_only(),
        }
    }
}

impl Function {
    /// # Safety
    /// The contract of [`Operation::user`], and these are elements of the datatype, which has this handle.
    unsafe fn call(self, input: *const u8, inout: *mut u8, count: u64, (datatype, handle): (&Datatype, Handle)) {
        type Of<C> = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut C, *mut c_void);
        // As long as the larger of the two kinds of handles; the lower half comes first in memory.
        let mut handle = native_handle(self.encoding, Sort::Type, handle);
        let handle: *mut c_void = (&raw mut handle).cast();
        let address: *const c_void = core::ptr::with_exposed_provenance(self.address);
        let input = input.cast_mut().cast();
        if self.wide {
            // SAFETY: the caller's contract: it is such a function.
            let function: Of<i64> = unsafe { core::mem::transmute(address) };
            let mut count = count as i64;
            // SAFETY: the caller's contract.
            unsafe { function(input, inout.cast(), &raw mut count, handle) };
            return;
        }
        // SAFETY: the caller's contract: it is such a function.
        let function: Of<i32> = unsafe { core::mem::transmute(address) };
        let (mut done, extent) = (0, datatype.extent() as isize);
        while done < count {
            let mut some = (count - done).min(i32::MAX as u64) as i32;
            let at = extent * done as isize;
            // SAFETY: the caller's contract: the elements from there on are among those given.
            unsafe {
                function(
                    input.wrapping_byte_offset(at),
                    inout.wrapping_offset(at).cast(),
                    &raw mut some,
                    handle,
                )
            };
            done += some as u64;
            if some == 0 {
                break;
            }
        }
    }
}

#![expect(unsafe_code, reason = "truth values of Fortran are where the program says")]
//! What is known of C's and Fortran's types (MPI 20.2, 20.3).

use std::sync::Mutex;

use hikyaku::mpi::{error::ErrorClass, info::Info as Hints};

use super::{Done, infos::give};
use crate::{
    border::{Buffer, Call, Failure, InOut, Int, Out},
    objects::{Info, InfoObject, lock},
};

#[doc(hidden)]
#[macro_export]
macro_rules! fortran {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Abi_get_info" => fortran::abi_get_info(info: InOut<InfoObject>);
                "Abi_get_fortran_info" => fortran::abi_get_fortran_info(info: InOut<InfoObject>);
                "Abi_set_fortran_info" => fortran::abi_set_fortran_info(info: Info);
                "Abi_get_fortran_booleans" => fortran::abi_get_fortran_booleans(
                    logical_size: Int, logical_true: Buffer, logical_false: Buffer, is_set: Out<i32>);
                "Abi_set_fortran_booleans" => fortran::abi_set_fortran_booleans(
                    logical_size: Int, logical_true: Buffer, logical_false: Buffer);
                "Get_hw_resource_info" => fortran::get_hw_resource_info(hw_info: InOut<InfoObject>);
            }
        };
    };
}

/// What a Fortran compiler's library has said of its types.
static TYPES: Mutex<Option<Hints>> = Mutex::new(None);

/// Sizes of `LOGICAL`, with true and false.
type Booleans = Vec<(usize, [Vec<u8>; 2])>;

static BOOLEANS: Mutex<Booleans> = Mutex::new(Vec::new());

pub fn abi_get_info(_call: Call, info: InOut<InfoObject>) -> Done {
    let mut hints = Hints::default();
    for name in ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"] {
        hints.set(name, "8");
    }
    give(info, hints);
    Ok(())
}

pub fn abi_get_fortran_info(_call: Call, info: InOut<InfoObject>) -> Done {
    match &*lock(&TYPES) {
        Some(hints) => give(info, hints.clone()),
        None => info.set(Info::NULL),
    }
    Ok(())
}

fn is_set_already() -> Failure {
    Failure::text(ErrorClass::Abi, "it has been set before")
}

pub fn abi_set_fortran_info(_call: Call, info: Info) -> Done {
    let hints = lock(&info.get()?.0).clone();
    match &mut *lock(&TYPES) {
        Some(_) => Err(is_set_already()),
        types => {
            *types = Some(hints);
            Ok(())
        }
    }
}

fn size(logical_size: Int) -> Result<usize, Failure> {
    match logical_size.0 {
        1 | 2 | 4 | 8 | 16 => Ok(logical_size.0 as usize),
        _ => Err(Failure::text(ErrorClass::Arg, "Fortran has no LOGICAL of this size")),
    }
}

pub fn abi_get_fortran_booleans(
    _call: Call,
    logical_size: Int,
    logical_true: Buffer,
    logical_false: Buffer,
    is_set: Out<i32>,
) -> Done {
    let size = size(logical_size)?;
    let all = lock(&BOOLEANS);
    let found = all.iter().find(|known| known.0 == size);
    is_set.set_flag(found.is_some());
    if let Some((_, values)) = found {
        for (to, value) in [logical_true, logical_false].into_iter().zip(values) {
            if !to.0.is_null() {
                // SAFETY: the program has room for a value of the size that it gives.
                unsafe { to.0.copy_from_nonoverlapping(value.as_ptr(), size) };
            }
        }
    }
    Ok(())
}

pub fn abi_set_fortran_booleans(_call: Call, logical_size: Int, logical_true: Buffer, logical_false: Buffer) -> Done {
    let size = size(logical_size)?;
    if logical_true.0.is_null() || logical_false.0.is_null() {
        return Err(ErrorClass::Arg.into());
    }
    let mut all = lock(&BOOLEANS);
    if all.iter().any(|known| known.0 == size) {
        return Err(is_set_already());
    }
    // SAFETY: the program gives values of this size.
    let value = |from: Buffer| unsafe { core::slice::from_raw_parts(from.0, size) }.to_vec();
    all.push((size, [value(logical_true), value(logical_false)]));
    Ok(())
}

/// Nothing is known of the hardware that could guide a split, beside the host.
pub fn get_hw_resource_info(_call: Call, hw_info: InOut<InfoObject>) -> Done {
    give(hw_info, Hints::default());
    Ok(())
}

#![expect(unsafe_code, reason = "copies statuses of the program")]
//! Handles and statuses as integers (MPI 20), and what only MPICH's ABI has: handles and statuses of Fortran, and
//! constants that are data.

#[doc(hidden)]
#[macro_export]
macro_rules! conversions {
    ($abi:ty) => {
        const _: () = {
            use ::core::ffi::c_void;
            use $crate::abi::Abi;
            type Handle = <$abi as Abi>::Handle;
            $crate::values! { $abi;
                "Comm_toint"(handle: Handle) -> i32 => <$abi>::number(handle) as i32;
                "Errhandler_toint"(handle: Handle) -> i32 => <$abi>::number(handle) as i32;
                "File_toint"(handle: *mut c_void) -> i32 => handle.addr() as i32;
                "Group_toint"(handle: Handle) -> i32 => <$abi>::number(handle) as i32;
                "Info_toint"(handle: Handle) -> i32 => <$abi>::number(handle) as i32;
                "Message_toint"(handle: Handle) -> i32 => <$abi>::number(handle) as i32;
                "Op_toint"(handle: Handle) -> i32 => <$abi>::number(handle) as i32;
                "Request_toint"(handle: Handle) -> i32 => <$abi>::number(handle) as i32;
                "Session_toint"(handle: Handle) -> i32 => <$abi>::number(handle) as i32;
                "Type_toint"(handle: Handle) -> i32 => <$abi>::number(handle) as i32;
                "Win_toint"(handle: Handle) -> i32 => <$abi>::number(handle) as i32;
                "Comm_fromint"(handle: i32) -> Handle => <$abi>::handle(handle.into());
                "Errhandler_fromint"(handle: i32) -> Handle => <$abi>::handle(handle.into());
                "File_fromint"(handle: i32) -> *mut c_void => ::core::ptr::without_provenance_mut(handle as usize);
                "Group_fromint"(handle: i32) -> Handle => <$abi>::handle(handle.into());
                "Info_fromint"(handle: i32) -> Handle => <$abi>::handle(handle.into());
                "Message_fromint"(handle: i32) -> Handle => <$abi>::handle(handle.into());
                "Op_fromint"(handle: i32) -> Handle => <$abi>::handle(handle.into());
                "Request_fromint"(handle: i32) -> Handle => <$abi>::handle(handle.into());
                "Session_fromint"(handle: i32) -> Handle => <$abi>::handle(handle.into());
                "Type_fromint"(handle: i32) -> Handle => <$abi>::handle(handle.into());
                "Win_fromint"(handle: i32) -> Handle => <$abi>::handle(handle.into());
            }
        };
    };
}

/// What only MPICH's ABI has.
#[doc(hidden)]
#[macro_export]
macro_rules! only_mpich {
    ($abi:ty) => {
        const _: () = {
            use ::core::ffi::c_void;
            use $crate::calls::conversions::copy_status;

            /// `MPI_COMM_DUP_FN` and the like: the copy is the pointer itself.
            #[unsafe(export_name = "MPIR_Dup_fn")]
            unsafe extern "C" fn duplicate(
                _object: i32,
                _keyval: i32,
                _extra: *mut c_void,
                value: *mut c_void,
                to: *mut c_void,
                flag: *mut i32,
            ) -> i32 {
                // SAFETY: the caller has room for a pointer and a flag, as MPI demands.
                unsafe {
                    to.cast::<*mut c_void>().write_unaligned(value);
                    flag.write_unaligned(1);
                }
                0
            }

            $crate::values! { $abi;
                "Comm_c2f"(handle: i32) -> i32 => handle;
                "Comm_f2c"(handle: i32) -> i32 => handle;
                "Errhandler_c2f"(handle: i32) -> i32 => handle;
                "Errhandler_f2c"(handle: i32) -> i32 => handle;
                "File_c2f"(handle: *mut c_void) -> i32 => handle.addr() as i32;
                "File_f2c"(handle: i32) -> *mut c_void => ::core::ptr::without_provenance_mut(handle as usize);
                "Group_c2f"(handle: i32) -> i32 => handle;
                "Group_f2c"(handle: i32) -> i32 => handle;
                "Info_c2f"(handle: i32) -> i32 => handle;
                "Info_f2c"(handle: i32) -> i32 => handle;
                "Message_c2f"(handle: i32) -> i32 => handle;
                "Message_f2c"(handle: i32) -> i32 => handle;
                "Op_c2f"(handle: i32) -> i32 => handle;
                "Op_f2c"(handle: i32) -> i32 => handle;
                "Request_c2f"(handle: i32) -> i32 => handle;
                "Request_f2c"(handle: i32) -> i32 => handle;
                "Session_c2f"(handle: i32) -> i32 => handle;
                "Session_f2c"(handle: i32) -> i32 => handle;
                "Type_c2f"(handle: i32) -> i32 => handle;
                "Type_f2c"(handle: i32) -> i32 => handle;
                "Win_c2f"(handle: i32) -> i32 => handle;
                "Win_f2c"(handle: i32) -> i32 => handle;
                "Status_c2f"(from: *const [i32; 5], into: *mut [i32; 5]) -> i32 => copy_status(from, into);
                "Status_f2c"(from: *const [i32; 5], into: *mut [i32; 5]) -> i32 => copy_status(from, into);
                "Status_c2f08"(from: *const [i32; 5], into: *mut [i32; 5]) -> i32 => copy_status(from, into);
                "Status_f082c"(from: *const [i32; 5], into: *mut [i32; 5]) -> i32 => copy_status(from, into);
                "Status_f2f08"(from: *const [i32; 5], into: *mut [i32; 5]) -> i32 => copy_status(from, into);
                "Status_f082f"(from: *const [i32; 5], into: *mut [i32; 5]) -> i32 => copy_status(from, into);
            }

            // Pointers, of which only the value counts: the same as the standard ABI's, where it has one.
            #[unsafe(export_name = "MPI_UNWEIGHTED")]
            static UNWEIGHTED: usize = $crate::calls::conversions::UNWEIGHTED;
            #[unsafe(export_name = "MPI_WEIGHTS_EMPTY")]
            static WEIGHTS_EMPTY: usize = $crate::calls::conversions::WEIGHTS_EMPTY;
            #[unsafe(export_name = "MPI_T_PVAR_ALL_HANDLES")]
            static ALL_HANDLES: usize = 1;
            #[unsafe(export_name = "MPI_F_STATUS_IGNORE")]
            static STATUS_IGNORE: usize = 1;
            #[unsafe(export_name = "MPI_F_STATUSES_IGNORE")]
            static STATUSES_IGNORE: usize = 1;
            #[unsafe(export_name = "MPI_F08_STATUS_IGNORE")]
            static STATUS_IGNORE_08: usize = 1;
            #[unsafe(export_name = "MPI_F08_STATUSES_IGNORE")]
            static STATUSES_IGNORE_08: usize = 1;
        };
    };
}

/// `MPI_UNWEIGHTED`, as an address.
pub const UNWEIGHTED: usize = 10;
/// `MPI_WEIGHTS_EMPTY`, as an address.
pub const WEIGHTS_EMPTY: usize = 11;

/// Copies a status between C and Fortran, which both have MPICH's layout.
#[must_use]
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "only functions that C calls call it")]
pub fn copy_status(from: *const [i32; 5], into: *mut [i32; 5]) -> i32 {
    if from.addr() > 1 && into.addr() > 1 {
        // SAFETY: the program says that these are statuses.
        unsafe { into.write_unaligned(from.read_unaligned()) };
    }
    0
}

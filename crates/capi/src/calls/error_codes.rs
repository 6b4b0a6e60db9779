//! Error classes and codes of the program (MPI 9.5).

use super::Done;
use crate::{
    border::{Call, Int, Out, Text},
    errors::codes,
};

#[doc(hidden)]
#[macro_export]
macro_rules! error_codes {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Add_error_class" => error_codes::add_error_class(errorclass: Out<i32>);
                "Add_error_code" => error_codes::add_error_code(errorclass: Int, errorcode: Out<i32>);
                "Add_error_string" => error_codes::add_error_string(errorcode: Int, string: Text);
                "Remove_error_class" => error_codes::remove_error_class(errorclass: Int);
                "Remove_error_code" => error_codes::remove_error_code(errorcode: Int);
                "Remove_error_string" => error_codes::remove_error_string(errorcode: Int);
                "Errhandler_create" => error_handlers::comm_create_errhandler(
                    function: Pointer, errhandler: InOut<Handler>);
                "Errhandler_set" => error_handlers::comm_set_errhandler(comm: Comm, errhandler: Errhandler);
                "Errhandler_get" => error_handlers::comm_get_errhandler(comm: Comm, errhandler: InOut<Handler>);
            }
        };
    };
}

pub fn add_error_class(call: Call, errorclass: Out<i32>) -> Done {
    errorclass.set(codes(call.encoding, |codes| codes.add_class()));
    Ok(())
}

pub fn add_error_code(call: Call, errorclass: Int, errorcode: Out<i32>) -> Done {
    errorcode.set(codes(call.encoding, |codes| codes.add_code(errorclass.0))?);
    Ok(())
}

pub fn add_error_string(call: Call, errorcode: Int, string: Text) -> Done {
    Ok(codes(call.encoding, |codes| {
        codes.set_text(errorcode.0, &string.text())
    })?)
}

pub fn remove_error_class(call: Call, errorclass: Int) -> Done {
    Ok(codes(call.encoding, |codes| codes.remove_class(errorclass.0))?)
}

pub fn remove_error_code(call: Call, errorcode: Int) -> Done {
    Ok(codes(call.encoding, |codes| codes.remove_code(errorcode.0))?)
}

pub fn remove_error_string(call: Call, errorcode: Int) -> Done {
    Ok(codes(call.encoding, |codes| codes.set_text(errorcode.0, ""))?)
}

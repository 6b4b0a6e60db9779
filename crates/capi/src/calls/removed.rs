//! Functions that MPI 3.0 has removed, for programs that still call them.

use super::Done;
use crate::{
    border::{Call, Out},
    objects::Type,
};

#[doc(hidden)]
#[macro_export]
macro_rules! removed {
    ($abi:ty) => {
        const _: () = {
            use $crate::{border::*, objects::*};
            $crate::functions! { $abi;
                "Address" => environment::get_address(location: Pointer, address: Out<i64>);
                "Type_extent" => removed::type_extent(datatype: Type, extent: Out<i64>);
                "Type_lb" => removed::type_lb(datatype: Type, displacement: Out<i64>);
                "Type_ub" => removed::type_ub(datatype: Type, displacement: Out<i64>);
                "Type_hindexed" => constructors::hindexed(
                    count: Count, blocklengths: Counts, displacements: Addresses, oldtype: Type,
                    newtype: InOut<Datatype>);
                "Type_hvector" => constructors::hvector(
                    count: Count, blocklength: Count, stride: Address, oldtype: Type, newtype: InOut<Datatype>);
                "Type_struct" => constructors::structure(
                    count: Count, blocklengths: Counts, displacements: Addresses, types: Handles<Datatype>,
                    newtype: InOut<Datatype>);
            }
        };
    };
}

pub fn type_extent(_call: Call, datatype: Type, extent: Out<i64>) -> Done {
    extent.set(datatype.get()?.datatype.extent());
    Ok(())
}

pub fn type_lb(_call: Call, datatype: Type, displacement: Out<i64>) -> Done {
    displacement.set(datatype.get()?.datatype.lower_bound());
    Ok(())
}

pub fn type_ub(_call: Call, datatype: Type, displacement: Out<i64>) -> Done {
    let datatype = datatype.get()?;
    displacement.set(datatype.datatype.lower_bound() + datatype.datatype.extent());
    Ok(())
}

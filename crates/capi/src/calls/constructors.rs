//! New datatypes (MPI 5.1.2 to 5.1.4).

use hikyaku::mpi::{
    datatype::{self, DatatypeError, Distributed},
    error::ErrorClass,
};

use super::Done;
use crate::{
    abi::{Distribution, Order},
    border::{
        Address, Addresses, Call, Constant, Count, Counts, Failure, Handles, InOut, Int, Ints, UNDEFINED,
        decode_constant,
    },
    objects::{Attributes, Datatype, Type},
};

#[doc(hidden)]
#[macro_export]
macro_rules! constructors {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Type_contiguous" + c => constructors::contiguous(
                    count: Count, oldtype: Type, newtype: InOut<Datatype>);
                "Type_vector" + c => constructors::vector(
                    count: Count, blocklength: Count, stride: Count, oldtype: Type, newtype: InOut<Datatype>);
                "Type_create_hvector" + c => constructors::hvector(
                    count: Count, blocklength: Count, stride: Address, oldtype: Type, newtype: InOut<Datatype>);
                "Type_indexed" + c => constructors::indexed(
                    count: Count, blocklengths: Counts, displacements: Counts, oldtype: Type,
                    newtype: InOut<Datatype>);
                "Type_create_hindexed" + c => constructors::hindexed(
                    count: Count, blocklengths: Counts, displacements: Addresses, oldtype: Type,
                    newtype: InOut<Datatype>);
                "Type_create_indexed_block" + c => constructors::indexed_block(
                    count: Count, blocklength: Count, displacements: Counts, oldtype: Type,
                    newtype: InOut<Datatype>);
                "Type_create_hindexed_block" + c => constructors::hindexed_block(
                    count: Count, blocklength: Count, displacements: Addresses, oldtype: Type,
                    newtype: InOut<Datatype>);
                "Type_create_struct" + c => constructors::structure(
                    count: Count, blocklengths: Counts, displacements: Addresses, types: Handles<Datatype>,
                    newtype: InOut<Datatype>);
                "Type_create_resized" + c => constructors::resized(
                    oldtype: Type, lb: Address, extent: Address, newtype: InOut<Datatype>);
                "Type_create_subarray" + c => constructors::subarray(
                    ndims: Int, sizes: Counts, subsizes: Counts, starts: Counts, order: Constant<Order>,
                    oldtype: Type, newtype: InOut<Datatype>);
                "Type_create_darray" + c => constructors::darray(
                    size: Int, rank: Int, ndims: Int, gsizes: Counts, distribs: Ints, dargs: Ints, psizes: Ints,
                    order: Constant<Order>, oldtype: Type, newtype: InOut<Datatype>);
                "Type_create_f90_integer" => constructors::f90_integer(r: Int, newtype: InOut<Datatype>);
                "Type_create_f90_real" => constructors::f90_real(p: Int, r: Int, newtype: InOut<Datatype>);
                "Type_create_f90_complex" => constructors::f90_complex(p: Int, r: Int, newtype: InOut<Datatype>);
            }
        };
    };
}

type Place = InOut<Datatype>;

fn finish(call: Call, made: Result<datatype::Datatype, DatatypeError>, newtype: Place) -> Done {
    let large = call.name.ends_with("_c");
    newtype.set(Datatype::insert_with(&made?, false, large, Attributes::default()));
    Ok(())
}

fn length(count: i64) -> Result<usize, Failure> {
    usize::try_from(count).map_err(|_| Failure::value(ErrorClass::Count, "count", count, 0, i64::MAX))
}

pub fn contiguous(call: Call, count: Count, oldtype: Type, newtype: Place) -> Done {
    finish(
        call,
        datatype::Datatype::contiguous(count.0, &oldtype.get()?.datatype),
        newtype,
    )
}

pub fn vector(call: Call, count: Count, blocklength: Count, stride: Count, oldtype: Type, newtype: Place) -> Done {
    let made = datatype::Datatype::vector(count.0, blocklength.0, stride.0, &oldtype.get()?.datatype);
    finish(call, made, newtype)
}

pub fn hvector(call: Call, count: Count, blocklength: Count, stride: Address, oldtype: Type, newtype: Place) -> Done {
    let made = datatype::Datatype::hvector(count.0, blocklength.0, stride.0, &oldtype.get()?.datatype);
    finish(call, made, newtype)
}

pub fn indexed(
    call: Call,
    count: Count,
    blocklengths: Counts,
    displacements: Counts,
    oldtype: Type,
    newtype: Place,
) -> Done {
    let (len, old) = (length(count.0)?, oldtype.get()?);
    let (lengths, places) = (blocklengths.list(len)?, displacements.list(len)?);
    finish(
        call,
        datatype::Datatype::indexed(&lengths, &places, &old.datatype),
        newtype,
    )
}

pub fn hindexed(
    call: Call,
    count: Count,
    blocklengths: Counts,
    displacements: Addresses,
    oldtype: Type,
    newtype: Place,
) -> Done {
    let (len, old) = (length(count.0)?, oldtype.get()?);
    let (lengths, places) = (blocklengths.list(len)?, displacements.list(len)?);
    finish(
        call,
        datatype::Datatype::hindexed(&lengths, &places, &old.datatype),
        newtype,
    )
}

pub fn indexed_block(
    call: Call,
    count: Count,
    blocklength: Count,
    displacements: Counts,
    oldtype: Type,
    newtype: Place,
) -> Done {
    let (places, old) = (displacements.list(length(count.0)?)?, oldtype.get()?);
    finish(
        call,
        datatype::Datatype::indexed_block(blocklength.0, &places, &old.datatype),
        newtype,
    )
}

pub fn hindexed_block(
    call: Call,
    count: Count,
    blocklength: Count,
    displacements: Addresses,
    oldtype: Type,
    newtype: Place,
) -> Done {
    let (places, old) = (displacements.list(length(count.0)?)?, oldtype.get()?);
    finish(
        call,
        datatype::Datatype::hindexed_block(blocklength.0, &places, &old.datatype),
        newtype,
    )
}

pub fn structure(
    call: Call,
    count: Count,
    blocklengths: Counts,
    displacements: Addresses,
    types: Handles<Datatype>,
    newtype: Place,
) -> Done {
    let len = length(count.0)?;
    let types: Result<Vec<_>, Failure> = types
        .iter(len)?
        .map(|named| named.get().map(|object| object.datatype.clone()))
        .collect();
    let (lengths, places) = (blocklengths.list(len)?, displacements.list(len)?);
    finish(call, datatype::Datatype::structure(&lengths, &places, &types?), newtype)
}

pub fn resized(call: Call, oldtype: Type, lb: Address, extent: Address, newtype: Place) -> Done {
    finish(
        call,
        datatype::Datatype::resized(lb.0, extent.0, &oldtype.get()?.datatype),
        newtype,
    )
}

fn order(order: Constant<Order>) -> Result<datatype::Order, Failure> {
    match order.0 {
        Order::C => Ok(datatype::Order::C),
        Order::FORTRAN => Ok(datatype::Order::Fortran),
        _ => Err(Failure::text(
            ErrorClass::Arg,
            "the order is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN",
        )),
    }
}

pub fn subarray(
    call: Call,
    ndims: Int,
    sizes: Counts,
    subsizes: Counts,
    starts: Counts,
    order_: Constant<Order>,
    oldtype: Type,
    newtype: Place,
) -> Done {
    let (len, old) = (length(ndims.0.into())?, oldtype.get()?);
    let (sizes, subsizes, starts) = (sizes.list(len)?, subsizes.list(len)?, starts.list(len)?);
    let made = datatype::Datatype::subarray(&sizes, &subsizes, &starts, order(order_)?, &old.datatype);
    finish(call, made, newtype)
}

pub fn darray(
    call: Call,
    size: Int,
    rank: Int,
    ndims: Int,
    gsizes: Counts,
    distribs: Ints,
    dargs: Ints,
    psizes: Ints,
    order_: Constant<Order>,
    oldtype: Type,
    newtype: Place,
) -> Done {
    let (len, old) = (length(ndims.0.into())?, oldtype.get()?);
    let (gsizes, psizes) = (gsizes.list(len)?, psizes.list(len)?);
    let (distribs, dargs) = (distribs.list(len)?, dargs.list(len)?);
    let processes: i64 = psizes.iter().copied().map(i64::from).product();
    if processes != i64::from(size.0) {
        return Err(Failure::value(
            ErrorClass::Arg,
            "size",
            size.0.into(),
            processes,
            processes,
        ));
    }
    let dimension = |index: usize| {
        let decode = |value| decode_constant::<Distribution>(call.encoding, value);
        let argument = dargs[index];
        let distribution = match decode(distribs[index]) {
            Some(Distribution::BLOCK) => datatype::Distribution::Block,
            Some(Distribution::CYCLIC) => datatype::Distribution::Cyclic,
            Some(Distribution::NONE) => datatype::Distribution::None,
            _ => return Err(Failure::text(ErrorClass::Arg, "there is no such distribution")),
        };
        let is_default = decode(argument) == Some(Distribution::DEFAULT_ARGUMENT);
        Ok(Distributed {
            size: gsizes[index],
            distribution,
            block: (!is_default).then_some(argument.into()),
            processes: psizes[index].into(),
        })
    };
    let dimensions: Result<Vec<_>, Failure> = (0..len).map(dimension).collect();
    let made = datatype::Datatype::darray(rank.0.into(), &dimensions?, order(order_)?, &old.datatype);
    finish(call, made, newtype)
}

/// A precision or range; `None` demands nothing.
fn demand(value: Int) -> Option<i64> {
    (value.0 != UNDEFINED).then_some(value.0.into())
}

fn selected(made: Result<datatype::Datatype, DatatypeError>, newtype: Place) -> Done {
    newtype.set(Datatype::selected(&made?));
    Ok(())
}

pub fn f90_integer(_call: Call, r: Int, newtype: Place) -> Done {
    selected(datatype::Datatype::f90_integer(r.0.into()), newtype)
}

pub fn f90_real(_call: Call, p: Int, r: Int, newtype: Place) -> Done {
    selected(datatype::Datatype::f90_real(demand(p), demand(r)), newtype)
}

pub fn f90_complex(_call: Call, p: Int, r: Int, newtype: Place) -> Done {
    selected(datatype::Datatype::f90_complex(demand(p), demand(r)), newtype)
}

#![expect(unsafe_code, reason = "buffers are the program's")]
//! Datatypes as they are, and packed data (MPI 5.1.5 to 5.1.13, 5.2).

use hikyaku::mpi::{
    datatype::{self, Combiner as Made},
    error::ErrorClass,
};

use super::{Done, point_to_point::elements};
use crate::{
    abi::{Combiner, Distribution, Order, TypeClass},
    border::{
        Addresses, Buffer, Call, Constant, Count, Failure, Handles, InOut, Int, NewString, Out, OutConstant, OutCount,
        OutCounts, OutInts, Text, UNDEFINED, encode_constant,
    },
    objects::{Comm, Datatype, Type, lock},
};

#[doc(hidden)]
#[macro_export]
macro_rules! datatypes {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Type_commit" => datatypes::type_commit(datatype: InOut<Datatype>);
                "Type_free" => datatypes::type_free(datatype: InOut<Datatype>);
                "Type_dup" => datatypes::type_dup(oldtype: Type, newtype: InOut<Datatype>);
                "Type_size" + c => datatypes::type_size(datatype: Type, size: OutCount);
                "Type_size_x" => datatypes::type_size_x(datatype: Type, size: Out<i64>);
                "Type_get_extent" + c => datatypes::type_get_extent(
                    datatype: Type, lb: Out<i64>, extent: Out<i64>);
                "Type_get_extent_x" => datatypes::type_get_extent(datatype: Type, lb: Out<i64>, extent: Out<i64>);
                "Type_get_true_extent" + c => datatypes::type_get_true_extent(
                    datatype: Type, lb: Out<i64>, extent: Out<i64>);
                "Type_get_true_extent_x" => datatypes::type_get_true_extent(
                    datatype: Type, lb: Out<i64>, extent: Out<i64>);
                "Type_match_size" => datatypes::type_match_size(
                    typeclass: Constant<TypeClass>, size: Int, datatype: InOut<Datatype>);
                "Type_get_value_index" => datatypes::type_get_value_index(
                    value: Type, index: Type, pair: InOut<Datatype>);
                "Type_get_envelope" => datatypes::type_get_envelope(
                    datatype: Type, num_integers: Out<i32>, num_addresses: Out<i32>, num_datatypes: Out<i32>,
                    combiner: OutConstant<Combiner>);
                "Type_get_contents" => datatypes::type_get_contents(
                    datatype: Type, max_integers: Int, max_addresses: Int, max_datatypes: Int, integers: OutInts,
                    addresses: Addresses, datatypes: Handles<Datatype>);
                "Type_get_name" => datatypes::type_get_name(datatype: Type, name: NewString, resultlen: Out<i32>);
                "Type_set_name" => datatypes::type_set_name(datatype: Type, name: Text);
                "Pack" + c => datatypes::pack(
                    inbuf: Buffer, incount: Count, datatype: Type, outbuf: Buffer, outsize: Count,
                    position: OutCount, comm: Comm);
                "Unpack" + c => datatypes::unpack(
                    inbuf: Buffer, insize: Count, position: OutCount, outbuf: Buffer, outcount: Count,
                    datatype: Type, comm: Comm);
                "Pack_size" + c => datatypes::pack_size(incount: Count, datatype: Type, comm: Comm, size: OutCount);
            }
            $crate::function!($abi, Narrow, ["Type_get_envelope_c"], datatypes::type_get_envelope_c,
                (datatype: Type, num_integers: Out<i64>, num_addresses: Out<i64>, num_counts: Out<i64>,
                 num_datatypes: Out<i64>, combiner: OutConstant<Combiner>), (), ());
            $crate::function!($abi, Wide, ["Type_get_contents_c"], datatypes::type_get_contents_c,
                (datatype: Type, max_integers: Count, max_addresses: Count, max_counts: Count, max_datatypes: Count,
                 integers: OutInts, addresses: Addresses, counts: OutCounts, datatypes: Handles<Datatype>), (), ());
        };
    };
}

pub fn type_commit(_call: Call, datatype: InOut<Datatype>) -> Done {
    datatype.get().get()?.commit();
    Ok(())
}

pub fn type_free(_call: Call, datatype: InOut<Datatype>) -> Done {
    let named = datatype.get();
    if !named.is_predefined() {
        if named.get()?.is_selected() {
            return Err(Failure::text(ErrorClass::Type, "it is predefined, and cannot be freed"));
        }
        named.get()?.attributes.clear(&named.handle()).map_err(Failure::Code)?;
    }
    named.remove()?;
    datatype.set(Type::NULL);
    Ok(())
}

pub fn type_dup(_call: Call, oldtype: Type, newtype: InOut<Datatype>) -> Done {
    let old = oldtype.get()?;
    let attributes = old.attributes.copy(&oldtype.handle()).map_err(Failure::Code)?;
    newtype.set(Datatype::insert_with(
        &old.datatype.duplicate(),
        old.is_committed(),
        false,
        attributes,
    ));
    Ok(())
}

pub fn type_size(_call: Call, datatype: Type, size: OutCount) -> Done {
    size.set_or_undefined(Some(datatype.get()?.datatype.size() as i64));
    Ok(())
}

pub fn type_size_x(_call: Call, datatype: Type, size: Out<i64>) -> Done {
    size.set(datatype.get()?.datatype.size() as i64);
    Ok(())
}

pub fn type_get_extent(_call: Call, datatype: Type, lb: Out<i64>, extent: Out<i64>) -> Done {
    let object = datatype.get()?;
    lb.set(object.datatype.lower_bound());
    extent.set(object.datatype.extent());
    Ok(())
}

pub fn type_get_true_extent(_call: Call, datatype: Type, lb: Out<i64>, extent: Out<i64>) -> Done {
    let object = datatype.get()?;
    lb.set(object.datatype.true_lower_bound());
    extent.set(object.datatype.true_extent());
    Ok(())
}

pub fn type_match_size(_call: Call, typeclass: Constant<TypeClass>, size: Int, datatype: InOut<Datatype>) -> Done {
    let number = match (typeclass.0, size.0) {
        (TypeClass::REAL, 2) => 0x2ca,
        (TypeClass::REAL, 4) => 0x2d2,
        (TypeClass::REAL, 8) => 0x2da,
        (TypeClass::REAL, 16) => 0x2e2,
        (TypeClass::COMPLEX, 4) => 0x2d3,
        (TypeClass::COMPLEX, 8) => 0x2db,
        (TypeClass::COMPLEX, 16) => 0x2e3,
        (TypeClass::COMPLEX, 32) => 0x2eb,
        (TypeClass::INTEGER, 1) => 0x2c1,
        (TypeClass::INTEGER, 2) => 0x2c9,
        (TypeClass::INTEGER, 4) => 0x2d1,
        (TypeClass::INTEGER, 8) => 0x2d9,
        (TypeClass::INTEGER, 16) => 0x2e1,
        _ => {
            return Err(Failure::text(
                ErrorClass::Arg,
                "no datatype of this class has this size",
            ));
        }
    };
    datatype.set(Type::number(number));
    Ok(())
}

/// The pairs of a value and an index that have a name: value, index, pair.
const PAIRS: [[u32; 3]; 9] = [
    [0x208, 0x209, 0x22c], // MPI_SHORT_INT
    [0x209, 0x209, 0x22b], // MPI_2INT
    [0x20a, 0x209, 0x22a], // MPI_LONG_INT
    [0x210, 0x209, 0x228], // MPI_FLOAT_INT
    [0x214, 0x209, 0x229], // MPI_DOUBLE_INT
    [0x220, 0x209, 0x22d], // MPI_LONG_DOUBLE_INT
    [0x219, 0x219, 0x232], // MPI_2INTEGER
    [0x21a, 0x21a, 0x230], // MPI_2REAL
    [0x21c, 0x21c, 0x231], // MPI_2DOUBLE_PRECISION
];

pub fn type_get_value_index(_call: Call, value: Type, index: Type, pair: InOut<Datatype>) -> Done {
    value.get()?;
    index.get()?;
    let wanted = [value, index].map(|named| named.handle().0);
    let found = PAIRS.iter().find(|row| row[..2] == wanted);
    pair.set(found.map_or(Type::NULL, |row| Type::number(row[2])));
    Ok(())
}

/// The constructor by its number.
const fn number(made: Made) -> i32 {
    match made {
        Made::Dup => Combiner::DUP,
        Made::Contiguous => Combiner::CONTIGUOUS,
        Made::Vector => Combiner::VECTOR,
        Made::Hvector => Combiner::HVECTOR,
        Made::Indexed => Combiner::INDEXED,
        Made::Hindexed => Combiner::HINDEXED,
        Made::IndexedBlock => Combiner::INDEXED_BLOCK,
        Made::HindexedBlock => Combiner::HINDEXED_BLOCK,
        Made::Struct => Combiner::STRUCT,
        Made::Subarray => Combiner::SUBARRAY,
        Made::Darray => Combiner::DARRAY,
        Made::Resized => Combiner::RESIZED,
        Made::F90Real => Combiner::F90_REAL,
        Made::F90Complex => Combiner::F90_COMPLEX,
        Made::F90Integer => Combiner::F90_INTEGER,
        _ => Combiner::NAMED,
    }
}

/// The arguments of a constructor as the program gets them.
struct Contents {
    combiner: i32,
    integers: Vec<i64>,
    addresses: Vec<i64>,
    /// Those of a constructor with large counts that are `MPI_Count`s.
    counts: Vec<i64>,
    datatypes: Vec<datatype::Datatype>,
}

impl Contents {
    fn of(call: Call, datatype: &datatype::Datatype) -> Option<Self> {
        let contents = datatype.contents()?;
        let mut integers = contents.integers.clone();
        let order = |value: &mut i64| {
            let order = if *value == 0 { Order::C } else { Order::FORTRAN };
            *value = encode_constant::<Order>(call.encoding, order).into();
        };
        match contents.combiner {
            Made::Subarray => integers.last_mut().into_iter().for_each(order),
            Made::Darray => {
                integers.last_mut().into_iter().for_each(order);
                let dimensions = integers[2] as usize;
                for place in 3 + dimensions..3 + 2 * dimensions {
                    let kinds = [Distribution::BLOCK, Distribution::CYCLIC, Distribution::NONE];
                    let kind = kinds[integers[place] as usize % 3];
                    integers[place] = encode_constant::<Distribution>(call.encoding, kind).into();
                }
                let none = encode_constant::<Distribution>(call.encoding, Distribution::DEFAULT_ARGUMENT);
                for argument in &mut integers[3 + 2 * dimensions..3 + 3 * dimensions] {
                    *argument = if *argument < 0 { none.into() } else { *argument };
                }
            }
            Made::F90Real | Made::F90Complex => {
                for argument in integers.iter_mut().filter(|argument| **argument < 0) {
                    *argument = UNDEFINED.into();
                }
            }
            _ => {}
        }
        let mut found = Self {
            combiner: number(contents.combiner),
            integers,
            addresses: contents.addresses.clone(),
            counts: Vec::new(),
            datatypes: contents.datatypes.clone(),
        };
        if Datatype::is_large(datatype) {
            found.move_counts(contents.combiner);
        }
        Some(found)
    }

    /// Moves what is an `MPI_Count` in constructors with large counts (MPI 5.1.13).
    fn move_counts(&mut self, made: Made) {
        let counts = match made {
            Made::Dup => 0..0,
            Made::Subarray => 1..self.integers.len() - 1,
            Made::Darray => 3..3 + self.integers[2] as usize,
            _ => 0..self.integers.len(),
        };
        self.counts = self.integers.drain(counts).collect();
        self.counts.append(&mut self.addresses);
    }
}

/// The contents for a function without large counts.
fn small_contents(call: Call, datatype: &datatype::Datatype) -> Result<Option<Contents>, Failure> {
    let found = Contents::of(call, datatype);
    if found.as_ref().is_some_and(|found| !found.counts.is_empty()) {
        let text = "the datatype was made with large counts, which only the functions that end in _c tell";
        return Err(Failure::text(ErrorClass::Type, text));
    }
    Ok(found)
}

pub fn type_get_envelope(
    call: Call,
    datatype: Type,
    num_integers: Out<i32>,
    num_addresses: Out<i32>,
    num_datatypes: Out<i32>,
    combiner: OutConstant<Combiner>,
) -> Done {
    let object = datatype.get()?;
    let found = small_contents(call, &object.datatype)?;
    num_integers.set(found.as_ref().map_or(0, |found| found.integers.len() as i32));
    num_addresses.set(found.as_ref().map_or(0, |found| found.addresses.len() as i32));
    num_datatypes.set(found.as_ref().map_or(0, |found| found.datatypes.len() as i32));
    combiner.set(found.map_or(Combiner::NAMED, |found| found.combiner));
    Ok(())
}

pub fn type_get_envelope_c(
    call: Call,
    datatype: Type,
    num_integers: Out<i64>,
    num_addresses: Out<i64>,
    num_counts: Out<i64>,
    num_datatypes: Out<i64>,
    combiner: OutConstant<Combiner>,
) -> Done {
    let object = datatype.get()?;
    let found = Contents::of(call, &object.datatype);
    num_integers.set(found.as_ref().map_or(0, |found| found.integers.len() as i64));
    num_addresses.set(found.as_ref().map_or(0, |found| found.addresses.len() as i64));
    num_counts.set(found.as_ref().map_or(0, |found| found.counts.len() as i64));
    num_datatypes.set(found.as_ref().map_or(0, |found| found.datatypes.len() as i64));
    combiner.set(found.map_or(Combiner::NAMED, |found| found.combiner));
    Ok(())
}

/// Writes all but the counts.
fn write_contents(
    found: &Contents,
    room: [i64; 4],
    integers: OutInts,
    addresses: Addresses,
    datatypes: Handles<Datatype>,
) -> Done {
    let lens = [&found.integers, &found.addresses, &found.counts].map(Vec::len);
    let lens = lens.into_iter().chain([found.datatypes.len()]);
    if lens.zip(room).any(|(len, room)| len as i64 > room) {
        return Err(Failure::text(
            ErrorClass::Arg,
            "the arrays are too short for the contents",
        ));
    }
    integers.fill(found.integers.iter().map(|value| *value as i32))?;
    for (index, address) in found.addresses.iter().enumerate() {
        addresses.set(index, *address);
    }
    for (index, datatype) in found.datatypes.iter().enumerate() {
        datatypes.set(index, Datatype::reference_to(datatype));
    }
    Ok(())
}

fn predefined() -> Failure {
    Failure::text(ErrorClass::Type, "a predefined datatype has no contents")
}

pub fn type_get_contents(
    call: Call,
    datatype: Type,
    max_integers: Int,
    max_addresses: Int,
    max_datatypes: Int,
    integers: OutInts,
    addresses: Addresses,
    datatypes: Handles<Datatype>,
) -> Done {
    let object = datatype.get()?;
    let found = small_contents(call, &object.datatype)?.ok_or_else(predefined)?;
    let room = [max_integers.0, max_addresses.0, 0, max_datatypes.0].map(i64::from);
    write_contents(&found, room, integers, addresses, datatypes)
}

pub fn type_get_contents_c(
    call: Call,
    datatype: Type,
    max_integers: Count,
    max_addresses: Count,
    max_counts: Count,
    max_datatypes: Count,
    integers: OutInts,
    addresses: Addresses,
    counts: OutCounts,
    datatypes: Handles<Datatype>,
) -> Done {
    let object = datatype.get()?;
    let found = Contents::of(call, &object.datatype).ok_or_else(predefined)?;
    let room = [max_integers.0, max_addresses.0, max_counts.0, max_datatypes.0];
    write_contents(&found, room, integers, addresses, datatypes)?;
    for (index, count) in found.counts.iter().enumerate() {
        counts.set(index, *count);
    }
    Ok(())
}

pub fn type_get_name(_call: Call, datatype: Type, name: NewString, resultlen: Out<i32>) -> Done {
    // The null handle has a name, too.
    let text = match datatype.is_null() {
        true => "MPI_DATATYPE_NULL".to_owned(),
        false => lock(&datatype.get()?.name).clone(),
    };
    resultlen.set(name.set(text.as_bytes(), 128) as i32);
    Ok(())
}

pub fn type_set_name(_call: Call, datatype: Type, name: Text) -> Done {
    *lock(&datatype.get()?.name) = name.text();
    Ok(())
}

pub fn pack(
    _call: Call,
    inbuf: Buffer,
    incount: Count,
    datatype: Type,
    outbuf: Buffer,
    outsize: Count,
    position: OutCount,
    comm: Comm,
) -> Done {
    comm.get()?;
    let (object, count) = (datatype.get()?, elements("incount", incount.0)?);
    let (size, at) = (object.for_message()?.packed_size(count)?, position.get());
    let fits = at >= 0 && at.checked_add(size as i64).is_some_and(|end| end <= outsize.0);
    if !fits {
        return Err(Failure::text(ErrorClass::Truncate, "the packed data do not fit"));
    }
    // SAFETY: the program's buffers, as MPI demands; the second has room, as just checked.
    unsafe {
        let room = core::slice::from_raw_parts_mut(outbuf.0.add(at as usize).cast(), size as usize);
        object.datatype.pack_at(inbuf.0, count, 0, room);
    }
    position.set(at + size as i64)
}

pub fn unpack(
    _call: Call,
    inbuf: Buffer,
    insize: Count,
    position: OutCount,
    outbuf: Buffer,
    outcount: Count,
    datatype: Type,
    comm: Comm,
) -> Done {
    comm.get()?;
    let (object, count) = (datatype.get()?, elements("outcount", outcount.0)?);
    let (size, at) = (object.for_message()?.packed_size(count)?, position.get());
    let fits = at >= 0 && at.checked_add(size as i64).is_some_and(|end| end <= insize.0);
    if !fits {
        return Err(Failure::text(ErrorClass::Truncate, "there are fewer packed data"));
    }
    // SAFETY: the program's buffers, as MPI demands; the first has so many bytes, as just checked.
    unsafe {
        let bytes = core::slice::from_raw_parts(inbuf.0.add(at as usize), size as usize);
        object.datatype.unpack_at(outbuf.0, count, 0, bytes);
    }
    position.set(at + size as i64)
}

pub fn pack_size(_call: Call, incount: Count, datatype: Type, comm: Comm, size: OutCount) -> Done {
    comm.get()?;
    let bytes = datatype.get()?.datatype.packed_size(elements("incount", incount.0)?)?;
    size.set_or_undefined(Some(bytes as i64));
    Ok(())
}

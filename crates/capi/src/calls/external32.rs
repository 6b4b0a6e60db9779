#![expect(unsafe_code, reason = "buffers are the program's")]
//! The data representation "external32" (MPI 5.2.1).

use hikyaku::mpi::{datatype, error::ErrorClass};

use super::{Done, point_to_point::elements};
use crate::{
    border::{Address, Buffer, Call, Count, Failure, Out, Text},
    objects::Type,
};

#[doc(hidden)]
#[macro_export]
macro_rules! external32 {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Pack_external" + c => external32::pack_external(
                    datarep: Text, inbuf: Buffer, incount: Count, datatype: Type, outbuf: Buffer, outsize: Address,
                    position: Out<i64>);
                "Unpack_external" + c => external32::unpack_external(
                    datarep: Text, inbuf: Buffer, insize: Address, position: Out<i64>, outbuf: Buffer,
                    outcount: Count, datatype: Type);
                "Pack_external_size" + c => external32::pack_external_size(
                    datarep: Text, incount: Count, datatype: Type, size: Out<i64>);
            }
        };
    };
}

/// `MPI_LONG`, `MPI_UNSIGNED_LONG` and `MPI_LONG_INT`, whose numbers are the words of their datatypes.
fn is_long(datatype: &datatype::Datatype) -> bool {
    matches!(datatype.word(), 0x20a | 0x20e | 0x22a)
}

fn check(datarep: Text) -> Done {
    if datarep.bytes() == b"external32" {
        return Ok(());
    }
    let text = "the only data representation here is external32";
    Err(Failure::text(ErrorClass::Arg, text))
}

/// The bytes from `position` on, of `size`.
fn room(buffer: Buffer, size: i64, position: i64) -> Result<(*mut u8, usize), Failure> {
    let left = size.checked_sub(position).filter(|_| position >= 0);
    let left = left.and_then(|left| usize::try_from(left).ok());
    let left = left.ok_or_else(|| Failure::value(ErrorClass::Arg, "position", position, 0, size))?;
    Ok((buffer.0.wrapping_add(position as usize), left))
}

pub fn pack_external(
    _call: Call,
    datarep: Text,
    inbuf: Buffer,
    incount: Count,
    datatype: Type,
    outbuf: Buffer,
    outsize: Address,
    position: Out<i64>,
) -> Done {
    check(datarep)?;
    let (object, count) = (datatype.get()?, elements("incount", incount.0)?);
    let datatype = object.for_message()?;
    let (to, left) = room(outbuf, outsize.0, position.get())?;
    if datatype.external_size(count, &is_long) > left as u64 {
        return Err(Failure::text(ErrorClass::Truncate, "the packed data do not fit"));
    }
    // SAFETY: the program's buffer, as MPI demands.
    let packed = unsafe { datatype.pack_external(inbuf.0, count, &is_long) };
    let large = || Failure::text(ErrorClass::Conversion, "a number is too large for external32");
    let packed = packed.ok_or_else(large)?;
    // SAFETY: the program's other buffer, which has room, as just checked.
    unsafe { to.copy_from_nonoverlapping(packed.as_ptr(), packed.len()) };
    position.set(position.get() + packed.len() as i64);
    Ok(())
}

pub fn unpack_external(
    _call: Call,
    datarep: Text,
    inbuf: Buffer,
    insize: Address,
    position: Out<i64>,
    outbuf: Buffer,
    outcount: Count,
    datatype: Type,
) -> Done {
    check(datarep)?;
    let (object, count) = (datatype.get()?, elements("outcount", outcount.0)?);
    let datatype = object.for_message()?;
    let (from, left) = room(inbuf, insize.0, position.get())?;
    let len = datatype.external_size(count, &is_long);
    if len > left as u64 {
        return Err(Failure::text(ErrorClass::Truncate, "there are fewer packed data"));
    }
    if len > 0 {
        // SAFETY: the program's buffers, as MPI demands; the first has so many bytes, as just checked.
        unsafe {
            let bytes = core::slice::from_raw_parts(from, len as usize);
            let _ = datatype.unpack_external(outbuf.0, count, bytes, &is_long);
        }
    }
    position.set(position.get() + len as i64);
    Ok(())
}

pub fn pack_external_size(_call: Call, datarep: Text, incount: Count, datatype: Type, size: Out<i64>) -> Done {
    check(datarep)?;
    let (object, count) = (datatype.get()?, elements("incount", incount.0)?);
    size.set(object.datatype.external_size(count, &is_long) as i64);
    Ok(())
}

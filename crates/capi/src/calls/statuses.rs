//! Functions of statuses (MPI 3.2.5, 13.3).

use hikyaku::mpi::{engine::Status, error::ErrorClass};

use super::Done;
use crate::{
    border::{Call, Count, Failure, Flag, InStatus, Int, Out, OutCount, Rank, Summary, Tag},
    objects::Type,
};

#[doc(hidden)]
#[macro_export]
macro_rules! statuses {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Get_count" + c => statuses::get_count(status: InStatus, datatype: Type, count: OutCount);
                "Get_elements" + c => statuses::get_elements(status: InStatus, datatype: Type, count: OutCount);
                "Get_elements_x" => statuses::get_elements_x(status: InStatus, datatype: Type, count: Out<i64>);
                "Test_cancelled" => statuses::test_cancelled(status: InStatus, flag: Out<i32>);
                "Status_set_cancelled" => statuses::set_cancelled(status: InStatus, flag: Flag);
                "Status_set_elements" + c => statuses::set_elements(status: InStatus, datatype: Type, count: Count);
                "Status_set_elements_x" => statuses::set_elements_x(status: InStatus, datatype: Type, count: Offset);
                "Status_get_source" => statuses::get_source(status: InStatus, source: Out<i32>);
                "Status_get_tag" => statuses::get_tag(status: InStatus, tag: Out<i32>);
                "Status_get_error" => statuses::get_error(status: InStatus, err: Out<i32>);
                "Status_set_source" => statuses::set_source(status: InStatus, source: Rank);
                "Status_set_tag" => statuses::set_tag(status: InStatus, tag: Tag);
                "Status_set_error" => statuses::set_error(status: InStatus, err: Int);
            }
        };
    };
}

fn read(status: InStatus) -> Result<Summary, Failure> {
    status.0.get().ok_or_else(|| ErrorClass::Arg.into())
}

fn change(status: InStatus, change: impl FnOnce(&mut Status)) -> Done {
    let mut summary = read(status)?;
    change(&mut summary.status);
    status.0.set(&summary.status);
    Ok(())
}

pub fn get_count(_call: Call, status: InStatus, datatype: Type, count: OutCount) -> Done {
    let (bytes, size) = (read(status)?.status.len, datatype.get()?.datatype.size());
    let whole = match size {
        0 => Some(0),
        _ => (bytes % size == 0).then(|| (bytes / size) as i64),
    };
    count.set_or_undefined(whole);
    Ok(())
}

/// The number of predefined elements in so many bytes of this type; `None` if they end within one.
fn elements(datatype: Type, bytes: u64) -> Result<Option<i64>, Failure> {
    let object = datatype.get()?;
    let datatype = &object.datatype;
    if datatype.size() == 0 {
        return Ok(Some(0));
    }
    let whole = (bytes / datatype.size()) * element_sizes(datatype).len() as u64;
    let (mut rest, mut more) = (bytes % datatype.size(), 0);
    for size in element_sizes(datatype) {
        if rest == 0 {
            break;
        }
        let Some(left) = rest.checked_sub(size) else {
            return Ok(None);
        };
        (rest, more) = (left, more + 1);
    }
    Ok(Some((whole + more) as i64))
}

/// The sizes of the elements of a type map, in their order.
fn element_sizes(datatype: &hikyaku::mpi::datatype::Datatype) -> Vec<u64> {
    use hikyaku::mpi::datatype::Combiner;
    if let Some(kind) = datatype.kind() {
        return match kind.pair() {
            Some((value, index)) => vec![value.size(), index.size()],
            None => vec![kind.size()],
        };
    }
    if let Some(kind) = datatype.element_kind().filter(|kind| kind.pair().is_none()) {
        return vec![kind.size(); (datatype.size() / kind.size()) as usize];
    }
    let Some(contents) = datatype.contents() else {
        return Vec::new();
    };
    let (integers, types) = (&contents.integers, &contents.datatypes);
    if contents.combiner == Combiner::Struct {
        let lengths = integers[1..].iter().zip(types);
        return lengths
            .flat_map(|(len, child)| element_sizes(child).repeat(*len as usize))
            .collect();
    }
    types.first().map_or_else(Vec::new, |child| {
        let times = datatype.size().checked_div(child.size()).unwrap_or(0);
        element_sizes(child).repeat(times as usize)
    })
}

pub fn get_elements(_call: Call, status: InStatus, datatype: Type, count: OutCount) -> Done {
    count.set_or_undefined(elements(datatype, read(status)?.status.len)?);
    Ok(())
}

pub fn get_elements_x(_call: Call, status: InStatus, datatype: Type, count: Out<i64>) -> Done {
    let elements = elements(datatype, read(status)?.status.len)?;
    count.set(elements.unwrap_or(i64::from(crate::border::UNDEFINED)));
    Ok(())
}

pub fn test_cancelled(_call: Call, status: InStatus, flag: Out<i32>) -> Done {
    flag.set_flag(read(status)?.status.cancelled);
    Ok(())
}

pub fn set_cancelled(_call: Call, status: InStatus, flag: Flag) -> Done {
    change(status, |status| status.cancelled = flag.0)
}

pub fn set_elements(_call: Call, status: InStatus, datatype: Type, count: Count) -> Done {
    let object = datatype.get()?;
    let datatype = &object.datatype;
    let count = u64::try_from(count.0).map_err(|_| ErrorClass::Count)?;
    let sizes = element_sizes(datatype);
    let each = (sizes.len() as u64).max(1);
    let rest: u64 = sizes.iter().take((count % each) as usize).sum();
    let bytes = datatype.packed_size(count / each)? + rest;
    change(status, |status| status.len = bytes)
}

pub fn set_elements_x(call: Call, status: InStatus, datatype: Type, count: crate::border::Offset) -> Done {
    set_elements(call, status, datatype, Count(count.0))
}

pub fn get_source(call: Call, status: InStatus, source: Out<i32>) -> Done {
    source.set(Rank::encode(call.encoding, read(status)?.status.source));
    Ok(())
}

pub fn get_tag(call: Call, status: InStatus, tag: Out<i32>) -> Done {
    let found = read(status)?.status.tag;
    tag.set(if found == hikyaku::mpi::engine::ANY_TAG {
        call.encoding.any_tag
    } else {
        found
    });
    Ok(())
}

pub fn get_error(_call: Call, status: InStatus, err: Out<i32>) -> Done {
    err.set(read(status)?.error);
    Ok(())
}

pub fn set_source(_call: Call, status: InStatus, source: Rank) -> Done {
    change(status, |status| status.source = source.0)
}

pub fn set_tag(_call: Call, status: InStatus, tag: Tag) -> Done {
    change(status, |status| status.tag = tag.0)
}

pub fn set_error(_call: Call, status: InStatus, err: Int) -> Done {
    status.0.set_error(err.0);
    Ok(())
}

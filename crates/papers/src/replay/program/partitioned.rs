//! Partitioned messages of a trace.

use std::ops::Range;

use hikyaku_bench::traces::Call;

use super::fields::{PROC_NULL, lacks};

/// One side of a partitioned message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partitioned {
    pub sends: bool,
    pub peer: i32,
    pub tag: i32,
    pub partitions: u32,
    /// Bytes of each.
    pub bytes: u64,
}

/// Partitions that get ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    Range(Range<u32>),
    List(Vec<u32>),
}

/// Most partitions: there is a byte of bookkeeping for each.
const MOST: u32 = 1 << 24;

pub(super) fn read(call: &Call) -> Result<Partitioned, String> {
    let name = call.call.as_str();
    let number = "a number";
    let partitions = call.partitions.ok_or_else(|| lacks(name, "partitions", number))?;
    if partitions > MOST {
        return Err(format!("{name}: {partitions} partitions: at most {MOST} were expected"));
    }
    let bytes = call.bytes.checked_div(partitions.into()).unwrap_or(0);
    if bytes * u64::from(partitions) != call.bytes {
        let all = call.bytes;
        return Err(format!(
            "{name}: {all} bytes cannot be cut into {partitions} partitions"
        ));
    }
    Ok(Partitioned {
        sends: name == "MPI_Psend_init",
        peer: call
            .peer
            .filter(|peer| *peer >= PROC_NULL && *peer != hikyaku::mpi::engine::ANY_SOURCE)
            .ok_or_else(|| lacks(name, "peer", "a rank"))?,
        tag: call.tag.ok_or_else(|| lacks(name, "tag", number))?,
        partitions,
        bytes,
    })
}

/// The partitions that a call says are ready.
pub(super) fn ready(call: &Call) -> Result<Ready, String> {
    let name = call.call.as_str();
    if name == "MPI_Pready_list" {
        return Ok(Ready::List(call.ready.clone()));
    }
    let first = partition(call)?;
    let last = u32::try_from(call.count)
        .ok()
        .and_then(|count| first.checked_add(count));
    let last = last.ok_or_else(|| lacks(name, "count", "a number of partitions"))?;
    Ok(Ready::Range(first..last))
}

/// The partition that a call is about.
pub(super) fn partition(call: &Call) -> Result<u32, String> {
    let partition = call.displacement.and_then(|first| u32::try_from(first).ok());
    partition.ok_or_else(|| lacks(&call.call, "displacement", "the number of a partition"))
}

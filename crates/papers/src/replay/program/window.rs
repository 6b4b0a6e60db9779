//! Windows of a trace, and what is done to them.

use hikyaku::mpi::{datatype::Kind, operation::Predefined};
use hikyaku_bench::traces::Call;

use super::fields::{lacks, number};

/// An operation on a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WindowCall {
    /// It is made by the processes of the communicator with this context.
    Make {
        of: u32,
        bytes: u64,
        unit: u32,
    },
    MakeDynamic {
        of: u32,
    },
    Attach {
        address: u64,
        bytes: u64,
    },
    Detach {
        address: u64,
    },
    Access(Access),
    Fence,
    Lock {
        rank: i32,
        exclusive: bool,
    },
    LockAll,
    Unlock(i32),
    UnlockAll,
    Flush(i32),
    FlushAll,
    /// To these ranks.
    Post(Vec<i32>),
    Start(Vec<i32>),
    Complete,
    Wait,
    Sync,
    Free,
}

/// An operation on the window of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub what: Operate,
    pub target: i32,
    /// In the target's displacement units; an address in a dynamic window.
    pub displacement: i64,
    pub bytes: u64,
    /// It goes on under this number.
    pub request: Option<u64>,
}

/// The effect of an operation on its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operate {
    Put,
    Get,
    Accumulate(Kind, Predefined),
    GetAccumulate(Kind, Predefined),
    FetchAndOp(Kind, Predefined),
    CompareAndSwap(Kind),
}

/// The operation of a call on a window, if it has one.
pub(super) fn read(call: &Call) -> Result<Option<WindowCall>, String> {
    let name = call.call.as_str();
    let rank = || call.peer.ok_or_else(|| lacks(name, "peer", "a rank"));
    let of = call.context;
    Ok(Some(match name {
        "MPI_Win_create" | "MPI_Win_allocate" => WindowCall::Make {
            of,
            bytes: call.bytes,
            unit: place(call)?.try_into().map_err(|_| {
                format!(
                    "{name} has a displacement unit that is none: from 1 to {} was expected",
                    u32::MAX
                )
            })?,
        },
        "MPI_Win_create_dynamic" => WindowCall::MakeDynamic { of },
        "MPI_Win_attach" => WindowCall::Attach {
            address: place(call)? as u64,
            bytes: call.bytes,
        },
        "MPI_Win_detach" => WindowCall::Detach {
            address: place(call)? as u64,
        },
        "MPI_Win_fence" => WindowCall::Fence,
        "MPI_Win_lock" => WindowCall::Lock {
            rank: rank()?,
            exclusive: match call.lock.as_deref() {
                Some("MPI_LOCK_EXCLUSIVE") => true,
                Some("MPI_LOCK_SHARED") => false,
                known => {
                    return Err(unknown_name(
                        name,
                        "lock",
                        known,
                        "MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE",
                    ));
                }
            },
        },
        "MPI_Win_lock_all" => WindowCall::LockAll,
        "MPI_Win_unlock" => WindowCall::Unlock(rank()?),
        "MPI_Win_unlock_all" => WindowCall::UnlockAll,
        "MPI_Win_flush" => WindowCall::Flush(rank()?),
        "MPI_Win_flush_all" => WindowCall::FlushAll,
        "MPI_Win_post" => WindowCall::Post(call.destinations.clone()),
        "MPI_Win_start" => WindowCall::Start(call.destinations.clone()),
        "MPI_Win_complete" => WindowCall::Complete,
        "MPI_Win_wait" => WindowCall::Wait,
        "MPI_Win_test" if call.ended.is_empty() => return Ok(None),
        "MPI_Win_test" => WindowCall::Wait,
        "MPI_Win_sync" => WindowCall::Sync,
        "MPI_Win_free" => WindowCall::Free,
        _ => match operate(call)? {
            Some(what) => WindowCall::Access(Access {
                what,
                target: rank()?,
                displacement: place(call)?,
                bytes: call.bytes,
                request: match call.request {
                    None if !name.starts_with("MPI_R") => None,
                    _ => Some(number(call)?),
                },
            }),
            None => return Ok(None),
        },
    }))
}

/// It is about a window.
pub(super) fn is_about(name: &str) -> bool {
    let operations = [
        "MPI_Put",
        "MPI_Rput",
        "MPI_Get",
        "MPI_Rget",
        "MPI_Accumulate",
        "MPI_Raccumulate",
        "MPI_Get_accumulate",
        "MPI_Rget_accumulate",
        "MPI_Fetch_and_op",
        "MPI_Compare_and_swap",
    ];
    name.starts_with("MPI_Win_") || operations.contains(&name)
}

/// A name that is not there, or not known.
fn unknown_name(call: &str, key: &str, given: Option<&str>, expected: &str) -> String {
    match given {
        None => lacks(call, key, expected),
        Some(given) => format!("{call}: `{key}` is {given:?}: {expected} was expected"),
    }
}

fn place(call: &Call) -> Result<i64, String> {
    call.displacement
        .ok_or_else(|| lacks(&call.call, "displacement", "a number"))
}

fn operate(call: &Call) -> Result<Option<Operate>, String> {
    let name = call.call.as_str();
    let reduction = || Ok::<_, String>((kind(call)?, operation(call)?));
    Ok(Some(match name {
        "MPI_Put" | "MPI_Rput" => Operate::Put,
        "MPI_Get" | "MPI_Rget" => Operate::Get,
        // Nothing, of no kind.
        "MPI_Accumulate" | "MPI_Raccumulate" | "MPI_Get_accumulate" | "MPI_Rget_accumulate" if call.bytes == 0 => {
            Operate::Put
        }
        "MPI_Accumulate" | "MPI_Raccumulate" => {
            let (kind, operation) = reduction()?;
            Operate::Accumulate(kind, operation)
        }
        "MPI_Get_accumulate" | "MPI_Rget_accumulate" => {
            let (kind, operation) = reduction()?;
            Operate::GetAccumulate(kind, operation)
        }
        "MPI_Fetch_and_op" => {
            let (kind, operation) = reduction()?;
            Operate::FetchAndOp(kind, operation)
        }
        "MPI_Compare_and_swap" => Operate::CompareAndSwap(kind(call)?),
        _ => return Ok(None),
    }))
}

fn kind(call: &Call) -> Result<Kind, String> {
    let known = Kind::ALL
        .into_iter()
        .find(|kind| call.kind.as_deref() == Some(kind.name()));
    let given = call.kind.as_deref();
    known.ok_or_else(|| unknown_name(&call.call, "kind", given, "MPI's name of a predefined one"))
}

fn operation(call: &Call) -> Result<Predefined, String> {
    let name = call.operation.as_deref();
    let known = Predefined::ALL
        .into_iter()
        .find(|operation| name == Some(operation.name()));
    known.ok_or_else(|| unknown_name(&call.call, "operation", name, "MPI's name of a predefined one"))
}

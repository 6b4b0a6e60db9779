//! The fields of calls, and errors about missing ones.

use hikyaku_bench::traces::Call;

/// The receiver or sender that does not exist: `MPI_PROC_NULL`.
pub(super) const PROC_NULL: i32 = hikyaku::mpi::engine::PROC_NULL;

/// A call without what it needs.
pub(super) fn lacks(name: &str, key: &str, expected: &str) -> String {
    format!("{name} has no `{key}`: {expected} was expected")
}

/// The number that the call has given.
pub(super) fn number(call: &Call) -> Result<u64, String> {
    let number = call.request.filter(|number| *number > 0);
    number.ok_or_else(|| lacks(&call.call, "request", "a number"))
}

/// A call that is none of those that are known.
pub(super) fn unknown(name: &str) -> String {
    format!("{name} cannot be replayed: messages, windows, collectives and new communicators can")
}

//! A counter in a window of rank 0, to which ranks add.
#![expect(unsafe_code, reason = "the engine takes pointers")]

use hikyaku::mpi::{
    datatype::Kind,
    engine::{LockKind, Window},
    operation::{Operation, Predefined},
};

const SUM: Operation = Operation::predefined(Predefined::Sum);

/// Adds to the counter. Returns what it was.
pub(crate) fn add(window: &Window, value: i64) -> i64 {
    let mut was = -1_i64;
    window.lock(LockKind::Shared, 0).unwrap();
    // SAFETY: both live until the window is unlocked, which waits for the operation.
    let begun = unsafe {
        window.fetch_and_op(
            (&raw const value).cast(),
            (&raw mut was).cast(),
            Kind::I64,
            (0, 0),
            &SUM,
        )
    };
    begun.unwrap();
    window.unlock(0).unwrap();
    was
}

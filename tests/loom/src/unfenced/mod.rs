//! There are no fences.

pub(crate) mod primitives {
    pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};

    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

        pub(crate) fn fence(_: Ordering) {}
    }
}

pub(crate) use crate::segment;

#[path = "../../../../src/sync/bell.rs"]
pub(crate) mod bell;
#[path = "../../../../src/sync/loans.rs"]
pub(crate) mod loans;
#[path = "../../../../src/shm/ring.rs"]
pub(crate) mod ring;

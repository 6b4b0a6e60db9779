//! There are no fences.

pub(crate) mod primitives {
    pub(crate) use loom::{hint, sync::Arc};

    pub(crate) use crate::timed::{Condvar, Mutex, MutexGuard};

    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

        pub(crate) fn fence(_: Ordering) {}
    }
}

pub(crate) use crate::{cell, segment};

pub(crate) mod medium {
    pub(crate) use super::primitives::atomic::{Ordering, fence};
    pub(crate) use crate::medium::*;
}

#[path = "../../../../src/sync/bell.rs"]
pub(crate) mod bell;
#[path = "../../../../src/mpi/engine/on_host/board.rs"]
pub(crate) mod board;
#[path = "../../../../src/copies.rs"]
pub(crate) mod copies;
#[path = "../../../../src/sync/holders.rs"]
pub(crate) mod holders;
#[warn(unsafe_code)]
#[path = "../../../../src/ring/lines.rs"]
pub(crate) mod lines;
#[path = "../../../../src/ring/owner.rs"]
pub(crate) mod owner;
#[path = "../../../../src/ring/pieces.rs"]
pub(crate) mod pieces;
#[path = "../../../../src/ring/places.rs"]
pub(crate) mod places;
#[warn(unsafe_code)]
#[path = "../../../../src/ring/record.rs"]
pub(crate) mod record;
#[warn(unsafe_code)]
#[path = "../../../../src/sync/lock.rs"]
pub(crate) mod lock;
#[path = "../../../../src/sync/pins.rs"]
pub(crate) mod pins;
#[path = "../../../../src/shm/ring.rs"]
pub(crate) mod ring;

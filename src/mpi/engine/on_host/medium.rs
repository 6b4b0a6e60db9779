//! What a board is made of, and its sizes. (`tests/loom` has others, to try all orders in which ranks may see what others
//! write.)

pub(super) use core::sync::atomic::{Ordering, compiler_fence, fence};

pub(super) use crate::{mpi::engine::window::memory::Mapped, span::Span};

/// Lines of a rank. A broadcast's root is as many steps ahead of the others at most.
pub(super) const LINES: u64 = 64;
/// Slots of a rank.
pub(super) const SLOTS: u64 = 4;
/// Most bytes of a step.
pub(super) const SLOT: usize = 64 << 10;
/// Slots begin at a multiple of this.
pub(super) const PAGE: usize = 4 << 10;

/// Registers this process for [`barrier_of_all`]. Returns whether the system can do that.
pub(super) fn register() -> bool {
    barriers::register()
}

/// All threads of all registered processes pass a fence before this returns: those that run are interrupted for it, and
/// all others pass one before they run again. So a fence is needed on the side that waits only. It takes some microseconds.
#[cold]
pub(super) fn barrier_of_all() {
    barriers::of_all();
}

#[cfg(all(feature = "shm", target_os = "linux", not(miri)))]
mod barriers {
    use rustix::thread::{MembarrierCommand, membarrier};

    pub(super) fn register() -> bool {
        membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
    }

    pub(super) fn of_all() {
        // It has no reason to fail if registering has not. If it does, a rank that is not woken looks again by itself.
        let _ = membarrier(MembarrierCommand::GlobalExpedited);
    }
}

#[cfg(not(all(feature = "shm", target_os = "linux", not(miri))))]
mod barriers {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn of_all() {}
}

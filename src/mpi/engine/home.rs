#![expect(
    unsafe_code,
    reason = "a communicator is lent to requests that others keep alive for them"
)]
//! The communicator of a request.

use core::mem::{self, ManuallyDrop};

use super::communicator::Communicator;

/// See the module's documentation.
pub(super) enum Home {
    /// Nothing has to be asked of it any more, as the request ended when it began, or is over, and no profiler knows it.
    Forgotten,
    Own(Communicator),
    /// A copy whose reference is not counted: the engine's rings keep one alive for all such requests, and count these.
    Lent(ManuallyDrop<Communicator>),
}

impl Home {
    /// # Safety
    /// The engine's rings have [lent](super::native::Native::post) it, and are told when it is [forgotten](Self::forget).
    #[inline(always)]
    pub(super) unsafe fn lent(communicator: &Communicator) -> Self {
        // SAFETY: it is never dropped, and by the caller's contract not used when its original is gone.
        Self::Lent(unsafe { mem::transmute_copy(communicator) })
    }

    #[inline(always)]
    pub(super) fn get(&self) -> Option<&Communicator> {
        match self {
            Self::Forgotten => None,
            Self::Own(communicator) => Some(communicator),
            Self::Lent(communicator) => Some(communicator),
        }
    }

    #[inline(always)]
    pub(super) fn is_lent(&self) -> bool {
        matches!(self, Self::Lent(_))
    }

    /// A request whose way is not that of the rings keeps it by itself.
    #[inline(always)]
    pub(super) fn make_own(&mut self) {
        if self.is_lent() {
            self.make_own_now();
        }
    }

    #[cold]
    fn make_own_now(&mut self) {
        let Some(own) = self.get().cloned() else { return };
        let kept = own.engine().rings().and_then(|rings| rings.give_back());
        *self = Self::Own(own);
        drop(kept);
    }
}

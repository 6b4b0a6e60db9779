#![expect(
    unsafe_code,
    reason = "a communicator is lent to requests that others keep alive for them"
)]
//! The communicator of a request.

use core::{mem, ptr};

use super::communicator::Communicator;

/// See the module's documentation. Whether its reference is counted is known to the request, which has a place for that.
///
/// `None`: nothing has to be asked of it any more, as the request ended when it began, or is over, and no profiler knows it.
pub(super) struct Home(Option<Communicator>);

impl Home {
    pub(super) const NONE: Self = Self(None);

    #[inline(always)]
    pub(super) fn own(communicator: &Communicator) -> Self {
        Self(Some(communicator.clone()))
    }

    /// A copy whose reference is not counted: the engine's rings keep one alive for all such requests, and count these.
    ///
    /// # Safety
    /// The rings have [lent](super::native::Native::post) it. It is not dropped before it is [forgotten](Self::forget), when
    /// they are told, or [kept](Self::keep).
    #[inline(always)]
    pub(super) unsafe fn lent(communicator: &Communicator) -> Self {
        // SAFETY: by the caller's contract it is never dropped as it is, and not used when its original is gone.
        Self(Some(unsafe { ptr::read(communicator) }))
    }

    #[inline(always)]
    pub(super) fn get(&self) -> Option<&Communicator> {
        self.0.as_ref()
    }

    /// The rings are told, by the caller, that it is not lent any more.
    #[inline(always)]
    pub(super) fn forget(&mut self) {
        mem::forget(self.0.take());
    }

    /// It is lent, and from now on its reference is counted.
    #[cold]
    pub(super) fn keep(&self) {
        let Some(communicator) = self.get() else { return };
        mem::forget(communicator.clone());
        let kept = communicator.engine().rings().and_then(|rings| rings.give_back());
        drop(kept);
    }
}

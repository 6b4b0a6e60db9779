//! Memory that others refer to, on whatever thread, and whose owner waits until they do not any more.

use super::primitives::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// How many references there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loans(Arc<AtomicUsize>);

impl Loans {
    /// One more reference.
    pub(crate) fn lend(&self) -> Lease {
        self.0.fetch_add(1, Ordering::Relaxed);
        Lease(self.clone())
    }

    /// All have been given back, and nobody reads the memory any more.
    pub(crate) fn are_back(&self) -> bool {
        // Pairs with the release in `Lease::drop`.
        self.0.load(Ordering::Acquire) == 0
    }
}

/// A reference; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Lease(Loans);

impl Drop for Lease {
    fn drop(&mut self) {
        // Pairs with the load in `Loans::are_back`: reads of the memory happen before.
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

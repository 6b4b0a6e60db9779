//! Counts references to memory from any thread; the owner of the memory waits until there are none.

use super::primitives::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The number of references.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loans(Arc<AtomicUsize>);

impl Loans {
    /// Adds a reference.
    pub(crate) fn lend(&self) -> Lease {
        self.0.fetch_add(1, Ordering::Relaxed);
        Lease(self.clone())
    }

    /// Whether all references have been given back, so that no thread reads the memory any more.
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

//! Counts references to memory from any thread; the owner of the memory waits until there are none.

use super::primitives::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The number of references.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pins(Arc<AtomicUsize>);

impl Pins {
    /// Adds a reference.
    pub(crate) fn lend(&self) -> Pin {
        self.0.fetch_add(1, Ordering::Relaxed);
        Pin(self.clone())
    }

    /// References that have not been given back.
    #[cfg(feature = "mpi")]
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether all references have been given back, so that no thread reads the memory any more.
    pub(crate) fn are_released(&self) -> bool {
        // Pairs with the release in `Pin::drop`.
        self.0.load(Ordering::Acquire) == 0
    }
}

/// A reference; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Pin(Pins);

impl Drop for Pin {
    fn drop(&mut self) {
        // Pairs with the load in `Pins::are_released`: reads of the memory happen before.
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

//! Whether the program waits by itself.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Whether a program watches the descriptor. If so, each pass that finds nothing asks to be woken. All clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched(Arc<AtomicBool>);

impl Watched {
    /// It does.
    pub(super) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// It does not: only whether there is a descriptor was asked.
    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

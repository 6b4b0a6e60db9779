//! The profiler of an engine, and the calls of its program that consist of others.

use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::AtomicU64;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

use super::{super::status::Status, profiler::Profiler};

/// A call that consists of others: its thread, and the operations that have ended in it so far.
type Nested = (ThreadId, Vec<(u64, Status)>);

/// The profiler of an engine, and the numbers that its requests have.
#[derive(Debug)]
pub(in super::super) struct Profile {
    profiler: Option<Arc<dyn Profiler>>,
    /// The fabric wants to know the calls, too, by name only.
    pub(super) noted: bool,
    pub(super) numbers: AtomicU64,
    /// Calls in progress that consist of others.
    nested: Mutex<Vec<Nested>>,
}

impl Profile {
    pub(in super::super) fn new(profiler: Option<Arc<dyn Profiler>>, noted: bool) -> Self {
        Self {
            profiler,
            noted,
            numbers: AtomicU64::new(1),
            nested: Mutex::default(),
        }
    }

    pub(super) fn nested(&self) -> MutexGuard<'_, Vec<Nested>> {
        self.nested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this thread is in a call that consists of others.
    pub(super) fn is_nested(&self) -> bool {
        let own = thread::current().id();
        self.nested().iter().any(|(thread, _)| *thread == own)
    }

    /// Adds operations that have ended to the call that this thread is in.
    pub(super) fn add_ended(&self, ended: &[(u64, Status)]) {
        let own = thread::current().id();
        if let Some((_, all)) = self.nested().iter_mut().find(|(thread, _)| *thread == own) {
            all.extend(ended.iter().filter(|(number, _)| *number != 0));
        }
    }

    /// Returns whether nothing is told of calls: neither a profiler nor the fabric.
    #[inline(always)]
    pub(in super::super) fn is_off(&self) -> bool {
        self.profiler.is_none() && !self.noted
    }

    #[inline]
    pub(in super::super) fn profiler(&self) -> Option<&dyn Profiler> {
        self.profiler.as_deref()
    }
}

#![expect(unsafe_code, reason = "memory is allocated, and given back, by address")]
//! Memory of arrays, which is used again.

use alloc::{
    boxed::Box,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::{fmt, ptr};
use std::{
    alloc::{Layout, alloc_zeroed},
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// Smallest memory of an array, bytes.
const SMALLEST: usize = 4 << 10;
/// Bytes of released memory that are kept for further arrays.
const KEPT: usize = 64 << 20;

/// Free memory of arrays by size, a power of two.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Free>);

#[derive(Debug, Default)]
struct Free {
    memory: BTreeMap<usize, Vec<Box<[u8]>>>,
    bytes: usize,
}

impl Pool {
    fn take(&self, size: usize) -> Option<Box<[u8]>> {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = free.memory.get_mut(&size)?.pop()?;
        free.bytes -= size;
        Some(memory)
    }

    fn put(&self, memory: Box<[u8]>) {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + memory.len() <= KEPT {
            free.bytes += memory.len();
            free.memory.entry(memory.len()).or_default().push(memory);
        }
    }
}

/// The memory of an array. It returns to the pool with the last reference, be it the program's or the network's.
pub(super) struct Memory {
    pub(super) base: *mut u8,
    size: usize,
    pool: Weak<Pool>,
}

// SAFETY: it owns its memory, which is written only by the holder of the only reference, or by the one receive for
// which it was made, before any other reference exists.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Memory {
    /// `None`: there is not enough memory.
    pub(super) fn new(pool: &Arc<Pool>, len: usize) -> Option<Self> {
        let size = len.max(SMALLEST).checked_next_power_of_two().unwrap_or(len);
        let memory = pool.take(size).or_else(|| zeros(size))?;
        Some(Self {
            base: Box::into_raw(memory).cast(),
            size,
            pool: Arc::downgrade(pool),
        })
    }
}

/// `size` zero bytes, of which no page is touched before it is used; `None`: there is not enough memory.
fn zeros(size: usize) -> Option<Box<[u8]>> {
    let layout = Layout::array::<u8>(size).ok().filter(|layout| layout.size() > 0)?;
    // SAFETY: the layout has a size.
    let memory = unsafe { alloc_zeroed(layout) };
    // SAFETY: if it is not null it was allocated with the layout of a box of `size` bytes, which are zeros.
    (!memory.is_null()).then(|| unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(memory, size)) })
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `new` took it from a box of this length, and this was the last reference.
        let memory = unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(self.base, self.size)) };
        if let Some(pool) = self.pool.upgrade() {
            pool.put(memory);
        }
    }
}

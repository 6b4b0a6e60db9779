#![expect(unsafe_code, reason = "the network reads and writes the memory of arrays")]
//! Buffer arrays (the PACS-CS paper, section 5; `docs/papers.md`): memory of the library that a program fills in place,
//! sends in one call whatever its size, and sends on as received, without a copy.

use alloc::sync::Arc;
use core::{fmt, ops::Deref, slice};

use super::{
    buffer::{Buffer, Owner},
    pool::{Memory, Pool},
};
use crate::mpi::datatype::{Datatype, Kind};

/// Bytes that can be sent from where they are, any number of times, and to several destinations at once. Cheap to
/// clone: clones are the same array.
///
/// The content of a new array is not defined (though initialised). While it is being sent, or has clones, it can be
/// read but not written. Dropping it releases it (`pmReleaseSendBufferArray`, `pmReleaseReceiveBufferArray`); a send
/// that has begun goes on.
#[derive(Clone)]
pub struct Array {
    memory: Owner,
    len: usize,
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Array").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Deref for Array {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: initialised memory of at least this length; it is not written while it is shared (`get_mut`), and a
        // receive has ended before it gives an array.
        unsafe { slice::from_raw_parts(self.memory.base, self.len) }
    }
}

impl Array {
    /// An array of `len` bytes; `None`: there is not enough memory.
    pub(super) fn new(pool: &Arc<Pool>, len: usize) -> Option<Self> {
        let memory = Arc::new(Memory::new(pool, len)?);
        Some(Self { memory, len })
    }

    /// Its bytes to fill in, if there is no other reference to them: the array is not being sent, and has no clones
    /// (`pmSendDoneBufferArray`).
    #[must_use]
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        let len = self.len;
        let memory = Arc::get_mut(&mut self.memory)?;
        // SAFETY: this is the only reference, and it is borrowed mutably.
        Some(unsafe { slice::from_raw_parts_mut(memory.base, len) })
    }

    /// Whether this is the only reference to it (`pmSendDoneBufferArray`). Makes no progress.
    #[must_use]
    pub fn is_free(&self) -> bool {
        Arc::strong_count(&self.memory) == 1
    }

    /// Keeps the first `len` bytes, if the array is longer.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub(super) fn buffer(&self) -> Option<Buffer> {
        // SAFETY: the buffer owns a reference, so the memory stays and is not written to by others (`get_mut`).
        let buffer = unsafe { Buffer::new(self.memory.base, self.len as u64, &Datatype::predefined(Kind::Byte)) };
        Some(buffer?.owned_by(Arc::clone(&self.memory)))
    }
}

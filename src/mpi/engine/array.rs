#![expect(unsafe_code, reason = "the network reads and writes the memory of arrays")]
//! Buffer arrays (the PACS-CS paper, section 5; `docs/papers.md`): memory of the library that a program fills in place,
//! sends in one call whatever its size, and sends on as received, without a copy.

use alloc::{
    boxed::Box,
    sync::{Arc, Weak},
    vec,
    vec::Vec,
};
use core::{fmt, ops::Deref, ptr, slice};
use std::{
    alloc::{Layout, alloc_zeroed},
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use super::{
    Communicator, Entry, MatchedMessage, Mode, Request, Status,
    buffer::{Buffer, Owner},
};
use crate::mpi::{
    Rank,
    datatype::{Datatype, Kind},
    error::{Detail, Error, ErrorClass},
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
pub(in crate::mpi::engine) struct Memory {
    base: *mut u8,
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
    fn new(pool: &Arc<Pool>, len: usize) -> Option<Self> {
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

/// An array that is being received. Dropping it loses the array.
#[derive(Debug)]
pub struct Arriving {
    request: Request,
    array: Array,
}

impl Arriving {
    /// Waits until all of it has arrived.
    ///
    /// # Errors
    /// The sender is lost, or the communicator is revoked.
    pub fn wait(self) -> Result<(Array, Status), Error> {
        let status = self.request.wait()?;
        Ok((self.array, status))
    }

    /// Whether all of it has arrived: [`wait`](Self::wait) would not wait. Makes no progress.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.request.is_done()
    }
}

/// Arrays. They are messages of bytes: other receive calls can receive them, and arrays can receive what other send
/// calls send.
impl Communicator {
    /// An array of `len` bytes (`pmGetSendBufferArray`).
    ///
    /// # Panics
    /// There is not enough memory.
    #[must_use]
    pub fn array(&self, len: usize) -> Array {
        let array = self.try_array(len);
        array.unwrap_or_else(|| panic!("there is no memory for an array of {len} bytes"))
    }

    /// As [`array`](Self::array); `None`: there is not enough memory.
    #[must_use]
    pub fn try_array(&self, len: usize) -> Option<Array> {
        let memory = Arc::new(Memory::new(&self.engine().arrays, len)?);
        Some(Array { memory, len })
    }

    /// Begins to send an array with an id (`pmSendBufferArray`). Above the eager limit it is sent from where it is, and
    /// lands where its receiver uses it. The request need not be kept: [`Array::get_mut`] tells when the array may be
    /// written again.
    ///
    /// # Errors
    /// The rank or the id (a tag) is wrong, or the communicator is revoked.
    pub fn send_array(&self, array: &Array, destination: Rank, id: i32) -> Result<Request, Error> {
        const CALL: &str = "MPI_Isend";
        let bytes = || Entry::of(CALL, array.len as u64, &Datatype::predefined(Kind::Byte));
        let span = self.enter(|| bytes().with_peer(destination).with_tag(id));
        let buffer = array.buffer();
        let buffer = buffer.ok_or_else(|| self.locate(Error::new(ErrorClass::Count, CALL)));
        span.begin(buffer.and_then(|buffer| self.isend_buffer(CALL, Mode::Standard, buffer, destination, id)))
    }

    /// Waits for an array from this source with this id, and receives it (`pmReceiveBufferArray`). Both may be
    /// wildcards.
    ///
    /// # Errors
    /// The rank or the id is wrong, the communicator is revoked, or the sender is lost.
    pub fn receive_array(&self, source: Rank, id: i32) -> Result<(Array, Status), Error> {
        self.arrive(self.mprobe(source, id)?)?.wait()
    }

    /// Begins to receive an array from this source with this id, if one has been sent. Makes progress once.
    ///
    /// # Errors
    /// The rank or the id is wrong, or the communicator is revoked.
    pub fn poll_array(&self, source: Rank, id: i32) -> Result<Option<Arriving>, Error> {
        let message = self.improbe(source, id)?;
        message.map(|message| self.arrive(message)).transpose()
    }

    fn arrive(&self, message: MatchedMessage) -> Result<Arriving, Error> {
        const CALL: &str = "MPI_Imrecv";
        let (number, bytes) = (message.number, message.status().len);
        let span = self.enter(|| Entry {
            requests: vec![number],
            ..Entry::of(CALL, bytes, &Datatype::predefined(Kind::Byte))
        });
        let len = usize::try_from(bytes).ok();
        let array = len.and_then(|len| self.try_array(len));
        let buffer = array.as_ref().and_then(Array::buffer);
        match (array, buffer) {
            (Some(array), Some(buffer)) => Ok(Arriving {
                request: span.begin(Self::receive_matched(CALL, message, buffer))?,
                array,
            }),
            _ => {
                let detail = Detail::Value {
                    argument: "bytes of the message",
                    value: bytes as i64,
                    min: 0,
                    max: isize::MAX as i64,
                };
                span.end(Err(self.locate(Error::new(ErrorClass::NoMem, CALL).with_detail(detail))))
            }
        }
    }
}

#![expect(unsafe_code, reason = "sends from memory of its own")]
//! Buffered sends: messages are copied, and kept until they are sent (MPI 3.6).

use alloc::vec::Vec;

use super::{Communicator, Mode, Request, uninterrupted};
use crate::mpi::{
    Rank,
    datatype::{Datatype, Kind},
    error::{Detail, Error, ErrorClass},
};

/// A buffer for buffered sends: those of a process, of a communicator or of a session. It allocates as it needs, up to
/// its size; dropping it waits until all of its messages are sent.
#[derive(Debug, Default)]
pub struct AttachedBuffer {
    size: usize,
    used: usize,
    messages: Vec<(Request, Vec<u8>)>,
}

impl AttachedBuffer {
    /// Size of the whole buffer, bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Attaches a buffer of `size` bytes, in place of an earlier one (`MPI_Buffer_attach`; with 0
    /// `MPI_Buffer_detach`). Waits until that one is free.
    pub fn resize(&mut self, size: usize) {
        self.flush();
        self.size = size;
    }

    /// Waits until all messages are sent (`MPI_Buffer_flush`). A send that has failed frees its memory, too.
    pub fn flush(&mut self) {
        for (mut request, _) in self.messages.drain(..) {
            let _ = uninterrupted(|| request.wait_mut());
        }
        self.used = 0;
    }

    /// Frees the messages that are sent, and returns whether none is left (`MPI_Buffer_iflush` begins this, and ends
    /// when it returns true). A send that has failed frees its memory, too.
    pub fn reap(&mut self) -> bool {
        let used = &mut self.used;
        self.messages.retain_mut(|(request, message)| {
            let is_pending = matches!(uninterrupted(|| request.test()), Ok(None));
            *used -= if is_pending { 0 } else { message.len() };
            is_pending
        });
        self.messages.is_empty()
    }

    /// Sends a copy of `count` elements at `base`, and never waits (`MPI_Bsend`). Each message takes as many bytes as it
    /// has.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` if the message does not fit; else those of [`Communicator::send`].
    ///
    /// # Safety
    /// The data of `count` elements are initialised memory that may be read through `base`, and is not written to
    /// meanwhile.
    pub unsafe fn send(
        &mut self,
        comm: &Communicator,
        (base, count, datatype): (*const u8, u64, &Datatype),
        (destination, tag): (Rank, i32),
    ) -> Result<(), Error> {
        const CALL: &str = "MPI_Bsend";
        let wrong = |error| comm.locate(Error::datatype(CALL, error));
        let needed = datatype.packed_size(count).map_err(wrong)?;
        let len = self.room_for(needed).map_err(|error| comm.locate(error))?;
        let mut message = Vec::with_capacity(len);
        // SAFETY: the caller's contract.
        let packed = unsafe { datatype.pack_at(base, count, 0, &mut message.spare_capacity_mut()[..len]) };
        // SAFETY: so many bytes have been written, and there is room for them.
        unsafe { message.set_len(packed) };
        let bytes = Datatype::predefined(Kind::Byte);
        let mut kept = None;
        let begin = || {
            let from = message.as_ptr();
            // SAFETY: the message is on the heap, is not changed, and is kept until the request has ended.
            let mut request = unsafe { comm.isend(Mode::Standard, from, packed as u64, &bytes, destination, tag) }?;
            if request.is_done() {
                return request.wait_mut().map(Some);
            }
            kept = Some(request);
            Ok(None)
        };
        let sent = || comm.message_as_one(CALL, (count, datatype), (destination, tag), None, begin, |_| None);
        uninterrupted(sent)?;
        if let Some(request) = kept {
            self.used += message.len();
            self.messages.push((request, message));
        }
        Ok(())
    }

    /// The length of a message of `needed` bytes, for which there is room now.
    fn room_for(&mut self, needed: u64) -> Result<usize, Error> {
        let fits = |attached: &Self| {
            usize::try_from(needed)
                .ok()
                .filter(|len| *len <= attached.size - attached.used)
        };
        if let Some(len) = fits(self) {
            return Ok(len);
        }
        self.reap();
        fits(self).ok_or_else(|| {
            let detail = Detail::Value {
                argument: "bytes of the message",
                value: needed as i64,
                min: 0,
                max: (self.size - self.used) as i64,
            };
            Error::new(ErrorClass::Buffer, "MPI_Bsend").with_detail(detail)
        })
    }
}

impl Drop for AttachedBuffer {
    fn drop(&mut self) {
        self.flush();
    }
}

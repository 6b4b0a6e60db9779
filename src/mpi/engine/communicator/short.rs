#![expect(unsafe_code, reason = "messages are given by pointer, as C does")]
//! Messages that may go by rings in memory: whether a call is one of these. What is wrong with a call, and all that is out
//! of the ordinary, is left to the general way.

use core::slice;

use super::{Communicator, Mode};
use crate::{
    messaging::tagged::Selector,
    mpi::{
        Rank,
        datatype::Datatype,
        engine::{buffer::Buffer, class::Class},
    },
    ring::LONG,
};

impl Communicator {
    /// Returns whether calls may take the way of short messages, and this communicator may be used.
    #[inline(always)]
    fn is_short(&self) -> bool {
        self.0.engine.is_short() && !self.is_revoked()
    }

    /// Sends a message by a ring, if there is one to that process and the message fits. Returns whether it did.
    ///
    /// # Safety
    /// See [`send`](Self::send).
    #[inline(always)]
    pub(super) unsafe fn send_short(
        &self,
        mode: Mode,
        base: *const u8,
        count: u64,
        datatype: &Datatype,
        destination: Rank,
        tag: i32,
    ) -> bool {
        let len = datatype.size().saturating_mul(count);
        if len > LONG as u64 || !self.is_short() || mode == Mode::Synchronous || tag < 0 {
            return false;
        }
        let (Some(begin), Some(process)) = (datatype.begin_of_small_run(count), self.targets().process(destination))
        else {
            return false;
        };
        // SAFETY: by the caller's contract these are the data of the elements, which are one run, of at least one element.
        let data = unsafe { slice::from_raw_parts(base.wrapping_offset(begin as isize), len as usize) };
        let bits = self.bits(Class::Message, tag as u32);
        self.0.engine.fabric.send_short(process, bits, data)
    }

    /// The selector and buffer of a receive that may get its message from a ring.
    ///
    /// # Safety
    /// See [`ireceive`](Self::ireceive).
    #[inline(always)]
    pub(super) unsafe fn short_receive(
        &self,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Option<(Selector, Buffer)> {
        if !self.is_short() {
            return None;
        }
        let selector = self.plain_selector(source, tag)?;
        // SAFETY: the caller's contract.
        let buffer = unsafe { Buffer::run_of(base, count, datatype) }?;
        Some((selector, buffer))
    }
}

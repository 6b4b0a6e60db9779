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
        engine::{
            buffer::PlainRun,
            class::Class,
            native::Native,
            packed::{Packing, packed_len},
            status::Status,
        },
    },
    ring::LONG,
};

impl Communicator {
    /// Asked first for short messages, if these may go by rings in memory, and this communicator may be used.
    #[inline(always)]
    pub(super) fn rings(&self) -> Option<&Native> {
        self.0.engine.rings().filter(|_| !self.is_revoked())
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
        if len > LONG as u64 || mode == Mode::Synchronous || tag < 0 {
            return false;
        }
        let Some(begin) = datatype.begin_of_small_run(count) else {
            // SAFETY: the caller's contract.
            return unsafe { self.send_packed(base, count, datatype, destination, tag) };
        };
        let Some(rings) = self.rings() else { return false };
        let Some(process) = self.process_of(destination) else {
            return false;
        };
        // SAFETY: by the caller's contract these are the data of the elements, which are one run, of at least one element.
        let data = unsafe { slice::from_raw_parts(base.wrapping_offset(begin as isize), len as usize) };
        rings.send_short(process, self.bits(Class::Message, tag as u32), data)
    }

    /// The same of elements that are not one run.
    ///
    /// # Safety
    /// See [`send`](Self::send).
    #[inline(never)]
    unsafe fn send_packed(
        &self,
        base: *const u8,
        count: u64,
        datatype: &Datatype,
        destination: Rank,
        tag: i32,
    ) -> bool {
        let Some(rings) = self.rings() else { return false };
        let Some(process) = self.process_of(destination) else {
            return false;
        };
        // SAFETY: the caller's contract.
        let packing = unsafe { Packing::new(base, count, datatype) };
        packing
            .is_some_and(|mut packing| rings.send_short(process, self.bits(Class::Message, tag as u32), &mut packing))
    }

    /// The selector and the room of a receive that may get its message from a ring.
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
    ) -> Option<(&Native, Selector, PlainRun)> {
        let rings = self.rings()?;
        let selector = self.plain_selector(source, tag)?;
        // SAFETY: the caller's contract.
        let room = unsafe { PlainRun::new(base, count, datatype) }?;
        Some((rings, selector, room))
    }

    /// Receives elements that are not one run from a ring, if there is one and the message comes there soon. `None`: nothing
    /// was done.
    ///
    /// # Safety
    /// See [`receive`](Self::receive).
    #[inline(never)]
    pub(super) unsafe fn receive_packed(
        &self,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        source: Rank,
        tag: i32,
    ) -> Option<Status> {
        let rings = self.rings()?;
        let selector = self.plain_selector(source, tag)?;
        let len = packed_len(count, datatype).filter(|len| *len <= LONG)?;
        let envelope = rings.receive_packed(&selector, len, |bytes| {
            // SAFETY: the caller's contract.
            unsafe { datatype.unpack_at(base, count, 0, bytes) };
        })?;
        Some(self.plain_status_of(&envelope))
    }
}

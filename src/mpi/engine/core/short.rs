//! Messages that go by rings in memory, past packets and queues.

use super::{Core, Owner, RequestId, State};
use crate::{
    messaging::{
        Messenger,
        tagged::{Envelope, Selector},
    },
    mpi::engine::buffer::Buffer,
    reliability::{PeerId, Which},
};

impl Core {
    /// Sends by a ring. `None`: the message has to go by [`send`](Self::send). Else returns whether there is something to
    /// transmit. `calm` is what [`is_calm`](Self::is_calm) says, or false.
    #[inline(always)]
    pub(crate) fn send_short(
        &mut self,
        messenger: &mut Messenger,
        process: u32,
        bits: u64,
        data: &[u8],
        calm: bool,
    ) -> Option<bool> {
        let peer = self.peers.get(process)?;
        if !calm && !self.tagged.may_send_short(peer) {
            return None;
        }
        let transmits = self.tagged.send_short(messenger, peer, bits, data)?;
        if transmits {
            self.touch(peer);
        }
        Some(transmits)
    }

    /// Posts a receive that names its source. `None`: [`receive`](Self::receive) takes it. `calm` is what
    /// [`is_calm`](Self::is_calm) says, or false.
    #[inline(always)]
    pub(crate) fn post(&mut self, selector: &Selector, buffer: Buffer, calm: bool) -> Option<RequestId> {
        let peer = self.peers.get(selector.source?)?;
        if !calm && (self.any_absent() || self.tagged.unexpected() > 0) {
            return None;
        }
        let (id, _) = self.request(Owner::Caller, Some(peer));
        let handle = self.tagged.post(selector, buffer, id.0);
        self.slots[id.0 as u32 as usize].handle = Some(handle);
        Some(id)
    }

    /// Takes the next short message, if it ends the request `awaited` well, which is forgotten, and this is the oldest
    /// posted receive; and the message is one of `which`. `None`: nothing was done.
    #[inline(always)]
    pub(crate) fn take_short(
        &mut self,
        messenger: &mut Messenger,
        awaited: RequestId,
        which: Which,
    ) -> Option<Envelope> {
        let envelope = self.tagged.take_short(messenger, awaited.0, which)?;
        let index = awaited.0 as u32;
        let slot = &mut self.slots[index as usize];
        slot.state = State::Free;
        slot.handle = None;
        self.free.push(index);
        Some(envelope)
    }

    /// The peer from which a posted receive takes its message, if it names one.
    pub(crate) fn source_of(&self, id: RequestId) -> Option<PeerId> {
        let slot = self.slots.get(id.0 as u32 as usize)?;
        slot.handle.and(slot.peer)
    }

    /// Receives the next short message into the buffer, if the selector takes it, it fits, and no other receive or message
    /// is concerned, and it is one of `which`.
    #[inline(always)]
    pub(crate) fn receive_short(
        &mut self,
        messenger: &mut Messenger,
        selector: &Selector,
        buffer: &mut Buffer,
        which: Which,
    ) -> Option<Envelope> {
        self.tagged.take_short_into(messenger, selector, buffer, which)
    }

    /// Returns whether [`receive_short`](Self::receive_short) may be asked, and [`take_short`](Self::take_short): nothing
    /// else has come, and nothing is lost.
    pub(crate) fn is_clear(&self, messenger: &Messenger) -> bool {
        !self.any_absent() && self.tagged.is_clear(messenger)
    }

    /// Returns whether nothing is out of the ordinary, so that calls of this module need not look for that one by one.
    pub(crate) fn is_calm(&self, messenger: &Messenger) -> bool {
        !self.any_absent() && self.tagged.is_calm(messenger)
    }
}

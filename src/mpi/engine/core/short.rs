//! Messages that go by rings in memory, past packets and queues.

use super::{Core, Owner, RequestId, State, parked::Parked};
use crate::{
    messaging::{
        Messenger,
        tagged::{Envelope, Selector},
    },
    mpi::engine::buffer::{Buffer, PlainRun},
    reliability::{PeerId, Which},
    ring::Pieces,
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
        data: impl Pieces,
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
    /// [`is_calm`](Self::is_calm) says, or false; `word` is kept for a caller that knows it by its number, else 0.
    #[inline(always)]
    pub(crate) fn post(&mut self, selector: Selector, room: PlainRun, calm: bool, word: u64) -> Option<RequestId> {
        if self.may_park(calm) {
            return self.park(selector, room, word);
        }
        self.post_another(&selector, room, calm, word)
    }

    /// Returns whether a receive that is posted now is alone.
    #[inline(always)]
    pub(crate) fn may_park(&self, calm: bool) -> bool {
        calm && !self.has_posted()
    }

    /// [Posts](Self::post) a receive that is alone.
    #[inline(always)]
    pub(crate) fn park(&mut self, selector: Selector, room: PlainRun, word: u64) -> Option<RequestId> {
        let peer = self.peers.get(selector.source?)?;
        if self.spare == RequestId::NONE {
            self.make_spare();
        }
        let id = self.spare;
        self.parked = Some(Parked {
            id,
            peer,
            selector,
            room,
            word,
        });
        Some(id)
    }

    /// [Posts](Self::post) one that is not.
    #[inline]
    pub(crate) fn post_another(
        &mut self,
        selector: &Selector,
        room: PlainRun,
        calm: bool,
        word: u64,
    ) -> Option<RequestId> {
        let peer = self.peers.get(selector.source?)?;
        self.unpark();
        if !calm && (self.any_absent() || self.tagged.unexpected() > 0) {
            return None;
        }
        let (id, slot) = self.request(Owner::Caller, Some(peer));
        slot.word = word;
        slot.room = room.len() as u64;
        self.post_as(id, selector, room.into());
        Some(id)
    }

    #[inline]
    fn post_as(&mut self, id: RequestId, selector: &Selector, buffer: Buffer) {
        let handle = self.tagged.post(selector, buffer, id.0);
        self.slots[id.0 as u32 as usize].handle = Some(handle);
    }

    #[cold]
    fn make_spare(&mut self) {
        let (id, slot) = self.request(Owner::Caller, None);
        slot.state = State::Free;
        self.spare = id;
    }

    /// Returns whether any receive is posted.
    #[inline(always)]
    pub(crate) fn has_posted(&self) -> bool {
        self.parked.is_some() || self.tagged.posted() > 0
    }

    /// The receive that is parked becomes one like others.
    #[inline(always)]
    pub(crate) fn unpark(&mut self) {
        if self.parked.is_some() {
            self.unpark_it();
        }
    }

    #[inline(never)]
    fn unpark_it(&mut self) {
        let Some(parked) = self.parked.take() else { return };
        let Parked {
            id,
            peer,
            selector,
            room,
            word,
        } = parked;
        self.spare = RequestId::NONE;
        let slot = &mut self.slots[id.0 as u32 as usize];
        slot.generation = (id.0 >> 32) as u32;
        slot.owner = Owner::Caller;
        slot.state = State::Pending;
        slot.peer = Some(peer);
        slot.word = word;
        slot.room = room.len() as u64;
        self.post_as(id, &selector, room.into());
    }

    /// Takes the next short message, if it ends the request `awaited` well, which is forgotten, and this is parked; and the
    /// message is one of `which`. `None`: nothing was done.
    #[inline(always)]
    pub(crate) fn take_parked(
        &mut self,
        messenger: &mut Messenger,
        awaited: RequestId,
        which: Which,
    ) -> Option<Envelope> {
        let parked = self.parked.as_mut().filter(|parked| parked.id == awaited)?;
        let (selector, room) = (&parked.selector, parked.room.bytes());
        let envelope = self.tagged.take_short_into(messenger, selector, room, which)?;
        self.parked = None;
        self.spare = awaited.next();
        Some(envelope)
    }

    /// The same for any posted receive, if it is the oldest.
    #[inline(always)]
    pub(crate) fn take_short(
        &mut self,
        messenger: &mut Messenger,
        awaited: RequestId,
        which: Which,
    ) -> Option<Envelope> {
        if self.parked.is_some() {
            return self.take_parked(messenger, awaited, which);
        }
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
        if let Some(parked) = &self.parked {
            return (parked.id == id).then_some(parked.peer);
        }
        let slot = self.slots.get(id.0 as u32 as usize)?;
        slot.handle.and(slot.peer)
    }

    /// Receives the next short message into `room`, if the selector takes it, it fits, and no other receive or message
    /// is concerned, and it is one of `which`.
    #[inline(always)]
    pub(crate) fn receive_short(
        &mut self,
        messenger: &mut Messenger,
        selector: &Selector,
        room: &mut [u8],
        which: Which,
    ) -> Option<Envelope> {
        self.tagged.take_short_into(messenger, selector, room, which)
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

#![expect(unsafe_code, reason = "messages are given by pointer, as C does")]
//! Receives that their caller knows by a number alone: for interfaces that give numbers out, and would otherwise keep a
//! request for each; messages that were probed for, in the same way; and sends that need none. There are such only where
//! short messages go by rings in memory.

use super::{Communicator, Mode};
use crate::{
    messaging::tagged::Envelope,
    mpi::{
        Rank,
        datatype::Datatype,
        engine::{
            Engine, MatchedMessage, Request, Status,
            buffer::PlainRun,
            core::{InTurn, Known, NUMBERED, RequestId},
        },
    },
};

/// What is kept with a receive: the caller's word and the rank of its source.
const fn kept(word: u32, source: Rank) -> u64 {
    (word as u64) << 32 | source as u32 as u64
}

impl Communicator {
    /// Sends as [`isend`](Self::isend), if that ends at once and no profiler is told. Returns whether it did; else nothing
    /// was done.
    ///
    /// # Safety
    /// See [`isend`](Self::isend).
    #[must_use]
    #[inline]
    pub unsafe fn send_at_once(
        &self,
        mode: Mode,
        base: *const u8,
        count: u64,
        datatype: &Datatype,
        (destination, tag): (Rank, i32),
    ) -> bool {
        // SAFETY: the caller's contract.
        unsafe { self.send_short(mode, base, count, datatype, destination, tag) }
    }

    /// Begins to receive, if it can be known by a number: of 30 bits, in which [`Engine::NUMBERED`] is set. `None`:
    /// [`ireceive`](Self::ireceive) takes it. With it is kept a `word`, which is not 0.
    ///
    /// # Safety
    /// See [`ireceive`](Self::ireceive). It ends by [`Engine::wait_numbered`], or as the request that
    /// [`adopt`](Self::adopt) makes of it.
    #[inline]
    pub unsafe fn ireceive_numbered(
        &self,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
        (source, tag): (Rank, i32),
        word: u32,
    ) -> Option<u32> {
        // SAFETY: the caller's contract.
        let (rings, selector, room) = (unsafe { self.short_receive(base, count, datatype, source, tag) })?;
        selector.source?;
        let posted = rings.post_numbered(selector, room, kept(word, source));
        self.end_if_revoked();
        posted
    }

    /// Makes a request of a receive that was begun on this communicator, and has no number from now on. `None`: it has none.
    #[must_use]
    pub fn adopt(&self, number: u32) -> Option<Request> {
        let adopted = self.access(None, |core, _, _| core.adopt(number));
        adopted.map(|(id, room)| Request::pending(self, id, "MPI_Irecv", room))
    }

    /// Waits for a message and takes it, if it comes soon and can be known by a number, as a receive. `None`:
    /// [`mprobe`](Self::mprobe) takes it. With it is kept a `word`, which is not 0.
    ///
    /// It ends by [`Engine::mreceive_numbered`], or as the message that [`adopt_message`](Self::adopt_message) makes of it.
    #[must_use]
    #[inline]
    pub fn mprobe_numbered(&self, source: Rank, tag: i32, word: u32) -> Option<(u32, Status)> {
        let rings = self.rings()?;
        let selector = self.plain_selector(source, tag)?;
        rings.claim_numbered(&selector, word, |envelope| self.plain_status_of(envelope))
    }

    /// The message of this number, which was probed for on this communicator, and has no number from now on. `None`: there is
    /// none.
    #[must_use]
    pub fn adopt_message(&self, number: u32) -> Option<MatchedMessage> {
        let (status, bytes) = self.engine().rings()?.adopt_claimed(number)?;
        Some(self.taken_from_ring(status, bytes))
    }
}

/// Receives of these numbers.
struct Numbered<'a, I, F> {
    numbers: I,
    /// With the one that is waited for.
    kept: u64,
    ended: &'a mut F,
}

impl<I: Iterator<Item = u32>, F: FnMut(u64, &Envelope)> InTurn for Numbered<'_, I, F> {
    #[inline(always)]
    fn next(&mut self, known: Known<'_>) -> Option<RequestId> {
        let (id, kept) = known.numbered(self.numbers.next()?)?;
        self.kept = kept;
        Some(id)
    }

    #[inline(always)]
    fn end(&mut self, envelope: &Envelope) {
        (self.ended)(self.kept, envelope);
    }
}

impl Engine {
    /// The numbers of receives have this bit.
    pub const NUMBERED: u32 = NUMBERED;

    /// Waits for the receives of these numbers, one after the other, and tells the status of each that has ended well; it
    /// has no number then. Stops at the first one that has failed, does not end soon, or is none. Without `waits`, that is
    /// one that has not ended.
    #[inline]
    pub fn wait_numbered(&self, numbers: impl Iterator<Item = u32>, waits: bool, mut ended: impl FnMut(Status)) {
        let Some(rings) = self.rings() else { return };
        let mut ended = |kept: u64, envelope: &Envelope| {
            ended(Status {
                source: kept as u32 as Rank,
                tag: envelope.bits as u32 as i32,
                len: envelope.len,
                cancelled: false,
            });
        };
        let mut numbered = Numbered {
            numbers,
            kept: 0,
            ended: &mut ended,
        };
        let _ = rings.take_in_turn(&mut numbered, waits);
    }

    /// Receives the message of this number, if it fits; it has no number then. `None`: nothing was done.
    ///
    /// # Safety
    /// See [`Communicator::receive`].
    #[must_use]
    #[inline]
    pub unsafe fn mreceive_numbered(
        &self,
        number: u32,
        base: *mut u8,
        count: u64,
        datatype: &Datatype,
    ) -> Option<Status> {
        let rings = self.rings()?;
        // SAFETY: the caller's contract.
        let mut room = unsafe { PlainRun::new(base, count, datatype) }?;
        rings.receive_claimed(number, room.bytes())
    }

    /// The word kept with the message of this number.
    #[must_use]
    pub fn word_of_message(&self, number: u32) -> Option<u32> {
        self.rings()?.word_of_claimed(number)
    }

    /// The word kept with the receive of this number.
    #[must_use]
    pub fn word_of(&self, number: u32) -> Option<u32> {
        let mut word = None;
        self.fabric
            .access(&mut |core, _, _| word = core.numbered(number).map(|(_, kept)| (kept >> 32) as u32));
        word
    }
}

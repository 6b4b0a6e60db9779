//! Short messages between processes of one host: the part of a call that holds the lock. Nothing here reads a clock,
//! allocates or makes a pass that is not due; whatever is out of the ordinary goes the general way.

use core::{hint, mem};
use std::{boxed::Box, sync::Arc, vec::Vec};

use super::{
    Inner, Native, UNPASSED,
    lent::{Kept, Share},
};
use crate::{
    messaging::tagged::{Envelope, Selector},
    mpi::engine::{
        buffer::PlainRun,
        core::{InTurn, RequestId},
        status::Status,
    },
    progress::WaitPolicy,
    reliability::Which,
    ring::{LONG, Pieces},
    sync::Guard,
};

/// Looks at the rings of a caller that waits before it makes a pass. On one host an answer takes a fraction of this; and
/// other processes do not notice such a delay.
const LOOKS: u32 = 128;
/// The same for a probe, about 8 µs: programs that probe do more between two messages (Python's take 1 to 2 µs).
const PROBE_LOOKS: u32 = 2048;

impl Native {
    /// Sends a short message by a ring in memory, if there is one to that process now, and returns whether it did.
    #[inline(always)]
    pub(in super::super) fn send_short(&self, process: u32, bits: u64, mut data: impl Pieces) -> bool {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        inner.callers.note();
        let calm = inner.is_calm();
        if !calm && !inner.short {
            return false;
        }
        match inner
            .core
            .send_short(inner.driver.messenger_mut(), process, bits, &mut data, calm)
        {
            None => self.send_when_there_is_room(inner, process, bits, data),
            Some(false) => true,
            Some(true) => {
                transmit(guard);
                true
            }
        }
    }

    /// A receiver that takes one message after the other makes room sooner than a packet would be made, and packets take
    /// both sides more time. One that does not is waited for once.
    #[cold]
    fn send_when_there_is_room(&self, inner: &mut Inner, process: u32, bits: u64, mut data: impl Pieces) -> bool {
        let (messenger, len) = (inner.driver.messenger(), data.len() as u64);
        let goes = |peer| messenger.has_ring(peer) && inner.core.tagged.goes_by_ring(messenger, peer, len);
        if !inner.core.peers.get(process).is_some_and(goes) {
            return false;
        }
        if inner.stuck == Some(process) {
            return false;
        }
        // (What has to be taken first may be as long.)
        for _ in 0..LOOKS + data.len() as u32 / 64 {
            hint::spin_loop();
            let messenger = inner.driver.messenger_mut();
            if let Some(transmits) = inner.core.send_short(messenger, process, bits, &mut data, false) {
                if transmits {
                    inner.transmit();
                }
                return true;
            }
            if self.inner.is_wanted() {
                return false;
            }
        }
        inner.stuck = Some(process);
        false
    }

    /// Posts a receive that names its source, to be known by its number; see [`post`](Self::post).
    #[inline(always)]
    pub(in super::super) fn post_numbered(&self, selector: Selector, room: PlainRun, word: u64) -> Option<u32> {
        let mut inner = self.inner.lock();
        inner.callers.note();
        let calm = inner.is_calm();
        if !calm && !inner.short {
            return None;
        }
        inner.core.post_numbered(selector, room, calm, word)
    }

    /// Posts a receive that names its source, if nothing has come, and no process is lost, that it would have to be
    /// compared with. With it goes what [`Lent::lend`] says.
    #[inline(always)]
    pub(in super::super) fn post<T: Share>(
        &self,
        selector: Selector,
        room: PlainRun,
        home: &Arc<T>,
    ) -> Option<(RequestId, bool)> {
        let mut inner = self.inner.lock();
        inner.callers.note();
        let calm = inner.is_calm();
        if !calm && !inner.short {
            return None;
        }
        if inner.core.may_park(calm) {
            // (Of one that is alone, a counted reference takes less.)
            return inner.core.park(selector, room, 0).map(|id| (id, false));
        }
        Self::post_another(&mut inner, &selector, room, calm, home)
    }

    /// (By itself, as all that it calls would be in the way of a receive that is alone.)
    #[inline(never)]
    fn post_another<T: Share>(
        inner: &mut Inner,
        selector: &Selector,
        room: PlainRun,
        calm: bool,
        home: &Arc<T>,
    ) -> Option<(RequestId, bool)> {
        let id = inner.core.post_another(selector, room, calm, 0)?;
        Some((id, inner.lent.lend(home)))
    }

    /// Takes the next short message from the rings, if it ends this request well; forgets the request then. `None` says
    /// nothing of the request. A caller that `waits` gives the message a moment to come.
    #[inline(always)]
    pub(in super::super) fn take_short(&self, id: RequestId, waits: bool) -> Option<Envelope> {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        if !inner.may_skip_pass() || !(inner.is_calm() || inner.may_take()) {
            return None;
        }
        let taken = inner.core.take_parked(inner.driver.messenger_mut(), id, Which::InLine);
        if taken.is_some() {
            return taken;
        }
        self.take_short_later(inner, id, waits)
    }

    /// The same for a request to which its home is lent. `ended` is told what was received; after that the home is given back,
    /// and the caller drops what was kept for it.
    pub(in super::super) fn take_lent<R>(
        &self,
        id: RequestId,
        waits: bool,
        ended: impl FnOnce(&Envelope) -> R,
    ) -> Option<(R, Option<Kept>)> {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        if !inner.may_skip_pass() || !(inner.is_calm() || inner.may_take()) {
            return None;
        }
        let envelope = self.take_short_later(inner, id, waits)?;
        Some((ended(&envelope), inner.lent.give_back(1)))
    }

    /// A request keeps its home by itself from now on. The caller drops what was kept for it.
    #[cold]
    pub(in super::super) fn give_back(&self) -> Option<Kept> {
        self.inner.lock().lent.give_back(1)
    }

    /// Waits for receives, one after the other. Stops at the first one that has failed, or does not end soon; without `waits`,
    /// at the first that has not ended. The caller drops what was kept for them.
    #[inline(always)]
    pub(in super::super) fn take_in_turn(&self, receives: &mut impl InTurn, waits: bool) -> Option<Kept> {
        let mut guard = self.inner.lock();
        let before = guard.core.ended;
        let inner = &mut *guard;
        let mut next = receives.next(inner.core.known());
        while let Some(id) = next {
            let runs = inner.may_skip_pass() && (inner.is_calm() || inner.may_take());
            let left = match runs {
                true => inner.core.take_run(inner.driver.messenger_mut(), id, receives),
                false => Some(id),
            };
            let Some(id) = left else { break };
            let Some(envelope) = self.take_one_later(inner, id, waits) else {
                break;
            };
            receives.end(&envelope);
            next = receives.next(inner.core.known());
        }
        let kept = inner.lent.give_back(receives.given_back());
        self.unlock(guard, before);
        kept
    }

    #[inline(never)]
    fn take_one_later(&self, inner: &mut Inner, id: RequestId, waits: bool) -> Option<Envelope> {
        let ended = inner.core.take_well(id);
        if ended.is_some() {
            return ended;
        }
        // (The next message may be for another receive; a pass places it.)
        let is_other = (inner.is_calm() || inner.may_take()) && {
            let taken = self.await_short(inner, id, waits);
            if taken.is_some() {
                return taken;
            }
            inner.driver.messenger().has_short()
        };
        if inner.unpassed < UNPASSED && !is_other || inner.failure.is_some() {
            return None;
        }
        self.take_over(&mut inner.helper_listens);
        inner.enter();
        // (The general way reports a failure.)
        let _ = inner.poll();
        inner.core.take_well(id)
    }

    #[inline(never)]
    fn take_short_later(&self, inner: &mut Inner, id: RequestId, waits: bool) -> Option<Envelope> {
        let taken = inner.core.take_short(inner.driver.messenger_mut(), id, Which::InLine);
        // (It may have come with a pass.)
        let taken = taken.or_else(|| inner.core.take_well(id));
        if taken.is_some() {
            return taken;
        }
        self.await_short(inner, id, waits)
    }

    /// Looks at all rings; for a while, if the caller waits and the message can come there.
    fn await_short(&self, inner: &mut Inner, id: RequestId, waits: bool) -> Option<Envelope> {
        let source = inner.core.source_of(id).filter(|_| waits);
        let may_come = source.is_some_and(|source| inner.driver.messenger().has_ring(source));
        self.look(inner, if may_come { LOOKS } else { 1 }, |inner| {
            inner.core.take_short(inner.driver.messenger_mut(), id, Which::Begun)
        })
    }

    /// Receives the next short message from a ring into `room`, if it is one that the selector takes, fits, and is
    /// older than all others that the program might receive; gives it a moment to come. `None`: nothing was done.
    #[inline(always)]
    pub(in super::super) fn receive_short(&self, selector: &Selector, room: &mut [u8]) -> Option<Envelope> {
        self.receive_here(&mut self.inner.lock(), selector, room)
    }

    /// The same for elements of `len` bytes that are not one run: `place` puts what has come where it belongs. (The memory in
    /// between is kept.)
    pub(in super::super) fn receive_packed(
        &self,
        selector: &Selector,
        len: usize,
        place: impl FnOnce(&[u8]),
    ) -> Option<Envelope> {
        let mut guard = self.inner.lock();
        let mut scratch = mem::take(&mut guard.core.scratch);
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        let envelope = self.receive_here(&mut guard, selector, &mut scratch[..len]);
        if let Some(envelope) = &envelope {
            place(&scratch[..envelope.len as usize]);
        }
        guard.core.scratch = scratch;
        envelope
    }

    #[inline(always)]
    fn receive_here(&self, inner: &mut Inner, selector: &Selector, room: &mut [u8]) -> Option<Envelope> {
        inner.callers.note();
        if !inner.may_skip_pass() || !(inner.is_calm() || inner.is_clear()) || inner.core.has_posted() {
            return None;
        }
        let messenger = inner.driver.messenger_mut();
        let taken = inner.core.receive_short(messenger, selector, room, Which::InLine);
        if taken.is_some() {
            return taken;
        }
        self.await_for(inner, selector, room)
    }

    #[inline(never)]
    fn await_for(&self, inner: &mut Inner, selector: &Selector, room: &mut [u8]) -> Option<Envelope> {
        let source = selector.source.and_then(|process| inner.core.peers.get(process));
        // (A longer message comes as a packet.)
        let may_come = room.len() <= LONG && source.is_some_and(|source| inner.driver.messenger().has_ring(source));
        self.look(inner, if may_come { LOOKS } else { 1 }, |inner| {
            inner
                .core
                .receive_short(inner.driver.messenger_mut(), selector, room, Which::Begun)
        })
    }

    /// Takes the next short message from a ring for a matched probe, with the same conditions as
    /// [`receive_short`](Self::receive_short); gives it a while to come.
    pub(in super::super) fn claim_short(&self, selector: &Selector) -> Option<(Envelope, Box<[u8]>)> {
        let mut bytes = Vec::new();
        let mut guard = self.inner.lock();
        let before = guard.core.ended;
        let envelope = self.claim(&mut guard, selector, &mut bytes);
        self.unlock(guard, before);
        Some((envelope?, bytes.into_boxed_slice()))
    }

    /// The same for a message that is known by its number from then on, with what the caller wants to be kept: a word, which
    /// is not 0, and the status.
    #[inline]
    pub(in super::super) fn claim_numbered(
        &self,
        selector: &Selector,
        word: u32,
        status_of: impl FnOnce(&Envelope) -> Status,
    ) -> Option<(u32, Status)> {
        let mut guard = self.inner.lock();
        let before = guard.core.ended;
        let inner = &mut *guard;
        if !inner.claims.has_room() {
            return None;
        }
        let mut bytes = inner.claims.memory();
        let claimed = match self.claim(inner, selector, &mut bytes) {
            Some(envelope) => {
                let status = status_of(&envelope);
                Some((inner.claims.put(word, status, bytes), status))
            }
            None => {
                inner.claims.give_back(bytes);
                None
            }
        };
        self.unlock(guard, before);
        claimed
    }

    /// Receives a message that was claimed by its number, if it fits into `room`. `None`: nothing was done.
    #[inline]
    pub(in super::super) fn receive_claimed(&self, number: u32, room: &mut [u8]) -> Option<Status> {
        self.inner.lock().claims.receive(number, room)
    }

    /// The word kept with a message that was claimed by its number.
    pub(in super::super) fn word_of_claimed(&self, number: u32) -> Option<u32> {
        self.inner.lock().claims.word_of(number)
    }

    /// The message of this number, which it has no more.
    pub(in super::super) fn adopt_claimed(&self, number: u32) -> Option<(Status, Box<[u8]>)> {
        self.inner.lock().claims.adopt(number)
    }

    #[inline]
    fn claim(&self, inner: &mut Inner, selector: &Selector, bytes: &mut Vec<u8>) -> Option<Envelope> {
        inner.callers.note();
        if !inner.may_skip_pass() {
            self.pass_before_a_wait(inner)?;
        }
        if !(inner.is_calm() || inner.is_clear()) || inner.core.has_posted() {
            return None;
        }
        let source = selector.source.and_then(|process| inner.core.peers.get(process));
        let may_come = source.is_some_and(|source| inner.driver.messenger().has_ring(source));
        let looks = match self.policy {
            _ if !may_come => 1,
            WaitPolicy::Spin | WaitPolicy::Adaptive { .. } => PROBE_LOOKS,
            WaitPolicy::Block | WaitPolicy::Yield { .. } => LOOKS,
        };
        let taken = self.look(inner, looks, |inner| {
            let messenger = inner.driver.messenger_mut();
            inner.core.tagged.claim_short(messenger, selector, bytes, Which::Begun)
        });
        if taken.is_none() {
            inner.unpassed = UNPASSED;
        }
        taken
    }

    /// The pass that is due, now that there is nothing else to do: no message has come yet. `None`: one has.
    #[cold]
    fn pass_before_a_wait(&self, inner: &mut Inner) -> Option<()> {
        if inner.failure.is_some() || inner.driver.messenger_mut().find_short() {
            return None;
        }
        self.take_over(&mut inner.helper_listens);
        inner.enter();
        // (The general way reports a failure.)
        inner.poll().ok()
    }

    /// Asks `take` when a message lies in a ring, and looks so often whether one does.
    #[inline(always)]
    fn look<T>(&self, inner: &mut Inner, looks: u32, mut take: impl FnMut(&mut Inner) -> Option<T>) -> Option<T> {
        for _ in 0..looks {
            if inner.driver.messenger_mut().find_short() {
                return take(inner);
            }
            if self.inner.is_wanted() {
                return None;
            }
        }
        None
    }
}

impl Inner {
    /// Returns whether a call may do without a pass: now and then one is made, so that other peers and timers get their
    /// turn.
    #[inline(always)]
    fn may_skip_pass(&mut self) -> bool {
        if self.unpassed >= UNPASSED {
            return false;
        }
        self.unpassed += 1;
        true
    }

    /// Returns whether short messages may go by rings, and nothing is out of the ordinary. Calls of this module do not
    /// change that; after all others it is looked at anew.
    #[inline(always)]
    fn is_calm(&mut self) -> bool {
        self.calm || self.becomes_calm()
    }

    #[inline(never)]
    fn becomes_calm(&mut self) -> bool {
        self.calm = self.short && self.core.is_calm(self.driver.messenger());
        self.calm
    }

    #[cold]
    fn may_take(&self) -> bool {
        self.short && self.core.tagged.may_take_short(self.driver.messenger())
    }

    #[cold]
    fn is_clear(&self) -> bool {
        self.short && self.core.is_clear(self.driver.messenger())
    }
}

/// Transmits what a message by a ring has left to transmit: the receiver sleeps.
#[cold]
fn transmit(mut inner: Guard<'_, Inner>) {
    inner.transmit();
}

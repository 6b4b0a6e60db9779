//! Processes that are lost: which processes are told, and which operations end.

use alloc::vec::Vec;
use core::{iter, time::Duration};

use super::{
    Core, Ended, LEAVING, LOST, MISSED, RequestId, State, WAKE,
    leaving::{AnyOf, Missed},
};
use crate::{
    error::PeerError,
    events::event,
    messaging::{
        Messenger,
        tagged::{Outcome, Selector},
    },
    mpi::{engine::class::is_of_finalize, group::Group},
    reliability::PeerId,
    time::Instant,
};

impl Core {
    /// Why a receive from any of these processes would wait in vain: one of them has failed, of which the program has
    /// not been told on this communicator, or no process is left that could send.
    pub(crate) fn fail_any(&self, any_of: &AnyOf) -> Option<Ended> {
        if self.leaving.others.is_empty() {
            self.peers.all_lost().next()?;
        }
        let AnyOf { group, context } = any_of;
        let untold = |process: &&u32| group.rank_of(**process).is_some() && !self.told.contains(&(*context, **process));
        let failed = self.failures.iter().find(untold);
        let failed = failed.copied().or_else(|| {
            let mut others = group.processes().filter(|process| *process != self.process);
            let first = others.next()?;
            let is_absent = |process| self.absent(process, 0).is_some();
            // This process may still send to itself.
            let sends = !self.sole_caller_waits && group.rank_of(self.process).is_some();
            (!sends && is_absent(first) && others.all(is_absent)).then_some(first)
        })?;
        Some(Ended::failed(
            failed,
            self.absent(failed, 0).unwrap_or(PeerError::Closed),
        ))
    }

    /// How a request that its caller waits for has ended, as [`take`](Self::take); also if it is a receive that waits
    /// in vain.
    #[inline]
    pub(crate) fn take_awaited(&mut self, id: RequestId) -> Option<Ended> {
        self.take(id).or_else(|| {
            self.end_in_vain(iter::once(id));
            self.take(id)
        })
    }

    /// Ends the first of these requests if all of them are receives that wait in vain.
    pub(crate) fn end_in_vain(&mut self, mut awaited: impl Iterator<Item = RequestId>) {
        if self.leaving.others.is_empty() {
            return;
        }
        if let Some(first) = awaited.next()
            && let Some(ended) = self.fail_unmatched(first)
            && awaited.all(|id| self.fail_unmatched(id).is_some())
        {
            self.cancel_posted(first);
            self.end(first, ended);
        }
    }

    /// Why a receive from any source that has matched no message yet would wait in vain.
    fn fail_unmatched(&mut self, id: RequestId) -> Option<Ended> {
        let slot = self.slot(id)?;
        let (handle, any_of) = (slot.handle?, slot.any_of.take()?);
        let ended = match self.tagged.is_posted(handle) {
            true => self.fail_any(&any_of),
            false => None,
        };
        self.slot(id)?.any_of = Some(any_of);
        ended
    }

    /// The lost process because of which a probe fails, if it found `nothing`. A probe that does not wait may look for
    /// messages of a process that has left in order: there are none.
    pub(crate) fn look_for_lost(
        &self,
        selector: &Selector,
        any_of: Option<&AnyOf>,
        nothing: bool,
        waits: bool,
    ) -> Option<(u32, PeerError)> {
        if !nothing {
            return None;
        }
        let process = match selector.source {
            Some(process) => process,
            None => self.fail_any(any_of?)?.envelope.source,
        };
        let error = self.absent(process, selector.bits)?;
        (waits || self.lost(process).is_some()).then_some((process, error))
    }

    /// The program has been told on this communicator that a process is lost: its receives from any source do not fail
    /// because of it any more.
    pub(crate) fn tell_lost(&mut self, context: u32, process: u32) {
        if self.failures.contains(&process) {
            self.told.insert((context, process));
        }
    }

    /// Ends the receives that name no source and would wait in vain.
    fn fail_receives_from_any(&mut self) {
        let mut failed = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            if let (State::Pending, Some(any_of)) = (&slot.state, &slot.any_of)
                && let Some(ended) = self.fail_any(any_of)
            {
                let id = RequestId(u64::from(slot.generation) << 32 | index as u64);
                failed.push((id, ended));
            }
        }
        for (id, ended) in failed {
            if self.cancel_posted(id) {
                self.end(id, ended);
            }
        }
    }

    /// A process is lost: ends the operations that wait for it, and tells the other processes, unless it has said
    /// goodbye.
    pub(super) fn lose(&mut self, messenger: &mut Messenger, now: Instant, process: u32, error: PeerError) {
        if !self.lose_quietly(process, error) || error == PeerError::Closed {
            return;
        }
        for other in 0..self.peers.size() {
            if self.lost(other).is_none()
                && let Some(peer) = self.peers.meet(messenger, other)
            {
                self.tagged
                    .send_active(messenger, now, peer, LOST, &process.to_be_bytes());
                self.touch(peer);
            }
        }
    }

    /// The same, without telling the others. False: the process was lost before, or there is no such process.
    fn lose_quietly(&mut self, process: u32, error: PeerError) -> bool {
        if !self.peers.lose(process, error) {
            return false;
        }
        let failed = error != PeerError::Closed;
        if failed {
            event!(WARN, rank = self.process, lost = process, %error, "rank lost");
            self.failures.push(process);
        }
        self.fail_receives_from_any();
        if failed {
            self.any_failed = true;
        }
        self.losses.push_back((process, error));
        true
    }

    /// The launcher reports that a process has ended. It reports this to every process, so this one passes nothing on.
    pub(crate) fn declare_lost(&mut self, messenger: &mut Messenger, now: Instant, process: u32) {
        if process == self.process || self.lost(process).is_some() {
            return;
        }
        // Even without a session the network would answer so: no process listens at that address any more.
        let error = PeerError::Refused;
        if let Some(peer) = self.peers.meet(messenger, process) {
            self.tagged.handle_down(messenger, peer, error);
            self.lose_quietly(process, error);
            self.refuse(messenger, now, process, peer);
            self.collect();
        }
    }

    /// A probe begins to look for such messages (`on`), or ends. (Where several probe, each says so each time it
    /// looks.)
    pub(crate) fn set_probed(
        &mut self,
        messenger: &mut Messenger,
        selector: &Selector,
        any_of: Option<&AnyOf>,
        on: bool,
    ) {
        let Self { probed, probed_any, .. } = self;
        match (selector.source, any_of) {
            (Some(process), _) => {
                let Some(peer) = self.peers.meet(messenger, process) else {
                    return;
                };
                match probed.iter().position(|other| *other == peer) {
                    None if on => probed.push(peer),
                    Some(index) if !on => drop(probed.swap_remove(index)),
                    _ => {}
                }
            }
            (None, Some(any_of)) => match probed_any.iter().position(|other| other.context == any_of.context) {
                None if on => probed_any.push(any_of.clone()),
                Some(index) if !on => drop(probed_any.swap_remove(index)),
                _ => {}
            },
            (None, None) => {}
        }
    }

    /// Peers that pending requests and probes need: their silence must be noticed.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = PeerId> + '_ {
        let pending = self.slots.iter().filter(|slot| matches!(slot.state, State::Pending));
        let requested = pending.clone().filter_map(|slot| slot.peer);
        let any = pending
            .filter_map(|slot| slot.any_of.as_deref())
            .chain(&self.probed_any);
        let any = any.flat_map(|any_of| any_of.group.processes().filter_map(|process| self.peers.get(process)));
        requested.chain(self.probed.iter().copied()).chain(any)
    }

    // ---- processes that have called MPI_Finalize

    /// Returns whether any process is lost or has left.
    #[inline]
    pub(super) fn any_absent(&self) -> bool {
        self.peers.any_lost() || !self.leaving.others.is_empty()
    }

    /// Why no further message with these match bits will come from a process.
    #[inline]
    pub(super) fn absent(&self, process: u32, bits: u64) -> Option<PeerError> {
        self.lost(process)
            .or_else(|| (self.leaving.others.contains(&process) && !is_of_finalize(bits)).then_some(PeerError::Closed))
    }

    /// How a collective fails because one of its processes has left before it took part in it, or in an earlier one of
    /// the same communicator.
    pub(in crate::mpi::engine) fn missed(&mut self, bits: u64, members: &Group) -> Option<Ended> {
        let process = self.leaving.give_up(bits, members)?;
        Some(Ended::failed(process, self.lost(process).unwrap_or(PeerError::Closed)))
    }

    /// This process begins nothing more: tells the peers that it has talked with now, and others when they open a
    /// session.
    pub(crate) fn leave(&mut self, messenger: &mut Messenger, now: Instant) {
        let peers = (0..self.peers.size()).filter_map(|process| self.peers.get(process));
        let endpoint = messenger.layer();
        let known =
            |peer: &PeerId| endpoint.down(*peer).is_none() && (endpoint.is_up(*peer) || !endpoint.is_idle(*peer));
        self.leaving.untold = Some(peers.filter(known).collect());
        self.tell_leaving(messenger, now);
    }

    pub(in crate::mpi::engine) fn tell_leaving(&mut self, messenger: &mut Messenger, now: Instant) {
        let Some(mut untold) = self.leaving.untold.take() else {
            return;
        };
        untold.retain(|&peer| {
            // The notice would overtake the sends that are held back.
            if self.tagged.holds_requests(peer) {
                return true;
            }
            // It may overtake what others tell this peer: a collective that this process has given up because of another one
            // would be given up there because of this process.
            let process = messenger.layer().processor(peer);
            for missed in process
                .into_iter()
                .flat_map(|process| self.leaving.given_up_with(process))
            {
                self.tagged
                    .send_active(messenger, now, peer, MISSED, &missed.to_bytes());
            }
            self.tagged.send_active(messenger, now, peer, LEAVING, &[]);
            self.touch(peer);
            false
        });
        self.leaving.untold = Some(untold);
    }

    /// A peer has opened a session that may not know yet that this process leaves.
    pub(super) fn tell_also(&mut self, messenger: &mut Messenger, now: Instant, peer: PeerId) {
        if let Some(untold) = &mut self.leaving.untold {
            untold.push(peer);
            self.tell_leaving(messenger, now);
        }
    }

    /// Another process has left: receives that still wait for it fail.
    pub(super) fn handle_leaving(&mut self, messenger: &mut Messenger, peer: PeerId) {
        let process = messenger.layer().processor(peer);
        let Some(process) = process.filter(|process| *process < self.peers.size()) else {
            return;
        };
        if self.leaving.others.insert(process) {
            let which = |bits| !is_of_finalize(bits);
            self.tagged
                .end_unmatched(messenger, (peer, process), which, PeerError::Closed);
            self.collect();
            self.fail_receives_from_any();
        }
    }

    /// Turns a receive that has failed because its sender has left into a cancelled one: its caller does not need the
    /// message.
    pub(super) fn cancel_unanswered(&mut self, id: RequestId) -> bool {
        let Some(slot) = self.slot(id).filter(|slot| slot.pins.is_none()) else {
            return false;
        };
        let State::Ended(ended) = slot.state else { return false };
        if ended.outcome != Outcome::Failed(PeerError::Closed) || self.lost(ended.envelope.source).is_some() {
            return false;
        }
        if let Some(slot) = self.slot(id) {
            slot.state = State::Ended(Ended::with(Outcome::Cancelled));
        }
        true
    }

    /// A collective has failed: if that is because a process has left without taking part in it, tells the other
    /// processes of the collective, which would wait for this one.
    pub(in crate::mpi::engine) fn tell_missed(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        (bits, members): (u64, &Group),
        failure: &Ended,
    ) {
        let process = failure.envelope.source;
        if failure.outcome != Outcome::Failed(PeerError::Closed) || is_of_finalize(bits) {
            return;
        }
        let missed = Missed::new(process, bits);
        let data = missed.to_bytes();
        if !self.leaving.miss(missed) {
            self.leaving.give_up(bits, members);
            return;
        }
        for other in members.processes() {
            if other != process
                && self.lost(other).is_none()
                && let Some(peer) = self.peers.meet(messenger, other)
            {
                self.tagged.send_active(messenger, now, peer, MISSED, &data);
                self.touch(peer);
            }
        }
    }

    /// Wakes another process, which sleeps: the message says nothing else.
    pub(in crate::mpi::engine) fn wake(&mut self, messenger: &mut Messenger, now: Instant, process: u32) {
        if self.lost(process).is_none()
            && let Some(peer) = self.peers.meet(messenger, process)
        {
            self.tagged.send_active(messenger, now, peer, WAKE, &[]);
            self.touch(peer);
        }
    }

    /// Another process reports that a collective needs a process that has left.
    pub(super) fn handle_missed(&mut self, data: &[u8]) {
        let Some(missed) = Missed::heard(data) else {
            return;
        };
        let process = missed.process();
        if process < self.peers.size() && process != self.process && self.leaving.miss(missed) {
            self.misses = true;
        }
    }

    /// This process takes `process` for lost: if it is there after all, or again, it must not wait for this one.
    pub(super) fn refuse(&mut self, messenger: &mut Messenger, now: Instant, process: u32, peer: PeerId) {
        if messenger.layer().is_up(peer) {
            self.tagged
                .send_active(messenger, now, peer, LOST, &process.to_be_bytes());
        }
        messenger.close(now, peer);
        self.touch(peer);
    }

    /// Called before the goodbye to all, from which processes that came back would conclude that this one has finished
    /// in order.
    pub(crate) fn refuse_returned(&mut self, messenger: &mut Messenger, now: Instant) {
        let lost: Vec<_> = self.all_lost().collect();
        for process in lost {
            if let Some(peer) = self.peers.get(process).filter(|peer| messenger.layer().is_up(*peer)) {
                self.refuse(messenger, now, process, peer);
            }
        }
    }

    /// Another process reports that it takes a process, perhaps this one, for lost.
    pub(super) fn handle_lost(&mut self, messenger: &mut Messenger, now: Instant, peer: PeerId, data: &[u8]) {
        let Ok(process) = <[u8; 4]>::try_from(data).map(u32::from_be_bytes) else {
            return;
        };
        if process == self.process {
            self.tagged.handle_down(messenger, peer, PeerError::Reset);
            if let Some(other) = messenger.layer().processor(peer) {
                self.lose_quietly(other, PeerError::Reset);
            }
        } else if self.lost(process).is_none()
            && let Some(lost) = self.peers.meet(messenger, process)
            && lost != peer
        {
            let error = PeerError::TimedOut {
                resends: 0,
                silence: Duration::ZERO,
            };
            self.tagged.handle_down(messenger, lost, error);
            self.lose(messenger, now, process, error);
            self.refuse(messenger, now, process, lost);
        }
    }
}

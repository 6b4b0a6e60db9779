//! Processes that are lost: who is told, and what ends for their sake.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::time::Duration;

use super::{AnyOf, Core, Ended, LEAVING, LOST, MISSED, RequestId, State};
use crate::{
    error::PeerError,
    messaging::{
        Messenger,
        tagged::{MARKED, Outcome, Selector},
    },
    mpi::engine::{collective::Collective, communicator::is_of_finalize},
    reliability::PeerId,
    time::Instant,
};

/// Processes that end MPI: nothing but the last barrier comes from them any more.
#[derive(Default)]
pub(super) struct Leaving {
    others: BTreeSet<u32>,
    /// This process does, too: peers that have not been told.
    untold: Option<Vec<PeerId>>,
    /// By context and class: the first collective that a process has not taken part in any more, and that process.
    missed: BTreeMap<u64, (u32, u32)>,
}

/// More communicators than this have no collectives when one of their processes has left.
const MAX_MISSED: usize = 1 << 12;

/// Context and class of a collective, and its number: the last of those that are counted are followed by 0.
fn split(bits: u64) -> (u64, u32) {
    let number = bits as u32;
    (bits >> 32, if bits & MARKED == 0 { number } else { number << 12 })
}

/// The number is this one or one that comes after it.
fn is_from(number: u32, first: u32) -> bool {
    number.wrapping_sub(first) < 1 << 31
}

impl Leaving {
    #[inline]
    pub(super) fn has_untold(&self) -> bool {
        self.untold.as_ref().is_some_and(|untold| !untold.is_empty())
    }

    /// A process has not taken part in the collective with these bits. False: that follows from what is known.
    fn miss(&mut self, bits: u64, process: u32) -> bool {
        let (kind, number) = split(bits);
        match self.missed.get(&kind) {
            Some(&(first, _)) if is_from(number, first) => return false,
            None if self.missed.len() >= MAX_MISSED => return false,
            _ => {}
        }
        self.missed.insert(kind, (number, process));
        true
    }
}

impl Core {
    /// Why who waits for a message of any of these should not: one has failed, which has not been told on this
    /// communicator, or nobody is left.
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
            (is_absent(first) && others.all(is_absent)).then_some(first)
        })?;
        Some(Ended::failed(
            failed,
            self.absent(failed, 0).unwrap_or(PeerError::Closed),
        ))
    }

    /// The lost process because of which a look for messages fails, if `nothing` was found. A call that only looks,
    /// and does not wait, may look for messages of a process that ends MPI in order: there are none.
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

    /// The program is told that a process is lost, on this communicator: it need not be told again when it waits for
    /// anybody.
    pub(crate) fn tell_lost(&mut self, context: u32, process: u32) {
        if self.failures.contains(&process) {
            self.told.insert((context, process));
        }
    }

    /// Ends the receives that name no source and wait for what may never come.
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
            let handle = self.slot(id).and_then(|slot| slot.handle.take());
            if handle.is_some_and(|handle| self.tagged.cancel(handle).is_some()) {
                self.end(id, ended);
            }
        }
    }

    /// A process is lost: ends what waits for it, and tells the others, unless it has only finished.
    pub(super) fn lose(&mut self, messenger: &mut Messenger, now: Instant, process: u32, error: PeerError) {
        if !self.lose_quietly(messenger, now, process, error) || error == PeerError::Closed {
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

    /// The same, and nobody is told. False: it was lost before, or is none.
    fn lose_quietly(&mut self, messenger: &mut Messenger, now: Instant, process: u32, error: PeerError) -> bool {
        if !self.peers.lose(process, error) {
            return false;
        }
        self.with_remote(messenger, now, |remote, net| remote.fail(net, process, error));
        let failed = error != PeerError::Closed;
        if failed {
            self.failures.push(process);
        }
        self.fail_receives_from_any();
        if failed {
            self.any_failed = true;
            self.fail_collectives(process, error);
        }
        true
    }

    /// Whoever has started the processes says that one has ended. All are told, so it is passed on to nobody.
    pub(crate) fn declare_lost(&mut self, messenger: &mut Messenger, now: Instant, process: u32) {
        if process == self.process || self.lost(process).is_some() {
            return;
        }
        // Without a session the network would say so: nobody listens there any more.
        let error = PeerError::Refused;
        if let Some(peer) = self.peers.meet(messenger, process) {
            self.tagged.handle_down(messenger, peer, error);
            self.lose_quietly(messenger, now, process, error);
            self.refuse(messenger, now, process, peer);
            self.collect();
        }
    }

    // ---- those that end MPI

    /// Why no message with these match bits comes from a process any more but those that are here.
    #[inline]
    pub(super) fn absent(&self, process: u32, bits: u64) -> Option<PeerError> {
        self.lost(process)
            .or_else(|| (self.leaving.others.contains(&process) && !is_of_finalize(bits)).then_some(PeerError::Closed))
    }

    /// A process that has ended MPI before it took part in this collective, or in an earlier one of the same communicator.
    pub(in crate::mpi::engine) fn missed(&self, call: &Collective) -> Option<Ended> {
        if self.leaving.missed.is_empty() {
            return None;
        }
        let (kind, number) = split(call.bits);
        let &(first, process) = self.leaving.missed.get(&kind)?;
        let concerns = is_from(number, first) && call.group.rank_of(process).is_some();
        concerns.then(|| Ended::failed(process, self.lost(process).unwrap_or(PeerError::Closed)))
    }

    /// This process begins nothing more: says so to those that it has had to do with, and to others when they come.
    pub(crate) fn leave(&mut self, messenger: &mut Messenger, now: Instant) {
        let peers = (0..self.peers.size()).filter_map(|process| self.peers.get(process));
        let endpoint = messenger.endpoint();
        let known =
            |peer: &PeerId| endpoint.down(*peer).is_none() && (endpoint.is_up(*peer) || !endpoint.is_idle(*peer));
        self.leaving.untold = Some(peers.filter(known).collect());
        self.tell_leaving(messenger, now);
    }

    pub(super) fn tell_leaving(&mut self, messenger: &mut Messenger, now: Instant) {
        let Some(mut untold) = self.leaving.untold.take() else {
            return;
        };
        untold.retain(|&peer| {
            // What is said now would overtake them.
            if self.tagged.holds_requests(peer) {
                return true;
            }
            self.tagged.send_active(messenger, now, peer, LEAVING, &[]);
            self.touch(peer);
            false
        });
        self.leaving.untold = Some(untold);
    }

    /// A process has come that may not know yet that this one ends.
    pub(super) fn tell_also(&mut self, messenger: &mut Messenger, now: Instant, peer: PeerId) {
        if let Some(untold) = &mut self.leaving.untold {
            untold.push(peer);
            self.tell_leaving(messenger, now);
        }
    }

    /// Another process ends MPI: what still waits for it waits in vain.
    pub(super) fn handle_leaving(&mut self, messenger: &Messenger, peer: PeerId) {
        let process = messenger.endpoint().processor(peer);
        let Some(process) = process.filter(|process| *process < self.peers.size()) else {
            return;
        };
        if self.leaving.others.insert(process) {
            self.tagged
                .end_unmatched(peer, process, |bits| !is_of_finalize(bits), PeerError::Closed);
            self.collect();
            self.fail_receives_from_any();
        }
    }

    /// A receive that has ended because its sender ends MPI: who cancels it does not need it.
    pub(super) fn cancel_unanswered(&mut self, id: RequestId) -> bool {
        let Some(slot) = self.slot(id).filter(|slot| slot.loans.is_none()) else {
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

    /// A collective has failed: if that is because a process has ended MPI without it, the others are told, who would wait
    /// for this one.
    pub(in crate::mpi::engine) fn tell_missed(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        call: &Collective,
        failure: &Ended,
    ) {
        let process = failure.envelope.source;
        if failure.outcome != Outcome::Failed(PeerError::Closed) || is_of_finalize(call.bits) {
            return;
        }
        if !self.leaving.miss(call.bits, process) {
            return;
        }
        let mut data = [0; 12];
        data[..4].copy_from_slice(&process.to_be_bytes());
        data[4..].copy_from_slice(&call.bits.to_be_bytes());
        for other in call.group.processes() {
            if other != process
                && self.lost(other).is_none()
                && let Some(peer) = self.peers.meet(messenger, other)
            {
                self.tagged.send_active(messenger, now, peer, MISSED, &data);
                self.touch(peer);
            }
        }
    }

    /// A collective at another process has needed one that has ended MPI.
    pub(super) fn handle_missed(&mut self, data: &[u8]) {
        let Some((process, bits)) = data.split_at_checked(4) else {
            return;
        };
        let (Ok(process), Ok(bits)) = (process.try_into(), bits.try_into()) else {
            return;
        };
        let (process, bits) = (u32::from_be_bytes(process), u64::from_be_bytes(bits));
        if process < self.peers.size() && process != self.process && self.leaving.miss(bits, process) {
            self.fail_missed();
        }
    }

    /// To us a process is lost: if it is there after all, or again, it shall not wait for us.
    pub(super) fn refuse(&mut self, messenger: &mut Messenger, now: Instant, process: u32, peer: PeerId) {
        if messenger.endpoint().is_up(peer) {
            self.tagged
                .send_active(messenger, now, peer, LOST, &process.to_be_bytes());
        }
        messenger.close(now, peer);
        self.touch(peer);
    }

    /// Before the goodbye to all: it would say to those who have come back that this process has only finished.
    pub(crate) fn refuse_returned(&mut self, messenger: &mut Messenger, now: Instant) {
        let lost: Vec<_> = self.all_lost().collect();
        for process in lost {
            if let Some(peer) = self.peers.get(process).filter(|peer| messenger.endpoint().is_up(*peer)) {
                self.refuse(messenger, now, process, peer);
            }
        }
    }

    /// Another engine has lost a process: perhaps this one.
    pub(super) fn handle_lost(&mut self, messenger: &mut Messenger, now: Instant, peer: PeerId, data: &[u8]) {
        let Ok(process) = <[u8; 4]>::try_from(data).map(u32::from_be_bytes) else {
            return;
        };
        if process == self.process {
            self.tagged.handle_down(messenger, peer, PeerError::Reset);
            if let Some(other) = messenger.endpoint().processor(peer) {
                self.lose_quietly(messenger, now, other, PeerError::Reset);
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

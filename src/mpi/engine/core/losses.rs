//! Processes that are lost: who is told, and what ends for their sake.

use alloc::vec::Vec;
use core::time::Duration;

use super::{AnyOf, Core, Ended, LOST, RequestId, State};
use crate::{
    error::PeerError,
    messaging::{Messenger, tagged::Selector},
    reliability::PeerId,
    time::Instant,
};

impl Core {
    /// Why who waits for a message of any of these should not: one has failed, which has not been told on this
    /// communicator, or nobody is left.
    pub(crate) fn fail_any(&self, any_of: &AnyOf) -> Option<Ended> {
        self.peers.all_lost().next()?;
        let AnyOf { group, context } = any_of;
        let untold = |process: &&u32| group.rank_of(**process).is_some() && !self.told.contains(&(*context, **process));
        let failed = self.failures.iter().find(untold);
        let failed = failed.copied().or_else(|| {
            let mut others = group.processes().filter(|process| *process != self.process);
            let first = others.next()?;
            (self.lost(first).is_some() && others.all(|process| self.lost(process).is_some())).then_some(first)
        })?;
        Some(Ended::failed(failed, self.lost(failed)?))
    }

    /// The process for whose sake who looks for messages gives up, if `nothing` was found.
    pub(crate) fn look_for_lost(
        &self,
        selector: &Selector,
        any_of: Option<&AnyOf>,
        nothing: bool,
    ) -> Option<(u32, PeerError)> {
        if !nothing {
            return None;
        }
        let process = match selector.source {
            Some(process) => process,
            None => self.fail_any(any_of?)?.envelope.source,
        };
        Some((process, self.lost(process)?))
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

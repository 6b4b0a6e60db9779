//! Synchronisation of windows: when they may be accessed, and when operations have ended (MPI 12.5).

use alloc::{collections::BTreeMap, vec::Vec};
use core::sync::atomic::{self, Ordering};

use super::{Peer, Window, memory::Word};
use crate::{
    mpi::{
        Rank,
        engine::{
            Entry, Exit, Status,
            rma::{Epoch, Failure, Net, Rma, Spot, WindowState},
        },
        error::{Detail, Error, ErrorClass},
        group::Group,
    },
    sync::{Given, Holders},
};

/// Lock types of a window (MPI 12.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// `MPI_LOCK_SHARED`: several processes may hold it.
    Shared,
    /// `MPI_LOCK_EXCLUSIVE`: one process holds it.
    Exclusive,
}

impl LockKind {
    /// Its MPI name.
    const fn name(self) -> &'static str {
        match self {
            Self::Shared => "MPI_LOCK_SHARED",
            Self::Exclusive => "MPI_LOCK_EXCLUSIVE",
        }
    }
}

/// Synchronisation (MPI 12.5).
impl Window {
    /// Waits until the operations of this window to the processes that are `wanted` have ended.
    pub(super) fn flush_those(&self, call: &'static str, wanted: impl Fn(u32) -> bool) -> Result<(), Error> {
        self.check(call)?;
        // What was copied to memory that is shared comes before what this process says next.
        atomic::fence(Ordering::AcqRel);
        let ended = self.with(call, |state, net| {
            if state.operations(&wanted) == 0 {
                return Ok(Some(state.take_failure(&wanted)));
            }
            // Otherwise the acknowledgement might be delayed, to be piggybacked.
            net.messenger.request_acks(net.now);
            Ok(None)
        })?;
        let failed = match ended {
            Some(failed) => failed,
            None => {
                self.wait_for(call, |state| state.operations(&wanted) == 0)?;
                self.with(call, |state, _| Ok(state.take_failure(&wanted)))?
            }
        };
        self.unless_failed(call, failed)
    }

    /// The error of a failure, if there is one.
    fn unless_failed(&self, call: &'static str, failed: Option<(u32, Failure)>) -> Result<(), Error> {
        failed.map_or(Ok(()), |(process, failure)| {
            Err(self.failed(call, Some(process), failure))
        })
    }

    /// Waits until all operations to `rank` have ended at both sides (`MPI_Win_flush`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if `rank` is not locked; an operation has failed.
    pub fn flush(&self, rank: Rank) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_flush";
        self.told(CALL, Some(rank), || {
            let process = self.peer(CALL, rank)?.process;
            self.with(CALL, |state, _| match &state.epoch {
                Epoch::Locked { locks, .. } if locks.contains_key(&process) => Ok(()),
                _ => Err(Failure::Refused(ErrorClass::RmaSync)),
            })?;
            self.flush_those(CALL, |other| other == process)
        })
    }

    /// The same for all locked targets (`MPI_Win_flush_all`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if no target is locked; an operation has failed.
    pub fn flush_all(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_flush_all";
        self.told(CALL, None, || {
            self.with(CALL, |state, _| match &state.epoch {
                Epoch::Locked { .. } => Ok(()),
                _ => Err(Failure::Refused(ErrorClass::RmaSync)),
            })?;
            self.flush_those(CALL, |_| true)
        })
    }

    /// Makes writes of other processes visible to this one, and its writes to them (`MPI_Win_sync`).
    ///
    /// # Errors
    /// The window has been freed.
    pub fn sync(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_sync";
        self.told(CALL, None, || {
            self.check(CALL)?;
            atomic::fence(Ordering::SeqCst);
            self.0.communicator.engine().fabric.stayed();
            Ok(())
        })
    }

    /// Waits until all operations of this window have ended at both sides, in any epoch: nothing refers to their
    /// operands any more. (MPI has no such call: there an epoch cannot end with an error.)
    ///
    /// # Errors
    /// The network has failed; nothing refers to the operands then either.
    pub fn drain(&self) -> Result<(), Error> {
        self.wait_for("MPI_Win_flush", |state| state.operations(|_| true) == 0)
    }

    /// Waits until nothing of this process's memory is being sent by reference. A reader may have its data while the
    /// transport does not know that yet, and may send them again. To be called before memory is written in a way that
    /// must not meet such a read, while no process can read it; MPI's memory model never needs it.
    ///
    /// # Errors
    /// The window has been freed; the network has failed.
    pub fn settle(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_sync";
        let is_back = self.with(CALL, |state, net| {
            let is_back = state.memory.is_back();
            if !is_back {
                net.messenger.request_acks(net.now);
            }
            Ok(is_back)
        })?;
        if is_back {
            return Ok(());
        }
        self.wait_for(CALL, |state| state.memory.is_back())
    }

    /// Ends the operations since the last fence, at all processes, and begins a new epoch (`MPI_Win_fence`).
    /// Collective.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` in an epoch of another kind; a process is lost; an operation has failed.
    pub fn fence(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_fence";
        self.told(CALL, None, || {
            self.with(CALL, |state, _| match state.epoch {
                Epoch::None | Epoch::Fence { .. } if state.exposed.is_none() => Ok(()),
                _ => Err(Failure::Refused(ErrorClass::RmaSync)),
            })?;
            let flushed = self.flush_those(CALL, |_| true);
            // Even if an operation has failed, the other ranks wait in the barrier.
            let met = self.0.communicator.meet(CALL);
            self.with(CALL, |state, _| {
                state.epoch = Epoch::Fence { used: false };
                Ok(())
            })?;
            flushed.and(met)
        })
    }

    /// Locks the window of `rank` (`MPI_Win_lock`), and waits for the lock.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if this process has locked it already, or in an epoch of another kind; the process is lost (one
    /// of which that is not known yet does not keep a lock in memory from being taken).
    pub fn lock(&self, kind: LockKind, rank: Rank) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_lock";
        let entry = || Entry {
            peer: Some(rank),
            lock: Some(kind.name()),
            ..Entry::named(CALL)
        };
        self.told_as(entry, || {
            let peer = self.peer(CALL, rank)?;
            let engine = self.0.communicator.engine();
            if peer.process == engine.process() && peer.word.is_none() {
                engine.fabric.stayed();
            }
            self.take_locks(CALL, core::slice::from_ref(peer), kind, false)
        })
    }

    /// Locks the windows of all ranks in shared mode (`MPI_Win_lock_all`), one after the other, so that there is no
    /// deadlock with another process that locks several in the order of ranks.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn lock_all(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_lock_all";
        self.told(CALL, None, || {
            self.take_locks(CALL, &self.0.peers, LockKind::Shared, true)
        })
    }

    fn take_locks(&self, call: &'static str, wanted: &[Peer], kind: LockKind, all: bool) -> Result<(), Error> {
        let begin = |state: &mut WindowState| {
            let refused = Err(Failure::Refused(ErrorClass::RmaSync));
            if state.epoch.is_free() {
                let locks = BTreeMap::new();
                state.epoch = Epoch::Locked { locks, all };
            }
            match &mut state.epoch {
                Epoch::Locked { locks, all: before } if *before == all => {
                    if wanted.iter().any(|peer| locks.contains_key(&peer.process)) {
                        return refused;
                    }
                    locks.extend(wanted.iter().map(|peer| (peer.process, false)));
                    Ok(())
                }
                _ => refused,
            }
        };
        // One after the other, in the order of ranks: two processes that each wait for a lock of the other would wait
        // for ever.
        let mut begun = Err(Failure::Refused(ErrorClass::Win));
        let mut asks = false;
        for (turn, peer) in wanted.iter().enumerate() {
            let is_taken = self.locked(call, |rma, net| {
                if turn == 0
                    && let Some(state) = rma.window(self.0.name)
                {
                    begun = begin(state);
                }
                begun.map(|()| self.takes_lock(rma, net, peer, kind))
            })?;
            if is_taken.map_err(|failure| self.failed(call, None, failure))? {
                continue;
            }
            asks = true;
            let process = peer.process;
            let has = |state: &WindowState| match &state.epoch {
                Epoch::Locked { locks, .. } => locks.get(&process).copied(),
                _ => None,
            };
            self.wait_for(call, |state| has(state) != Some(false))?;
            let failed = self.with(call, |state, _| match has(state) {
                Some(_) => Ok(None),
                None => {
                    let failure = state.take_failure(|other| other == process);
                    // (Another thread may have taken the failure.)
                    Ok(Some(
                        failure.map_or(Failure::Refused(ErrorClass::RmaSync), |(_, failure)| failure),
                    ))
                }
            })?;
            if let Some(failure) = failed {
                // If one lock fails, the others are released.
                self.give_back(call, |other| wanted.iter().any(|peer| peer.process == other))?;
                return Err(self.failed(call, Some(process), failure));
            }
        }
        if !asks {
            // A program that only takes free locks serves the others, too.
            self.0.communicator.engine().fabric.stayed();
        }
        Ok(())
    }

    /// Takes a lock, in memory that is shared. If that cannot be, asks the target for it, and gives false.
    fn takes_lock(&self, rma: &mut Rma, net: &mut Net<'_>, peer: &Peer, kind: LockKind) -> bool {
        let (own, process, exclusive) = (self.0.name, peer.process, kind == LockKind::Exclusive);
        let takes = |word: &Word| rma.take_lock(net, own, process, (word, self.0.place), exclusive);
        let is_taken = peer.word.as_ref().is_some_and(takes);
        if !is_taken {
            rma.ask_lock(net, own, (process, peer.name), exclusive);
        }
        is_taken
    }

    /// Unlocks the window of `rank`, after all operations to it have ended (`MPI_Win_unlock`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if it is not locked by [`lock`](Self::lock), or not any more: the target has given this process
    /// up (if this one has given up the target, too, the error says that). An operation has failed; then the window is
    /// unlocked all the same.
    pub fn unlock(&self, rank: Rank) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_unlock";
        self.told(CALL, Some(rank), || {
            let process = self.peer(CALL, rank)?.process;
            let holds = |epoch: &Epoch| matches!(epoch, Epoch::Locked { locks, all: false } if locks.get(&process) == Some(&true));
            self.end_locks(CALL, holds, |other| other == process)
        })
    }

    /// Unlocks all windows (`MPI_Win_unlock_all`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if they are not locked by [`lock_all`](Self::lock_all), or one of them not any more, as with
    /// [`unlock`](Self::unlock). An operation has failed. Then the windows are unlocked all the same.
    pub fn unlock_all(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_unlock_all";
        self.told(CALL, None, || {
            let holds = |epoch: &Epoch| matches!(epoch, Epoch::Locked { all: true, .. });
            self.end_locks(CALL, holds, |_| true)
        })
    }

    /// Releases the locks that are `wanted`, once the operations there have ended.
    fn end_locks(
        &self,
        call: &'static str,
        holds: impl Fn(&Epoch) -> bool,
        wanted: impl Fn(u32) -> bool,
    ) -> Result<(), Error> {
        // As in `flush_those`.
        atomic::fence(Ordering::AcqRel);
        let ended = self.with(call, |state, net| {
            if !holds(&state.epoch) {
                return Err(Failure::Refused(ErrorClass::RmaSync));
            }
            // All at once, if nothing is under way.
            let is_quiet = state.operations(&wanted) == 0;
            Ok(is_quiet.then(|| (state.take_failure(&wanted), self.release(state, net, &wanted))))
        })?;
        let (flushed, given) = match ended {
            Some((failed, missing)) => (self.unless_failed(call, failed), self.unless_failed(call, missing)),
            None => (self.flush_those(call, &wanted), self.give_back(call, &wanted)),
        };
        flushed.and(given)
    }

    /// Releases the locks that are `wanted` and held.
    fn give_back(&self, call: &'static str, wanted: impl Fn(u32) -> bool) -> Result<(), Error> {
        let missing = self.with(call, |state, net| Ok(self.release(state, net, wanted)))?;
        self.unless_failed(call, missing)
    }

    /// The same; gives a process whose lock this one has not had any more.
    fn release(
        &self,
        state: &mut WindowState,
        net: &mut Net<'_>,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<(u32, Failure)> {
        let Epoch::Locked { locks, .. } = &mut state.epoch else {
            return None;
        };
        let mut missing = None;
        locks.retain(|&process, granted| {
            let ends = wanted(process);
            if ends
                && *granted
                && let Err(failure) = self.unlock_at(net, process)
            {
                missing = Some((process, failure));
            }
            !ends
        });
        if locks.is_empty() {
            state.epoch = Epoch::None;
        }
        missing
    }

    /// Releases the lock of a process. Fails if this one has not had it any more.
    fn unlock_at(&self, net: &mut Net<'_>, process: u32) -> Result<(), Failure> {
        let not_held = Failure::Refused(ErrorClass::RmaSync);
        let Some(peer) = self.peer_of(process) else {
            return Err(not_held);
        };
        let give = |word: &Word| Holders(word.word()).give(self.0.place);
        match peer.word.as_ref().map_or(Given::Untold, give) {
            Given::Back => Ok(()),
            Given::NotHeld => Err(net.lost(process).map_or(not_held, Failure::Lost)),
            Given::Untold => {
                net.unlock(process, peer.name);
                Ok(())
            }
        }
    }

    /// Lets the processes of `group` access this process's window, each from its [`start`](Self::start) on
    /// (`MPI_Win_post`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if an earlier post has not been waited for; `MPI_ERR_GROUP` if a process of the group does
    /// not have the window.
    pub fn post(&self, group: &Group) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_post";
        self.told_of(CALL, group, || {
            self.check_group(CALL, group)?;
            self.with(CALL, |state, net| {
                if state.exposed.is_some() {
                    return Err(Failure::Refused(ErrorClass::RmaSync));
                }
                state.exposed = Some(group.clone());
                for process in group.processes() {
                    net.post(process, self.name_of(process));
                }
                Ok(())
            })
        })
    }

    /// Begins an access epoch to the windows of the processes of `group` (`MPI_Win_start`): waits until all of them
    /// have [`post`](Self::post)ed.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` in another epoch; `MPI_ERR_GROUP` if a process of the group does not have the window; a
    /// process is lost.
    pub fn start(&self, group: &Group) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_start";
        self.told_of(CALL, group, || {
            self.check_group(CALL, group)?;
            self.with(CALL, |state, _| {
                if !state.epoch.is_free() {
                    return Err(Failure::Refused(ErrorClass::RmaSync));
                }
                state.epoch = Epoch::Started(group.clone());
                Ok(())
            })?;
            let lost = self.wait_for_each(CALL, group, |state, process| state.posted.contains_key(&process))?;
            self.with(CALL, |state, _| {
                for process in group.processes() {
                    WindowState::take_one(&mut state.posted, process);
                }
                if lost.is_some() {
                    state.epoch = Epoch::None;
                }
                Ok(())
            })?;
            lost.map_or(Ok(()), Err)
        })
    }

    /// Ends the epoch that [`start`](Self::start) began, after all its operations have ended (`MPI_Win_complete`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if no epoch was started. An operation has failed; then the epoch has ended all the same.
    pub fn complete(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_complete";
        self.told(CALL, None, || {
            let group = self.with(CALL, |state, _| match &state.epoch {
                Epoch::Started(group) => Ok(group.clone()),
                _ => Err(Failure::Refused(ErrorClass::RmaSync)),
            })?;
            let flushed = self.flush_those(CALL, |process| group.rank_of(process).is_some());
            self.with(CALL, |state, net| {
                state.epoch = Epoch::None;
                for process in group.processes() {
                    net.complete(process, self.name_of(process));
                }
                Ok(())
            })?;
            flushed
        })
    }

    /// Waits until all processes to which this one has [`post`](Self::post)ed have [`complete`](Self::complete)d
    /// (`MPI_Win_wait`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` if nothing was posted; a process is lost: then the exposure has ended.
    pub fn wait(&self) -> Result<(), Error> {
        const CALL: &str = "MPI_Win_wait";
        self.told(CALL, None, || self.wait_quietly(CALL))
    }

    fn wait_quietly(&self, call: &'static str) -> Result<(), Error> {
        let group = self.exposed(call)?;
        let lost = self.wait_for_each(call, &group, |state, process| state.completed.contains_key(&process))?;
        self.end_exposure(call, &group)?;
        lost.map_or(Ok(()), Err)
    }

    /// Whether [`wait`](Self::wait) would not wait; if so, the exposure has ended (`MPI_Win_test`). Makes progress
    /// once.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn test(&self) -> Result<bool, Error> {
        const CALL: &str = "MPI_Win_test";
        let span = self.0.communicator.enter(|| Entry::named(CALL));
        span.leave(self.test_quietly(CALL), |done, leave| {
            let ended = done.then_some((0, Status::EMPTY));
            leave(&Exit {
                ended: ended.as_slice(),
                ..Exit::default()
            });
        })
    }

    fn test_quietly(&self, call: &'static str) -> Result<bool, Error> {
        let group = self.exposed(call)?;
        let communicator = &self.0.communicator;
        communicator
            .engine()
            .progress()
            .map_err(|_| communicator.broken(call))?;
        let done = self.with(call, |state, net| {
            let ended = |process| state.completed.contains_key(&process) || net.lost(process).is_some();
            Ok(group.processes().all(ended))
        })?;
        if done {
            self.wait_quietly(call)?;
        }
        Ok(done)
    }

    fn exposed(&self, call: &'static str) -> Result<Group, Error> {
        self.with(call, |state, _| {
            state.exposed.clone().ok_or(Failure::Refused(ErrorClass::RmaSync))
        })
    }

    fn end_exposure(&self, call: &'static str, group: &Group) -> Result<(), Error> {
        self.with(call, |state, _| {
            state.exposed = None;
            for process in group.processes() {
                WindowState::take_one(&mut state.completed, process);
            }
            Ok(())
        })
    }

    fn check_group(&self, call: &'static str, group: &Group) -> Result<(), Error> {
        let known = |process| self.0.communicator.rank_of(process).is_some();
        if group.processes().all(known) {
            return Ok(());
        }
        let detail = Detail::Text("the group has processes that the window has not");
        Err(self.error(call, ErrorClass::Group).with_detail(detail))
    }

    /// Waits until `done` for each process of `group`. Gives the error if one of them is lost before.
    fn wait_for_each(
        &self,
        call: &'static str,
        group: &Group,
        done: impl Fn(&WindowState, u32) -> bool,
    ) -> Result<Option<Error>, Error> {
        let mut lost = None;
        self.wait_until(call, |core| {
            let missing: Vec<u32> = match core.rma.it().window(self.0.name) {
                Some(state) => group.processes().filter(|process| !done(state, *process)).collect(),
                None => Vec::new(),
            };
            lost = missing
                .iter()
                .find_map(|process| Some((*process, core.lost(*process)?)));
            missing.is_empty() || lost.is_some()
        })?;
        Ok(lost.map(|(process, error)| self.failed(call, Some(process), Failure::Lost(error))))
    }
}

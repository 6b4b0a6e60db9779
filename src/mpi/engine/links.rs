//! Connections that are opened ahead of use: collectives know their peers before they begin (the optics paper, section
//! 3; `docs/papers.md`).

use alloc::{collections::VecDeque, vec::Vec};

use super::core::Core;
use crate::{
    messaging::Messenger,
    mpi::{
        collectives::{Plan, Planning, Schedule},
        group::Group,
    },
    time::Instant,
};

/// How the peers of a collective are connected before they are needed.
#[derive(Debug, Default)]
pub(crate) enum Links {
    /// Not at all: sessions open with their first messages.
    #[default]
    None,
    /// Sessions with all of them are opened, and so their addresses resolved, when the collective is planned.
    Sessions,
    /// The fabric is asked to connect processes, as many at a time as it supports.
    Planned(Planning, VecDeque<Wish>),
}

impl From<Planning> for Links {
    fn from(planning: Planning) -> Self {
        Self::Planned(planning, VecDeque::new())
    }
}

impl Links {
    /// The mode for a network where peers need no connection.
    pub(crate) fn ahead(connect_ahead: bool) -> Self {
        if connect_ahead { Self::Sessions } else { Self::None }
    }
}

/// A request to a fabric on which processes must be connected before they talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// This process is needed from now on …
    Connect(u32),
    /// … and not any more; all messages to it are acknowledged.
    Release(u32),
    /// A collective has ended: its request ends when the fabric has done what was asked before.
    End,
}

/// How far a running collective has come with its connection plan.
pub(super) struct Progress {
    pub(super) plan: Plan,
    /// The running phase.
    pub(super) phase: usize,
    /// Number of messages of each phase that are not complete.
    left: Vec<usize>,
    pub(super) end: End,
}

/// Whether the fabric knows that a collective has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Not,
    Told,
    /// The fabric has released all connections.
    Released,
}

impl Progress {
    /// The phase of a message.
    pub(super) fn phase_of(&self, round: usize, peer: usize) -> usize {
        self.plan.phase_of(round, peer).unwrap_or(0)
    }

    /// A message of a phase is complete.
    pub(super) fn complete(&mut self, phase: usize) {
        if let Some(left) = self.left.get_mut(phase) {
            *left = left.saturating_sub(1);
        }
    }

    /// A round whose first messages belong to a later phase must not begin yet.
    pub(super) fn holds_back(&self, round: usize) -> bool {
        self.plan.begin_of(round).is_some_and(|phase| phase > self.phase)
    }

    /// Whether all messages are complete, and all peers released.
    pub(super) fn is_over(&self) -> bool {
        self.phase == self.plan.phases().len()
    }

    fn peers(&self, phase: usize) -> &[usize] {
        self.plan.phases().get(phase).map_or(&[], |phase| &phase.peers)
    }
}

/// The process that has a rank of a schedule.
pub(super) fn process(group: &Group, rank: usize) -> Option<u32> {
    group.process(rank.try_into().ok()?)
}

impl Links {
    /// Opens sessions with all peers of a collective, if the options say so.
    pub(super) fn open_ahead(
        &self,
        core: &mut Core,
        messenger: &mut Messenger,
        now: Instant,
        (schedule, group): (&Schedule, &Group),
    ) {
        if !matches!(self, Self::Sessions) {
            return;
        }
        for peer in schedule.peers() {
            if let Some(process) = process(group, peer.rank)
                && core.lost(process).is_none()
                && let Some(peer) = core.peers.meet(messenger, process)
            {
                messenger.connect(now, peer);
            }
        }
    }

    /// A collective begins: asks the fabric, if it works by plan, for the peers of the first phase.
    pub(super) fn plan(&mut self, core: &Core, (schedule, group): (&Schedule, &Group)) -> Option<Progress> {
        let Self::Planned(planning, _) = self else {
            return None;
        };
        let (own, size) = (core.process() as usize, core.peers.size() as usize);
        let number = |rank| process(group, rank).unwrap_or(0) as usize;
        let plan = Plan::new(schedule, *planning, own, size, number);
        let left = plan.phases().iter().map(|phase| phase.messages).collect();
        let progress = Progress {
            plan,
            phase: 0,
            left,
            end: End::Not,
        };
        self.wish(group, progress.peers(0), Wish::Connect);
        Some(progress)
    }

    fn wish(&mut self, group: &Group, peers: &[usize], wish: impl Fn(u32) -> Wish) {
        if let Self::Planned(_, wishes) = self {
            let processes = peers.iter().filter_map(|peer| process(group, *peer));
            wishes.extend(processes.map(wish));
        }
    }

    /// Goes on to the next phase while all messages of the current one are complete. Gives whether acknowledgements are
    /// still outstanding.
    pub(super) fn follow(
        &mut self,
        core: &Core,
        messenger: &Messenger,
        group: &Group,
        progress: &mut Progress,
    ) -> bool {
        while progress.left.get(progress.phase) == Some(&0) {
            let next = progress.plan.phases().get(progress.phase + 1);
            let (current, following) = (progress.peers(progress.phase), progress.peers(progress.phase + 1));
            let anew = next.is_none_or(|next| next.anew);
            let stays = |peer: &usize, others: &[usize]| !anew && others.contains(peer);
            let leaving: Vec<_> = current.iter().copied().filter(|peer| !stays(peer, following)).collect();
            // Whether a peer has acknowledged everything sent to it.
            let is_drained = |peer: &usize| {
                let peer = process(group, *peer).and_then(|process| core.peers.get(process));
                peer.is_none_or(|peer| messenger.layer().is_idle(peer))
            };
            if !leaving.iter().all(is_drained) {
                return true;
            }
            let coming: Vec<_> = following.iter().copied().filter(|peer| !stays(peer, current)).collect();
            self.wish(group, &leaving, Wish::Release);
            self.wish(group, &coming, Wish::Connect);
            progress.phase += 1;
        }
        false
    }

    /// The collective has ended, perhaps before its plan: tells the fabric, once. Gives whether it has done so now.
    pub(super) fn end(&mut self, group: &Group, progress: &mut Progress) -> bool {
        if progress.end != End::Not {
            return false;
        }
        progress.end = End::Told;
        self.wish(group, progress.peers(progress.phase), Wish::Release);
        if let Self::Planned(_, wishes) = self {
            wishes.push_back(Wish::End);
        }
        true
    }
}

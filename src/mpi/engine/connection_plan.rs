//! Connections that are opened ahead of use: collectives know their peers before they begin (the optics paper, section
//! 3; `docs/papers.md`).

use alloc::{collections::VecDeque, vec::Vec};

use super::{
    Options,
    collective::{Collective, Planned},
    core::Core,
};
use crate::{
    messaging::Messenger,
    mpi::collectives::{Plan, Planning},
    time::Instant,
};

/// How the peers of a collective are connected before they are needed.
#[derive(Debug, Default)]
pub(crate) enum ConnectionPlan {
    /// Not at all: sessions open with their first messages.
    #[default]
    None,
    /// Sessions with all of them are opened, and so their addresses resolved, when the collective is planned.
    Sessions,
    /// The fabric is asked to connect processes, as many at a time as it supports.
    Planned(Planning, VecDeque<Wish>),
}

impl From<Planning> for ConnectionPlan {
    fn from(planning: Planning) -> Self {
        Self::Planned(planning, VecDeque::new())
    }
}

impl ConnectionPlan {
    /// The mode for a network where peers need no connection.
    pub(crate) fn of(options: &Options) -> Self {
        if options.connect_ahead {
            Self::Sessions
        } else {
            Self::None
        }
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

impl Collective {
    pub(super) fn process(&self, rank: usize) -> Option<u32> {
        self.group.process(rank.try_into().ok()?)
    }
}

impl Core {
    /// Opens sessions with all peers of a collective, if the options say so.
    pub(crate) fn open_ahead(&mut self, messenger: &mut Messenger, now: Instant, planned: &Planned) {
        if !matches!(self.connection_plan, ConnectionPlan::Sessions) {
            return;
        }
        for peer in planned.call().schedule.peers() {
            let process = planned.call().process(peer.rank);
            if let Some(process) = process
                && self.lost(process).is_none()
                && let Some(peer) = self.peers.meet(messenger, process)
            {
                messenger.connect(now, peer);
            }
        }
    }

    /// A collective begins: asks the fabric, if it works by plan, for the peers of the first phase.
    pub(super) fn plan_links(&mut self, call: &Collective) -> Option<Progress> {
        let ConnectionPlan::Planned(planning, _) = self.connection_plan else {
            return None;
        };
        let (own, size) = (self.process() as usize, self.peers.size() as usize);
        let process = |rank| call.process(rank).unwrap_or(0) as usize;
        let plan = Plan::new(&call.schedule, planning, own, size, process);
        let left = plan.phases().iter().map(|phase| phase.messages).collect();
        let progress = Progress {
            plan,
            phase: 0,
            left,
            end: End::Not,
        };
        self.wish(call, progress.peers(0), Wish::Connect);
        Some(progress)
    }

    fn wish(&mut self, call: &Collective, peers: &[usize], wish: impl Fn(u32) -> Wish) {
        if let ConnectionPlan::Planned(_, wishes) = &mut self.connection_plan {
            let processes = peers.iter().filter_map(|peer| call.process(*peer));
            wishes.extend(processes.map(wish));
        }
    }

    /// Goes on to the next phase while all messages of the current one are complete. Gives whether acknowledgements are
    /// still outstanding.
    pub(super) fn follow_plan(&mut self, messenger: &Messenger, call: &Collective, progress: &mut Progress) -> bool {
        while progress.left.get(progress.phase) == Some(&0) {
            let next = progress.plan.phases().get(progress.phase + 1);
            let (current, following) = (progress.peers(progress.phase), progress.peers(progress.phase + 1));
            let anew = next.is_none_or(|next| next.anew);
            let stays = |peer: &usize, others: &[usize]| !anew && others.contains(peer);
            let leaving: Vec<_> = current.iter().copied().filter(|peer| !stays(peer, following)).collect();
            if !leaving.iter().all(|peer| self.is_drained(messenger, call, *peer)) {
                return true;
            }
            let coming: Vec<_> = following.iter().copied().filter(|peer| !stays(peer, current)).collect();
            self.wish(call, &leaving, Wish::Release);
            self.wish(call, &coming, Wish::Connect);
            progress.phase += 1;
        }
        false
    }

    /// The collective has ended, perhaps before its plan: tells the fabric. Gives whether the fabric has released
    /// everything.
    pub(super) fn end_plan(&mut self, call: &Collective, progress: &mut Progress, index: u32) -> bool {
        if progress.end == End::Not {
            progress.end = End::Told;
            self.wish(call, progress.peers(progress.phase), Wish::Release);
            if let ConnectionPlan::Planned(_, wishes) = &mut self.connection_plan {
                wishes.push_back(Wish::End);
            }
            self.releasing.push_back(index);
        }
        progress.end == End::Released
    }

    /// Whether a peer has acknowledged everything sent to it.
    fn is_drained(&self, messenger: &Messenger, call: &Collective, peer: usize) -> bool {
        let peer = call.process(peer).and_then(|process| self.peers.get(process));
        peer.is_none_or(|peer| messenger.layer().is_idle(peer))
    }
}

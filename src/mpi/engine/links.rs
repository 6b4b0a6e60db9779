//! Connections to other processes, opened ahead: collectives know their peers before they begin (the optics paper,
//! section 3; `docs/papers.md`).

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

/// What is done for the peers of a collective before they are needed.
#[derive(Debug, Default)]
pub(crate) enum Links {
    /// Nothing: sessions open with their first messages.
    #[default]
    None,
    /// Sessions with all of them are opened when it is planned, and addresses resolved by that.
    Sessions,
    /// The fabric is told whom to connect, as many at a time as it says.
    #[cfg_attr(not(feature = "sim"), expect(dead_code, reason = "no other fabric has connections"))]
    Planned(Planning, VecDeque<Wish>),
}

impl Links {
    /// As is wanted where peers need no connection.
    pub(crate) fn of(options: &Options) -> Self {
        if options.connect_ahead {
            Self::Sessions
        } else {
            Self::None
        }
    }
}

/// What a fabric is told on which processes must be connected before they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// This process is needed from now on …
    Connect(u32),
    /// … and is not any more; all messages to it are acknowledged.
    Release(u32),
    /// A collective has ended: it is over when this has been done.
    End,
}

/// How far a collective that runs has come with its plan.
pub(super) struct Progress {
    plan: Plan,
    /// The running phase.
    phase: usize,
    /// Messages of each phase that are not complete.
    left: Vec<usize>,
    end: End,
}

/// Whether the fabric knows that a collective has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Not,
    Told,
    /// It has released all connections.
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

    /// The first messages of a round belong to a phase that has not begun: it does not begin either.
    pub(super) fn holds_back(&self, round: usize) -> bool {
        self.plan.begin_of(round).is_some_and(|phase| phase > self.phase)
    }

    /// All messages are complete, and all peers released.
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
    /// Opens sessions with all peers of a collective, if that is wanted.
    pub(crate) fn open_ahead(&mut self, messenger: &mut Messenger, now: Instant, planned: &Planned) {
        if !matches!(self.links, Links::Sessions) {
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

    /// A collective begins: its first peers are asked for, if that is what the fabric wants.
    pub(super) fn plan_links(&mut self, call: &Collective) -> Option<Progress> {
        let Links::Planned(planning, _) = self.links else {
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
        if let Links::Planned(_, wishes) = &mut self.links {
            let processes = peers.iter().filter_map(|peer| call.process(*peer));
            wishes.extend(processes.map(wish));
        }
    }

    /// Goes on to the phases whose messages are complete. Gives whether acknowledgements are waited for.
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

    /// The collective has ended, maybe before its plan: the fabric is told. Gives whether that has released everything.
    pub(super) fn end_plan(&mut self, call: &Collective, progress: &mut Progress, index: u32) -> bool {
        if progress.end == End::Not {
            progress.end = End::Told;
            self.wish(call, progress.peers(progress.phase), Wish::Release);
            if let Links::Planned(_, wishes) = &mut self.links {
                wishes.push_back(Wish::End);
            }
            self.releasing.push_back(index);
        }
        progress.end == End::Released
    }

    /// All that a peer was sent is acknowledged.
    fn is_drained(&self, messenger: &Messenger, call: &Collective, peer: usize) -> bool {
        let peer = call.process(peer).and_then(|process| self.peers.get(process));
        peer.is_none_or(|peer| messenger.endpoint().is_idle(peer))
    }

    /// The oldest collective whose end the fabric has been told has released everything, so it ends.
    #[cfg(feature = "sim")]
    pub(crate) fn finish_release(&mut self) {
        let Some(index) = self.releasing.pop_front() else {
            return;
        };
        if let Some(Some(running)) = self.collectives.get_mut(index as usize) {
            running.release();
        }
        self.advancing.push_back(index);
    }

    /// What the fabric is to do next.
    #[cfg(feature = "sim")]
    pub(crate) fn poll_wish(&mut self) -> Option<Wish> {
        match &mut self.links {
            Links::Planned(_, wishes) => wishes.pop_front(),
            Links::None | Links::Sessions => None,
        }
    }

    /// A collective that runs needs this process, now or later.
    #[cfg(feature = "sim")]
    pub(crate) fn will_connect(&self, process: u32) -> bool {
        self.collectives
            .iter()
            .flatten()
            .any(|running| running.will_connect(process))
    }
}

#[cfg(feature = "sim")]
impl Progress {
    pub(super) fn release(&mut self) {
        self.end = End::Released;
    }

    /// It is to be connected in this phase or a later one.
    pub(super) fn has_ahead(&self, call: &Collective, process: u32) -> bool {
        let phases = self.plan.phases().iter().skip(self.phase);
        phases
            .flat_map(|phase| &phase.peers)
            .any(|peer| call.process(*peer) == Some(process))
    }
}

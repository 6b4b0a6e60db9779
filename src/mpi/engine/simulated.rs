//! Questions of the simulator to the engines of its processes. Nothing else calls these functions.

use alloc::vec::Vec;
use core::net::SocketAddr;

pub(crate) use super::connection_plan::Wish;
use super::{
    collective::{Collective, Running},
    connection_plan::{ConnectionPlan, End, Progress},
    core::Core,
};
use crate::{messaging::Messenger, reliability::PeerId};

impl Core {
    /// Whether [`pump`](Self::pump) would find something to do.
    #[inline(always)]
    pub(crate) fn has_work(&self, messenger: &Messenger) -> bool {
        messenger.ready() > 0
            || !self.tagged.is_settled()
            || !self.rma.is_settled()
            || !self.inbox.0.is_empty()
            || !self.channel_news.is_empty()
            || !self.draining.is_empty()
            || !self.advancing.is_empty()
    }

    /// The fabric has released all connections of the oldest collective whose end it was told of, so that collective
    /// ends.
    pub(crate) fn finish_release(&mut self) {
        let Some(index) = self.releasing.pop_front() else {
            return;
        };
        if let Some(Some(running)) = self.collectives.get_mut(index as usize) {
            running.release();
        }
        self.advancing.push_back(index);
    }

    /// The next request to the fabric.
    pub(crate) fn poll_wish(&mut self) -> Option<Wish> {
        match &mut self.connection_plan {
            ConnectionPlan::Planned(_, wishes) => wishes.pop_front(),
            ConnectionPlan::None | ConnectionPlan::Sessions => None,
        }
    }

    /// Whether a running collective needs this process, now or later.
    pub(crate) fn will_connect(&self, process: u32) -> bool {
        self.collectives
            .iter()
            .flatten()
            .any(|running| running.will_connect(process))
    }
}

impl Progress {
    fn release(&mut self) {
        self.end = End::Released;
    }

    /// Whether this process is to be connected in the current phase or a later one.
    fn has_ahead(&self, call: &Collective, process: u32) -> bool {
        let phases = self.plan.phases().iter().skip(self.phase);
        phases
            .flat_map(|phase| &phase.peers)
            .any(|peer| call.process(*peer) == Some(process))
    }
}

impl Running {
    fn release(&mut self) {
        if let Some(plan) = &mut self.plan {
            plan.release();
        }
    }

    fn will_connect(&self, process: u32) -> bool {
        let plan = self.plan.as_ref();
        plan.is_some_and(|plan| plan.has_ahead(self.planned.call(), process))
    }
}

/// With thousands of processes in one memory, each knows only the ones that it talks to.
pub(crate) struct Met {
    size: u32,
    own: u32,
    address: fn(u32) -> SocketAddr,
    /// Open addressing, at most half full; an entry is process and peer, so a look-up touches one cache line. Its
    /// length is a power of two.
    table: Vec<(u32, PeerId)>,
    met: usize,
}

/// Marks an empty entry.
const NOBODY: u32 = u32::MAX;

impl Met {
    /// Process `own` of `size`. Another process becomes a peer, at `address`, when this one first needs it.
    pub(crate) fn new(own: u32, size: u32, address: fn(u32) -> SocketAddr) -> Self {
        Self {
            size,
            own,
            address,
            table: Vec::new(),
            met: 0,
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Index of the entry of a process, present or not. Numbers of processes are neither secret nor chosen by an
    /// attacker: a multiplicative hash (golden ratio) spreads them.
    #[inline]
    fn place(&self, process: u32) -> usize {
        let mask = self.table.len() - 1;
        let mut place = (process.wrapping_mul(0x9e37_79b9) >> 12) as usize & mask;
        while self.table[place].0 != process && self.table[place].0 != NOBODY {
            place = (place + 1) & mask;
        }
        place
    }

    #[inline]
    pub(super) fn get(&self, process: u32) -> Option<PeerId> {
        if self.table.is_empty() {
            return None;
        }
        let (found, peer) = self.table[self.place(process)];
        (found == process).then_some(peer)
    }

    fn insert(&mut self, process: u32, peer: PeerId) {
        if 2 * (self.met + 1) > self.table.len() {
            let larger = alloc::vec![(NOBODY, PeerId(0)); (2 * self.table.len()).max(8)];
            let old = core::mem::replace(&mut self.table, larger);
            for (process, peer) in old.into_iter().filter(|(process, _)| *process != NOBODY) {
                let place = self.place(process);
                self.table[place] = (process, peer);
            }
        }
        let place = self.place(process);
        self.table[place] = (process, peer);
        self.met += 1;
    }

    #[inline]
    pub(super) fn meet(&mut self, messenger: &mut Messenger, process: u32) -> Option<PeerId> {
        self.get(process).or_else(|| self.add(messenger, process))
    }

    #[cold]
    fn add(&mut self, messenger: &mut Messenger, process: u32) -> Option<PeerId> {
        if process == self.own || process >= self.size {
            return None;
        }
        let peer = messenger.add_peer((self.address)(process), process).ok()?;
        self.insert(process, peer);
        Some(peer)
    }
}

//! What a simulator asks of the engines of its processes, and nobody else.

use super::{
    collective::{Collective, Running},
    links::{End, Links, Progress},
    process::Process,
};
pub(crate) use super::{links::Wish, met::Met};
use crate::messaging::Messenger;

impl Process {
    /// Whether [`pump`](Self::pump) would find something to do.
    #[inline(always)]
    pub(crate) fn has_work(&self, messenger: &Messenger) -> bool {
        messenger.ready() > 0
            || !self.tagged.is_settled()
            || !self.remote.is_settled()
            || !self.inbox.0.is_empty()
            || !self.channel_news.is_empty()
            || self.collectives.drains()
            || !self.advancing.is_empty()
    }

    /// The fabric has released all connections of the oldest collective whose end it was told of, so that collective
    /// ends.
    pub(crate) fn finish_release(&mut self) {
        let Some(index) = self.collectives.releasing.pop_front() else {
            return;
        };
        if let Some(Some(running)) = self.collectives.running.get_mut(index as usize) {
            running.release();
        }
        self.advancing.push_back(index);
    }

    /// How collectives connect their peers.
    pub(crate) fn links_mut(&mut self) -> &mut Links {
        &mut self.collectives.links
    }

    /// The next request to the fabric.
    pub(crate) fn poll_wish(&mut self) -> Option<Wish> {
        match &mut self.collectives.links {
            Links::Planned(_, wishes) => wishes.pop_front(),
            Links::None | Links::Sessions => None,
        }
    }

    /// Whether a running collective needs this process, now or later.
    pub(crate) fn will_connect(&self, process: u32) -> bool {
        self.collectives
            .running
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
            .any(|peer| super::links::process(&call.group, *peer) == Some(process))
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

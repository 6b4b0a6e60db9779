//! Remote memory access at one process: its windows, its operations on windows of others, and operations of others on
//! its own (MPI standard, chapter 12; the PACS-CS paper, section 4.1, has the same idea: `docs/papers.md`).
//!
//! - A **put** places bytes straight into the window, which is a lasting region. Once the placements are acknowledged,
//!   the bytes are there.
//! - A **get** asks the target, by an active message, to place bytes into a region made for them.
//! - An **accumulate** is done by the target, in the order in which its messages arrive. So are puts of many small
//!   runs, which are accumulates with `MPI_REPLACE`, and all operations of a process on itself.
//!
//! An operation is divided into *parts*: a placement, or the data of one message. An origin has at most [`LIMIT`] parts
//! in flight to one target, so an honest one never asks for more than the target keeps. The target refuses further
//! requests, or drops them if the origin does not take its answers either.
//!
//! `origin` has the operations of this process, `target` those of others on its windows.

mod lock;
mod memory;
mod message;
mod net;
mod operation;
mod origin;
#[cfg(any(test, fuzzing))]
mod pair;
mod slab;
mod target;
#[cfg(test)]
mod tests;
mod window;

#[cfg(fuzzing)]
pub use self::pair::drive;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use self::{
    lock::Lock,
    message::Message,
    net::{name_of, region_of},
    operation::{Flight, Operation, Queue},
    slab::Slab,
    window::Serving,
};
pub(super) use self::{
    lock::Spot,
    memory::Memory,
    net::{HANDLER, Net},
    operation::{Place, What},
    window::{Epoch, Failure, WindowState},
};
use super::core::{Ended, RequestId};
use crate::{
    error::PeerError,
    messaging::{Access, Messenger},
    mpi::group::Group,
    reliability::PeerId,
};

/// Counters of remote memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WindowStats {
    /// Requests of other processes that were served.
    pub served: u64,
    /// Messages dropped because they could not be parsed, or because they answer no request.
    pub malformed: u64,
    /// Requests refused: the window does not exist, the range is outside of it, or the request exceeds a limit.
    pub refused: u64,
}

crate::table::display_as_table!(WindowStats {
    served,
    malformed,
    refused,
});

/// State of remote memory access at one process.
#[derive(Default)]
pub(crate) struct Rma {
    /// By name.
    windows: BTreeMap<u64, WindowState>,
    /// Closed windows whose memory is still being sent from.
    closing: Vec<(u64, Memory)>,
    operations: Slab<Operation>,
    flights: Slab<Flight>,
    /// By target.
    queues: BTreeMap<u32, Queue>,
    /// Operations by the token of a placement.
    tokens: BTreeMap<u64, u32>,
    /// Flights by the region of the data that they asked for.
    regions: BTreeMap<u64, u32>,
    /// Operations that have ended but for references to their memory.
    draining: Vec<u32>,
    serving: VecDeque<Serving>,
    /// Requests that have ended.
    pub(super) ended: Vec<(RequestId, Ended)>,
    /// Something has happened for which a caller may wait.
    pub(super) news: bool,
    stats: WindowStats,
}

/// State of remote memory access, allocated at its first use.
#[derive(Default)]
pub(crate) struct OnDemand(Option<Box<Rma>>);

impl OnDemand {
    /// Allocates it if it is not there yet.
    pub(super) fn it(&mut self) -> &mut Rma {
        self.0.get_or_insert_default()
    }

    /// See [`Rma::is_settled`].
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.0.as_ref().is_none_or(|rma| rma.is_settled())
    }

    pub(super) fn stats(&self) -> WindowStats {
        self.0.as_ref().map_or_else(WindowStats::default, |rma| rma.stats())
    }

    /// See [`Rma::awaited`].
    pub(super) fn awaited(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|rma| rma.awaited())
    }
}

impl Rma {
    pub(super) fn stats(&self) -> WindowStats {
        self.stats
    }

    /// Number of operations that have not ended.
    pub(super) fn operations(&self) -> usize {
        self.operations.len()
    }

    /// Lets the processes of `group` access `memory`. Gives the window's name; `None`: there are too many regions.
    pub(super) fn expose(&mut self, messenger: &mut Messenger, memory: Memory, group: Group) -> Option<u64> {
        let region = Box::new(memory.region());
        let name = name_of(messenger.register(Access::Lasting, region)?);
        let state = WindowState {
            memory,
            group,
            lock: Lock::default(),
            posted: BTreeMap::new(),
            completed: BTreeMap::new(),
            epoch: Epoch::None,
            exposed: None,
            pending: BTreeMap::new(),
        };
        self.windows.insert(name, state);
        Some(name)
    }

    pub(super) fn window(&mut self, name: u64) -> Option<&mut WindowState> {
        self.windows.get_mut(&name)
    }

    /// Ends all access to the window. Its memory may be freed when it [is closed](Self::is_closed).
    pub(super) fn close(&mut self, messenger: &mut Messenger, name: u64) {
        if let Some(state) = self.windows.remove(&name) {
            messenger.deregister(region_of(name));
            self.serving.retain(|serving| serving.window != name);
            self.closing.push((name, state.memory));
        }
    }

    pub(super) fn is_closed(&mut self, name: u64) -> bool {
        self.closing.retain(|(_, memory)| !memory.is_back());
        self.closing.iter().all(|(other, _)| *other != name)
    }

    /// Whether [`pump`](Self::pump) has nothing to do, and nothing is left to tell.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.serving.is_empty()
            && self.queues.is_empty()
            && self.draining.is_empty()
            && self.ended.is_empty()
            && !self.news
    }

    /// Goes on with requests and operations that had no room.
    pub(super) fn pump(&mut self, net: &mut Net<'_>) {
        if !self.serving.is_empty() {
            self.serve(net);
        }
        if !self.queues.is_empty() {
            let processes: Vec<u32> = self.queues.keys().copied().collect();
            for process in processes {
                self.issue(net, process);
            }
        }
        for id in core::mem::take(&mut self.draining) {
            self.finish(id);
        }
    }

    /// A message of another engine, or of this one.
    pub(super) fn handle(&mut self, net: &mut Net<'_>, peer: Option<PeerId>, data: &[u8]) {
        let Some(process) = net.process(peer) else { return };
        match Message::parse(data) {
            Ok(Message::Request { id, window, request }) => self.handle_request(net, process, id, window, request),
            Ok(Message::Answer { id, status, data }) => self.handle_answer(net, process, id, status, data),
            Err(_) => self.stats.malformed += 1,
        }
    }

    /// Processes whose silence must be noticed.
    pub(super) fn awaited(&self) -> impl Iterator<Item = u32> + '_ {
        let windows = self.windows.values().flat_map(|window| {
            let exposed = window.exposed.iter().flat_map(Group::processes);
            let started = match &window.epoch {
                Epoch::Started(group) => Some(group.processes()),
                _ => None,
            };
            exposed
                .chain(started.into_iter().flatten())
                .chain(window.lock.awaited())
        });
        let flights = self.flights.iter().map(|flight| flight.process());
        self.queues.keys().copied().chain(windows).chain(flights)
    }

    /// A process is lost: all operations with it end.
    pub(super) fn fail(&mut self, net: &mut Net<'_>, process: u32, error: PeerError) {
        self.serving.retain(|serving| serving.process != process);
        self.fail_operations(net, process, error);
        let names: Vec<u64> = self.windows.keys().copied().collect();
        for name in names {
            if let Some(window) = self.windows.get_mut(&name) {
                window.lock.forget(process);
            }
            self.grant_lock(net, name);
        }
        self.news = true;
    }
}

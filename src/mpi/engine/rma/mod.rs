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
mod origin;
#[cfg(any(test, fuzzing))]
mod pair;
mod slab;
mod target;
#[cfg(test)]
mod tests;

#[cfg(fuzzing)]
pub use self::pair::drive;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use self::{
    lock::Lock,
    message::{Message, Request},
    origin::{Flight, Operation, Queue},
    slab::Slab,
    target::Serving,
};
pub(super) use self::{
    memory::Memory,
    origin::{Place, What},
};
use super::{
    buffer::Buffer,
    core::{Ended, Inbox, RequestId},
    peers::Peers,
};
use crate::{
    error::{PeerError, SendError},
    messaging::{
        Access, MemoryRegion, Messenger, RegionId,
        tagged::{BULK, SERVED, Tagged},
    },
    mpi::{error::ErrorClass, group::Group},
    reliability::{PeerId, SendToken},
    time::Instant,
};

/// Most parts in flight to one process.
pub(super) const LIMIT: usize = 32;
/// Most answers to one process that may wait for credit, grants of messages among them. (More can only be due to a
/// process that asks without end.)
const MAX_WAITING: usize = SERVED + 4 * LIMIT;
/// Number of active messages for [`Rma::handle`].
pub(super) const HANDLER: u32 = 1;

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

/// Why an operation has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Lost(PeerError),
    Refused(ErrorClass),
}

/// The way to other processes, and to this process itself.
pub(super) struct Net<'a> {
    pub(super) tagged: &'a mut Tagged<Buffer>,
    pub(super) messenger: &'a mut Messenger,
    pub(super) now: Instant,
    pub(super) me: u32,
    pub(super) peers: &'a mut Peers,
    pub(super) inbox: &'a mut Inbox,
    /// Peers and channels for which packets may be queued.
    pub(super) touched: &'a mut Vec<(PeerId, u8)>,
    pub(super) scratch: &'a mut Vec<u8>,
}

impl Net<'_> {
    fn peer(&mut self, process: u32) -> Option<PeerId> {
        self.peers.meet(self.messenger, process)
    }

    fn process(&self, peer: Option<PeerId>) -> Option<u32> {
        match peer {
            None => Some(self.me),
            Some(peer) => self.messenger.layer().processor(peer),
        }
    }

    pub(super) fn lost(&self, process: u32) -> Option<PeerError> {
        self.peers.lost(process)
    }

    fn send(&mut self, process: u32, message: &Message<'_>) {
        message.emit(self.scratch);
        if process == self.me {
            self.inbox.push(None, HANDLER, self.scratch);
        } else if let Some(peer) = self.peer(process) {
            self.tagged
                .send_active(self.messenger, self.now, peer, HANDLER, self.scratch);
            self.touched.push((peer, 0));
        }
    }

    fn request(&mut self, process: u32, window: u64, id: u32, request: Request<'_>) {
        self.send(process, &Message::Request { id, window, request });
    }

    /// Releases the lock of a process's window.
    pub(super) fn unlock(&mut self, process: u32, window: u64) {
        self.request(process, window, 0, Request::Unlock);
    }

    /// Tells a process that it may access this process's window, by the name of its own window.
    pub(super) fn post(&mut self, process: u32, window: u64) {
        self.request(process, window, 0, Request::Post);
    }

    /// Tells a process that this one has finished its accesses to its window.
    pub(super) fn complete(&mut self, process: u32, window: u64) {
        self.request(process, window, 0, Request::Complete);
    }

    /// Places bytes in a region of another process.
    fn place(&mut self, process: u32, to: u64, offset: u64, data: bytes::Bytes) -> Result<SendToken, SendError> {
        let peer = self.peer(process).ok_or(SendError::UnknownPeer(PeerId(u32::MAX)))?;
        let token = self
            .messenger
            .place(self.now, peer, BULK, region_of(to), offset, data)?;
        if self.touched.last() != Some(&(peer, BULK)) {
            self.touched.push((peer, BULK));
        }
        Ok(token)
    }

    fn register(&mut self, process: u32, len: u64, memory: impl MemoryRegion + 'static) -> Option<RegionId> {
        let peer = self.peer(process)?;
        self.messenger.register(Access::Once { peer, len }, Box::new(memory))
    }

    /// So many answers to this process wait for credit that no more are made.
    fn is_deaf(&self, process: u32) -> bool {
        self.peers
            .get(process)
            .is_some_and(|peer| self.tagged.waiting(peer) >= MAX_WAITING)
    }
}

/// The name of a region, so also of a window, in messages.
fn name_of(id: RegionId) -> u64 {
    u64::from(id.region) << 32 | u64::from(id.key)
}

fn region_of(name: u64) -> RegionId {
    RegionId {
        region: (name >> 32) as u32,
        key: name as u32,
    }
}

/// Access epochs (MPI 12.5): when this process may access the windows of others.
#[derive(Debug)]
pub(super) enum Epoch {
    None,
    /// Between fences; `used`: there has been an operation since the last fence.
    Fence {
        used: bool,
    },
    /// Between start and complete, with the group of targets.
    Started(Group),
    /// Locks by target; `true`: granted. `all`: requested by `lock_all`, and released by `unlock_all` only.
    Locked {
        locks: BTreeMap<u32, bool>,
        all: bool,
    },
}

impl Epoch {
    /// Whether another kind of synchronisation may begin.
    pub(super) fn is_free(&self) -> bool {
        matches!(self, Self::None | Self::Fence { used: false })
    }

    fn allows(&mut self, process: u32) -> bool {
        match self {
            Self::None => false,
            Self::Fence { used } => {
                *used = true;
                true
            }
            Self::Started(group) => group.rank_of(process).is_some(),
            Self::Locked { locks, .. } => locks.get(&process) == Some(&true),
        }
    }
}

/// Operations in flight to one process through a window, and the first failure since failures were last taken.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) operations: u32,
    pub(super) failure: Option<Failure>,
}

/// A window at this process.
#[derive(Debug)]
pub(super) struct WindowState {
    pub(super) memory: Memory,
    pub(super) group: Group,
    lock: Lock,
    /// How often processes have posted to this one, and how often they have completed their accesses.
    pub(super) posted: BTreeMap<u32, u32>,
    pub(super) completed: BTreeMap<u32, u32>,
    pub(super) epoch: Epoch,
    /// The group to which this process has posted.
    pub(super) exposed: Option<Group>,
    pub(super) pending: BTreeMap<u32, Pending>,
}

impl WindowState {
    /// Counts one down for `process`; false if the count is zero.
    pub(super) fn take_one(counts: &mut BTreeMap<u32, u32>, process: u32) -> bool {
        let Some(count) = counts.get_mut(&process) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            counts.remove(&process);
        }
        true
    }

    /// Number of operations in flight to the processes that are `wanted`.
    pub(super) fn operations(&self, wanted: impl Fn(u32) -> bool) -> u32 {
        let pending = self.pending.iter().filter(|(process, _)| wanted(**process));
        pending.map(|(_, pending)| pending.operations).sum()
    }

    /// Takes a failure with a process that is `wanted`.
    pub(super) fn take_failure(&mut self, wanted: impl Fn(u32) -> bool) -> Option<(u32, Failure)> {
        let mut found = None;
        self.pending.retain(|&process, pending| {
            if wanted(process)
                && let Some(failure) = pending.failure.take()
            {
                found = found.or(Some((process, failure)));
            }
            pending.operations > 0 || pending.failure.is_some()
        });
        found
    }

    fn fail(&mut self, process: u32, failure: Failure) {
        self.pending.entry(process).or_default().failure.get_or_insert(failure);
    }
}

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
            exposed.chain(started.into_iter().flatten())
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

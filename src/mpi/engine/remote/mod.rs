//! Remote memory at one process: its windows, its operations on windows of others, and operations of others on its own
//! (MPI standard, chapter 12; the PACS-CS paper, section 4.1, has the same idea: `docs/papers.md`).
//!
//! - A **put** places bytes straight into the window, which is a lasting landing. Once they are acknowledged, they are
//!   there.
//! - A **get** asks the target, by an active message, to place bytes into a landing made for them.
//! - An **accumulate** is done by the target, in the order in which its messages arrive. So are puts of many small
//!   runs, which are accumulates with `MPI_REPLACE`, and all operations of a process on itself.
//!
//! An operation goes in *parts*: of some megabytes if octets are placed, or as much as a message takes. A process has
//! [`LIMIT`] of them under way to another, so who is honest never asks for more than a target keeps; of others more is
//! refused, or dropped if they do not take answers either.
//!
//! `origin` is what this process does, `target` what is done to it.

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
        Access, Landing, LandingId, Messenger,
        tagged::{BULK, SERVED, Tagged},
    },
    mpi::{error::ErrorClass, group::Group},
    reliability::{PeerId, SendToken},
    time::Instant,
};

/// Parts that are under way to one process.
pub(super) const LIMIT: usize = 32;
/// Answers to one process that may wait for credit, grants of messages among them. (More can only be due to one that
/// asks without end.)
const MAX_WAITING: usize = SERVED + 4 * LIMIT;
/// Active messages for [`Remote::handle`] have this number.
pub(super) const HANDLER: u32 = 1;

/// Counters of remote memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowStats {
    /// Requests of others that were done.
    pub served: u64,
    /// Messages that made no sense, answers that nobody waited for: dropped.
    pub malformed: u64,
    /// Requests for windows that are not there, or outside of them, or for more than may be asked at a time.
    pub refused: u64,
}

/// Why an operation has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Lost(PeerError),
    Refused(ErrorClass),
}

/// The way to other processes. Sending to ourselves is the same.
pub(super) struct Net<'a> {
    pub(super) tagged: &'a mut Tagged<Buffer>,
    pub(super) messenger: &'a mut Messenger,
    pub(super) now: Instant,
    pub(super) me: u32,
    pub(super) peers: &'a mut Peers,
    pub(super) inbox: &'a mut Inbox,
    /// Peers and channels to which something may be waiting to be transmitted.
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
            Some(peer) => self.messenger.endpoint().processor(peer),
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

    /// Gives the lock of a process's window back.
    pub(super) fn unlock(&mut self, process: u32, window: u64) {
        self.request(process, window, 0, Request::Unlock);
    }

    /// Says to a process that it may access our window, which has this name there.
    pub(super) fn post(&mut self, process: u32, window: u64) {
        self.request(process, window, 0, Request::Post);
    }

    /// Says to a process that we have done what we wanted to its window.
    pub(super) fn complete(&mut self, process: u32, window: u64) {
        self.request(process, window, 0, Request::Complete);
    }

    /// Places octets in a landing of another process.
    fn place(&mut self, process: u32, to: u64, offset: u64, data: bytes::Bytes) -> Result<SendToken, SendError> {
        let peer = self.peer(process).ok_or(SendError::UnknownPeer(PeerId(u32::MAX)))?;
        let token = self
            .messenger
            .place(self.now, peer, BULK, landing_of(to), offset, data)?;
        if self.touched.last() != Some(&(peer, BULK)) {
            self.touched.push((peer, BULK));
        }
        Ok(token)
    }

    fn grant(&mut self, process: u32, len: u64, memory: impl Landing + 'static) -> Option<LandingId> {
        let peer = self.peer(process)?;
        self.messenger.grant(Access::Once { peer, len }, Box::new(memory))
    }

    /// So many answers to this process can not be sent that no more are made.
    fn is_deaf(&self, process: u32) -> bool {
        self.peers
            .get(process)
            .is_some_and(|peer| self.tagged.waiting(peer) >= MAX_WAITING)
    }
}

/// Names a landing, so also a window, in messages.
fn name_of(id: LandingId) -> u64 {
    u64::from(id.landing) << 32 | u64::from(id.key)
}

fn landing_of(name: u64) -> LandingId {
    LandingId {
        landing: (name >> 32) as u32,
        key: name as u32,
    }
}

/// When this process may access the windows of others.
#[derive(Debug)]
pub(super) enum Epoch {
    None,
    /// Between fences; `used`: something was done since the last.
    Fence {
        used: bool,
    },
    /// Those who have posted for us.
    Started(Group),
    /// Locks that were asked for; `true`: granted. `all`: by one call, which takes one to give them back.
    Locked {
        locks: BTreeMap<u32, bool>,
        all: bool,
    },
}

impl Epoch {
    /// Another way to synchronise may begin.
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

/// What is under way to one process through a window, and what has failed since it was last asked for.
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
    /// Processes that have posted for us, and that have completed what they did to us: how often.
    pub(super) posted: BTreeMap<u32, u32>,
    pub(super) completed: BTreeMap<u32, u32>,
    pub(super) epoch: Epoch,
    /// Those that we have posted for.
    pub(super) exposed: Option<Group>,
    pub(super) pending: BTreeMap<u32, Pending>,
}

impl WindowState {
    /// One has been counted for `process`: takes it away.
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

    /// Operations that are under way to those that are `wanted`.
    pub(super) fn operations(&self, wanted: impl Fn(u32) -> bool) -> u32 {
        let pending = self.pending.iter().filter(|(process, _)| wanted(**process));
        pending.map(|(_, pending)| pending.operations).sum()
    }

    /// Takes what has failed with those that are `wanted`.
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

/// Everything about remote memory at one process.
#[derive(Default)]
pub(crate) struct Remote {
    /// By the name of their landing.
    windows: BTreeMap<u64, WindowState>,
    /// Those that have been closed, while their memory is still being sent from.
    closing: Vec<(u64, Memory)>,
    operations: Slab<Operation>,
    flights: Slab<Flight>,
    /// By process.
    queues: BTreeMap<u32, Queue>,
    /// Operations by what they have placed.
    tokens: BTreeMap<u64, u32>,
    /// Flights by the landing in which what was asked for lands.
    landings: BTreeMap<u64, u32>,
    /// Operations that have ended but for references to their memory.
    draining: Vec<u32>,
    serving: VecDeque<Serving>,
    /// Requests that have ended.
    pub(super) ended: Vec<(RequestId, Ended)>,
    /// Something has happened that others may wait for.
    pub(super) news: bool,
    stats: WindowStats,
}

/// Remote memory of a process that may never have to do with any: nothing until then.
#[derive(Default)]
pub(crate) struct OnDemand(Option<Box<Remote>>);

impl OnDemand {
    /// It, from now on.
    pub(super) fn it(&mut self) -> &mut Remote {
        self.0.get_or_insert_default()
    }

    /// See [`Remote::is_settled`].
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.0.as_ref().is_none_or(|remote| remote.is_settled())
    }

    pub(super) fn stats(&self) -> WindowStats {
        self.0
            .as_ref()
            .map_or_else(WindowStats::default, |remote| remote.stats())
    }

    /// See [`Remote::awaited`].
    pub(super) fn awaited(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|remote| remote.awaited())
    }
}

impl Remote {
    pub(super) fn stats(&self) -> WindowStats {
        self.stats
    }

    /// Operations that have not ended.
    pub(super) fn operations(&self) -> usize {
        self.operations.len()
    }

    /// Lets the processes of `group` access `memory`. Gives its name; `None`: there are too many landings.
    pub(super) fn expose(&mut self, messenger: &mut Messenger, memory: Memory, group: Group) -> Option<u64> {
        let landing = Box::new(memory.landing());
        let name = name_of(messenger.grant(Access::Lasting, landing)?);
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

    /// Nobody accesses the window any more. Its memory may go when it [is closed](Self::is_closed).
    pub(super) fn close(&mut self, messenger: &mut Messenger, name: u64) {
        if let Some(state) = self.windows.remove(&name) {
            messenger.revoke(landing_of(name));
            self.serving.retain(|serving| serving.window != name);
            self.closing.push((name, state.memory));
        }
    }

    pub(super) fn is_closed(&mut self, name: u64) -> bool {
        self.closing.retain(|(_, memory)| !memory.is_back());
        self.closing.iter().all(|(other, _)| *other != name)
    }

    /// Nothing waits for [`pump`](Self::pump), and nothing has happened that was not told.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.serving.is_empty()
            && self.queues.is_empty()
            && self.draining.is_empty()
            && self.ended.is_empty()
            && !self.news
    }

    /// Goes on with what had no room.
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

    /// A message of another engine, or of our own.
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

    /// The process is lost: everything with it ends.
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

//! The way of messages about remote memory.

use alloc::{boxed::Box, vec::Vec};

use super::message::{Message, Request};
use crate::{
    error::{PeerError, SendError},
    messaging::{
        Access, MemoryRegion, Messenger, RegionId,
        tagged::{BULK, SERVED, Tagged},
    },
    mpi::engine::{buffer::Buffer, core::Inbox, packed::Packs, peers::Peers},
    reliability::{PeerId, SendToken},
    time::Instant,
};

/// Most parts in flight to one process.
pub(super) const LIMIT: usize = 32;
/// Most answers to one process that may wait for credit, grants of messages among them. (More can only be due to a
/// process that asks without end.)
pub(super) const MAX_WAITING: usize = SERVED + 4 * LIMIT;
/// Number of active messages for [`Rma::handle`].
pub(in crate::mpi::engine) const HANDLER: u32 = 1;

/// The way to other processes, and to this process itself.
pub(in crate::mpi::engine) struct Net<'a> {
    pub(in crate::mpi::engine) tagged: &'a mut Tagged<Buffer>,
    pub(in crate::mpi::engine) messenger: &'a mut Messenger,
    pub(in crate::mpi::engine) now: Instant,
    pub(in crate::mpi::engine) me: u32,
    pub(in crate::mpi::engine) peers: &'a mut Peers,
    pub(in crate::mpi::engine) inbox: &'a mut Inbox,
    /// Peers and channels for which packets may be queued.
    pub(in crate::mpi::engine) touched: &'a mut Vec<(PeerId, u8)>,
    pub(in crate::mpi::engine) scratch: &'a mut Vec<u8>,
    pub(in crate::mpi::engine) packs: &'a Packs,
}

impl Net<'_> {
    pub(super) fn peer(&mut self, process: u32) -> Option<PeerId> {
        self.peers.meet(self.messenger, process)
    }

    pub(super) fn process(&self, peer: Option<PeerId>) -> Option<u32> {
        match peer {
            None => Some(self.me),
            Some(peer) => self.messenger.layer().processor(peer),
        }
    }

    pub(in crate::mpi::engine) fn lost(&self, process: u32) -> Option<PeerError> {
        self.peers.lost(process)
    }

    pub(super) fn send(&mut self, process: u32, message: &Message<'_>) {
        message.emit(self.scratch);
        if process == self.me {
            self.inbox.push(None, HANDLER, self.scratch);
        } else if let Some(peer) = self.peer(process) {
            self.tagged
                .send_active(self.messenger, self.now, peer, HANDLER, self.scratch);
            self.touched.push((peer, 0));
        }
    }

    pub(super) fn request(&mut self, process: u32, window: u64, id: u32, request: Request<'_>) {
        self.send(process, &Message::Request { id, window, request });
    }

    /// Releases the lock of a process's window.
    pub(in crate::mpi::engine) fn unlock(&mut self, process: u32, window: u64) {
        self.request(process, window, 0, Request::Unlock);
    }

    /// Tells a process that it may access this process's window, by the name of its own window.
    pub(in crate::mpi::engine) fn post(&mut self, process: u32, window: u64) {
        self.request(process, window, 0, Request::Post);
    }

    /// Tells a process that this one has finished its accesses to its window.
    pub(in crate::mpi::engine) fn complete(&mut self, process: u32, window: u64) {
        self.request(process, window, 0, Request::Complete);
    }

    /// Places bytes in a region of another process.
    pub(super) fn place(
        &mut self,
        process: u32,
        to: u64,
        offset: u64,
        data: bytes::Bytes,
    ) -> Result<SendToken, SendError> {
        let peer = self.peer(process).ok_or(SendError::UnknownPeer(PeerId(u32::MAX)))?;
        let token = self
            .messenger
            .place(self.now, peer, BULK, region_of(to), offset, data)?;
        if self.touched.last() != Some(&(peer, BULK)) {
            self.touched.push((peer, BULK));
        }
        Ok(token)
    }

    pub(super) fn register(&mut self, process: u32, len: u64, memory: impl MemoryRegion + 'static) -> Option<RegionId> {
        let peer = self.peer(process)?;
        self.messenger.register(Access::Once { peer, len }, Box::new(memory))
    }

    /// So many answers to this process wait for credit that no more are made.
    pub(super) fn is_deaf(&self, process: u32) -> bool {
        self.peers
            .get(process)
            .is_some_and(|peer| self.tagged.waiting(peer) >= MAX_WAITING)
    }
}

/// The name of a region, so also of a window, in messages.
pub(super) fn name_of(id: RegionId) -> u64 {
    u64::from(id.region) << 32 | u64::from(id.key)
}

pub(super) fn region_of(name: u64) -> RegionId {
    RegionId {
        region: (name >> 32) as u32,
        key: name as u32,
    }
}

//! Memory regions: memory that others may write to, place by place.

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use core::fmt;

use super::coverage::Coverage;
use crate::{
    reliability::{PeerId, Verdict},
    span::Span,
    wire::Placement,
};

/// Memory in which placements land, at any offset and in any order.
pub trait MemoryRegion: Send {
    /// Capacity in bytes.
    fn capacity(&self) -> u64;

    /// Puts `bytes` at `offset`; the range is inside the capacity. The source may be memory that another process
    /// writes.
    fn place(&mut self, offset: u64, bytes: Span<'_>);

    /// The memory, if it is one run that may be written in place.
    fn whole(&mut self) -> Option<&mut [u8]> {
        self.run()
    }

    /// The same, if this need not be dropped either.
    fn run(&mut self) -> Option<&mut [u8]> {
        None
    }
}

impl MemoryRegion for Vec<u8> {
    fn capacity(&self) -> u64 {
        self.len() as u64
    }

    fn place(&mut self, offset: u64, bytes: Span<'_>) {
        let at = offset as usize;
        bytes.copy_to(&mut self[at..at + bytes.len()]);
    }

    fn whole(&mut self) -> Option<&mut [u8]> {
        Some(self)
    }
}

/// Names a region for the peers that write to it: an index with its generation, and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId {
    /// Index (20 bits) and generation (12 bits).
    pub region: u32,
    /// Must be known, too, in order to write.
    pub key: u32,
}

/// The peers that may write to a region, and when it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// One peer may write this many bytes, each once; then the region is complete.
    Once {
        /// The peer.
        peer: PeerId,
        /// Bytes; at most the capacity.
        len: u64,
    },
    /// Every peer that knows the key, as often as it likes (remote memory).
    Lasting,
}

/// Most pieces of one region that may arrive before the ones they follow: each takes memory beside its bytes. Further
/// ones are put off.
const MAX_SCATTERED: usize = 4_096;
/// Indices of regions have so many bits, generations the rest.
const INDEX_BITS: u32 = 20;

struct Slot {
    id: RegionId,
    access: Access,
    /// For [`Access::Once`]: the end of the range that may be written so far, and the ranges that were.
    allowed: u64,
    covered: Coverage,
    /// `None`: free.
    memory: Option<Box<dyn MemoryRegion>>,
}

/// Every region of a messenger.
#[derive(Default)]
pub(super) struct MemoryRegions {
    slots: Vec<Slot>,
    free: VecDeque<u32>,
    /// The complete regions that have not been reported.
    landed: VecDeque<RegionId>,
    /// Packets for regions that are not (or not any more) there, or of peers that may not.
    unmatched_placements: u64,
    /// State of the keys: each is drawn from it.
    key: u64,
}

impl fmt::Debug for MemoryRegions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRegions")
            .field("regions", &(self.slots.len() - self.free.len()))
            .field("unmatched_placements", &self.unmatched_placements)
            .finish_non_exhaustive()
    }
}

impl MemoryRegions {
    /// Sets the secret from which keys are drawn: a peer that does not know it cannot guess them.
    pub(super) fn seed(&mut self, seed: u64) {
        self.key = seed;
    }

    pub(super) fn unmatched_placements(&self) -> u64 {
        self.unmatched_placements
    }

    fn draw_key(&mut self) -> u32 {
        self.key = self.key.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.key ^ self.key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32
    }

    /// There are not too many.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.slots.len() < 1 << INDEX_BITS
    }

    /// `None`: there are too many (2^20).
    pub(super) fn register(&mut self, access: Access, memory: Box<dyn MemoryRegion>) -> Option<RegionId> {
        let key = self.draw_key();
        // The index that has been free for longest, so that generations take long to come round.
        let reuse = self.free.len() > 64 || self.slots.len() == 1 << INDEX_BITS;
        let index = match self.free.front().copied() {
            Some(index) if reuse => {
                self.free.pop_front();
                index
            }
            _ if self.slots.len() == 1 << INDEX_BITS => return None,
            _ => {
                self.slots.push(Slot {
                    id: RegionId {
                        region: self.slots.len() as u32,
                        key,
                    },
                    access,
                    allowed: 0,
                    covered: Coverage::default(),
                    memory: None,
                });
                self.slots.len() as u32 - 1
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.id.region = slot.id.region.wrapping_add(1 << INDEX_BITS);
        slot.id.key = key;
        slot.access = access;
        slot.allowed = u64::MAX;
        slot.covered = Coverage::default();
        slot.memory = Some(memory);
        let id = slot.id;
        if access_len(access) == Some(0) {
            self.landed.push_back(id);
        }
        Some(id)
    }

    fn slot(&mut self, id: RegionId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut((id.region & ((1 << INDEX_BITS) - 1)) as usize)?;
        (slot.id == id && slot.memory.is_some()).then_some(slot)
    }

    /// Returns whether there is this region.
    pub(super) fn has(&mut self, id: RegionId) -> bool {
        self.slot(id).is_some()
    }

    /// Ends a region: nothing is written to it any more.
    pub(super) fn deregister(&mut self, id: RegionId) -> Option<Box<dyn MemoryRegion>> {
        let slot = self.slot(id)?;
        let memory = slot.memory.take();
        slot.covered = Coverage::default();
        self.free.push_back(id.region & ((1 << INDEX_BITS) - 1));
        memory
    }

    /// Sets the end of the range that may be written so far.
    pub(super) fn allow(&mut self, id: RegionId, until: u64) {
        if let Some(slot) = self.slot(id) {
            slot.allowed = until;
        }
    }

    /// Bytes that have landed so far.
    pub(super) fn progress(&mut self, id: RegionId) -> u64 {
        self.slot(id).map_or(0, |slot| slot.covered.landed())
    }

    pub(super) fn poll_landed(&mut self) -> Option<RegionId> {
        self.landed.pop_front()
    }

    pub(super) fn has_landed(&self) -> usize {
        self.landed.len()
    }

    /// Has `put` write `len` bytes at an offset of a region of [`Access::Once`] that is one run, as far as a placement of
    /// the peer's would be taken there. Returns what that did; without it, nothing has landed.
    pub(super) fn fill(
        &mut self,
        peer: PeerId,
        id: RegionId,
        (offset, len): (u64, u64),
        put: impl FnOnce(&mut [u8]) -> bool,
    ) -> bool {
        let Some(slot) = self.slot(id) else { return false };
        let (
            Access::Once {
                peer: granted,
                len: all,
            },
            Some(memory),
        ) = (slot.access, &mut slot.memory)
        else {
            return false;
        };
        let end = offset.checked_add(len).filter(|&end| end <= all.min(slot.allowed));
        let (Some(end), Some(whole)) = (end, memory.whole()) else {
            return false;
        };
        let covered = &mut slot.covered;
        let is_taken = granted == peer
            && len > 0
            && !covered.overlaps(offset, end)
            && (covered.scattered() < MAX_SCATTERED || covered.follows(offset));
        if !is_taken || !put(&mut whole[offset as usize..end as usize]) {
            return false;
        }
        covered.cover(offset, end);
        if covered.landed() == all {
            self.landed.push_back(id);
        }
        true
    }

    /// Writes a placement to its region. A placement for a region that has ended is late, and dropped. One beyond the
    /// end, beyond the allowed range, or over bytes that have landed before is no honest peer's.
    pub(super) fn deliver(&mut self, peer: PeerId, placement: Placement, key: u32, bytes: Span<'_>) -> Verdict {
        let id = RegionId {
            region: placement.region,
            key,
        };
        let Some(slot) = self.slot(id) else {
            self.unmatched_placements += 1;
            return Verdict::Taken;
        };
        let Some(memory) = &mut slot.memory else {
            return Verdict::Taken;
        };
        let len = match slot.access {
            Access::Once { peer: granted, .. } if granted != peer => {
                self.unmatched_placements += 1;
                return Verdict::Taken;
            }
            Access::Once { len, .. } => len.min(slot.allowed),
            Access::Lasting => memory.capacity(),
        };
        let end = placement.offset.checked_add(bytes.len() as u64);
        let Some(end) = end.filter(|&end| end <= len) else {
            return Verdict::Impossible;
        };
        let Access::Once { len, .. } = slot.access else {
            memory.place(placement.offset, bytes);
            return Verdict::Taken;
        };
        if bytes.is_empty() {
            return Verdict::Taken;
        }
        let covered = &mut slot.covered;
        if !covered.append(placement.offset, end) {
            if covered.overlaps(placement.offset, end) {
                return Verdict::Impossible;
            }
            if covered.scattered() >= MAX_SCATTERED && !covered.follows(placement.offset) {
                return Verdict::NoRoom;
            }
            covered.cover(placement.offset, end);
        }
        memory.place(placement.offset, bytes);
        if slot.covered.landed() == len {
            self.landed.push_back(id);
        }
        Verdict::Taken
    }
}

fn access_len(access: Access) -> Option<u64> {
    match access {
        Access::Once { len, .. } => Some(len),
        Access::Lasting => None,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn at(id: RegionId, offset: u64) -> Placement {
        Placement {
            region: id.region,
            offset,
        }
    }

    #[test]
    fn bytes_land_once_in_any_order_and_only_from_the_peer_that_may() {
        let mut regions = MemoryRegions::default();
        regions.seed(7);
        let peer = PeerId(3);
        let id = regions
            .register(Access::Once { peer, len: 10 }, Box::new(vec![0; 16]))
            .unwrap();
        assert_eq!(
            regions.deliver(peer, at(id, 6), id.key, Span::new(&[2; 4])),
            Verdict::Taken
        );
        assert_eq!(regions.progress(id), 4);
        assert_eq!(
            regions.deliver(PeerId(4), at(id, 0), id.key, Span::new(&[9; 6])),
            Verdict::Taken
        );
        assert_eq!(
            regions.deliver(peer, at(id, 0), id.key ^ 1, Span::new(&[9; 6])),
            Verdict::Taken
        );
        assert_eq!(regions.unmatched_placements(), 2);
        assert_eq!(regions.poll_landed(), None);
        for offset in [5, 10, u64::MAX, u64::MAX - 3] {
            assert_eq!(
                regions.deliver(peer, at(id, offset), id.key, Span::new(&[9; 6])),
                Verdict::Impossible
            );
        }
        assert_eq!(
            regions.deliver(peer, at(id, 0), id.key, Span::new(&[1; 6])),
            Verdict::Taken
        );
        assert_eq!(regions.poll_landed(), Some(id));
        let memory = regions.deregister(id).unwrap();
        assert_eq!(memory.capacity(), 16);
        assert!(regions.deregister(id).is_none());
        assert_eq!(
            regions.deliver(peer, at(id, 0), id.key, Span::new(&[1; 6])),
            Verdict::Taken
        );
        assert_eq!(regions.unmatched_placements(), 3);
    }

    #[test]
    fn what_was_not_granted_or_has_landed_is_not_written() {
        let mut regions = MemoryRegions::default();
        let peer = PeerId(3);
        let access = Access::Once { peer, len: 100 };
        let id = regions.register(access, Box::new(vec![0; 100])).unwrap();
        regions.allow(id, 20);
        assert_eq!(
            regions.deliver(peer, at(id, 10), id.key, Span::new(&[1; 11])),
            Verdict::Impossible
        );
        assert_eq!(
            regions.deliver(peer, at(id, 10), id.key, Span::new(&[1; 10])),
            Verdict::Taken
        );
        for (offset, len) in [(10, 10), (5, 10), (0, 11), (0, 20), (19, 1)] {
            let bytes = vec![9; len];
            assert_eq!(
                regions.deliver(peer, at(id, offset), id.key, Span::new(&bytes)),
                Verdict::Impossible
            );
        }
        regions.allow(id, 100);
        assert_eq!(
            regions.deliver(peer, at(id, 20), id.key, Span::new(&[2; 80])),
            Verdict::Taken
        );
        assert_eq!((regions.progress(id), regions.poll_landed()), (90, None));
        assert_eq!(
            regions.deliver(peer, at(id, 0), id.key, Span::new(&[3; 10])),
            Verdict::Taken
        );
        assert_eq!(regions.poll_landed(), Some(id));
        assert_eq!(
            regions.deliver(peer, at(id, 99), id.key, Span::new(&[9; 1])),
            Verdict::Impossible
        );
        assert_eq!(regions.poll_landed(), None);
    }

    /// What the system is to write is checked as what is placed.
    #[test]
    fn a_range_is_filled_once_and_only_where_it_may() {
        let mut regions = MemoryRegions::default();
        let peer = PeerId(3);
        let access = Access::Once { peer, len: 100 };
        let id = regions.register(access, Box::new(vec![0; 100])).unwrap();
        regions.allow(id, 60);
        let mut fill = |peer, offset, len, value: Option<u8>| {
            regions.fill(peer, id, (offset, len), |bytes| {
                bytes.fill(value.unwrap_or_default());
                value.is_some()
            })
        };
        assert!(!fill(PeerId(4), 0, 10, Some(9)));
        assert!(!fill(peer, 50, 11, Some(9)));
        assert!(!fill(peer, u64::MAX, 2, Some(9)));
        assert!(!fill(peer, 0, 0, Some(9)));
        // What was not written may come again.
        assert!(!fill(peer, 10, 10, None));
        assert!(fill(peer, 10, 10, Some(1)));
        assert!(!fill(peer, 19, 10, Some(9)));
        regions.allow(id, 100);
        let rest = Span::new(&[2; 80]);
        assert_eq!(regions.deliver(peer, at(id, 20), id.key, rest), Verdict::Taken);
        assert_eq!(regions.progress(id), 90);
        assert!(regions.fill(peer, id, (0, 10), |bytes| {
            bytes.fill(3);
            true
        }));
        assert_eq!(regions.poll_landed(), Some(id));
        let mut memory = regions.deregister(id).unwrap();
        let whole = memory.whole().unwrap();
        assert_eq!((whole[0], whole[10], whole[20], whole[99]), (3, 1, 2, 2));
        assert!(!regions.fill(peer, id, (0, 10), |_| true));
    }

    #[test]
    fn scattered_placements_are_bounded() {
        let mut regions = MemoryRegions::default();
        let peer = PeerId(3);
        let access = Access::Once { peer, len: 100_000 };
        let id = regions.register(access, Box::new(vec![0; 100_000])).unwrap();
        let taken = (0..40_000)
            .filter(|n| regions.deliver(peer, at(id, 2 * n + 1), id.key, Span::new(&[1])) == Verdict::Taken)
            .count();
        assert_eq!(taken, MAX_SCATTERED);
        // A placement that was put off comes in its turn.
        for n in 0..100_000 {
            let verdict = regions.deliver(peer, at(id, n), id.key, Span::new(&[1]));
            assert!(
                verdict == Verdict::Taken || n % 2 == 1 && n < 2 * MAX_SCATTERED as u64,
                "{n}: {verdict:?}"
            );
        }
        assert_eq!(regions.poll_landed(), Some(id));
    }

    #[test]
    fn regions_last_and_generations_differ() {
        let mut regions = MemoryRegions::default();
        let first = regions.register(Access::Lasting, Box::new(vec![0; 4])).unwrap();
        for offset in [0, 1, 0, 1] {
            assert_eq!(
                regions.deliver(PeerId(offset), at(first, offset.into()), first.key, Span::new(&[1; 3])),
                Verdict::Taken
            );
        }
        assert_eq!(regions.poll_landed(), None);
        for _ in 0..1_000 {
            let id = regions.register(Access::Lasting, Box::new(vec![0; 4])).unwrap();
            assert_ne!(id.region, first.region);
            assert!(regions.deregister(id).is_some());
        }
        assert!(regions.slots.len() < 100);
        assert!(regions.deregister(first).is_some());
    }

    #[test]
    fn nothing_to_land_has_landed() {
        let mut regions = MemoryRegions::default();
        let peer = PeerId(0);
        let id = regions
            .register(Access::Once { peer, len: 0 }, Box::new(vec![]))
            .unwrap();
        assert_eq!(regions.poll_landed(), Some(id));
        assert_eq!(regions.deliver(peer, at(id, 0), id.key, Span::new(&[])), Verdict::Taken);
        assert_eq!(regions.poll_landed(), None);
    }
}

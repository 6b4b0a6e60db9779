//! Where payload lies until it is acknowledged: blocks of copied messages, and memory shared with its owner.

use alloc::{boxed::Box, vec, vec::Vec};
use core::ops::Range;

use bytes::Bytes;

use crate::{
    id::SendToken,
    prefetch::Locate,
    span::{Foreign, Span},
    wire::{Placement, checksum::Crc32c},
};

/// Index of a [`Source`].
pub(crate) type SourceId = u32;
pub(crate) const NONE: u32 = u32::MAX;

/// Sizes of blocks. A flow gets a small one for its records while it has little to send (most flows do), and larger
/// ones when it sends in bursts. Other messages get a block that is not much larger than they are.
const SIZES: [usize; 4] = [512, 4 << 10, 16 << 10, 64 << 10];
/// Free blocks of each size that are kept.
const KEPT: usize = 64;

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
enum Data {
    Block(Box<[u8]>),
    Shared(Bytes),
    Foreign(Foreign),
    Free,
}

/// A message that is not bundled, as its packets' headers need it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Whole {
    pub(crate) len: u32,
    pub(crate) match_bits: Option<u64>,
    pub(crate) immediate: Option<u64>,
    /// A copy of ours, which counts against the bytes of the send queue.
    pub(crate) copied: bool,
    /// A placement for this offset in one of the peer's regions, not a message.
    pub(crate) placement: Option<Placement>,
}

impl Whole {
    /// Bytes by which the header of its first packet exceeds the fixed header.
    #[inline]
    pub(crate) fn header_len(&self) -> usize {
        8 * (usize::from(self.match_bits.is_some()) + usize::from(self.immediate.is_some()))
    }
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
struct Source {
    data: Data,
    /// Queue entries, unacknowledged packets, and the flow that still appends.
    references: u32,
    /// Bursts that the backend has not given back.
    held: u32,
    whole: Whole,
    token: Option<SendToken>,
    flow: u32,
    /// That flow counts it among its messages by reference: it goes by no other.
    counted: bool,
}

/// The source, if any, that became free with its last reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// Nothing yet.
    No,
    /// Copied memory.
    Block,
    /// A shared message of this flow, to be reported if its token is still wanted; whether the flow counts it.
    Shared(u32, Option<SendToken>, bool),
}

/// All sources of an endpoint.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Sources {
    slots: Vec<Source>,
    free: Vec<SourceId>,
    /// Unused blocks, by size.
    pools: [Vec<Box<[u8]>>; SIZES.len()],
}

impl Sources {
    #[inline(always)]
    fn insert(&mut self, data: Data, whole: Whole, token: Option<SendToken>, flow: u32) -> SourceId {
        let id = self.free.pop().unwrap_or_else(|| self.new_slot());
        // Written field by field, straight into the slot. A free slot owns nothing that would have to be dropped, so
        // the compiler need not keep a copy of `data` elsewhere.
        let source = &mut self.slots[id as usize];
        debug_assert!(matches!(source.data, Data::Free), "the slot is free");
        core::mem::forget(core::mem::replace(&mut source.data, data));
        source.references = 1;
        source.whole = whole;
        source.token = token;
        source.flow = flow;
        source.counted = true;
        id
    }

    #[cold]
    fn new_slot(&mut self) -> SourceId {
        self.slots.push(Source {
            data: Data::Free,
            references: 0,
            held: 0,
            whole: Whole::default(),
            token: None,
            flow: NONE,
            counted: false,
        });
        (self.slots.len() - 1) as SourceId
    }

    /// A block of at least `len` bytes (at most [`Self::MAX_BLOCK`]), with one reference.
    pub(crate) fn block(&mut self, len: usize, whole: Whole) -> SourceId {
        let class = SIZES.iter().position(|size| *size >= len).unwrap_or(SIZES.len() - 1);
        let block = self.pools[class]
            .pop()
            .unwrap_or_else(|| vec![0; SIZES[class]].into_boxed_slice());
        self.insert(Data::Block(block), whole, None, NONE)
    }

    /// Smallest size of a [`Self::block`], bytes.
    pub(crate) const MIN_BLOCK: usize = SIZES[0];
    /// A flow whose records outgrow a block of this size sends in bursts.
    pub(crate) const BURST: usize = SIZES[1];
    /// Largest length for [`Self::block`].
    pub(crate) const MAX_BLOCK: usize = SIZES[SIZES.len() - 1];

    /// Shared memory with one reference.
    #[inline(always)]
    pub(crate) fn shared(&mut self, data: Bytes, whole: Whole, token: Option<SendToken>, flow: u32) -> SourceId {
        self.insert(Data::Shared(data), whole, token, flow)
    }

    /// Memory that another process may write, with one reference.
    pub(crate) fn foreign(&mut self, data: Foreign, whole: Whole, token: Option<SendToken>, flow: u32) -> SourceId {
        self.insert(Data::Foreign(data), whole, token, flow)
    }

    /// The bytes of a source in this process's memory.
    ///
    /// # Panics
    /// If it is in another process's memory ([`foreign`](Self::foreign)).
    #[inline]
    pub(crate) fn bytes(&self, id: SourceId) -> &[u8] {
        match &self.slots[id as usize].data {
            Data::Block(block) => block,
            Data::Shared(data) => data,
            Data::Foreign(_) => is_foreign(),
            Data::Free => &[],
        }
    }

    /// The bytes of a source, in either memory.
    #[inline]
    pub(crate) fn span(&self, id: SourceId) -> Span<'_> {
        match &self.slots[id as usize].data {
            Data::Block(block) => Span::new(block),
            Data::Shared(data) => Span::new(data),
            Data::Foreign(data) => data.span(),
            Data::Free => Span::default(),
        }
    }

    /// Takes a range of it into a checksum.
    pub(crate) fn sum_up(&self, crc: Crc32c, id: SourceId, range: Range<usize>) -> Crc32c {
        let Data::Foreign(data) = &self.slots[id as usize].data else {
            return crc.update(&self.bytes(id)[range]);
        };
        let (mut crc, mut rest) = (crc, data.span().part(range));
        let mut some = [0; 1 << 10];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(some.len()));
            let some = &mut some[..now.len()];
            now.copy_to(some);
            crc = crc.update(some);
            rest = later;
        }
        crc
    }

    #[inline]
    pub(crate) fn block_mut(&mut self, id: SourceId) -> &mut [u8] {
        match &mut self.slots[id as usize].data {
            Data::Block(block) => block,
            _ => &mut [],
        }
    }

    #[inline]
    pub(crate) fn whole(&self, id: SourceId) -> &Whole {
        &self.slots[id as usize].whole
    }

    /// The room in a block for `len` bytes more, and its offset: behind its first `fill` bytes, or at its start if only the
    /// flow that appends refers to it. `None`: it has no room for them, or `id` is [`NONE`].
    #[inline]
    pub(crate) fn room_in(&mut self, id: SourceId, fill: u32, len: usize) -> Option<(u32, &mut [u8])> {
        let source = self.slots.get_mut(id as usize)?;
        let Data::Block(block) = &mut source.data else {
            return None;
        };
        let is_sole = source.references == 1 && source.held == 0;
        let at = if is_sole { 0 } else { fill };
        Some((at, block.get_mut(at as usize..at as usize + len)?))
    }

    #[inline]
    pub(crate) fn retain(&mut self, id: SourceId) {
        self.slots[id as usize].references += 1;
    }

    #[inline(always)]
    pub(crate) fn release(&mut self, id: SourceId) -> Freed {
        let source = &mut self.slots[id as usize];
        source.references -= 1;
        if source.references == 0 && source.held == 0 {
            self.free(id)
        } else {
            Freed::No
        }
    }

    /// From now on no flow counts it among its messages by reference. Returns the one that has, if one has.
    pub(crate) fn stripe(&mut self, id: SourceId) -> Option<u32> {
        let source = &mut self.slots[id as usize];
        let counted = core::mem::take(&mut source.counted) && source.token.is_some();
        counted.then_some(source.flow)
    }

    /// The backend now refers to it.
    pub(crate) fn hold(&mut self, id: SourceId) {
        self.slots[id as usize].held += 1;
    }

    /// The backend has given a reference back.
    pub(crate) fn unhold(&mut self, id: SourceId) -> Freed {
        let source = &mut self.slots[id as usize];
        source.held -= 1;
        if source.references == 0 && source.held == 0 {
            self.free(id)
        } else {
            Freed::No
        }
    }

    /// Drops the completions of all sources of this flow, be they queued, in flight, or acknowledged and still
    /// referenced by the backend.
    pub(crate) fn forget_tokens(&mut self, flow: u32) {
        for source in self.slots.iter_mut().filter(|source| source.flow == flow) {
            source.token = None;
        }
    }

    #[inline]
    fn free(&mut self, id: SourceId) -> Freed {
        self.free.push(id);
        let source = &mut self.slots[id as usize];
        if let Data::Block(_) = source.data {
            return self.keep_block(id);
        }
        source.data = Data::Free;
        Freed::Shared(source.flow, source.token.take(), source.counted)
    }

    #[cold]
    fn keep_block(&mut self, id: SourceId) -> Freed {
        let source = &mut self.slots[id as usize];
        if let Data::Block(block) = core::mem::replace(&mut source.data, Data::Free) {
            let class = SIZES.iter().position(|size| *size == block.len());
            if let Some(pool) = class.map(|class| &mut self.pools[class])
                && pool.len() < KEPT
            {
                pool.push(block);
            }
        }
        Freed::Block
    }
}

/// The bytes of the send queue that a copy takes which is not a record: at least those of its block. (Otherwise empty
/// messages could be queued without limit.)
#[inline]
pub(in crate::reliability) fn charge(len: u32) -> u32 {
    len.max(Sources::MIN_BLOCK as u32)
}

#[cold]
#[inline(never)]
fn is_foreign() -> ! {
    panic!("bytes of another process's memory have no slice")
}

/// The descriptor of a source.
impl Locate<SourceId> for Sources {
    #[inline]
    fn locate(&self, id: SourceId, mut tell: impl FnMut(*const u8, usize)) {
        if let Some(source) = self.slots.get(id as usize) {
            tell((&raw const *source).cast(), size_of::<Source>());
        }
    }
}

/// The bytes of a source, if it is a copy.
pub(in crate::reliability) struct CopyOf(pub(in crate::reliability) SourceId);

impl Locate<CopyOf> for Sources {
    #[inline]
    fn locate(&self, CopyOf(id): CopyOf, mut tell: impl FnMut(*const u8, usize)) {
        if let Some(Data::Block(block)) = self.slots.get(id as usize).map(|source| &source.data)
            && !block.is_empty()
        {
            tell(block.as_ptr(), block.len());
        }
    }
}

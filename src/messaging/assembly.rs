//! One message that is put together from fragments, which land in any order.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{
    arena::{NoMemory, Pool},
    coverage::Coverage,
};
use crate::{span::Span, wire::Fragment};

/// Bytes of memory that a message may take before they have landed, if its peer's [`CLAIMS`] allow it.
const FIRST: usize = 1 << 20;
/// Bytes that the messages of one peer may take in this way together.
pub(super) const CLAIMS: usize = 4 << 20;
/// Apart from that, a buffer is at most this many times as large as the bytes that have landed in it.
const GROWTH: usize = 4;

/// Why a fragment does not land.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It covers bytes that have landed before.
    Overlap,
    /// It is so far ahead of the landed bytes that a buffer up to there would be mostly empty.
    FarAhead,
    /// There is no memory for it.
    NoMemory,
}

impl From<NoMemory> for Refusal {
    fn from(_: NoMemory) -> Self {
        Self::NoMemory
    }
}

/// The storage of a message's bytes.
#[derive(Debug)]
enum Body {
    /// In one buffer, at their final place. The buffer grows with the bytes that land, so the length that a message
    /// *claims* costs no memory.
    Whole(Vec<u8>),
    /// By offset, as they arrived: about as much memory as bytes. A fragment that follows a piece is appended to it.
    Pieces(BTreeMap<u32, Vec<u8>>),
}

/// A message of which not everything has arrived, or that waits for an earlier one.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) total: u32,
    /// Credit that its packets have cost and that has not been given back.
    pub(super) cost: u32,
    pub(super) tag: Option<u64>,
    pub(super) immediate: Option<u64>,
    /// Set when every earlier message of its pair has been admitted: the number of admissions until then. When as
    /// many have been taken, this is the oldest message.
    pub(super) after: Option<u64>,
    /// Its credit is given back as it lands.
    pub(super) promoted: bool,
    /// Stands in one of the lists of those to be promoted.
    pub(super) listed: bool,
    /// Its part of its peer's [`CLAIMS`].
    pub(super) claim: usize,
    /// The size to which it may grow whatever its credit, bytes; 0: as far as its credit covers it.
    reserved: usize,
    covered: Coverage,
    body: Body,
}

impl Assembly {
    pub(super) fn new(total: u32) -> Self {
        Self {
            total,
            cost: 0,
            tag: None,
            immediate: None,
            after: None,
            promoted: false,
            listed: false,
            claim: 0,
            reserved: 0,
            covered: Coverage::default(),
            body: Body::Pieces(BTreeMap::new()),
        }
    }

    /// Bytes reserved for it; 0 if there are none.
    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// A fragment at `offset` follows one that has landed, or is the first: it takes no more memory than its bytes.
    pub(super) fn follows(&self, offset: u32) -> bool {
        self.covered.follows(offset.into())
    }

    /// Number of pieces to track, each begun by a fragment that did not follow another.
    pub(super) fn scattered(&self) -> usize {
        match &self.body {
            Body::Whole(_) => self.covered.scattered(),
            Body::Pieces(pieces) => pieces.len() - usize::from(self.covered.prefix() > 0),
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.covered.prefix() == self.total.into()
    }

    /// Enough bytes have landed to justify the claim.
    pub(super) fn has_earned(&self) -> bool {
        self.landed().saturating_mul(GROWTH) >= self.claim || self.is_complete()
    }

    /// Bytes that have landed.
    pub(super) fn landed(&self) -> usize {
        self.covered.landed() as usize
    }

    /// Reserves memory for the message's size (at most `max` bytes): in a buffer of the pool, or in one that grows as
    /// bytes land. The message may claim the first part of that at once if `claims` are left.
    pub(super) fn reserve(&mut self, pool: &mut Pool, max: usize, claims: usize) {
        if self.reserved > 0 {
            return;
        }
        let total = self.total as usize;
        let Some(mut buffer) = pool.reuse(total, max) else {
            self.reserved = Pool::size(total);
            self.claim = claims.min(FIRST).min(self.reserved);
            return;
        };
        self.reserved = buffer.len();
        if let Body::Pieces(pieces) = &self.body {
            for (offset, piece) in pieces {
                put(&mut buffer, *offset as usize, Span::new(piece));
            }
            self.body = Body::Whole(buffer);
        }
    }

    /// Puts `payload` where `fragment` says if that is behind all landed bytes of the message's buffer and does not
    /// complete the message. `false`: nothing was done.
    #[inline]
    pub(super) fn append(&mut self, fragment: Fragment, payload: Span<'_>) -> bool {
        let start = fragment.offset as usize;
        let end = start + payload.len();
        let Body::Whole(buffer) = &mut self.body else {
            return false;
        };
        let has_room = end <= buffer.len() || buffer.len() == start && end <= buffer.capacity();
        let usual = fragment.total == self.total && !payload.is_empty() && end < self.total as usize && has_room;
        if !usual || !self.covered.append(start as u64, end as u64) {
            return false;
        }
        put(buffer, start, payload);
        true
    }

    /// Puts `payload` at `offset`; together they must lie inside the message.
    pub(super) fn land(&mut self, offset: u32, payload: Span<'_>, pool: &Pool) -> Result<(), Refusal> {
        let (at, end) = (offset as usize, offset as usize + payload.len());
        if self.covered.overlaps(at as u64, end as u64) {
            return Err(Refusal::Overlap);
        }
        self.make_room(end, payload.len(), pool)?;
        if let Body::Pieces(pieces) = &mut self.body {
            let piece = match pieces.range_mut(..offset).next_back() {
                Some((&start, piece)) if start as usize + piece.len() == at => piece,
                _ => pieces.entry(offset).or_default(),
            };
            if piece.try_reserve(payload.len()).is_err() {
                if piece.is_empty() {
                    pieces.remove(&offset);
                }
                return Err(Refusal::NoMemory);
            }
        }
        self.covered.cover(at as u64, end as u64);
        match &mut self.body {
            Body::Whole(buffer) => put(buffer, at, payload),
            Body::Pieces(pieces) => {
                if let Some((_, piece)) = pieces.range_mut(..=offset).next_back() {
                    payload.append_to(piece);
                }
            }
        }
        Ok(())
    }

    /// Makes the message's buffer reach to `end`, or makes it one if it has none and may have one, for `more` bytes.
    fn make_room(&mut self, end: usize, more: usize, pool: &Pool) -> Result<(), Refusal> {
        let (total, landed) = (self.total as usize, self.landed() + more);
        // Nothing pays for the rest of the last page where nothing is set aside.
        let size = if self.reserved > 0 { Pool::size(total) } else { total };
        let most = size.min(self.claim.saturating_add(landed.saturating_mul(GROWTH)));
        match &mut self.body {
            Body::Whole(buffer) if end <= buffer.capacity().max(buffer.len()) => Ok(()),
            Body::Whole(_) if end > most => Err(Refusal::FarAhead),
            Body::Whole(buffer) => Ok(pool.grow(buffer, most)?),
            Body::Pieces(pieces) => {
                let last = pieces.last_key_value();
                let reach = last.map_or(0, |(&at, piece)| at as usize + piece.len()).max(end);
                if landed < total && (self.reserved == 0 || reach > most) {
                    return Ok(());
                }
                // A single piece from the start is in its final buffer already.
                let whole = pieces.len() == 1 && pieces.contains_key(&0);
                let mut buffer = if whole {
                    pieces.remove(&0).unwrap_or_default()
                } else {
                    Vec::new()
                };
                let grown = pool.grow(&mut buffer, most.max(reach));
                if grown.is_err() && whole {
                    pieces.insert(0, buffer);
                    return Err(Refusal::NoMemory);
                }
                grown?;
                buffer.shrink_to(most.max(reach));
                for (&offset, piece) in &*pieces {
                    put(&mut buffer, offset as usize, Span::new(piece));
                }
                self.body = Body::Whole(buffer);
                Ok(())
            }
        }
    }

    /// The buffer of a complete message; it may be longer than the message.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        match self.body {
            Body::Whole(mut buffer) => {
                // To be used again for messages that are a little longer.
                let size = Pool::size(self.total as usize).min(buffer.capacity());
                if buffer.len() < size {
                    buffer.resize(size, 0);
                }
                buffer
            }
            // It became a region before it was complete.
            Body::Pieces(_) => Vec::new(),
        }
    }

    /// Gives its memory back.
    pub(super) fn discard(self, pool: &mut Pool) {
        if let Body::Whole(buffer) = self.body {
            pool.give(buffer);
        }
    }
}

/// Puts `payload` at `at` of a buffer that has room for it.
#[inline]
fn put(buffer: &mut Vec<u8>, at: usize, payload: Span<'_>) {
    let end = at + payload.len();
    if let Some(place) = buffer.get_mut(at..end) {
        return payload.copy_to(place);
    }
    // The bytes in between have not landed yet.
    buffer.resize(at, 0);
    payload.append_to(buffer);
}

#[cfg(test)]
impl Assembly {
    pub(super) fn memory(&self) -> u64 {
        match &self.body {
            Body::Whole(buffer) => buffer.capacity() as u64,
            Body::Pieces(pieces) => pieces.values().map(|piece| piece.len() as u64).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The bytes are right whenever the region is made.
        #[test]
        fn pieces_become_a_region(cuts in prop::collection::btree_set(1_usize..999, 0..20), when in 0_usize..22, seed: u64, claims in 0_usize..2_000) {
            let data: Vec<u8> = (0..1_000_u32).map(|i| (i * 7 + i / 256) as u8).collect();
            let mut edges = vec![0];
            edges.extend(cuts);
            edges.push(data.len());
            let mut pieces: Vec<_> = edges.windows(2).map(|edge| edge[0]..edge[1]).collect();
            pieces.sort_by_key(|piece| (piece.start as u64 + 1).wrapping_mul(seed | 1));
            let mut pool = Pool::default();
            let (mut assembly, mut late) = (Assembly::new(1_000), Vec::new());
            for (i, piece) in pieces.into_iter().enumerate() {
                if i == when {
                    assembly.reserve(&mut pool, usize::MAX, claims);
                }
                prop_assert!(!assembly.is_complete());
                let mut refused = assembly.land(piece.start as u32, Span::new(&data[piece.clone()]), &pool);
                if refused == Err(Refusal::FarAhead) {
                    late.push(piece);
                    refused = Ok(());
                }
                prop_assert_eq!(refused, Ok(()));
            }
            // In order each has its turn.
            late.sort_by_key(|piece| piece.start);
            for piece in late {
                prop_assert!(assembly.land(piece.start as u32, Span::new(&data[piece]), &pool).is_ok());
            }
            prop_assert!(assembly.is_complete());
            prop_assert_eq!(&assembly.into_buffer()[..1_000], &data[..]);
        }
    }

    #[test]
    fn a_claim_costs_no_memory_and_growing_copies_little() {
        const TOTAL: usize = 64 << 20;
        let mut pool = Pool::default();
        let mut assembly = Assembly::new(TOTAL as u32);
        assembly.reserve(&mut pool, usize::MAX, CLAIMS);
        let part = vec![7; 60_000];
        let (mut at, mut moves, mut before) = (0, 0, 0);
        while at < TOTAL {
            let part = &part[..part.len().min(TOTAL - at)];
            assembly.land(at as u32, Span::new(part), &pool).unwrap();
            at += part.len();
            let memory = assembly.memory() as usize;
            assert!(memory <= FIRST + GROWTH * at, "{memory} bytes of memory for {at}");
            moves += usize::from(memory != before);
            before = memory;
        }
        assert!(moves <= 5, "{moves}");
        let buffer = assembly.into_buffer();
        assert!(buffer.len() == TOTAL && buffer.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn without_memory_nothing_lands_and_nothing_is_lost() {
        for (claims, pieces) in [(CLAIMS, 1), (0, 1), (0, 3)] {
            let mut pool = Pool::default();
            let mut assembly = Assembly::new(1 << 20);
            if pieces == 1 {
                assembly.reserve(&mut pool, usize::MAX, claims);
            }
            let part = vec![7; (1 << 20) / 16];
            let parts: Vec<u32> = match pieces {
                1 => (0..16).collect(),
                // Every second one first.
                _ => (0..16).step_by(2).chain((1..16).step_by(2)).collect(),
            };
            let mut refused = 0;
            for n in parts {
                pool.most = Some(0);
                let at = n * part.len() as u32;
                let landed = assembly.land(at, Span::new(&part), &pool);
                if landed.is_err() {
                    assert_eq!(landed, Err(Refusal::NoMemory));
                    refused += 1;
                    pool.most = None;
                    assert_eq!(assembly.land(at, Span::new(&part), &pool), Ok(()));
                }
            }
            assert!(refused > 0 && assembly.is_complete());
            assert!(assembly.into_buffer().iter().all(|&byte| byte == 7));
        }
    }
}

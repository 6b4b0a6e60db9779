//! One message that is put together from fragments, which land in any order.

use alloc::{collections::BTreeMap, vec::Vec};

use super::arena::Pool;
use crate::wire::Fragment;

/// The fragment covers octets that have landed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overlap;

/// Where the octets of a message are.
#[derive(Debug)]
enum Body {
    /// At their place in a buffer of the message's size.
    Landing(Vec<u8>),
    /// By offset, as they came: about as much memory as what has arrived. What follows a piece is appended to it.
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
    /// Octets before this have all landed.
    prefix: u32,
    /// Start and end of what has landed beyond it, merged.
    islands: BTreeMap<u32, u32>,
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
            prefix: 0,
            islands: BTreeMap::new(),
            body: Body::Pieces(BTreeMap::new()),
        }
    }

    /// Octets of its buffer; 0 if it has none.
    pub(super) fn landing(&self) -> usize {
        match &self.body {
            Body::Landing(buffer) => buffer.len(),
            Body::Pieces(_) => 0,
        }
    }

    /// A fragment at `offset` follows one that has landed, or is the first: it takes no more memory than its octets.
    pub(super) fn follows(&self, offset: u32) -> bool {
        offset == self.prefix
            || self
                .islands
                .range(..offset)
                .next_back()
                .is_some_and(|(_, &end)| end == offset)
    }

    /// Things to remember beside the octets, for each of which a fragment came that did not follow another.
    pub(super) fn scattered(&self) -> usize {
        match &self.body {
            Body::Landing(_) => self.islands.len(),
            Body::Pieces(pieces) => pieces.len() - usize::from(self.prefix > 0),
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.prefix == self.total
    }

    /// Takes a buffer of the message's size (and at most `max` octets) and moves what has arrived there.
    pub(super) fn make_landing(&mut self, pool: &mut Pool, max: usize) {
        if let Body::Pieces(pieces) = &self.body {
            let mut buffer = pool.take(self.total as usize, max);
            for (offset, piece) in pieces {
                let at = *offset as usize;
                buffer[at..at + piece.len()].copy_from_slice(piece);
            }
            self.body = Body::Landing(buffer);
        }
    }

    /// Puts `payload` where `fragment` says if that is behind all that has landed in the message's buffer, and does not
    /// complete the message. `false`: nothing was done.
    #[inline]
    pub(super) fn append(&mut self, fragment: Fragment, payload: &[u8]) -> bool {
        let end = self.prefix as usize + payload.len();
        let Body::Landing(buffer) = &mut self.body else {
            return false;
        };
        let usual = (fragment.offset, fragment.total) == (self.prefix, self.total) && self.islands.is_empty();
        if !usual || payload.is_empty() || end >= self.total as usize {
            return false;
        }
        buffer[self.prefix as usize..end].copy_from_slice(payload);
        self.prefix = end as u32;
        true
    }

    /// Puts `payload` at `offset`; together they must lie inside the message.
    pub(super) fn land(&mut self, offset: u32, payload: &[u8]) -> Result<(), Overlap> {
        self.cover(offset, offset + payload.len() as u32)?;
        match &mut self.body {
            Body::Landing(buffer) => {
                let at = offset as usize;
                buffer[at..at + payload.len()].copy_from_slice(payload);
            }
            Body::Pieces(pieces) => match pieces.range_mut(..offset).next_back() {
                Some((&start, piece)) if start as usize + piece.len() == offset as usize => {
                    piece.extend_from_slice(payload);
                }
                _ => {
                    pieces.insert(offset, payload.to_vec());
                }
            },
        }
        Ok(())
    }

    /// The buffer of a complete message; it may be longer than the message.
    pub(super) fn into_buffer(mut self, pool: &mut Pool) -> Vec<u8> {
        self.make_landing(pool, usize::MAX);
        match self.body {
            Body::Landing(buffer) => buffer,
            Body::Pieces(_) => Vec::new(),
        }
    }

    /// Gives its memory back.
    pub(super) fn discard(self, pool: &mut Pool) {
        if let Body::Landing(buffer) = self.body {
            pool.give(buffer);
        }
    }

    fn cover(&mut self, start: u32, end: u32) -> Result<(), Overlap> {
        if start < self.prefix {
            return Err(Overlap);
        }
        let next = self.islands.range(start..).next();
        let end = match next {
            Some((&island, _)) if island < end => return Err(Overlap),
            Some((&island, &island_end)) if island == end => {
                self.islands.remove(&island);
                island_end
            }
            _ => end,
        };
        if start == self.prefix {
            self.prefix = end;
            return Ok(());
        }
        match self.islands.range_mut(..start).next_back() {
            Some((_, before)) if *before > start => return Err(Overlap),
            Some((_, before)) if *before == start => *before = end,
            _ => {
                self.islands.insert(start, end);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl Assembly {
    pub(super) fn memory(&self) -> u64 {
        match &self.body {
            Body::Landing(buffer) => buffer.len() as u64,
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
        /// Against a plain bitmap: what is covered twice is refused, the rest is not, and complete means all of it.
        #[test]
        fn cover_agrees_with_a_bitmap(ranges in prop::collection::vec((0_u32..64, 1_u32..16), 1..80)) {
            let mut assembly = Assembly::new(64);
            let mut map = [false; 64];
            for (start, len) in ranges {
                let end = (start + len).min(64);
                let range = start as usize..end as usize;
                let free = map[range.clone()].iter().all(|&covered| !covered);
                let result = assembly.cover(start, end);
                prop_assert_eq!(result.is_ok(), free);
                if result.is_err() {
                    // The peer is given up then; the state need not make sense any more.
                    return Ok(());
                }
                map[range].fill(true);
                prop_assert_eq!(assembly.is_complete(), map.iter().all(|&covered| covered));
            }
        }

        /// The octets are right whenever the landing is made.
        #[test]
        fn pieces_become_a_landing(cuts in prop::collection::btree_set(1_usize..999, 0..20), when in 0_usize..22, seed: u64) {
            let data: Vec<u8> = (0..1_000_u32).map(|i| (i * 7 + i / 256) as u8).collect();
            let mut edges = vec![0];
            edges.extend(cuts);
            edges.push(data.len());
            let mut pieces: Vec<_> = edges.windows(2).map(|edge| edge[0]..edge[1]).collect();
            pieces.sort_by_key(|piece| (piece.start as u64 + 1).wrapping_mul(seed | 1));
            let mut pool = Pool::default();
            let mut assembly = Assembly::new(1_000);
            for (i, piece) in pieces.into_iter().enumerate() {
                if i == when {
                    assembly.make_landing(&mut pool, usize::MAX);
                }
                prop_assert!(!assembly.is_complete());
                assembly.land(piece.start as u32, &data[piece]).unwrap();
            }
            prop_assert!(assembly.is_complete());
            prop_assert_eq!(&assembly.into_buffer(&mut pool)[..1_000], &data[..]);
        }
    }
}

//! The bytes that have landed of an object that arrives in pieces, each byte once.

use alloc::collections::BTreeMap;

/// The bytes present: all before an offset, and islands beyond.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// All bytes before this are present.
    prefix: u64,
    /// Start and end of the ranges present beyond it, merged.
    islands: BTreeMap<u64, u64>,
    /// Bytes in those ranges.
    beyond: u64,
}

impl Coverage {
    /// All bytes before this are present.
    #[inline]
    pub(super) fn prefix(&self) -> u64 {
        self.prefix
    }

    /// Bytes present.
    #[inline]
    pub(super) fn landed(&self) -> u64 {
        self.prefix + self.beyond
    }

    /// Pieces to remember one by one.
    #[inline]
    pub(super) fn scattered(&self) -> usize {
        self.islands.len()
    }

    /// A piece at `offset` follows a piece that is present, or is the first.
    pub(super) fn follows(&self, offset: u64) -> bool {
        let before = self.islands.range(..offset).next_back();
        offset == self.prefix || before.is_some_and(|(_, &end)| end == offset)
    }

    /// Some of this is there already.
    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        let next = self.islands.range(start..).next();
        let before = self.islands.range(..start).next_back();
        start < self.prefix
            || next.is_some_and(|(&island, _)| island < end)
            || before.is_some_and(|(_, &before)| before > start)
    }

    /// Notes a piece that begins where all present bytes end. `false`: it does not, and nothing was done.
    #[inline]
    pub(super) fn append(&mut self, start: u64, end: u64) -> bool {
        let is_next = start == self.prefix && self.islands.is_empty();
        if is_next {
            self.prefix = end;
        }
        is_next
    }

    /// Notes that this is there, which [overlaps](Self::overlaps) nothing.
    pub(super) fn cover(&mut self, start: u64, end: u64) {
        let next = self.islands.range(start..).next().map(|(&at, &end)| (at, end));
        self.beyond += end - start;
        let end = match next {
            Some((island, island_end)) if island == end => {
                self.islands.remove(&island);
                island_end
            }
            _ => end,
        };
        if start == self.prefix {
            self.beyond -= end - start;
            self.prefix = end;
            return;
        }
        match self.islands.range_mut(..start).next_back() {
            Some((_, before)) if *before == start => *before = end,
            _ => {
                self.islands.insert(start, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain bitmap.
        #[test]
        fn coverage_agrees_with_a_bitmap(ranges in prop::collection::vec((0_u64..64, 1_u64..16), 1..80)) {
            let mut coverage = Coverage::default();
            let mut map = [false; 64];
            for (start, len) in ranges {
                let end = (start + len).min(64);
                let range = start as usize..end as usize;
                let free = map[range.clone()].iter().all(|&covered| !covered);
                prop_assert_eq!(coverage.overlaps(start, end), !free);
                if !free {
                    continue;
                }
                if !coverage.append(start, end) {
                    coverage.cover(start, end);
                }
                map[range].fill(true);
                prop_assert_eq!(coverage.landed(), map.iter().filter(|&&covered| covered).count() as u64);
                prop_assert_eq!(coverage.prefix(), map.iter().take_while(|&&covered| covered).count() as u64);
            }
        }
    }
}

//! Bookkeeping of the free and taken parts of a stretch of memory.

use std::collections::BTreeMap;

/// Parts begin at multiples of this.
const GRAIN: usize = 64;

/// Allocates parts of a stretch, always at the lowest free place. The memory in frequent use thus stays small.
#[derive(Debug)]
pub(crate) struct Extents {
    /// Length of each free part, by its offset. No two free parts touch.
    free: BTreeMap<usize, usize>,
    taken: BTreeMap<usize, usize>,
}

impl Extents {
    pub(crate) fn new(start: usize, len: usize) -> Self {
        Self {
            free: BTreeMap::from([(start, len)]),
            taken: BTreeMap::new(),
        }
    }

    /// Allocates a part of at least `len` bytes. `None`: no free part is that long.
    pub(crate) fn take(&mut self, len: usize) -> Option<usize> {
        let len = len.next_multiple_of(GRAIN).max(GRAIN);
        let (&at, &have) = self.free.iter().find(|(_, have)| **have >= len)?;
        self.free.remove(&at);
        if have > len {
            self.free.insert(at + len, have - len);
        }
        self.taken.insert(at, len);
        Some(at)
    }

    /// Frees the part at `at`. An offset that no taken part has is ignored.
    pub(crate) fn give(&mut self, at: usize) {
        let Some(mut len) = self.taken.remove(&at) else { return };
        let mut start = at;
        if let Some(next) = self.free.remove(&(at + len)) {
            len += next;
        }
        if let Some((&before, &have)) = self.free.range(..at).next_back()
            && before + have == at
        {
            start = before;
            len += have;
        }
        self.free.insert(start, len);
    }

    /// The number of parts that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap_and_all_come_back() {
        let mut extents = Extents::new(4096, 1 << 20);
        let mut parts: Vec<(usize, usize)> = Vec::new();
        let mut x = 1_u64;
        for _ in 0..20_000 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if x & 1 == 0 && !parts.is_empty() {
                let (at, _) = parts.swap_remove(x as usize / 2 % parts.len());
                extents.give(at);
                continue;
            }
            let len = (x >> 8) as usize % 30_000;
            if let Some(at) = extents.take(len) {
                assert!(at >= 4096 && at + len <= 4096 + (1 << 20));
                assert!(
                    parts
                        .iter()
                        .all(|&(other, size)| other + size <= at || at + len <= other)
                );
                parts.push((at, len));
            }
        }
        assert!(parts.len() > 10);
        for (at, _) in parts {
            extents.give(at);
            extents.give(at);
        }
        assert_eq!(extents.free, BTreeMap::from([(4096, 1 << 20)]));
        assert_eq!(extents.taken(), 0);
        assert_eq!(extents.take((1 << 20) + 1), None);
    }
}

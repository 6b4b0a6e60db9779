//! One bit for each sequence number of a window.

use alloc::boxed::Box;
use core::fmt;

use crate::wire::Seq;

const WORDS: usize = 16;

/// A ring of 1,024 bits, indexed by sequence number modulo 1,024. The caller keeps all set bits within 1,024 of each
/// other.
#[derive(Clone, Default)]
pub(crate) struct Bits {
    /// Allocated with the first bit that is set, so never where nothing is lost: 128 bytes, three times for each peer.
    words: Option<Box<[u64; WORDS]>>,
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..WORDS).map(|word| self.word(word))).finish()
    }
}

#[cfg(test)]
impl PartialEq for Bits {
    fn eq(&self, other: &Self) -> bool {
        (0..WORDS).all(|word| self.word(word) == other.word(word))
    }
}

impl Bits {
    #[inline]
    fn word(&self, word: usize) -> u64 {
        self.words.as_ref().map_or(0, |words| words[word])
    }

    #[inline]
    fn place(seq: Seq) -> (usize, u32) {
        ((seq.0 / 64) as usize % WORDS, seq.0 % 64)
    }

    #[inline]
    pub(crate) fn set(&mut self, seq: Seq) {
        let (word, bit) = Self::place(seq);
        self.words.get_or_insert_default()[word] |= 1 << bit;
    }

    #[inline]
    pub(crate) fn clear(&mut self, seq: Seq) {
        let (word, bit) = Self::place(seq);
        if let Some(words) = &mut self.words {
            words[word] &= !(1 << bit);
        }
    }

    #[inline]
    pub(crate) fn get(&self, seq: Seq) -> bool {
        let (word, bit) = Self::place(seq);
        self.word(word) >> bit & 1 == 1
    }

    /// The 64 bits from `seq` on, the lowest first.
    #[inline]
    pub(crate) fn word_at(&self, seq: Seq) -> u64 {
        let (word, bit) = Self::place(seq);
        let low = self.word(word) >> bit;
        if bit == 0 {
            low
        } else {
            low | self.word((word + 1) % WORDS) << (64 - bit)
        }
    }

    /// The first set bit in `from..end`.
    pub(crate) fn first_set(&self, from: Seq, end: Seq) -> Option<Seq> {
        self.first(from, end, |word| word)
    }

    /// The first clear bit in `from..end`.
    pub(crate) fn first_clear(&self, from: Seq, end: Seq) -> Option<Seq> {
        self.first(from, end, |word| !word)
    }

    fn first(&self, mut from: Seq, end: Seq, map: impl Fn(u64) -> u64) -> Option<Seq> {
        while from.before(end) {
            let word = map(self.word_at(from));
            if word != 0 {
                let found = from.plus(word.trailing_zeros());
                return found.before(end).then_some(found);
            }
            from = from.plus(64);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_and_finds_across_words() {
        let mut bits = Bits::default();
        let base = Seq(u32::MAX - 5);
        for n in [0, 3, 70, 1_023] {
            bits.set(base.plus(n));
        }
        assert_eq!(bits.first_set(base.plus(1), base.plus(1_024)), Some(base.plus(3)));
        assert_eq!(bits.first_set(base.plus(4), base.plus(1_024)), Some(base.plus(70)));
        assert_eq!(bits.first_set(base.plus(71), base.plus(1_023)), None);
        assert_eq!(bits.first_clear(base, base.plus(9)), Some(base.plus(1)));
        assert_eq!(bits.word_at(base) & 0b1001, 0b1001);
        bits.clear(base);
        assert!(!bits.get(base));
    }
}

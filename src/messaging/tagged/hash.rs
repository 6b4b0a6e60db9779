//! The hash of match bits and source.

use core::hash::{BuildHasher, Hasher};

/// The key of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub(super) source: u32,
    pub(super) bits: u64,
}

impl core::hash::Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.bits ^ u64::from(self.source).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

/// Two multiplications, of 128 bits, with a secret key: peers choose the match bits of the messages that they send.
#[derive(Clone, Copy, Default)]
pub(super) struct Hash {
    key: u64,
}

impl Hash {
    /// A peer that does not know `key` cannot predict collisions.
    pub(super) fn new(key: u64) -> Self {
        Self { key }
    }
}

pub(super) struct State {
    sum: u64,
    key: u64,
}

/// Both halves of the product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Hasher for State {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.sum = fold(self.sum ^ word, self.key | 1);
    }

    #[inline]
    fn finish(&self) -> u64 {
        fold(self.sum ^ self.key, 0xd6e8_feb8_6659_fd93)
    }
}

impl BuildHasher for Hash {
    type Hasher = State;

    #[inline]
    fn build_hasher(&self) -> State {
        State {
            // Not small, so that both halves of a product depend on all of a word.
            sum: self.key ^ 0x9e37_79b9_7f4a_7c15,
            key: self.key ^ 0xa076_1d64_78bd_642f,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeSet, vec::Vec};

    use super::*;

    /// Keys that meet in a table with one key are apart with another, and rows of keys as programs choose them are apart
    /// with each.
    #[test]
    fn what_meets_depends_on_the_key() {
        let slot = |hash: Hash, bits| hash.hash_one(Key { source: 1, bits }) & 0xfff;
        let meeting: Vec<u64> = (0..1 << 20)
            .filter(|&bits| slot(Hash::new(1), bits) == 7)
            .take(200)
            .collect();
        assert_eq!(meeting.len(), 200);
        for key in 2..20 {
            let apart: BTreeSet<u64> = meeting.iter().map(|&bits| slot(Hash::new(key), bits)).collect();
            assert!(apart.len() > 150, "{key}: {}", apart.len());
            for shift in [0, 20, 32, 44] {
                let apart: BTreeSet<u64> = (0..200).map(|n: u64| slot(Hash::new(key), n << shift)).collect();
                assert!(apart.len() > 150, "{key}, {shift}: {}", apart.len());
            }
        }
    }
}

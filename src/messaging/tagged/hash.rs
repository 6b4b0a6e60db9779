//! The hash of match bits and source.

use core::hash::{BuildHasher, Hasher};

/// What is hashed.
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

/// Two multiplications: keys are chosen by the application, not by an attacker. (A peer can choose the keys of its own
/// unexpected messages, whose number its credit bounds.)
#[derive(Clone, Copy, Default)]
pub(super) struct Hash;

#[derive(Default)]
pub(super) struct State(u64);

impl Hasher for State {
    #[inline]
    fn write(&mut self, octets: &[u8]) {
        for &octet in octets {
            self.write_u64(octet.into());
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.0 = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

impl BuildHasher for Hash {
    type Hasher = State;

    #[inline]
    fn build_hasher(&self) -> State {
        State::default()
    }
}

//! Random numbers that are the same everywhere, and a hash of what they led to.

pub(crate) use hikyaku::internals::prng::{bytes, mix};

/// A seeded generator, in the units that the harness thinks in.
#[derive(Clone, Debug)]
pub(crate) struct Prng(hikyaku::internals::prng::Prng);

impl Prng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(hikyaku::internals::prng::Prng::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0 to `n` − 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a range has values");
        self.0.below(n)
    }

    /// From `min` to `max`, both included.
    pub(crate) fn between(&mut self, min: u64, max: u64) -> u64 {
        min + self.below(max - min + 1)
    }

    /// True in `per_mille` of 1,000 cases.
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.below(1_000) < u64::from(per_mille)
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// From 1 to `max`, small values as likely as large ones (uniform in the number of bits).
    pub(crate) fn skewed(&mut self, max: u64) -> u64 {
        let bits = self.below(u64::from(64 - max.leading_zeros())) + 1;
        (self.next() >> (64 - bits)).clamp(1, max)
    }
}

/// Hash of all that happened, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transcript(u64);

impl Transcript {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn number(&mut self, n: u64) {
        self.0 = mix(self.0 ^ n).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.number(u64::from_le_bytes(word));
        }
    }
}

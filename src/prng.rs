//! A small pseudo-random generator, so that everything random can be replayed from a seed.

use alloc::vec::Vec;

/// Step of SplitMix64: 2^64 divided by the golden ratio.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The last step of SplitMix64: a good hash of one number.
#[must_use]
#[inline]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// So many bytes that look random; other numbers give others. (Word by word, as debug builds take long for each byte.)
#[must_use]
pub fn bytes(numbers: &[u64], len: usize) -> Vec<u8> {
    let seed = numbers.iter().fold(GOLDEN, |seed, number| mix(seed ^ number));
    let mut bytes = Vec::with_capacity(len + 8);
    for word in 0..len.div_ceil(8) as u64 {
        bytes.extend_from_slice(&mix(seed ^ word).to_be_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// xoshiro256** seeded by SplitMix64. Fast and even; not for secrets.
///
/// The sequence of a seed is the same on every machine and in every version.
#[derive(Clone, Debug)]
pub struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// The generator of `seed`; any value will do.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut seed = seed;
        let mut split_mix = || {
            seed = seed.wrapping_add(GOLDEN);
            mix(seed)
        };
        Self {
            state: core::array::from_fn(|_| split_mix()),
        }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// An integer from 0 to `n - 1`; 0 if `n` is 0. (Multiplication instead of rejection: the unevenness is below
    /// `n` / 2^64.)
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// True with probability `p`: never for 0 or less (or NaN), always for 1 or more. Takes one number from the
    /// sequence in any case.
    pub fn chance(&mut self, p: f64) -> bool {
        // 53 bits fill a double's mantissa: uniform in [0, 1).
        let uniform = (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        uniform < p
    }

    /// An integer of the range; its start if it is empty.
    pub fn range(&mut self, range: core::ops::Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeding_is_split_mix() {
        // The first output of SplitMix64 for seed 0, as published.
        assert_eq!(Prng::new(0).state[0], 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn the_published_sequence() {
        // Of the reference implementation of xoshiro256** with state 1, 2, 3, 4.
        let mut prng = Prng { state: [1, 2, 3, 4] };
        let got: [u64; 4] = core::array::from_fn(|_| prng.next_u64());
        assert_eq!(got, [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn borders() {
        let mut prng = Prng::new(7);
        assert_eq!(prng.below(0), 0);
        assert_eq!(prng.below(1), 0);
        assert_eq!(prng.range(5..5), 5);
        let (start, end) = (5, 1);
        assert_eq!(prng.range(start..end), 5);
        for _ in 0..1000 {
            assert!(prng.chance(1.0));
            assert!(!prng.chance(0.0));
            assert!(!prng.chance(f64::NAN));
            assert!((3..6).contains(&prng.range(3..6)));
        }
    }

    #[test]
    fn chance_is_about_right() {
        let mut prng = Prng::new(1);
        let hits = (0..100_000).filter(|_| prng.chance(0.25)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
    }
}

//! How long the messages of a round are: all alike, or drawn from a mix.

use std::io;

use hikyaku::internals::prng::Prng;

/// Message sizes in the five applications of the DSE paper (its table 1): up to so many bytes, and more than the class
/// before; and how many of 1,000 messages. The paper gives the last class no end, and no sizes inside a class: these are
/// ours.
pub(crate) const CLASSES: [(usize, u64); 5] = [(16, 600), (32, 200), (128, 180), (1024, 3), (LARGEST, 17)];
/// Bytes of the largest message of the mix.
pub(crate) const LARGEST: usize = 4096;

/// Draws sizes from the paper's mix, each size of a class alike. The same seed gives the same sizes.
pub(crate) fn draw(seed: u64, count: usize) -> Vec<usize> {
    let mut random = Prng::new(seed);
    let one = |_| {
        let mut left = random.below(1000);
        let mut smallest = 1;
        for (largest, share) in CLASSES {
            if left < share {
                return smallest + random.below((largest + 1 - smallest) as u64) as usize;
            }
            (left, smallest) = (left - share, largest + 1);
        }
        LARGEST
    };
    (0..count).map(one).collect()
}

/// The part of the sizes in each class, in percent.
pub(crate) fn shares(sizes: &[usize]) -> [f64; CLASSES.len()] {
    let mut counts = [0_usize; CLASSES.len()];
    for &size in sizes {
        let class = CLASSES.iter().position(|&(largest, _)| size <= largest);
        counts[class.unwrap_or(CLASSES.len() - 1)] += 1;
    }
    counts.map(|count| 100.0 * count as f64 / sizes.len().max(1) as f64)
}

/// Fills a message with bytes that differ from place to place.
pub(crate) fn pattern(size: usize) -> Vec<u8> {
    (0..size)
        .map(|at| (at as u8).wrapping_mul(31) ^ ((at >> 8) as u8))
        .collect()
}

/// Lengths of the messages of each spoke, in order.
#[derive(Clone, Debug)]
pub(crate) enum Sizes {
    /// All alike.
    Same(usize),
    /// These, and then again from the first on.
    Each(Vec<usize>),
}

impl Sizes {
    /// Length of one message.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> usize {
        match self {
            Self::Same(size) => *size,
            Self::Each(sizes) => sizes[index % sizes.len()],
        }
    }

    /// Length of the longest.
    pub(crate) fn largest(&self) -> usize {
        match self {
            Self::Same(size) => *size,
            Self::Each(sizes) => sizes.iter().copied().max().unwrap_or(0),
        }
    }

    /// Length of all.
    ///
    /// # Errors
    /// `Unsupported` if they differ: for transports that do not take such rounds.
    pub(crate) fn same(&self) -> io::Result<usize> {
        match self {
            Self::Same(size) => Ok(*size),
            Self::Each(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "all messages of a round must have one size here",
            )),
        }
    }
}

/// The messages themselves: each holds the first bytes of the longest.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    bytes: Vec<u8>,
    sizes: Sizes,
}

impl Messages {
    /// Messages of these sizes.
    pub(crate) fn new(sizes: Sizes) -> Self {
        Self {
            bytes: pattern(sizes.largest()),
            sizes,
        }
    }

    /// One of them.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &[u8] {
        &self.bytes[..self.sizes.at(index)]
    }

    /// Length of the longest.
    pub(crate) const fn largest(&self) -> usize {
        self.bytes.len()
    }

    /// The one that all are; an error as [`Sizes::same`].
    pub(crate) fn same(&self) -> io::Result<&[u8]> {
        self.sizes.same().map(|size| &self.bytes[..size])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 60 % of up to 16 bytes, 80 % of up to 32 and 98 % of up to 128, for any seed.
    #[test]
    fn the_mix_has_the_shares_of_the_paper() {
        for seed in 0..5 {
            let sizes = draw(seed, 100_000);
            let near = |drawn: f64, percent: f64| {
                let deviation = 100.0 * (percent / 100.0 * (1.0 - percent / 100.0) / sizes.len() as f64).sqrt();
                assert!(
                    (drawn - percent).abs() < 4.0 * deviation,
                    "{drawn} instead of {percent}"
                );
            };
            for (drawn, percent) in shares(&sizes).into_iter().zip([60.0, 20.0, 18.0, 0.3, 1.7]) {
                near(drawn, percent);
            }
            let part = |largest| sizes.iter().filter(|&&size| size <= largest).count() as f64 / 1000.0;
            for (largest, percent) in [(16, 60.0), (32, 80.0), (128, 98.0)] {
                near(part(largest), percent);
            }
            assert_eq!(sizes.iter().min(), Some(&1));
            let most = sizes.iter().copied().max().unwrap();
            assert!((4000..=LARGEST).contains(&most), "{most}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_sizes() {
        assert_eq!(draw(7, 500), draw(7, 1000)[..500]);
        assert_ne!(draw(7, 500), draw(8, 500));
    }

    #[test]
    fn messages_go_around() {
        let messages = Messages::new(Sizes::Each(vec![3, 1]));
        let lengths: Vec<usize> = (0..4).map(|index| messages.at(index).len()).collect();
        assert_eq!((lengths, messages.largest()), (vec![3, 1, 3, 1], 3));
        assert!(messages.at(0).starts_with(messages.at(1)));
        assert_eq!(messages.same().unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(Messages::new(Sizes::Same(5)).same().unwrap(), pattern(5));
    }
}

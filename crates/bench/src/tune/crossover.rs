//! Where one way of two becomes the better one.

/// Up to which size one of two ways should be taken, by the ratios of its time to that of the other: the size with which
/// least is lost over all, on a logarithmic scale. So one size that was measured wrong does not decide.
pub(super) fn crossover(ratios: impl Iterator<Item = (usize, f64)>, most: usize) -> usize {
    let (mut best, mut least, mut sum) = (0, 0.0, 0.0);
    for (size, ratio) in ratios {
        sum += ratio.ln();
        if sum < least && size <= most {
            (best, least) = (size, sum);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where messages of 1 KB, 2 KB and so on have these ratios.
    fn crossover_of(ratios: &[f64], most: usize) -> usize {
        let sizes = (0..).map(|index| 1024 << index);
        crossover(sizes.zip(ratios.iter().copied()), most)
    }

    #[test]
    fn the_crossover_is_where_least_is_lost() {
        assert_eq!(crossover_of(&[0.5, 0.6, 0.9, 1.2, 1.5], usize::MAX), 4096);
        // One outlier on either side changes nothing.
        assert_eq!(crossover_of(&[0.5, 1.1, 0.7, 1.2, 0.95, 1.5], usize::MAX), 4096);
        assert_eq!(crossover_of(&[1.5, 1.2], usize::MAX), 0);
        assert_eq!(crossover_of(&[0.5, 0.6], usize::MAX), 2048);
        assert_eq!(crossover_of(&[0.5, 0.6, 0.9], 2048), 2048);
    }
}

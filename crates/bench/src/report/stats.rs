//! Medians, percentiles and ratios.

/// The middle value, or the mean of the two in the middle. Nothing for nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The smallest sample that at least `percent` of all samples do not exceed (nearest rank).
pub(crate) fn percentile(samples: &[u64], percent: f64) -> Option<u64> {
    if samples.is_empty() {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    Some(sorted[rank.clamp(1, sorted.len()) - 1])
}

/// Median of the rounds' ratios: only rounds in which both were measured count.
pub(crate) fn ratio(ours: &[Option<f64>], theirs: &[Option<f64>]) -> Option<f64> {
    let both = ours
        .iter()
        .zip(theirs)
        .filter_map(|(ours, theirs)| Some((*ours)? / (*theirs)?));
    median(&both.filter(|ratio| ratio.is_finite()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(percentile(&samples, 50.0), Some(50));
        assert_eq!(percentile(&samples, 99.0), Some(99));
        assert_eq!(percentile(&samples, 100.0), Some(100));
        assert_eq!(percentile(&[7], 99.0), Some(7));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn the_ratio_is_taken_round_by_round() {
        // The machine slows down by a factor of ten half-way: the ratio does not see it, a ratio of medians would.
        let ours = [Some(1.0), Some(2.0), Some(10.0), Some(20.0)];
        let theirs = [Some(2.0), Some(4.0), Some(20.0), Some(40.0)];
        assert_eq!(ratio(&ours, &theirs), Some(0.5));
        assert_eq!(
            ratio(&[Some(1.0), None, Some(3.0)], &[Some(1.0), Some(9.0), None]),
            Some(1.0)
        );
        assert_eq!(ratio(&[None], &[Some(1.0)]), None);
    }
}

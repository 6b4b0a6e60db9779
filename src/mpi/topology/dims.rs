//! Balanced dimensions (MPI 8.5.2).

use alloc::{collections::BTreeMap, vec::Vec};

use super::{Rank, TopologyError};

/// Fills in the zeros of `dims` so that their product is `processes` (`MPI_Dims_create`). The new sizes do not
/// increase; the largest of them is as small as possible, then the second largest, and so on.
///
/// # Errors
/// [`TopologyError::Dimension`] for a negative size, [`TopologyError::Indivisible`] if the sizes given do not divide
/// the number of processes, or there is nothing to fill in and they do not give it. Then `dims` is unchanged.
pub fn dims_create(processes: Rank, dims: &mut [Rank]) -> Result<(), TopologyError> {
    let mut product = 1_i64;
    for (dimension, &size) in dims.iter().enumerate() {
        if size < 0 {
            return Err(TopologyError::Dimension { dimension, size });
        }
        product = product.saturating_mul(i64::from(size.max(1)));
    }
    let free = dims.iter().filter(|size| **size == 0).count();
    let rest = i64::from(processes) / product;
    if processes < 1 || rest * product != i64::from(processes) || (free == 0 && rest != 1) {
        return Err(TopologyError::Indivisible { processes, product });
    }
    let mut factors = balanced(rest as Rank, free).into_iter();
    for size in dims.iter_mut().filter(|size| **size == 0) {
        *size = factors.next().unwrap_or(1);
    }
    Ok(())
}

/// `number` as at most `count` factors larger than 1, the largest first.
fn balanced(number: Rank, count: usize) -> Vec<Rank> {
    // It does not have more factors than this.
    let count = count.min(Rank::BITS as usize);
    let mut factors = Vec::new();
    let mut search = Search {
        divisors: divisors(number),
        largest: BTreeMap::new(),
    };
    let mut rest = number;
    for left in (1..=count).rev() {
        if rest == 1 {
            break;
        }
        let factor = search.smallest_largest(rest, left);
        factors.push(factor);
        rest /= factor;
    }
    factors
}

struct Search {
    /// Divisors of the number, ascending.
    divisors: Vec<Rank>,
    /// Results of [`smallest_largest`](Self::smallest_largest).
    largest: BTreeMap<(Rank, usize), Rank>,
}

impl Search {
    /// The smallest possible largest factor, if `number`, a divisor of the whole, is written as `count` factors.
    fn smallest_largest(&mut self, number: Rank, count: usize) -> Rank {
        if count <= 1 || number == 1 {
            return number;
        }
        if let Some(found) = self.largest.get(&(number, count)) {
            return *found;
        }
        let mut best = number;
        for index in 0..self.divisors.len() {
            let factor = self.divisors[index];
            if factor >= best {
                break;
            }
            if number % factor == 0
                && reaches(factor, count, number)
                && self.smallest_largest(number / factor, count - 1) <= factor
            {
                best = factor;
            }
        }
        self.largest.insert((number, count), best);
        best
    }
}

/// Whether `factor` to the power of `count` is at least `number`.
fn reaches(factor: Rank, count: usize, number: Rank) -> bool {
    let mut power = 1_i64;
    for _ in 0..count {
        power *= i64::from(factor);
        if power >= i64::from(number) {
            return true;
        }
    }
    false
}

fn divisors(number: Rank) -> Vec<Rank> {
    let small = (1..).take_while(|divisor| divisor <= &(number / divisor));
    let mut divisors: Vec<Rank> = small.filter(|divisor| number % divisor == 0).collect();
    let large: Vec<Rank> = divisors.iter().rev().map(|divisor| number / divisor).collect();
    divisors.extend(large);
    divisors.dedup();
    divisors
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn dims(processes: Rank, mut dims: Vec<Rank>) -> Vec<Rank> {
        dims_create(processes, &mut dims).unwrap();
        dims
    }

    /// All ways to write `number` as `count` factors that do not increase and are at most `limit`.
    fn ways(number: Rank, count: usize, limit: Rank) -> Vec<Vec<Rank>> {
        if count == 0 {
            return if number == 1 { vec![vec![]] } else { vec![] };
        }
        let factors = (1..=number.min(limit)).filter(|factor| number % factor == 0);
        factors
            .flat_map(|factor| {
                let rest = ways(number / factor, count - 1, factor);
                rest.into_iter().map(move |rest| [&[factor][..], &rest].concat())
            })
            .collect()
    }

    proptest! {
        #[test]
        fn model(processes in 1..2_000, count in 1..5_usize) {
            let best = ways(processes, count, processes).into_iter().min().unwrap();
            prop_assert_eq!(dims(processes, vec![0; count]), best);
        }

        #[test]
        fn any_number_is_divided(processes in 1..=Rank::MAX, count in 1..40_usize) {
            let dims = dims(processes, vec![0; count]);
            prop_assert_eq!(dims.iter().map(|size| i64::from(*size)).product::<i64>(), i64::from(processes));
            prop_assert!(dims.is_sorted_by(|a, b| a >= b));
        }
    }

    #[test]
    fn examples_of_the_standard() {
        assert_eq!(dims(6, vec![0, 0]), [3, 2]);
        assert_eq!(dims(7, vec![0, 0]), [7, 1]);
        assert_eq!(dims(6, vec![0, 3, 0]), [2, 3, 1]);
        let mut bad = [0, 3, 0];
        assert!(matches!(
            dims_create(7, &mut bad),
            Err(TopologyError::Indivisible { product: 3, .. })
        ));
        assert_eq!(bad, [0, 3, 0]);
    }

    #[test]
    fn balanced_also_where_dividing_by_primes_is_not() {
        assert_eq!(dims(16_384, vec![0; 3]), [32, 32, 16]);
        assert_eq!(dims(72, vec![0; 2]), [9, 8]);
        let many_divisors = dims(2_095_133_040, vec![0; 6]);
        assert!(many_divisors[0] <= 40 && many_divisors[5] >= 31, "{many_divisors:?}");
    }

    #[test]
    fn bad_input_is_refused() {
        assert!(matches!(
            dims_create(4, &mut [-1, 0]),
            Err(TopologyError::Dimension { dimension: 0, size: -1 })
        ));
        assert!(dims_create(0, &mut [0]).is_err());
        assert!(dims_create(4, &mut []).is_err());
        assert!(dims_create(1, &mut []).is_ok());
        assert!(dims_create(2, &mut [Rank::MAX; 5]).is_err());
    }
}

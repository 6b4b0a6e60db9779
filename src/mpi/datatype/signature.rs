//! Type signatures (MPI 5.1, 3.3.1): the sequence of kinds in a message, independent of the memory layout, as two
//! numbers.

use super::kind::Kind;

/// A Mersenne prime: products are reduced with shifts.
const PRIME: u64 = (1 << 61) - 1;
/// The base of the polynomial; any large number without a pattern.
const BASE: u64 = 0x0b5e_3d91_7c24_a86f;

/// The sequence of predefined kinds in a message, as its length and a hash.
///
/// Equal sequences have equal signatures. Different ones of equal length collide with a probability of about
/// length / 2^61, so a difference is always an error and equality as good as a proof. It guards against mistakes, not
/// against an attacker who looks for a collision.
///
/// The hash is a polynomial, so the signature of a concatenation comes from those of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// Predefined elements; a pair (for `MPI_MINLOC`) counts as two.
    pub count: u64,
    /// Hash of their kinds in their order.
    pub hash: u64,
}

impl Signature {
    /// The signature of no elements.
    pub const EMPTY: Self = Self { count: 0, hash: 0 };

    /// The signature of one element.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        match kind.pair() {
            Some((value, index)) => Self::of(value).then(Self::of(index)),
            None => Self {
                count: 1,
                hash: kind as u64 + 1,
            },
        }
    }

    /// The signature of this and then `next`. Counts wrap; callers bound the size, which is never smaller.
    #[must_use]
    pub const fn then(self, next: Self) -> Self {
        Self {
            count: self.count.wrapping_add(next.count),
            hash: add(multiply(self.hash, power(next.count)), next.hash),
        }
    }

    /// The signature of `times` repetitions, in a number of steps logarithmic in `times`.
    #[must_use]
    pub const fn repeat(self, mut times: u64) -> Self {
        let mut result = Self::EMPTY;
        let mut doubled = self;
        while times > 0 {
            if times & 1 == 1 {
                result = result.then(doubled);
            }
            doubled = doubled.then(doubled);
            times >>= 1;
        }
        result
    }

    /// Whether all elements are of `kind`, or there are none.
    #[must_use]
    pub fn is_all(self, kind: Kind) -> bool {
        self == Self::of(kind).repeat(self.count)
    }
}

const fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= PRIME { sum - PRIME } else { sum }
}

const fn multiply(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    add((product >> 61) as u64, product as u64 & PRIME)
}

/// `BASE` to the power of `exponent`.
const fn power(mut exponent: u64) -> u64 {
    let mut result = 1;
    let mut square = BASE % PRIME;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, square);
        }
        square = multiply(square, square);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_all(kinds: &[usize]) -> Signature {
        kinds
            .iter()
            .fold(Signature::EMPTY, |sum, kind| sum.then(Signature::of(Kind::ALL[*kind])))
    }

    proptest! {
        #[test]
        fn concatenation_is_associative(
            kinds in prop::collection::vec(0..Kind::ALL.len(), 0..50),
            cut in 0..50_usize,
            times in 0..20_u64,
        ) {
            let (head, tail) = kinds.split_at(cut.min(kinds.len()));
            prop_assert_eq!(of_all(head).then(of_all(tail)), of_all(&kinds));
            let repeated: Vec<usize> = (0..times).flat_map(|_| kinds.iter().copied()).collect();
            prop_assert_eq!(of_all(&kinds).repeat(times), of_all(&repeated));
        }

        #[test]
        fn different_sequences_differ(
            a in prop::collection::vec(0..15_usize, 0..20),
            b in prop::collection::vec(0..15_usize, 0..20),
        ) {
            prop_assert_eq!(of_all(&a) == of_all(&b), a == b);
        }
    }

    #[test]
    fn order_and_kind_matter() {
        let (int, float) = (Signature::of(Kind::I32), Signature::of(Kind::F32));
        assert_ne!(int.then(float), float.then(int));
        assert_eq!(Signature::of(Kind::F32I32), float.then(int));
        assert!(int.repeat(1 << 40).is_all(Kind::I32));
        assert!(!int.repeat(7).then(float).is_all(Kind::I32));
    }
}

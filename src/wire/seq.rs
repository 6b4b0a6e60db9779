//! Serial number arithmetic (RFC 1982) on 32-bit sequence and message numbers.

use core::fmt;

/// A number that wraps from 2^32 − 1 to 0. The order of two numbers is defined while they are less than 2^31 apart.
///
/// Deliberately not `Ord`: wrapping comparison is not transitive over the whole range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// The number `n` places after `self`.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// The number `n` places before `self`.
    #[must_use]
    pub const fn minus(self, n: u32) -> Self {
        Self(self.0.wrapping_sub(n))
    }

    /// The distance from `base` to `self`, modulo 2^32: a small number if `self` is at or after `base`, a huge one
    /// (≥ 2^31) if `self` is before `base`.
    #[must_use]
    pub const fn distance(self, base: Self) -> u32 {
        self.0.wrapping_sub(base.0)
    }

    /// Whether `self` comes before `other`.
    ///
    /// If two numbers are exactly 2^31 apart, each comes before the other: RFC 1982 leaves this case undefined, and no
    /// window is that large.
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether `self` comes after `other`.
    #[must_use]
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

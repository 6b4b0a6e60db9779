//! Serial number arithmetic (RFC 1982) on 32-bit sequence and message numbers.

use core::fmt;

/// A number that wraps from 2^32 − 1 to 0; two of them compare sensibly while they are less than 2^31 apart.
///
/// Deliberately not `Ord`: wrapping comparison is not transitive over the whole range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// The number `n` further on.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// The number `n` back.
    #[must_use]
    pub const fn minus(self, n: u32) -> Self {
        Self(self.0.wrapping_sub(n))
    }

    /// How far `self` is beyond `base`, modulo 2^32: a small number if it is at or after `base`, a huge one (≥ 2^31)
    /// if it is before.
    #[must_use]
    pub const fn distance(self, base: Self) -> u32 {
        self.0.wrapping_sub(base.0)
    }

    /// `self` comes before `other`.
    ///
    /// Of two numbers exactly 2^31 apart each comes before the other: RFC 1982 leaves that open, and no window is so
    /// wide.
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// `self` comes after `other`.
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

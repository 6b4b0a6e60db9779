//! Where a type map begins and ends: lower and upper bound, true bounds, alignment (MPI 5.1.6 to 5.1.8).

use super::error::Quantity;

/// Bounds of a type map. All numbers are bytes relative to the buffer; each fits into an `i64`, and so do the
/// differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// First byte of data and the one after the last.
    data: Option<(i64, i64)>,
    /// Bounds set by `resized`. They outlive being built into other types, and win over the data.
    marks: Option<(i64, i64)>,
    /// The strictest alignment of the elements.
    alignment: u64,
}

impl Bounds {
    /// See [`are_small`](Self::are_small).
    pub(super) const FEW: u64 = 1 << 30;

    pub(super) const EMPTY: Self = Self {
        data: None,
        marks: None,
        alignment: 1,
    };

    /// Of data from 0 to `high`.
    pub(super) const fn predefined(high: u64, alignment: u64) -> Self {
        Self {
            data: Some((0, high as i64)),
            marks: None,
            alignment,
        }
    }

    pub(super) fn lower_bound(&self) -> i64 {
        self.marks.or(self.data).map_or(0, |(low, _)| low)
    }

    /// Negative if set so by `resized`.
    pub(super) const fn extent(&self) -> i64 {
        match (self.marks, self.data) {
            (Some((low, high)), _) => high - low,
            (None, Some((low, high))) if self.alignment & (self.alignment - 1) == 0 => {
                (((high - low) as u64 + (self.alignment - 1)) & !(self.alignment - 1)) as i64
            }
            (None, Some((low, high))) => ((high - low) as u64).next_multiple_of(self.alignment) as i64,
            (None, None) => 0,
        }
    }

    /// First byte of data and the one after the last; (0, 0) if there are none.
    pub(super) fn data(&self) -> (i64, i64) {
        self.data.unwrap_or((0, 0))
    }

    /// Whether the bounds are so small that up to [`FEW`](Self::FEW) copies, an extent apart, fit into the address
    /// space: they begin where the data do, and end as many extents later.
    pub(super) const fn are_small(&self) -> bool {
        const SMALL: i64 = 1 << 30;
        match (self.data, self.marks) {
            (Some((low, high)), None) => low >= -SMALL && high <= SMALL && self.alignment <= SMALL as u64,
            _ => false,
        }
    }

    /// With other bounds around the same data.
    pub(super) fn resized(self, lower_bound: i64, extent: i64) -> Result<Self, Quantity> {
        let upper_bound = lower_bound.checked_add(extent).ok_or(Quantity::Bound)?;
        Ok(Self {
            marks: Some((lower_bound, upper_bound)),
            ..self
        })
    }

    /// Bounds of `count` copies, each `stride` bytes after the previous one.
    pub(super) fn repeated(self, count: u64, stride: i128) -> Result<Self, Quantity> {
        if count == 0 || self == Self::EMPTY {
            return Ok(Self::EMPTY);
        }
        let last = stride.checked_mul(i128::from(count - 1)).ok_or(Quantity::Bound)?;
        self.shifted(0)?.union(self.shifted(last)?).checked()
    }

    pub(super) fn shifted(self, by: i128) -> Result<Self, Quantity> {
        let shift = |(low, high): (i64, i64)| {
            let moved = |bound: i64| {
                let place = by.checked_add(i128::from(bound)).ok_or(Quantity::Bound)?;
                i64::try_from(place).map_err(|_| Quantity::Bound)
            };
            Ok((moved(low)?, moved(high)?))
        };
        Ok(Self {
            data: self.data.map(shift).transpose()?,
            marks: self.marks.map(shift).transpose()?,
            alignment: self.alignment,
        })
    }

    /// Of both together. To be [`checked`](Self::checked) when all is together.
    pub(super) fn union(self, other: Self) -> Self {
        let join = |a: Option<(i64, i64)>, b: Option<(i64, i64)>| match (a, b) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (one, None) | (None, one) => one,
        };
        Self {
            data: join(self.data, other.data),
            marks: join(self.marks, other.marks),
            alignment: self.alignment.max(other.alignment),
        }
    }

    /// These, if extents fit too.
    pub(super) fn checked(self) -> Result<Self, Quantity> {
        let difference = |(low, high): (i64, i64)| high.checked_sub(low).ok_or(Quantity::Extent);
        self.marks.map(difference).transpose()?;
        let extent = self.data.map(difference).transpose()?;
        if let (None, Some((low, _)), Some(extent)) = (self.marks, self.data, extent) {
            // Not more than 2^63, and a remainder of it must leave the upper bound in range as well.
            let padded = (extent as u64).next_multiple_of(self.alignment);
            let padded = i64::try_from(padded).map_err(|_| Quantity::Extent)?;
            low.checked_add(padded).ok_or(Quantity::Bound)?;
        }
        Ok(self)
    }
}

//! Where a type map begins and ends: lower and upper bound, true bounds, alignment (MPI 5.1.6 to 5.1.8).

use super::error::Quantity;

/// Bounds of a type map. All numbers are bytes relative to the buffer; each fits into an `i64`, and so do the
/// differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// First byte of data and the one after the last.
    data: Option<(i64, i64)>,
    /// Where the data end, with the padding that aligns a copy behind them, and with that of the parts: so a datatype
    /// is never smaller than its parts in a row. (MPI 5.1.6 pads once, behind the last byte; other libraries do not let
    /// a part lose its padding, and programs compute with extents.)
    end: i64,
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
        end: 0,
        marks: None,
        alignment: 1,
    };

    /// Of data from 0 to `high`.
    pub(super) const fn predefined(high: u64, alignment: u64) -> Self {
        Self {
            data: Some((0, high as i64)),
            end: high.next_multiple_of(alignment) as i64,
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
            (None, Some((low, _))) => self.end - low,
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
            (Some((low, _)), None) => low >= -SMALL && self.end <= SMALL,
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
        let moved = |bound: i64| {
            let place = by.checked_add(i128::from(bound)).ok_or(Quantity::Bound)?;
            i64::try_from(place).map_err(|_| Quantity::Bound)
        };
        let shift = |(low, high): (i64, i64)| Ok((moved(low)?, moved(high)?));
        Ok(Self {
            data: self.data.map(shift).transpose()?,
            end: if self.data.is_some() { moved(self.end)? } else { 0 },
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
        let end = match (self.data, other.data) {
            (Some(_), Some(_)) => self.end.max(other.end),
            (Some(_), None) => self.end,
            (None, _) => other.end,
        };
        Self {
            data: join(self.data, other.data),
            end,
            marks: join(self.marks, other.marks),
            alignment: self.alignment.max(other.alignment),
        }
    }

    /// These with their padding, if extents fit too.
    pub(super) fn checked(mut self) -> Result<Self, Quantity> {
        let difference = |(low, high): (i64, i64)| high.checked_sub(low).ok_or(Quantity::Extent);
        self.marks.map(difference).transpose()?;
        self.data.map(difference).transpose()?;
        if let Some((low, _)) = self.data {
            let padded = difference((low, self.end)).ok().and_then(|extent| {
                let padded = (extent as u64).checked_next_multiple_of(self.alignment)?;
                i64::try_from(padded).ok()
            });
            match padded.map(|padded| low.checked_add(padded)) {
                Some(Some(end)) => self.end = end,
                // Not that of a datatype with marks: it has these.
                _ if self.marks.is_some() => {}
                Some(None) => return Err(Quantity::Bound),
                None => return Err(Quantity::Extent),
            }
        }
        Ok(self)
    }
}

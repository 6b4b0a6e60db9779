//! The names of requests.

/// Identifies a request: index and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestId(pub(super) u64);

impl RequestId {
    /// Of no request.
    pub(super) const NONE: Self = Self(u64::MAX);

    /// The next request in the same slot.
    pub(super) fn next(self) -> Self {
        Self(self.0.wrapping_add(1 << 32))
    }
}

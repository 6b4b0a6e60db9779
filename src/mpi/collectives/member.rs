//! A place among ranks.

/// One rank of `size`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) rank: usize,
    pub(super) size: usize,
}

impl Member {
    /// The rank that is `distance` after this one, on a ring.
    pub(super) fn after(self, distance: usize) -> usize {
        (self.rank + distance % self.size) % self.size
    }

    /// The rank that is `distance` before this one, on a ring.
    pub(super) fn before(self, distance: usize) -> usize {
        (self.rank + self.size - distance % self.size) % self.size
    }
}

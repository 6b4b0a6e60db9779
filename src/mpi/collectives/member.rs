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
        let rank = self.rank + self.around(distance);
        if rank < self.size { rank } else { rank - self.size }
    }

    /// The rank that is `distance` before this one, on a ring.
    pub(super) fn before(self, distance: usize) -> usize {
        let distance = self.around(distance);
        if distance <= self.rank {
            self.rank - distance
        } else {
            self.rank + self.size - distance
        }
    }

    /// The same distance within one turn. Usually it is unchanged: the branch avoids a division, which dominates the
    /// time of making schedules for many ranks.
    fn around(self, distance: usize) -> usize {
        if distance < self.size {
            distance
        } else {
            distance % self.size
        }
    }
}

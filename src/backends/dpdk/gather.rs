//! Payload that lies in several places.

use std::io;

/// Copies a gather list piece by piece.
pub(super) struct Gather<'a> {
    slices: &'a [io::IoSlice<'a>],
    /// Octets of the first slice that are done.
    done: usize,
}

impl<'a> Gather<'a> {
    pub(super) fn new(slices: &'a [io::IoSlice<'a>]) -> Self {
        Self { slices, done: 0 }
    }

    /// The last piece of the next `len` octets that lies in one place.
    pub(super) fn tail(&self, mut len: usize) -> Option<&'a [u8]> {
        let mut done = self.done;
        for slice in self.slices {
            // The slices outlive the list of them.
            let left: &'a [u8] = &slice[done..];
            if left.len() >= len {
                return Some(&left[..len]);
            }
            (len, done) = (len - left.len(), 0);
        }
        None
    }

    /// Leaves out `len` octets, which lie in one place.
    pub(super) fn skip(&mut self, len: usize) {
        self.done += len;
        if self.slices.first().is_some_and(|first| first.len() == self.done) {
            (self.slices, self.done) = (&self.slices[1..], 0);
        }
    }

    /// Fills `to` with the next octets; less if there are no more.
    #[inline]
    pub(super) fn copy(&mut self, mut to: &mut [u8]) {
        while let Some((first, rest)) = self.slices.split_first() {
            let left = &first[self.done..];
            let (now, later) = to.split_at_mut(left.len().min(to.len()));
            now.copy_from_slice(&left[..now.len()]);
            to = later;
            if now.len() == left.len() {
                (self.slices, self.done) = (rest, 0);
            } else {
                self.done += now.len();
                return;
            }
        }
    }
}

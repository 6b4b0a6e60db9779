//! Payload that lies in several places.

use std::io;

/// Copies a gather list piece by piece.
pub(super) struct Gather<'a> {
    slices: &'a [io::IoSlice<'a>],
    /// Bytes of the first slice that are done.
    done: usize,
}

/// Fills `to` with all of a gather list; less if there is no more.
#[inline(always)]
pub(super) fn copy_all(slices: &[io::IoSlice<'_>], mut to: &mut [u8]) {
    for slice in slices {
        let (now, later) = to.split_at_mut(slice.len().min(to.len()));
        now.copy_from_slice(&slice[..now.len()]);
        to = later;
    }
}

impl<'a> Gather<'a> {
    pub(super) fn new(slices: &'a [io::IoSlice<'a>]) -> Self {
        Self { slices, done: 0 }
    }

    /// The last piece of the next `len` bytes that lies in one place.
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

    /// Leaves out `len` bytes, which lie in one place.
    pub(super) fn skip(&mut self, len: usize) {
        self.done += len;
        if self.slices.first().is_some_and(|first| first.len() == self.done) {
            (self.slices, self.done) = (&self.slices[1..], 0);
        }
    }

    /// Fills `to` with the next bytes; less if there are no more.
    #[inline]
    pub(super) fn copy(&mut self, mut to: &mut [u8]) {
        while let Some((first, rest)) = self.slices.split_first() {
            let left = &first[self.done..];
            if left.len() > to.len() {
                to.copy_from_slice(&left[..to.len()]);
                self.done += to.len();
                return;
            }
            let (now, later) = to.split_at_mut(left.len());
            now.copy_from_slice(left);
            to = later;
            (self.slices, self.done) = (rest, 0);
        }
    }
}

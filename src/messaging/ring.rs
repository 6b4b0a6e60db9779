//! A queue of small values.

use alloc::vec::Vec;

/// A queue whose entries are written in place. (`VecDeque::push_back` is a call: the entry is written to the stack
/// field by field and then read as a whole, a load that waits for all of those stores.)
#[derive(Default)]
pub(super) struct Ring<T> {
    /// As many as a power of two; none at first.
    slots: Vec<T>,
    head: usize,
    len: usize,
}

/// Entries of the first memory.
const FIRST: usize = 4;

impl<T: Copy + Default> Ring<T> {
    #[inline(always)]
    fn place(&self, index: usize) -> usize {
        (self.head + index) & (self.slots.len() - 1)
    }

    #[inline(always)]
    pub(super) fn push_back(&mut self, entry: T) {
        if self.len == self.slots.len() {
            self.grow();
        }
        let place = self.place(self.len);
        self.slots[place] = entry;
        self.len += 1;
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&T> {
        if self.len == 0 {
            None
        } else {
            Some(&self.slots[self.head])
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<T> {
        let entry = *self.front()?;
        self.head = self.place(1);
        self.len -= 1;
        Some(entry)
    }

    /// All of them, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).map(|index| &self.slots[self.place(index)])
    }

    #[cold]
    fn grow(&mut self) {
        let len = (2 * self.len).max(FIRST);
        let mut slots = Vec::with_capacity(len);
        slots.extend(self.iter());
        slots.resize(len, T::default());
        (self.slots, self.head) = (slots, 0);
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;

    use super::*;

    #[test]
    fn ring_is_a_queue() {
        let (mut ring, mut queue) = (Ring::default(), VecDeque::new());
        let mut next = 0;
        for round in 0..200 {
            for _ in 0..(round * 37) % 23 {
                ring.push_back(next);
                queue.push_back(next);
                next += 1;
            }
            for _ in 0..(round * 53) % 29 {
                assert_eq!(ring.front(), queue.front());
                assert_eq!(ring.pop_front(), queue.pop_front());
            }
            assert!(ring.iter().eq(&queue));
        }
        assert!(ring.slots.len().is_power_of_two() && ring.slots.len() < 4 * 29 * 23);
    }
}

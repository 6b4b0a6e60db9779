//! Memory that begins at a page, as benchmarks of messages have it.

use std::ops::{Deref, DerefMut};

const PAGE: usize = 4096;

/// Bytes, of which the first begins a page. They stay where they are as long as they do not grow.
#[derive(Debug, Default)]
pub(super) struct Pages {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Pages {
    /// Makes it so long, every byte being `value`.
    pub(super) fn fill(&mut self, len: usize, value: u8) {
        if self.memory.len() < len + PAGE {
            self.memory = vec![0; len + PAGE];
            self.start = self.memory.as_ptr().align_offset(PAGE);
        }
        self.len = len;
        self.iter_mut().for_each(|byte| *byte = value);
    }

    /// Makes it these bytes.
    pub(super) fn hold(&mut self, bytes: &[u8]) {
        self.fill(bytes.len(), 0);
        self.copy_from_slice(bytes);
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_begin_where_a_page_does() {
        let mut pages = Pages::default();
        assert!(pages.is_empty());
        for len in [3, 10_000, 1] {
            pages.fill(len, 7);
            assert_eq!(pages[..], vec![7; len]);
            assert!(pages.as_ptr().addr().is_multiple_of(PAGE));
        }
        pages.hold(b"abc");
        assert_eq!(pages[..], *b"abc");
    }
}

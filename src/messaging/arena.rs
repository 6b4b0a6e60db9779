//! Memory of messages: blocks for small ones, a pool of buffers for large ones.

use alloc::{boxed::Box, collections::VecDeque, vec, vec::Vec};

use crate::span::Span;

/// Bytes of a block …
const BLOCK: usize = 64 << 10;
/// … but for the first one: most queues are short, and there are many.
const FIRST_BLOCK: usize = SMALL;
/// Empty blocks kept for later.
const SPARE_BLOCKS: usize = 16;
/// Longer entries get a buffer of their own.
pub(super) const SMALL: usize = 4 << 10;

/// Buffers kept for later.
const SPARE_BUFFERS: usize = 64;
/// Bytes of unused buffers that are kept.
const SPARE_BYTES: usize = 64 << 20;
/// Sizes of buffers are multiples of this.
const GRAIN: usize = 4 << 10;

struct Block {
    bytes: Box<[u8]>,
    fill: usize,
    /// Entries in it that have not been popped.
    entries: usize,
}

/// A queue of byte strings: pushed at the back, read and popped at the front; nothing is allocated per entry.
///
/// The block in use is rewound when it runs empty, so that a queue that is short stays in the same cache lines.
#[derive(Default)]
pub(super) struct Arena {
    blocks: VecDeque<Block>,
    spare: Vec<Block>,
}

impl Arena {
    /// Appends `data` (at most [`SMALL`] bytes). Returns its offset in its block.
    #[inline]
    pub(super) fn push(&mut self, data: Span<'_>) -> usize {
        debug_assert!(data.len() <= SMALL);
        match self.blocks.back_mut() {
            Some(block) if data.len() <= block.bytes.len() - block.fill => block.push(data),
            _ => self.push_to_new_block(data),
        }
    }

    #[cold]
    fn push_to_new_block(&mut self, data: Span<'_>) -> usize {
        let size = if self.blocks.is_empty() { FIRST_BLOCK } else { BLOCK };
        let mut block = self.spare.pop().unwrap_or_else(|| Block {
            bytes: vec![0; size].into_boxed_slice(),
            fill: 0,
            entries: 0,
        });
        let at = block.push(data);
        self.blocks.push_back(block);
        at
    }

    /// The last entry, which has `len` bytes at offset `at`.
    #[inline]
    pub(super) fn back(&self, at: usize, len: usize) -> &[u8] {
        match self.blocks.back() {
            Some(block) => &block.bytes[at..at + len],
            None => &[],
        }
    }

    /// Removes the last entry, which has `len` bytes.
    pub(super) fn unpush(&mut self, len: usize) {
        if let Some(block) = self.blocks.back_mut() {
            block.fill -= len;
            block.entries -= 1;
        }
    }

    /// The first entry, which has `len` bytes at offset `at`.
    #[inline]
    pub(super) fn front(&self, at: usize, len: usize) -> &[u8] {
        match self.blocks.front() {
            Some(block) => &block.bytes[at..at + len],
            None => &[],
        }
    }

    /// Removes the first entry.
    #[inline]
    pub(super) fn pop(&mut self) {
        let last = self.blocks.len() == 1;
        let Some(block) = self.blocks.front_mut() else {
            return;
        };
        block.entries -= 1;
        if block.entries == 0 {
            block.fill = 0;
            if !last {
                self.drop_front();
            }
        }
    }

    #[cold]
    fn drop_front(&mut self) {
        if let Some(block) = self.blocks.pop_front()
            && block.bytes.len() == BLOCK
            && self.spare.len() < SPARE_BLOCKS
        {
            self.spare.push(block);
        }
    }
}

impl Block {
    #[inline]
    fn push(&mut self, data: Span<'_>) -> usize {
        let at = self.fill;
        data.copy_to(&mut self.bytes[at..at + data.len()]);
        self.fill += data.len();
        self.entries += 1;
        at
    }
}

/// Buffers for reuse. They keep their length and content, so that nothing is zeroed that will be overwritten, and their
/// pages, so that nothing faults.
#[derive(Default)]
pub(super) struct Pool {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    /// There is no memory for larger buffers than this, where a test sets it.
    #[cfg(test)]
    pub(super) most: Option<usize>,
}

/// There is no memory for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoMemory;

impl Pool {
    /// Size of a new buffer for `len` bytes: less than twice as many, so that the credit of a message pays for it.
    pub(super) fn size(len: usize) -> usize {
        if len < GRAIN { len } else { len.next_multiple_of(GRAIN) }
    }

    /// A used buffer of at least `len` bytes and at most `max` (no less than [`size`](Self::size)), with arbitrary
    /// content.
    pub(super) fn reuse(&mut self, len: usize, max: usize) -> Option<Vec<u8>> {
        let max = max.min(4 * Self::size(len));
        let fits = |buffer: &Vec<u8>| (len..=max).contains(&buffer.len());
        let index = self
            .buffers
            .iter()
            .enumerate()
            .filter(|(_, buffer)| fits(buffer))
            .min_by_key(|(_, buffer)| buffer.len())
            .map(|(index, _)| index)?;
        let buffer = self.buffers.swap_remove(index);
        self.bytes -= buffer.len();
        Some(buffer)
    }

    /// Makes room for `size` bytes in a buffer. A large buffer is not copied by that: the allocator remaps its pages.
    pub(super) fn grow(&self, buffer: &mut Vec<u8>, size: usize) -> Result<(), NoMemory> {
        #[cfg(test)]
        if self.most.is_some_and(|most| size > most) {
            return Err(NoMemory);
        }
        let more = size.saturating_sub(buffer.len());
        buffer.try_reserve_exact(more).map_err(|_| NoMemory)
    }

    /// A buffer that begins with `data`.
    pub(super) fn copy(&mut self, data: Span<'_>) -> Vec<u8> {
        if data.len() <= SMALL {
            return data.to_vec();
        }
        let mut buffer = self
            .reuse(data.len(), usize::MAX)
            .unwrap_or_else(|| vec![0; Self::size(data.len())]);
        data.copy_to(&mut buffer[..data.len()]);
        buffer
    }

    /// Takes a buffer back.
    pub(super) fn give(&mut self, buffer: Vec<u8>) {
        if buffer.len() < GRAIN || buffer.len() > SPARE_BYTES {
            return;
        }
        while self.buffers.len() >= SPARE_BUFFERS || self.bytes + buffer.len() > SPARE_BYTES {
            // The oldest has been of no use for longest.
            self.bytes -= self.buffers.remove(0).len();
        }
        self.bytes += buffer.len();
        self.buffers.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arena_is_a_queue() {
        let mut arena = Arena::default();
        let mut queue = VecDeque::new();
        let mut next = 0_u32;
        for round in 0..50_usize {
            for i in 0..(round * 37) % 101 {
                let len = (round * 131 + i * 977) % (SMALL + 1);
                let data = vec![next as u8; len];
                queue.push_back((arena.push(Span::new(&data)), data));
                next += 1;
            }
            for _ in 0..(round * 53) % 97 {
                let Some((at, data)) = queue.pop_front() else {
                    break;
                };
                assert_eq!(arena.front(at, data.len()), data);
                arena.pop();
            }
        }
        for (at, data) in queue {
            assert_eq!(arena.front(at, data.len()), data);
            arena.pop();
        }
        assert_eq!(arena.blocks.len(), 1, "the block in use stays");
        assert_eq!(arena.push(Span::new(b"x")), 0, "and is rewound");
        assert_eq!(arena.push(Span::new(b"yz")), 1);
        assert_eq!(arena.back(1, 2), b"yz");
        arena.unpush(2);
        assert_eq!(arena.push(Span::new(b"w")), 1, "in its place");
    }

    #[test]
    fn pool_gives_the_same_buffer_again() {
        let mut pool = Pool::default();
        let buffer = pool.copy(Span::new(&[7; 100_000]));
        let memory = buffer.as_ptr();
        pool.give(buffer);
        let again = pool.reuse(99_000, 1 << 20).unwrap();
        assert_eq!(again.as_ptr(), memory);
        assert!(again.len() >= 99_000);
    }

    #[test]
    fn pool_is_bounded() {
        let mut pool = Pool::default();
        for _ in 0..20 {
            pool.give(vec![0; 10 << 20]);
        }
        assert!(pool.bytes <= SPARE_BYTES);
        assert_eq!(pool.bytes, pool.buffers.iter().map(Vec::len).sum::<usize>());
    }
}

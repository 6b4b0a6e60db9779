//! Where a producer puts the bytes of long records: its choice alone.

use alloc::collections::VecDeque;

use super::cell::CHUNK;

/// The numbers of chunks that long records use first, when those are full, and in streams. Powers of two, or 0.
pub(crate) type Levels = [u32; 3];

/// Those between processes. Each line should have left the consumer's caches before the producer writes it again. Only
/// between cores that are far from each other, a record that comes alone takes less time where the one before it lay
/// ([`Places::begin_again`]).
pub(super) const LEVELS: Levels = [chunks_in(16 << 10), chunks_in(256 << 10), chunks_in(2 << 20)];
/// Those within a process.
pub(super) const OWN_LEVELS: Levels = [LEVELS[0], 0, 0];
/// The level of streams.
pub(super) const STREAM: usize = LEVELS.len() - 1;
/// Bytes of long records after which they are a stream.
pub(super) const STREAM_BYTES: usize = 256 << 10;
/// Chunks of a stream's memory that are prepared at a time: to have them one page after the other, as each is written, takes
/// several times as long.
pub(super) const PREPARED: u32 = chunks_in(64 << 10);

const fn chunks_in(bytes: usize) -> u32 {
    (bytes / CHUNK) as u32
}

const _: () = assert!(LEVELS[STREAM].is_multiple_of(PREPARED));

/// Where long records lie. Positions count chunks of the level, without an end.
#[derive(Default)]
pub(super) struct Places {
    pub(super) level: usize,
    /// The next free chunk.
    pub(super) head: u32,
    /// The first one that may still be in use.
    tail: u32,
    /// Chunks of the level, from its first one on, in which the producer has been.
    seen: u32,
    /// Of the records there that may not have been taken: the count of lines with them, and the position behind them.
    pub(super) untaken: VecDeque<(u32, u32)>,
    /// Bytes of records since all were taken, or it was last asked whether they are a stream.
    pub(super) carried: usize,
}

impl Places {
    /// Finds a place for a record: its first chunk. `None`: nothing is free in this level.
    pub(super) fn find(&mut self, levels: Levels, chunks: u32) -> Option<u32> {
        let size = levels[self.level];
        let at = self.head & (size - 1);
        // A record is not split.
        let skipped = if at + chunks > size { size - at } else { 0 };
        let begin = self.head.wrapping_add(skipped);
        let end = begin.wrapping_add(chunks);
        if end.wrapping_sub(self.tail) > size {
            return None;
        }
        self.head = end;
        let below: u32 = levels[..self.level].iter().sum();
        Some(below + (begin & (size - 1)))
    }

    /// The part of the level, by its first chunk and its chunks, that begins where the producer has not been and has room for
    /// what it writes up to `end`; a multiple of `block`. `None`: it has been everywhere there.
    pub(super) fn unseen(&mut self, end: u32, block: u32) -> Option<(u32, u32)> {
        let begin = self.seen;
        if end <= begin {
            return None;
        }
        self.seen = end.next_multiple_of(block);
        Some((begin, self.seen - begin))
    }

    /// The consumer has taken so many lines. Returns whether something is free again.
    pub(super) fn free(&mut self, taken: u32) -> bool {
        let mut is_freed = false;
        while let Some(&(line, end)) = self.untaken.front()
            && taken.wrapping_sub(line) as i32 >= 0
        {
            self.tail = end;
            self.untaken.pop_front();
            is_freed = true;
        }
        is_freed
    }

    /// All records were taken: the next one lies at the beginning of the level.
    pub(super) fn begin_again(&mut self) {
        (self.head, self.tail, self.carried) = (0, 0, 0);
        self.untaken.clear();
    }

    /// Goes on in another level, which nothing uses.
    pub(super) fn go_on_in(&mut self, level: usize) {
        *self = Self {
            level,
            ..Self::default()
        };
    }
}

//! What a rendezvous transfers.

use bytes::Bytes;

/// The payload of a rendezvous: memory that stays unchanged until the send has ended.
pub trait Content: Send {
    /// Length in bytes.
    fn len(&self) -> u64;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes from `offset` on, at least one and at most `max`: by reference if they are contiguous. The result is
    /// dropped once the peer has them.
    fn chunk(&mut self, offset: u64, max: u64) -> Bytes;

    /// All bytes by reference, if they are contiguous: [`chunk`](Self::chunk) would give them at once.
    fn run(&mut self) -> Option<Bytes> {
        None
    }

    /// Whether copies of so much are under way that the next [`chunk`](Self::chunk) should wait until some are dropped.
    fn is_busy(&self) -> bool {
        false
    }
}

impl Content for Bytes {
    fn len(&self) -> u64 {
        self.len() as u64
    }

    fn chunk(&mut self, offset: u64, max: u64) -> Bytes {
        let end = (offset + max).min(self.len() as u64);
        self.slice(offset as usize..end as usize)
    }

    fn run(&mut self) -> Option<Bytes> {
        Some(self.clone())
    }
}

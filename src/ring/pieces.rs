//! The bytes that a record is made of.

/// The bytes of a message. A ring asks for them once, in their order.
pub(crate) trait Pieces {
    /// Their number.
    fn len(&self) -> usize;

    /// The next `len` bytes, from `at` on: at most a [`PIECE`](super::PIECE), or all there are.
    fn piece(&mut self, at: usize, len: usize) -> &[u8];
}

impl Pieces for &[u8] {
    #[inline(always)]
    fn len(&self) -> usize {
        (**self).len()
    }

    #[inline(always)]
    fn piece(&mut self, at: usize, len: usize) -> &[u8] {
        &self[at..at + len]
    }
}

impl<P: Pieces> Pieces for &mut P {
    #[inline(always)]
    fn len(&self) -> usize {
        (**self).len()
    }

    #[inline(always)]
    fn piece(&mut self, at: usize, len: usize) -> &[u8] {
        (**self).piece(at, len)
    }
}

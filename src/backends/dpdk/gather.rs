//! Payload in several pieces of memory.

use std::net::SocketAddr;

use crate::{backends::Transmit, span::Span};

/// A [`Transmit`] whose payload may also lie in memory that another process can write, to which no slice may refer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) destination: SocketAddr,
    /// Bytes per datagram.
    pub(crate) segment_size: usize,
    /// Bytes in all.
    pub(crate) len: usize,
    /// The payload, in pieces.
    pub(crate) spans: &'a [Span<'a>],
}

impl<'a> Outgoing<'a> {
    #[inline(always)]
    pub(super) fn new(transmit: &Transmit<'a>) -> Self {
        Self {
            destination: transmit.destination,
            segment_size: transmit.segment_size,
            len: transmit.len,
            spans: Span::of_slices(transmit.slices),
        }
    }

    /// The number of datagrams. Needs no division for a single datagram.
    #[inline]
    pub(super) fn segments(&self) -> usize {
        if self.len <= self.segment_size {
            1
        } else {
            self.len.div_ceil(self.segment_size.max(1))
        }
    }
}

/// Copies a gather list piece by piece.
pub(super) struct Gather<'a> {
    spans: &'a [Span<'a>],
    /// Bytes of the first piece that are already copied or skipped.
    done: usize,
}

/// Fills `to` from the beginning of a gather list; fills less if the list is shorter.
#[inline(always)]
pub(super) fn copy_all(spans: &[Span<'_>], mut to: &mut [u8]) {
    for span in spans {
        let (now, later) = to.split_at_mut(span.len().min(to.len()));
        span.split_at(now.len()).0.copy_to(now);
        to = later;
    }
}

impl<'a> Gather<'a> {
    pub(super) fn new(spans: &'a [Span<'a>]) -> Self {
        Self { spans, done: 0 }
    }

    /// The part of the next `len` bytes that lies in their last piece.
    pub(super) fn tail(&self, mut len: usize) -> Option<Span<'a>> {
        let mut done = self.done;
        for span in self.spans {
            let left = span.split_at(done).1;
            if left.len() >= len {
                return Some(left.split_at(len).0);
            }
            (len, done) = (len - left.len(), 0);
        }
        None
    }

    /// Skips `len` bytes, which must lie in the first remaining piece.
    pub(super) fn skip(&mut self, len: usize) {
        self.done += len;
        if self.spans.first().is_some_and(|first| first.len() == self.done) {
            (self.spans, self.done) = (&self.spans[1..], 0);
        }
    }

    /// Fills `to` with the next bytes; fills less if fewer are left.
    #[inline]
    pub(super) fn copy(&mut self, mut to: &mut [u8]) {
        while let Some((first, rest)) = self.spans.split_first() {
            let left = first.split_at(self.done).1;
            if left.len() > to.len() {
                left.split_at(to.len()).0.copy_to(to);
                self.done += to.len();
                return;
            }
            let (now, later) = to.split_at_mut(left.len());
            left.copy_to(now);
            to = later;
            (self.spans, self.done) = (rest, 0);
        }
    }
}

//! The burst of datagrams that `poll_transmit` fills.

use alloc::{boxed::Box, vec, vec::Vec};
use core::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Range,
};

use super::{
    Path,
    flow::{NONE, SourceId},
};
use crate::{span::Span, wire::MAX_HEADER_LEN};

/// Most datagrams in one burst: Linux's limit for UDP segmentation.
pub(crate) const MAX_SEGMENTS: usize = 64;
/// Payload up to this size is copied behind its header, so that a small datagram is one piece.
pub(crate) const INLINE: usize = 512;

/// Bytes of a burst that are not in its arena.
#[derive(Clone, Copy, Debug)]
struct Reference {
    /// They go before this offset of the arena.
    before: u32,
    /// [`PADDING`]: zeros.
    source: SourceId,
    offset: u32,
    len: u32,
}

/// Instead of a source: zeros.
const PADDING: SourceId = NONE - 1;

/// A burst of datagrams to one destination: equal sizes, but the last may be shorter.
///
/// Headers and small payloads are in the burst's own memory, larger payloads stay where they are:
/// `Endpoint::gather` gives them all in order. Sealed packets lie whole in the burst's own memory. Reuse one object; it
/// allocates when it is made, and until it is as large as a burst of sealed packets.
#[derive(Debug)]
pub struct Burst {
    destination: SocketAddr,
    port: u8,
    segment_size: usize,
    len: usize,
    segments: usize,
    dont_fragment: bool,
    token: u64,
    arena: Box<[u8]>,
    used: usize,
    references: Vec<Reference>,
}

impl Default for Burst {
    fn default() -> Self {
        Self {
            destination: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            port: 0,
            segment_size: 0,
            len: 0,
            segments: 0,
            dont_fragment: true,
            token: 0,
            arena: vec![0; MAX_SEGMENTS * (MAX_HEADER_LEN + INLINE)].into_boxed_slice(),
            used: 0,
            references: Vec::with_capacity(MAX_SEGMENTS),
        }
    }
}

impl Burst {
    /// Where to.
    #[must_use]
    pub fn destination(&self) -> SocketAddr {
        self.destination
    }

    /// Number of the backend's port by which it leaves.
    #[must_use]
    pub fn port(&self) -> u8 {
        self.port
    }

    /// Bytes per datagram.
    #[must_use]
    pub fn segment_size(&self) -> usize {
        self.segment_size
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Datagrams.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Forbid IP fragmentation: always, but for packets made before the path's MTU shrank.
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        self.dont_fragment
    }

    /// The token for `Endpoint::handle_released`, to be called when the backend no longer refers to the bytes
    /// ([`super::Limits::holds_references`]).
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    #[inline]
    pub(crate) fn begin(&mut self, path: impl Into<Path>) {
        self.redirect(path.into());
        self.segment_size = 0;
        self.len = 0;
        self.segments = 0;
        self.dont_fragment = true;
        self.token = 0;
        self.used = 0;
        self.references.clear();
    }

    /// Goes by another path.
    #[inline]
    pub(crate) fn redirect(&mut self, path: Path) {
        (self.destination, self.port) = (path.address, path.port);
    }

    pub(crate) fn allow_fragmentation(&mut self) {
        self.dont_fragment = false;
    }

    pub(crate) fn set_token(&mut self, token: u64) {
        self.token = token;
    }

    /// Memory for the next header.
    #[inline(always)]
    pub(crate) fn header(&mut self) -> &mut [u8; MAX_HEADER_LEN] {
        let header = self.arena[self.used..].first_chunk_mut();
        header.unwrap_or_else(|| unreachable!("there is room for the longest header of each datagram"))
    }

    /// Memory for a whole datagram of `len` bytes, which begins with the next header.
    pub(crate) fn datagram(&mut self, len: usize) -> &mut [u8] {
        let needed = self.used + len + MAX_HEADER_LEN;
        if needed > self.arena.len() {
            let mut larger = vec![0; needed.next_power_of_two()].into_boxed_slice();
            let written = self.used + MAX_HEADER_LEN;
            larger[..written].copy_from_slice(&self.arena[..written]);
            self.arena = larger;
        }
        &mut self.arena[self.used..self.used + len]
    }

    /// The next `header_len` bytes of the arena are a header; `payload` is copied behind it.
    #[inline]
    pub(crate) fn push_inline(&mut self, header_len: usize, payload: Span<'_>) {
        let start = self.used + header_len;
        self.used = start + payload.len();
        payload.copy_to(&mut self.arena[start..self.used]);
        self.count(header_len + payload.len());
    }

    /// The next `header_len` bytes of the arena are a header; the payload stays where it is.
    #[inline]
    pub(crate) fn push_reference(&mut self, header_len: usize, source: SourceId, offset: u32, len: u32) {
        self.used += header_len;
        self.refer(source, offset, len);
        self.count(header_len + len as usize);
    }

    /// The next `header_len` bytes of the arena are the header of a datagram whose payload of `len` bytes is lent by the
    /// caller: it follows the [head](Self::head), until the burst is [complete](Self::complete).
    #[inline]
    pub(crate) fn push_head(&mut self, header_len: usize, len: usize) {
        self.used += header_len;
        self.count(header_len + len);
    }

    /// The last datagram's payload of `len` bytes is kept in this source before `end`. (A small one is in the burst itself.)
    #[inline]
    pub(crate) fn complete(&mut self, source: SourceId, end: u32, len: usize) {
        if len > INLINE {
            self.refer(source, end - len as u32, len as u32);
        }
    }

    /// The bytes that lie in it.
    #[inline]
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.arena[..self.used]
    }

    /// A datagram of zeros behind the header (path MTU probes).
    pub(crate) fn push_padding(&mut self, header_len: usize, padding: usize) {
        self.used += header_len;
        let mut left = padding;
        while left > 0 {
            let len = left.min(ZEROS.len());
            self.refer(PADDING, 0, len as u32);
            left -= len;
        }
        self.count(header_len + padding);
    }

    #[inline]
    fn refer(&mut self, source: SourceId, offset: u32, len: u32) {
        self.references.push(Reference {
            before: self.used as u32,
            source,
            offset,
            len,
        });
    }

    #[inline]
    fn count(&mut self, datagram: usize) {
        if self.segments == 0 {
            self.segment_size = datagram;
        }
        self.len += datagram;
        self.segments += 1;
    }

    /// The sources that it refers to.
    pub(crate) fn sources(&self) -> impl Iterator<Item = SourceId> + '_ {
        self.references
            .iter()
            .map(|reference| reference.source)
            .filter(|&source| source != PADDING)
    }

    /// Its parts in order: `ours` makes one of bytes that lie in it, `theirs` of a range of a source.
    #[inline]
    pub(crate) fn each<'a, T>(
        &'a self,
        ours: impl Fn(&'a [u8]) -> T,
        theirs: impl Fn(SourceId, Range<usize>) -> T,
        mut each: impl FnMut(T),
    ) {
        let mut given = 0;
        for reference in &self.references {
            let before = reference.before as usize;
            if given < before {
                each(ours(&self.arena[given..before]));
                given = before;
            }
            let (from, len) = (reference.offset as usize, reference.len as usize);
            each(match reference.source {
                PADDING => ours(&ZEROS[from..from + len]),
                source => theirs(source, from..from + len),
            });
        }
        if given < self.used {
            each(ours(&self.arena[given..self.used]));
        }
    }

    /// The bytes of the datagram that was pushed last, if all of it is in the arena or `bytes`; used to insert the
    /// checksum.
    pub(crate) fn patch(&mut self, at: usize, bytes: [u8; 4]) {
        self.arena[at..at + 4].copy_from_slice(&bytes);
    }

    /// Where in the arena the next header will be.
    pub(crate) fn position(&self) -> usize {
        self.used
    }

    /// A stretch of the arena.
    pub(crate) fn arena(&self, from: usize, to: usize) -> &[u8] {
        &self.arena[from..to]
    }
}

static ZEROS: [u8; 4_096] = [0; 4_096];

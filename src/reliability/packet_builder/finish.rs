//! The end of a packet whose header is written: its payload, and what is computed over all of it.

use crate::{
    reliability::{
        burst::{Burst, INLINE},
        flow::{NONE, SourceId, Sources},
        sealing::Sealing,
    },
    span::Span,
    wire::{Builder, checksum::Crc32c},
};

/// The payload of a packet, where it lies.
#[derive(Clone, Copy)]
pub(in crate::reliability) enum Body<'a> {
    Empty,
    /// So many zeros.
    Zeros(usize),
    /// A part of a source; nothing if the source is [`NONE`].
    Part {
        sources: &'a Sources,
        source: SourceId,
        from: usize,
        len: usize,
    },
}

impl Body<'_> {
    /// Its bytes.
    #[inline(always)]
    pub(in crate::reliability) fn len(&self) -> usize {
        match *self {
            Self::Empty | Self::Part { source: NONE, .. } => 0,
            Self::Zeros(len) | Self::Part { len, .. } => len,
        }
    }
}

/// A finished header at the end of a burst.
#[derive(Clone, Copy)]
pub(in crate::reliability) struct Written {
    len: usize,
    /// Where in it a checksum has its place.
    checksum: Option<usize>,
}

impl Written {
    /// `payload`: bytes that follow it.
    #[inline(always)]
    pub(in crate::reliability) fn of(header: Builder<'_>, payload: usize) -> Self {
        Self {
            checksum: header.checksum_offset(),
            len: header.finish(payload as u16),
        }
    }

    /// Bytes, without a seal.
    #[inline(always)]
    pub(in crate::reliability) fn len(&self) -> usize {
        self.len
    }
}

/// Adds the packet to the burst. A sealed one is copied whole, since the memory of a payload by reference is not ours to
/// encrypt; each transmission is sealed anew.
#[inline(always)]
pub(in crate::reliability) fn finish(
    burst: &mut Burst,
    header: Written,
    body: Body<'_>,
    sealing: Option<&mut Sealing>,
) {
    if let Some(sealing) = sealing {
        finish_sealed(burst, header.len, body, sealing);
        return;
    }
    if let Some(at) = header.checksum {
        add_checksum(burst, header.len, at, body);
    }
    match body {
        Body::Empty => burst.push_inline(header.len, Span::default()),
        Body::Zeros(len) => burst.push_padding(header.len, len),
        Body::Part { source, from, len, .. } if len > INLINE => {
            burst.push_reference(header.len, source, from as u32, len as u32);
        }
        Body::Part { .. } => burst.push_inline(header.len, span(body)),
    }
}

/// The payload, if it is not zeros.
#[inline]
fn span(body: Body<'_>) -> Span<'_> {
    match body {
        Body::Part {
            sources,
            source,
            from,
            len,
        } if source != NONE => sources.span(source).part(from..from + len),
        _ => Span::default(),
    }
}

/// (By value, so that a body is put into memory only for this.)
///
/// Another process may change the memory of the payload between this and the transmission; the receiver then drops the
/// packet.
#[inline(never)]
fn add_checksum(burst: &mut Burst, header_len: usize, at: usize, body: Body<'_>) {
    let start = burst.position();
    let mut crc = Crc32c::new().update(burst.arena(start, start + header_len));
    match body {
        Body::Part {
            sources,
            source,
            from,
            len,
        } if source != NONE => crc = sources.sum_up(crc, source, from..from + len),
        Body::Zeros(len) => {
            let mut left = len;
            while left > 0 {
                let zeros = &[0; 256][..left.min(256)];
                crc = crc.update(zeros);
                left -= zeros.len();
            }
        }
        Body::Empty | Body::Part { .. } => {}
    }
    burst.patch(start + at, crc.finish().to_be_bytes());
}

#[cold]
#[inline(never)]
fn finish_sealed(burst: &mut Burst, header_len: usize, body: Body<'_>, sealing: &mut Sealing) {
    let at = header_len + Sealing::LEN;
    let packet = burst.datagram(at + body.len());
    let payload = &mut packet[at..];
    if let Body::Zeros(_) = body {
        payload.fill(0);
    } else {
        span(body).copy_to(payload);
    }
    sealing.close(packet, header_len);
    let len = packet.len();
    burst.push_inline(len, Span::default());
}

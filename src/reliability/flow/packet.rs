//! Packets of a flow: those that wait, and those that are in flight.

use super::source::{NONE, SourceId};
use crate::wire::Seq;

/// So many packets beyond a gap make it a loss at once while the network is not known to reorder (RFC 8985, 6.2).
pub(super) const DUPLICATE_THRESHOLD: u32 = 3;

/// The kind of content of a sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One record of a block: sent plain, without the record's header.
    Single,
    /// Several records of a block.
    Bundle,
    /// A message that is not bundled, or a fragment of it.
    Whole,
    /// A placement: bytes for one of the peer's regions.
    Placed,
    /// A goodbye.
    Goodbye,
    /// A report of messages for processors that are not here; `offset` is how many beyond the first.
    Return,
}

/// A packet that has been sent and not yet acknowledged. Never holds bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Record {
    /// When it was last sent, ns.
    pub(crate) sent_at: u64,
    pub(crate) source: SourceId,
    pub(crate) offset: u32,
    /// Bytes at the source (record headers included).
    pub(crate) len: u16,
    pub(crate) resends: u8,
    pub(crate) form: Form,
    pub(crate) message: Seq,
    /// Processors.
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Record {
    pub(crate) const EMPTY: Self = Self {
        sent_at: 0,
        source: NONE,
        offset: 0,
        len: 0,
        resends: 0,
        form: Form::Goodbye,
        message: Seq(0),
        from: 0,
        to: 0,
    };
}

/// Something that waits to be sent for the first time, or the rest of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Queued {
    /// [`Form::Bundle`]: records back to back in a block, of one pair of processors; [`Form::Whole`];
    /// [`Form::Placed`]; [`Form::Goodbye`]; [`Form::Return`], before everything else.
    pub(crate) form: Form,
    pub(crate) source: SourceId,
    /// The rest is the source's range from here …
    pub(crate) at: u32,
    /// … to here.
    pub(crate) end: u32,
    /// Number of the first message that is left; the key of a region.
    pub(crate) message: Seq,
    /// Processors.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Credit offset of the rest ([`Peer::cost_queued`](crate::reliability::peer::Peer::cost_queued)); 0 if it takes no credit.
    pub(crate) cost: u64,
    /// Number and place of the message that may be appended (records only).
    pub(crate) next: Seq,
    pub(crate) cost_end: u64,
}

impl Queued {
    /// A packet with the next `len` bytes is its last.
    #[inline]
    pub(crate) fn is_ended_by(&self, len: u16) -> bool {
        self.at + u32::from(len) == self.end
    }

    /// It may go only as far as the peer's credit reaches. (A placement takes none: the peer that registered the region
    /// has its memory.)
    #[inline]
    pub(crate) fn takes_credit(&self) -> bool {
        matches!(self.form, Form::Bundle | Form::Whole)
    }
}

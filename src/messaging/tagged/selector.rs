//! Which messages a receive takes, by match bits.

use crate::reliability::Arriving;

/// Messages whose match bits have this one carry a [`MARK`].
pub const MARKED: u64 = 1 << 34;
/// These bits of such a message say something about it, and do not count for matching. Receives have zeros there.
pub const MARK: u64 = 0xfff << 20;

/// Match bits of messages of the protocol itself, where these go by a ring: as packets they have none. No others may have
/// them.
pub const PROTOCOL: u64 = Arriving::UNTAGGED;

/// The match bits that count.
#[inline(always)]
pub(super) fn matched(bits: u64) -> u64 {
    if bits & MARKED == 0 { bits } else { bits & !MARK }
}

/// Which messages a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Processor that sends; `None`: any.
    pub source: Option<u32>,
    /// Match bits …
    pub bits: u64,
    /// … of which these do not count.
    pub ignore: u64,
}

impl Selector {
    /// It takes this message.
    #[must_use]
    #[inline]
    pub fn matches(&self, source: u32, bits: u64) -> bool {
        self.source.is_none_or(|wanted| wanted == source) && (self.bits ^ bits) & !self.ignore == 0
    }
}

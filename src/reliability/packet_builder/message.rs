//! What a message takes of the header of its packets, beside what each packet has.

use crate::wire;

/// Bytes of match bits, immediate data, and the place of a fragment.
pub(in crate::reliability) const MATCH: usize = 8;
pub(in crate::reliability) const IMMEDIATE: usize = 8;
pub(in crate::reliability) const FRAGMENT: usize = 8;
/// Bytes of a placement.
pub(in crate::reliability) const PLACEMENT: usize = 16;

/// A packet as it is cut: bytes of payload, and bytes of its message's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reliability) struct Cut {
    pub(in crate::reliability) payload: usize,
    pub(in crate::reliability) extensions: usize,
}

impl Cut {
    /// Of the next `left` bytes of a message; `first`: bytes of extensions that only its first packet has, 0 if this is
    /// another one. `is_whole`: those are all of its bytes. `room`, `most`: bytes for extensions and payload, and of
    /// payload at most.
    #[inline(always)]
    pub(in crate::reliability) fn of_message(
        left: usize,
        first: usize,
        is_whole: bool,
        room: usize,
        most: usize,
    ) -> Self {
        let alone = (room - first).min(most);
        if is_whole && left <= alone {
            Self {
                payload: left,
                extensions: first,
            }
        } else {
            Self {
                payload: left.min(alone).min(room - first - FRAGMENT),
                extensions: first + FRAGMENT,
            }
        }
    }

    /// Of `payload` bytes that were sent before: the message's extensions if they are its `first` bytes, and whether they
    /// are all of it.
    pub(in crate::reliability) fn again(payload: usize, first: usize, is_whole: bool) -> Self {
        Self {
            payload,
            extensions: first + if is_whole { 0 } else { FRAGMENT },
        }
    }

    /// Of the next `left` bytes of a placement.
    #[inline(always)]
    pub(in crate::reliability) fn of_placement(left: usize, room: usize, most: usize) -> Self {
        Self {
            payload: left.min(most).min(room - PLACEMENT),
            extensions: PLACEMENT,
        }
    }

    /// Of one record that is a packet of its own.
    #[inline(always)]
    pub(in crate::reliability) fn of_record(record: &wire::Record<'_>) -> Self {
        Self {
            payload: record.data.len(),
            extensions: of_record(record.match_bits),
        }
    }

    /// Of a return that is about one message and `more`.
    pub(in crate::reliability) fn of_return(more: u32) -> Self {
        Self {
            payload: 0,
            extensions: IMMEDIATE * usize::from(more > 0),
        }
    }

    /// Of so many bytes without extensions.
    #[inline(always)]
    pub(in crate::reliability) fn plain(payload: usize) -> Self {
        Self { payload, extensions: 0 }
    }
}

/// Bytes of the extensions of a record that is a packet of its own.
#[inline(always)]
pub(in crate::reliability) fn of_record(match_bits: Option<u64>) -> usize {
    MATCH * usize::from(match_bits.is_some())
}

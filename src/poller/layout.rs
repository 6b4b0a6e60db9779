//! The memory that a process and its poller share: two rings, and an area for the large records of the process.

use crate::shm::{CONTROL, Place, Segment};

/// The layout of the shared memory, on which both sides must agree. The number increases when the layout changes.
pub(crate) const LAYOUT: u32 = 6;

/// The most ports of a poller, each with an address that its processes are told, and tell their peers: a launcher's store
/// has room for so many of a process (`MAX_ADDRESSES` of `bootstrap`).
pub(crate) const MOST_PORTS: usize = 6;

/// Bytes of the two rings and of the memory of a process, and the offsets in it.
pub(crate) const REPORTS: usize = 4 << 20;
const COMMANDS: usize = 1 << 20;
const PAGE: usize = 4_096;
/// The ring to the process.
pub(crate) const UP: Place = Place {
    control: 0,
    data: PAGE,
    size: REPORTS,
};
/// The ring to the poller.
pub(crate) const DOWN: Place = Place {
    control: CONTROL,
    data: PAGE + REPORTS,
    size: COMMANDS,
};
/// Offset and length of the area for the large records of the process. It holds two messages of the greatest length. It
/// only reserves addresses: a page takes memory when it is first used.
pub(crate) const AREA: usize = PAGE + REPORTS + COMMANDS;
pub(crate) const AREA_LEN: usize = if usize::BITS > 32 { 8 << 30 } else { 512 << 20 };
/// Bytes of the whole memory of a process.
pub(crate) const MEMORY: usize = AREA + AREA_LEN;

/// The longest record that lies in the ring itself.
pub(crate) const INLINE: usize = 4 << 10;

/// The kinds of records in the rings.
pub(crate) mod kind {
    /// The bytes are a record of the [protocol](super::super::protocol).
    pub(crate) const WHOLE: u32 = 1;
    /// Two numbers of 8 bytes, offset and length: a record of the protocol lies there, in the memory for such records.
    pub(crate) const AWAY: u32 = 2;
    /// Two numbers of 8 bytes. The first is the offset of a large record that the poller does not need any more; the
    /// second is ignored.
    pub(crate) const FREED: u32 = 3;
}

/// Reads the two numbers of a record of kind [`kind::AWAY`] or [`kind::FREED`].
#[inline]
pub(crate) fn numbers(memory: &Segment, at: usize, len: usize) -> Option<[usize; 2]> {
    if len < 16 {
        return None;
    }
    let number = |at| Some(u64::from_le(memory.number(at)?) as usize);
    Some([number(at)?, number(at + 8)?])
}

/// The bytes of two numbers.
#[inline]
pub(crate) fn numbered(first: usize, second: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(first as u64).to_le_bytes());
    bytes[8..].copy_from_slice(&(second as u64).to_le_bytes());
    bytes
}

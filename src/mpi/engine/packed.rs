#![expect(unsafe_code, reason = "elements lie where the caller's pointer and datatype say")]
//! Bytes of elements that are not one run, packed on their way out.

use alloc::{sync::Arc, vec::Vec};
use core::{
    mem::{self, MaybeUninit},
    slice,
};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::{
    mpi::datatype::Datatype,
    ring::{PIECE, Pieces},
    sync::{Pin, Pins},
};

/// Bytes packed at a time when data cannot be sent from where they lie.
pub(super) const PACK: usize = 64 << 10;
/// So many times that may be under way of one message: they stay in the cache.
pub(super) const UNDER_WAY: usize = 8;
/// Memory that is kept for further messages, in pieces of [`PACK`] bytes at most.
const KEPT: usize = 2 * UNDER_WAY;

/// Elements that are not one run. A ring has them packed piece by piece.
pub(crate) struct Packing<'a> {
    base: *const u8,
    count: u64,
    datatype: &'a Datatype,
    len: usize,
    piece: [MaybeUninit<u8>; PIECE],
}

impl<'a> Packing<'a> {
    /// `None` as of [`packed_len`].
    ///
    /// # Safety
    /// As long as this value exists, the data of the elements are initialised memory that may be read through `base` and is
    /// not written to.
    #[inline]
    pub(crate) unsafe fn new(base: *const u8, count: u64, datatype: &'a Datatype) -> Option<Self> {
        Some(Self {
            base,
            count,
            datatype,
            len: packed_len(count, datatype)?,
            piece: [MaybeUninit::uninit(); PIECE],
        })
    }
}

/// Bytes of elements that are not one run. `None`: they are one run, or none, or do not fit into the address space.
pub(super) fn packed_len(count: u64, datatype: &Datatype) -> Option<usize> {
    let has_gaps = !datatype.is_contiguous(count) && datatype.fits(count);
    datatype.packed_size(count).ok().filter(|_| has_gaps)?.try_into().ok()
}

impl Pieces for Packing<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn piece(&mut self, at: usize, len: usize) -> &[u8] {
        let room = &mut self.piece[..len];
        // SAFETY: by `new`'s contract the data may be read; the room is other memory. So much of it is initialised then.
        unsafe {
            let filled = self.datatype.pack_at(self.base, self.count, at as u64, room);
            slice::from_raw_parts(room.as_ptr().cast(), filled)
        }
    }
}

/// Memory for packed bytes, which is used again: fresh memory takes longer than the copy. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packs(Arc<Mutex<Vec<Vec<u8>>>>);

impl Packs {
    /// Bytes that `fill` appends. They count in `under_way` until all references are dropped.
    pub(super) fn fill(&self, under_way: &Pins, fill: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bytes = free.unwrap_or_default();
        fill(&mut bytes);
        Bytes::from_owner(Packed {
            bytes,
            packs: self.clone(),
            _pin: under_way.lend(),
        })
    }
}

struct Packed {
    bytes: Vec<u8>,
    packs: Packs,
    _pin: Pin,
}

impl AsRef<[u8]> for Packed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        let mut bytes = mem::take(&mut self.bytes);
        bytes.clear();
        let mut free = self.packs.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::datatype::Kind;
    use alloc::vec;

    #[test]
    fn memory_is_used_again_and_what_is_under_way_is_counted() {
        let (packs, under_way) = (Packs::default(), Pins::default());
        let filled = |byte| packs.fill(&under_way, |bytes| bytes.resize(100, byte));
        let (one, other) = (filled(1), filled(2));
        assert_eq!((&*one, &*other, under_way.count()), (&[1; 100][..], &[2; 100][..], 2));
        let at = one.as_ptr();
        let part = one.slice(10..20);
        drop(one);
        assert_eq!(under_way.count(), 2, "a part is still there");
        drop(part);
        assert_eq!(under_way.count(), 1);
        let third = filled(3);
        assert_eq!((third.as_ptr(), &*third), (at, &[3; 100][..]));
    }

    /// The pieces are the packed bytes, whatever their length.
    #[test]
    fn elements_are_packed_piece_by_piece() {
        let byte = Datatype::predefined(Kind::Byte);
        let strided = Datatype::vector(3_000, 3, 5, &byte).unwrap();
        let memory: Vec<u8> = (0..15_000_u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let wanted: Vec<u8> = memory.chunks(5).flat_map(|piece| piece[..3].to_vec()).collect();
        // SAFETY: the elements are within the vector, which stays.
        let mut packing = unsafe { Packing::new(memory.as_ptr(), 1, &strided) }.unwrap();
        assert_eq!(packing.len(), 9_000);
        for len in [1, 7, 1_000, PIECE] {
            let mut seen = vec![];
            while seen.len() < 9_000 {
                let next = len.min(9_000 - seen.len());
                let piece = packing.piece(seen.len(), next);
                assert_eq!(piece.len(), next);
                seen.extend_from_slice(piece);
            }
            assert_eq!(seen, wanted);
        }
        // SAFETY: as above.
        let plain = unsafe { Packing::new(memory.as_ptr(), 100, &byte) };
        assert!(plain.is_none(), "one run is not packed");
    }
}

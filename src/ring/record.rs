#![expect(
    unsafe_code,
    reason = "another process may write there meanwhile, so no reference is made, and each field is read once"
)]
//! A record of a ring as it lies in its line.

use core::mem;

/// Most bytes of a record in its line.
pub const ROOM: usize = 44;
/// The same in two lines, of which the second has bytes where the first has its record.
pub(crate) const TWO: usize = ROOM + size_of::<Record>();

/// A small message.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub(super) struct Record {
    /// Number of the message.
    pub(super) number: u32,
    /// Match bits.
    pub(super) bits: u64,
    /// The bytes; of a long record, the index of its first chunk.
    pub(super) data: [u8; ROOM],
    pub(super) len: u32,
}

const _: () = assert!(size_of::<Record>() + 4 == 64, "with its flag, a record is a cache line");

impl Record {
    /// A record without bytes.
    pub(super) const EMPTY: Self = Self {
        number: 0,
        bits: 0,
        data: [0; ROOM],
        len: 0,
    };
}

/// Number, match bits and length of a record, each read once: what another process writes meanwhile, against the rules,
/// does not change them.
///
/// # Safety
/// A record lies there, to which nothing in this process writes meanwhile.
#[inline(always)]
pub(super) unsafe fn head(record: *const Record) -> (u32, u64, u32) {
    // SAFETY: the fields are those of a record, whose words are aligned to four bytes.
    unsafe {
        let bits = (&raw const (*record).bits).cast::<u32>();
        let bits = [bits.read_volatile(), bits.add(1).read_volatile()];
        (
            (&raw const (*record).number).read_volatile(),
            mem::transmute::<[u32; 2], u64>(bits),
            (&raw const (*record).len).read_volatile(),
        )
    }
}

/// The length of a record, read once.
///
/// # Safety
/// As for [`head`].
#[inline(always)]
pub(super) unsafe fn len_of(record: *const Record) -> u32 {
    // SAFETY: as in `head`.
    unsafe { (&raw const (*record).len).read_volatile() }
}

/// The first chunk of a long record, read once.
///
/// # Safety
/// As for [`head`].
#[inline(always)]
pub(super) unsafe fn chunk_of(record: *const Record) -> u32 {
    // SAFETY: the bytes are those of the record, as words aligned to four bytes.
    unsafe { (&raw const (*record).data).cast::<u32>().read_volatile() }
}

/// Copies the first `len` bytes of a record, each read once.
///
/// # Safety
/// As for [`head`]. There are at most [`ROOM`] bytes, and so much room at `to`.
#[inline(always)]
pub(super) unsafe fn copy_data(record: *const Record, to: *mut u8, len: usize) {
    // SAFETY: the bytes are those of the record, as words aligned to four bytes: `ROOM` is a multiple of four.
    unsafe {
        let from = (&raw const (*record).data).cast::<u32>();
        if len == 8 {
            // (The most frequent length without a loop.)
            let words = [from.read_volatile(), from.add(1).read_volatile()];
            to.cast::<[u32; 2]>().write_unaligned(words);
            return;
        }
        copy_words(from, to, len);
    }
}

/// Copies `len` bytes from words, each read once.
///
/// # Safety
/// As for [`head`]: there are as many bytes in whole words, and there is as much room at `to`.
#[inline(always)]
pub(super) unsafe fn copy_words(from: *const u32, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        let word = |index: usize| from.add(index).read_volatile();
        let (whole, rest) = (len / 4, len % 4);
        for index in 0..whole {
            to.add(4 * index).cast::<u32>().write_unaligned(word(index));
        }
        if rest > 0 {
            to.add(4 * whole)
                .copy_from_nonoverlapping(word(whole).to_ne_bytes().as_ptr(), rest);
        }
    }
}

const _: () = assert!(ROOM.is_multiple_of(4) && mem::offset_of!(Record, data) % 4 == 0);

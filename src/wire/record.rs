//! Bundles: several small messages to one processor in one payload.
//!
//! A record is a 4-byte header (length u16, flags u16), match bits (8 bytes) if flag bit 0 is set, and the message.
//! Records follow each other without gaps; the i-th, counted from 0, is message number `message + i` of its pair of
//! processors.

use super::error::Error;

/// Bytes of a record's header without match bits.
pub const RECORD_LEN: usize = 4;
const HAS_MATCH: u16 = 1;

/// One message of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Match bits, if the message has them.
    pub match_bits: Option<u64>,
    /// The message.
    pub data: &'a [u8],
}

impl<'a> Record<'a> {
    /// Bytes that [`emit_header`](Self::emit_header) writes.
    #[must_use]
    #[inline]
    pub const fn header_len(match_bits: Option<u64>) -> usize {
        if match_bits.is_some() {
            RECORD_LEN + 8
        } else {
            RECORD_LEN
        }
    }

    /// Writes the header of a record with `len` bytes of data at the start of `buffer` and returns the length of the
    /// header.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`header_len`](Self::header_len).
    #[inline]
    pub fn emit_header(buffer: &mut [u8], match_bits: Option<u64>, len: u16) -> usize {
        buffer[..2].copy_from_slice(&len.to_be_bytes());
        buffer[2..4].copy_from_slice(&(if match_bits.is_some() { HAS_MATCH } else { 0 }).to_be_bytes());
        let Some(bits) = match_bits else {
            return RECORD_LEN;
        };
        buffer[4..12].copy_from_slice(&bits.to_be_bytes());
        RECORD_LEN + 8
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[must_use]
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a record is never empty")]
    pub const fn len(&self) -> usize {
        Self::header_len(self.match_bits) + self.data.len()
    }

    /// Writes the record at the start of `buffer` and returns its length.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`len`](Self::len), or the data is longer than 65,535 bytes.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let Ok(data_len) = u16::try_from(self.data.len()) else {
            panic!("a record of {} bytes", self.data.len());
        };
        let at = Self::emit_header(buffer, self.match_bits, data_len);
        let end = at + self.data.len();
        buffer[at..end].copy_from_slice(self.data);
        end
    }

    /// Splits the first record off `bytes` and returns it with the remaining bytes.
    ///
    /// # Errors
    /// [`Error::Bundle`] if `bytes` does not begin with a record.
    #[inline]
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Error> {
        let (header, len) = sizes(bytes).ok_or(Error::Bundle)?;
        let Some((record, rest)) = bytes.split_at_checked(header + len) else {
            return Err(Error::Bundle);
        };
        let bits = record.get(RECORD_LEN..header).and_then(<[u8]>::first_chunk);
        let match_bits = bits.map(|bits| u64::from_be_bytes(*bits));
        let data = &record[header..];
        Ok((Self { match_bits, data }, rest))
    }
}

/// Bytes of the header and of the data of the record at the beginning of `bytes`, as its first bytes say. `None`: they do
/// not begin a record.
#[inline(always)]
fn sizes(bytes: &[u8]) -> Option<(usize, usize)> {
    let word = u32::from_be_bytes(*bytes.first_chunk()?);
    let flags = word as u16;
    (flags <= HAS_MATCH).then_some((RECORD_LEN + 8 * usize::from(flags), (word >> 16) as usize))
}

/// The records of a bundle, front to back. The iterator ends at the first bytes that are not a record.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// Reads records from `bytes`.
    #[must_use]
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The number of records, and whether the data of each is at most `most` bytes long. `None`: `bytes` is not a
    /// bundle.
    #[must_use]
    #[inline]
    pub fn count(mut bytes: &'a [u8], most: usize) -> Option<(usize, bool)> {
        let (mut count, mut fit) = (0, true);
        while !bytes.is_empty() {
            let (header, len) = sizes(bytes)?;
            bytes = bytes.get(header + len..)?;
            fit &= len <= most;
            count += 1;
        }
        (count > 0).then_some((count, fit))
    }

    pub(super) fn check(mut bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Err(Error::Bundle);
        }
        while !bytes.is_empty() {
            let (header, len) = sizes(bytes).ok_or(Error::Bundle)?;
            bytes = bytes.get(header + len..).ok_or(Error::Bundle)?;
        }
        Ok(())
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let (record, rest) = Record::split(self.rest).ok()?;
        self.rest = rest;
        Some(record)
    }
}

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
        let Some((header, rest)) = bytes.split_first_chunk::<RECORD_LEN>() else {
            return Err(Error::Bundle);
        };
        let len = usize::from(u16::from_be_bytes([header[0], header[1]]));
        let (match_bits, rest) = match u16::from_be_bytes([header[2], header[3]]) {
            0 => (None, rest),
            HAS_MATCH => {
                let Some((bits, rest)) = rest.split_first_chunk::<8>() else {
                    return Err(Error::Bundle);
                };
                (Some(u64::from_be_bytes(*bits)), rest)
            }
            _ => return Err(Error::Bundle),
        };
        let Some((data, rest)) = rest.split_at_checked(len) else {
            return Err(Error::Bundle);
        };
        Ok((Self { match_bits, data }, rest))
    }
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
            let (record, rest) = Record::split(bytes).ok()?;
            fit &= record.data.len() <= most;
            count += 1;
            bytes = rest;
        }
        (count > 0).then_some((count, fit))
    }

    pub(super) fn check(mut bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Err(Error::Bundle);
        }
        while !bytes.is_empty() {
            bytes = Record::split(bytes)?.1;
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

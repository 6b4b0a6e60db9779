//! CRC-32C (Castagnoli) over a whole datagram, with its own field taken as zero.
//!
//! It covers every byte from the first of the base header to the last of the payload, including the extensions and the
//! reserved bytes; the 4 bytes of the checksum itself count as zero. It does not cover addresses and ports: the header
//! of a packet names its source and its destination.
//!
//! The parameters are those of iSCSI (RFC 3720): reflected polynomial `0x82f63b78`, register preset to ones, result
//! inverted; "123456789" gives `0xe3069283`.

use super::Packet;

/// A running CRC-32C. Updates with several pieces, one after the other, give the CRC of the whole.
///
/// ```
/// use hikyaku::wire::checksum::Crc32c;
///
/// assert_eq!(Crc32c::new().update(b"12345").update(b"6789").finish(), 0xe306_9283);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(u32);

impl Crc32c {
    /// The CRC of no bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds more bytes.
    #[must_use]
    #[inline]
    pub fn update(self, bytes: &[u8]) -> Self {
        Self(append(self.0, bytes))
    }

    /// The value.
    #[must_use]
    pub const fn finish(self) -> u32 {
        self.0
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

/// Uses the CRC instruction of the processor, which is detected at run time.
#[cfg(feature = "std")]
#[inline]
fn append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

#[cfg(not(feature = "std"))]
use append_by_table as append;

/// Processes 16 bytes per step, with tables of 16 KiB.
#[cfg(any(test, not(feature = "std")))]
fn append_by_table(crc: u32, bytes: &[u8]) -> u32 {
    static TABLES: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISCSI);
    // The initial register of the digest is neither reflected nor inverted.
    let mut digest = TABLES.digest_with_initial((!crc).reverse_bits());
    digest.update(bytes);
    digest.finalize()
}

/// Computes the checksum of a datagram in several pieces: `header`, which holds the 4 bytes of the checksum at `at`,
/// and then the pieces of `rest`.
///
/// # Panics
/// If `header` ends before the field does.
#[must_use]
pub fn compute<'a>(header: &[u8], at: usize, rest: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let crc = Crc32c::new()
        .update(&header[..at])
        .update(&[0; 4])
        .update(&header[at + 4..]);
    rest.into_iter().fold(crc, Crc32c::update).finish()
}

/// Writes the checksum of a datagram in several pieces into its header: for a sender that uses a gather list. `at` is
/// [`Builder::checksum_offset`](super::Builder::checksum_offset).
///
/// # Panics
/// If `header` ends before the field does.
pub fn fill_gathered<'a>(header: &mut [u8], at: usize, rest: impl IntoIterator<Item = &'a [u8]>) {
    let crc = compute(header, at, rest);
    header[at..at + 4].copy_from_slice(&crc.to_be_bytes());
}

/// Writes the checksum into a finished datagram, if its header has room for one.
///
/// A caller that has just built the header knows the offset of the field and can avoid the search with
/// [`fill_gathered`].
///
/// # Panics
/// If `datagram` is not a packet.
pub fn fill(datagram: &mut [u8]) {
    let at = match Packet::new_checked(&*datagram) {
        Ok(packet) => packet.checksum_offset(),
        Err(error) => panic!("no packet to put a checksum into: {error}"),
    };
    if let Some(at) = at {
        fill_gathered(datagram, at, []);
    }
}

/// Whether the checksum of a packet is right; `true` for a packet without a checksum. `bytes` are the bytes of the
/// packet.
#[must_use]
pub fn verify<T: AsRef<[u8]>>(packet: &Packet<T>, bytes: &[u8]) -> bool {
    let (Some(expected), Some(at)) = (packet.checksum(), packet.checksum_offset()) else {
        return true;
    };
    compute(bytes, at, []) == expected
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes one bit at a time, as in the definition.
    fn append_by_bit(crc: u32, bytes: &[u8]) -> u32 {
        let mut crc = !crc;
        for &byte in bytes {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            }
        }
        !crc
    }

    /// RFC 3720, B.4.
    #[test]
    fn published_values() {
        let mut ascending = [0; 32];
        for (i, byte) in ascending.iter_mut().enumerate() {
            *byte = i as u8;
        }
        let mut descending = ascending;
        descending.reverse();
        for (bytes, crc) in [
            (&[][..], 0),
            (b"123456789", 0xe306_9283),
            (&[0; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
            (&descending, 0x113f_db5c),
        ] {
            assert_eq!(Crc32c::new().update(bytes).finish(), crc);
            assert_eq!(append_by_table(0, bytes), crc);
            assert_eq!(append_by_bit(0, bytes), crc);
        }
    }

    #[test]
    fn implementations_agree_however_the_bytes_are_cut() {
        let mut bytes = [0; 600];
        let mut state = 1u32;
        for byte in &mut bytes {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (state >> 24) as u8;
        }
        for len in 0..bytes.len() {
            let bytes = &bytes[..len];
            let (head, tail) = bytes.split_at(len * 3 / 7);
            let expected = append_by_bit(0, bytes);
            assert_eq!(append(append(0, head), tail), expected, "{len}");
            assert_eq!(append_by_table(append_by_table(0, head), tail), expected, "{len}");
        }
    }
}

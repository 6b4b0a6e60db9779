//! CRC-32C (Castagnoli) over a whole datagram, its own field taken as zero.

use super::Packet;

/// A running CRC-32C.
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(u32);

impl Crc32c {
    /// Of nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(!0)
    }

    /// Takes in more octets.
    #[must_use]
    pub fn update(self, octets: &[u8]) -> Self {
        let mut crc = self.0;
        for octet in octets {
            crc = TABLE[usize::from(crc as u8 ^ octet)] ^ crc >> 8;
        }
        Self(crc)
    }

    /// The value.
    #[must_use]
    pub const fn finish(self) -> u32 {
        !self.0
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// Whether the checksum of a packet that has one is right; `true` for one that has none.
#[must_use]
pub fn verify<T: AsRef<[u8]>>(packet: &Packet<T>, octets: &[u8]) -> bool {
    let (Some(expected), Some(at)) = (packet.checksum(), packet.checksum_offset()) else {
        return true;
    };
    let crc = Crc32c::new()
        .update(&octets[..at])
        .update(&[0; 4])
        .update(&octets[at + 4..]);
    crc.finish() == expected
}

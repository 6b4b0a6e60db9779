//! What every packet to a peer carries, and how many bytes of its header that takes.

use bitflags::bitflags;

use crate::{
    config::Config,
    reliability::sealing::Sealing,
    wire::{BASE_LEN, CHECKSUM_LEN, OPEN_LEN},
};

bitflags! {
    /// What every packet to a peer carries beside its message.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in crate::reliability) struct Format: u8 {
        /// Our opening: the peer has not used our token yet.
        const OPENING = 1 << 0;
        /// A checksum.
        const CHECKSUM = 1 << 1;
        /// A timestamp.
        const TIMESTAMP = 1 << 2;
        /// A seal.
        const SEAL = 1 << 3;
    }
}

/// [`Format::overhead`] of each.
const OVERHEAD: [u8; Format::all().bits() as usize + 1] = {
    let mut all = [0; Format::all().bits() as usize + 1];
    let mut bits = 0;
    while bits < all.len() {
        let format = Format::from_bits_retain(bits as u8);
        let mut len = BASE_LEN;
        if format.contains(Format::TIMESTAMP) {
            len += 8;
        }
        if format.contains(Format::SEAL) {
            len += Sealing::LEN;
        }
        if format.has_checksum() {
            // An opening has a checksum always: so packets never grow when it is found that all are to have one.
            len += CHECKSUM_LEN;
        }
        if format.contains(Format::OPENING) {
            len += OPEN_LEN;
        }
        all[bits] = len as u8;
        bits += 1;
    }
    all
};

impl Format {
    /// Of the first packets to any peer. A seal makes checksums useless.
    pub(in crate::reliability) fn first(config: &Config, sealed: bool) -> Self {
        let mut format = Self::OPENING;
        format.set(Self::CHECKSUM, config.checksum && !sealed);
        format.set(Self::SEAL, sealed);
        format.set(Self::TIMESTAMP, config.timestamps);
        format
    }

    /// Bytes of a header that do not depend on the message.
    #[inline(always)]
    pub(in crate::reliability) fn overhead(self) -> usize {
        OVERHEAD[usize::from((self & Self::all()).bits())].into()
    }

    /// Packets have no extensions but those of their message and a timestamp.
    #[inline(always)]
    pub(in crate::reliability) fn is_plain(self) -> bool {
        !self.intersects(Self::OPENING.union(Self::CHECKSUM).union(Self::SEAL))
    }

    /// The peer wants checksums, which sealed packets do not have.
    pub(in crate::reliability) fn want_checksums(&mut self) {
        if !self.contains(Self::SEAL) {
            self.insert(Self::CHECKSUM);
        }
    }

    /// A packet that has changed on its way is noticed.
    #[inline]
    pub(in crate::reliability) fn is_verified(self) -> bool {
        self.intersects(Self::CHECKSUM.union(Self::SEAL))
    }

    /// Data and acknowledgements have a checksum.
    #[inline(always)]
    pub(in crate::reliability) const fn has_checksum(self) -> bool {
        !self.contains(Self::SEAL) && self.intersects(Self::OPENING.union(Self::CHECKSUM))
    }

    /// Packets have seals.
    pub(in crate::reliability) fn is_sealed(self) -> bool {
        self.contains(Self::SEAL)
    }
}

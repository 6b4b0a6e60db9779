//! The packet builder: the space of a packet, and what takes it.

use bitflags::bitflags;

use crate::{
    config::Config,
    wire::{BASE_LEN, CHECKSUM_LEN, OPEN_LEN},
};

bitflags! {
    /// What every packet to a peer carries beside its message.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Format: u8 {
        /// Our opening: the peer has not used our token yet.
        const OPENING = 1 << 0;
        /// A checksum.
        const CHECKSUM = 1 << 1;
        /// A timestamp.
        const TIMESTAMP = 1 << 2;
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
        // An opening has a checksum always: so packets never grow when it is found that all are to have one.
        if format.intersects(Format::OPENING.union(Format::CHECKSUM)) {
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
    /// Of the first packets to any peer.
    pub(super) fn first(config: &Config) -> Self {
        let mut format = Self::OPENING;
        format.set(Self::CHECKSUM, config.checksum);
        format.set(Self::TIMESTAMP, config.timestamps);
        format
    }

    /// Bytes of a header that do not depend on the message.
    #[inline(always)]
    pub(super) fn overhead(self) -> usize {
        OVERHEAD[usize::from((self & Self::all()).bits())].into()
    }

    /// Packets have no extensions but those of their message and a timestamp.
    #[inline(always)]
    pub(super) fn is_plain(self) -> bool {
        !self.intersects(Self::OPENING.union(Self::CHECKSUM))
    }
}

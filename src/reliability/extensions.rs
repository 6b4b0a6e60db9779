//! The extensions that any packet may have: opening, credit, timestamp, checksum.

use super::Limits;
use crate::{
    config::Config,
    wire::{Builder, Credit, Features, Open, Timestamp, Token},
};

/// Writes the extensions that any packet may have; gives the offset of the checksum, which every opening has.
#[inline(always)]
pub(super) fn finish_extensions(
    header: &mut Builder<'_>,
    stamp: Option<Timestamp>,
    credit: Option<Credit>,
    checksum: bool,
    open: Option<&Open>,
) -> Option<usize> {
    if let Some(stamp) = stamp {
        header.timestamp(stamp);
    }
    if let Some(credit) = credit {
        header.credit(credit);
    }
    if checksum || open.is_some() {
        header.checksum();
    }
    let at = header.checksum_offset();
    if let Some(open) = open {
        header.open(open);
    }
    at
}

/// What an opening says of us.
pub(super) fn open_of(config: &Config, limits: &Limits, epoch: u64, token: Token, window: u32) -> Open {
    Open {
        epoch,
        token,
        features: if config.checksum {
            Features::SETTLE.union(Features::CHECKSUM)
        } else {
            Features::SETTLE
        },
        credit: Credit {
            limit: config.unexpected_bytes,
            window,
        },
        ack_delay: u32::try_from(config.ack_delay.as_nanos()).unwrap_or(u32::MAX),
        max_datagram: config
            .max_datagram
            .min(u16::try_from(limits.max_datagram).unwrap_or(u16::MAX)),
        port: limits.receive_port,
    }
}

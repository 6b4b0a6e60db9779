//! The extensions that any packet may have: opening, credit, timestamp, checksum.

use crate::{
    config::Config,
    reliability::Limits,
    wire::{Builder, Credit, Features, Open, Timestamp, Token},
};

/// Writes the extensions that any packet may have.
#[inline(always)]
pub(in crate::reliability) fn finish_extensions(
    header: &mut Builder<'_>,
    stamp: Option<Timestamp>,
    credit: Option<Credit>,
    checksum: bool,
    open: Option<&Open>,
) {
    if let Some(stamp) = stamp {
        header.timestamp(stamp);
    }
    if let Some(credit) = credit {
        header.credit(credit);
    }
    if checksum {
        header.checksum();
    }
    if let Some(open) = open {
        header.open(open);
    }
}

/// What an opening says of us.
pub(in crate::reliability) fn open_of(
    config: &Config,
    limits: &Limits,
    epoch: u64,
    token: Token,
    window: u32,
    sealed: bool,
) -> Open {
    let mut features = Features::SETTLE.union(Features::RAILS);
    features.set(Features::CHECKSUM, config.checksum);
    features.set(Features::SEALED, sealed);
    Open {
        epoch,
        token,
        features,
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

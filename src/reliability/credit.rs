//! What messages cost of the credit that their receiver gives.

use crate::wire::{Flags, Packet};

/// Bytes that may be sent to a peer before its own limit is known.
pub(crate) const INITIAL_CREDIT: u32 = 64 << 10;
/// The credit that a message takes beside its bytes: the receiver has to keep a record of it.
pub(crate) const MESSAGE_COST: u32 = 64;

/// The credit that a data packet takes: the bytes of its messages, and a fixed amount for each message that begins in
/// it.
#[inline(always)]
pub(super) fn cost_of(packet: &Packet<&[u8]>, flags: Flags) -> u32 {
    if flags.contains(Flags::PLACEMENT) {
        return 0;
    }
    if flags.contains(Flags::BUNDLE) {
        return packet
            .records()
            .map(|record| record.data.len() as u32 + MESSAGE_COST)
            .sum();
    }
    let len = packet.payload().len() as u32;
    match packet.fragment() {
        Some(fragment) if fragment.offset > 0 => len,
        _ => len + MESSAGE_COST,
    }
}

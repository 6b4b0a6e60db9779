//! Sealing: where encryption and authentication stand. The protocol gives numbers and places; what a seal is made of is
//! the caller's.

use alloc::boxed::Box;
use core::fmt;

use crate::{
    error::DropReason,
    wire::{SEAL_LEN, Seal, seal},
};

/// Names one transmission: no two have the same name, be they of one packet that is sent again, or of two endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transmission {
    /// The incarnation of the sender ([`Open::epoch`](crate::wire::Open::epoch)), which each draws at random.
    pub epoch: u64,
    /// Counts the sender's transmissions, from 0.
    pub number: u64,
}

/// The seal does not belong to the packet: the key is another one, or a byte has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Forged;

impl fmt::Display for Forged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the seal of the packet is not right")
    }
}

crate::debug_as_display!(Forged);

impl core::error::Error for Forged {}

/// Encrypts and authenticates packets, as an AEAD (RFC 5116) does: see [`Endpoint::with_sealer`]. A key for each sender is
/// derived from the secret of all and [`Transmission::epoch`]; the nonce is [`Transmission::number`].
///
/// [`Endpoint::with_sealer`]: super::Endpoint::with_sealer
pub trait Sealer: fmt::Debug + Send + Sync {
    /// Encrypts `payload` in place, and returns the tag over it and over `header`, which stays as it is. Never called
    /// twice with one `transmission`.
    fn seal(&mut self, transmission: Transmission, header: &[u8], payload: &mut [u8]) -> [u8; 16];

    /// The reverse: verifies `tag`, and decrypts `payload` in place. `transmission` is what the packet claims.
    ///
    /// # Errors
    /// The tag is not right. Nothing of `payload` is used then.
    fn open(
        &mut self,
        transmission: Transmission,
        header: &[u8],
        payload: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), Forged>;
}

/// A sealer, and the number of its next transmission.
#[derive(Debug)]
pub(super) struct Sealing {
    sealer: Box<dyn Sealer>,
    next: Transmission,
}

impl Sealing {
    /// Bytes that a seal takes of a packet.
    pub(super) const LEN: usize = SEAL_LEN;

    /// `epoch`: of this incarnation.
    pub(super) fn new(sealer: Box<dyn Sealer>, epoch: u64) -> Self {
        Self {
            sealer,
            next: Transmission { epoch, number: 0 },
        }
    }

    /// Seals a packet: a finished header of `header_len` bytes, room for the seal, and the payload.
    pub(super) fn close(&mut self, packet: &mut [u8], header_len: usize) {
        let transmission = self.next;
        self.next.number += 1;
        seal::attach(packet, header_len, transmission.number);
        if let Some(parts) = seal::parts(packet, header_len) {
            *parts.tag = self.sealer.seal(transmission, parts.header, parts.payload);
        }
    }

    /// Opens a packet of a sender's incarnation and returns it as it was before it was sealed.
    pub(super) fn open<'a>(
        &mut self,
        packet: &'a mut [u8],
        at: usize,
        sealed: &Seal,
        epoch: u64,
    ) -> Result<&'a mut [u8], DropReason> {
        let transmission = Transmission {
            epoch,
            number: sealed.number,
        };
        let parts = seal::parts(packet, at).ok_or(DropReason::Malformed)?;
        let opened = self.sealer.open(transmission, parts.header, parts.payload, &sealed.tag);
        opened.map_err(|Forged| DropReason::Forged)?;
        Ok(seal::detach(packet, at))
    }
}

/// States of endpoints are compared and copied in tests without seals.
#[cfg(test)]
impl Clone for Sealing {
    fn clone(&self) -> Self {
        unreachable!("the copy of a sealer would use its numbers again")
    }
}

#[cfg(test)]
impl PartialEq for Sealing {
    fn eq(&self, other: &Self) -> bool {
        self.next == other.next
    }
}

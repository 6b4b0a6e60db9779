//! Datagrams that the network has refused, kept until the driver asks.

use std::{collections::VecDeque, net::SocketAddr};

use super::Unreachable;

/// Most refusals that wait; further ones are forgotten (a resend is refused again).
const MAX_WAITING: usize = 64;
/// Bytes kept of a quoted datagram: the largest header of a packet that opens a session fits.
pub(super) const QUOTE: usize = 256;

#[derive(Clone, Copy)]
struct Refusal {
    address: SocketAddr,
    len: usize,
    bytes: [u8; QUOTE],
}

/// The refusals that [`Backend::poll_unreachable`](super::Backend::poll_unreachable) returns.
#[derive(Default)]
pub(crate) struct Refusals {
    waiting: VecDeque<Refusal>,
    /// The refusal that was returned last.
    given: Option<Refusal>,
}

impl Refusals {
    /// Keeps the beginning of the datagram in `slices`, which went to `address`.
    pub(crate) fn push<'a>(&mut self, address: SocketAddr, slices: impl IntoIterator<Item = &'a [u8]>) {
        if self.waiting.len() == MAX_WAITING {
            return;
        }
        let mut refusal = Refusal {
            address,
            len: 0,
            bytes: [0; QUOTE],
        };
        for slice in slices {
            let room = &mut refusal.bytes[refusal.len..];
            let len = room.len().min(slice.len());
            room[..len].copy_from_slice(&slice[..len]);
            refusal.len += len;
        }
        self.waiting.push_back(refusal);
    }

    #[cfg(all(any(feature = "poller", feature = "shm"), target_os = "linux"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn pop(&mut self) -> Option<Unreachable<'_>> {
        self.given = self.waiting.pop_front();
        self.given.as_ref().map(|refusal| Unreachable {
            address: refusal.address,
            quoted: &refusal.bytes[..refusal.len],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_kept_in_order_and_not_without_end() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut refusals = Refusals::default();
        let long = [7; QUOTE];
        refusals.push(address(1), [&b"ab"[..], b"", &long[..]]);
        for port in 2..100 {
            refusals.push(address(port), []);
        }
        let first = refusals.pop().unwrap();
        assert_eq!((first.address, first.quoted.len()), (address(1), QUOTE));
        assert_eq!(first.quoted[..3], *b"ab\x07");
        for port in 2..=MAX_WAITING as u16 {
            let next = refusals.pop().unwrap();
            assert_eq!((next.address, next.quoted), (address(port), &b""[..]));
        }
        assert_eq!(refusals.pop(), None);
    }
}

//! Datagrams that the network has refused, kept until the driver asks.

use std::{collections::VecDeque, net::SocketAddr};

use super::{Notice, Unreachable};

/// Most refusals that wait; further ones are forgotten (a resend is refused again).
const MAX_WAITING: usize = 64;
/// Bytes kept of a quoted datagram: the largest header of a packet that opens a session fits.
pub(super) const QUOTE: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Refusal {
    address: SocketAddr,
    len: usize,
    bytes: [u8; QUOTE],
}

/// The refusals that [`Backend::poll_notices`](super::Backend::poll_notices) reports.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    waiting: VecDeque<Refusal>,
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

    /// Reports all that wait, and forgets them.
    pub(crate) fn report(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        for refusal in self.waiting.drain(..) {
            each(Notice::Unreachable(Unreachable {
                address: refusal.address,
                quoted: &refusal.bytes[..refusal.len],
            }));
        }
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
        let mut reported = Vec::new();
        let mut report = |refusals: &mut Refusals| {
            refusals.report(&mut |notice| {
                if let Notice::Unreachable(Unreachable { address, quoted }) = notice {
                    reported.push((address, quoted.to_vec()));
                }
            });
        };
        report(&mut refusals);
        report(&mut refusals);
        let (first, quoted) = &reported[0];
        assert_eq!((*first, quoted.len()), (address(1), QUOTE));
        assert_eq!(quoted[..3], *b"ab\x07");
        let others: Vec<_> = (2..=MAX_WAITING as u16)
            .map(|port| (address(port), Vec::new()))
            .collect();
        assert_eq!(reported[1..], others);
    }
}

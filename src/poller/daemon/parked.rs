//! Bursts of a process that wait for room in their ports, while what goes by other ports goes on.

use std::{io, mem};

use super::net::Net;
use crate::{poller::protocol::ProxyServer, reliability::Burst, span::Span, time::Instant};

/// A burst that waits.
#[derive(Default)]
struct Waiting {
    burst: Burst,
    /// Its bytes: its sources may be acknowledged and gone before it is tried again.
    bytes: Vec<u8>,
}

/// The bursts that wait, in their order.
#[derive(Default)]
pub(super) struct Parked {
    waiting: Vec<Waiting>,
    /// Nothing more is sent before these: there is one port, or two wait for the same one.
    pub(super) is_blocked: bool,
    /// What has waited, to be used again.
    spare: Vec<Waiting>,
}

impl Parked {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The burst waits for room in its port.
    #[cold]
    pub(super) fn push(&mut self, burst: &mut Burst, host: &mut ProxyServer, net: &Net) {
        let port = burst.port();
        let is_full = self.waiting.iter().any(|waiting| waiting.burst.port() == port);
        if is_full && burst.sources().next().is_none() {
            // A question, or an answer, by a port that is full already: it will be repeated, and nothing waits for it.
            return;
        }
        let mut waiting = self.spare.pop().unwrap_or_default();
        waiting.bytes.clear();
        host.gather(burst, |span| span.append_to(&mut waiting.bytes));
        mem::swap(&mut waiting.burst, burst);
        self.waiting.push(waiting);
        self.is_blocked = is_full || net.count() == 1;
        if net.count() > 1 {
            host.hold_port(port, true);
        }
    }

    /// Sends what waits, as far as there is room. Gives whether there was any.
    #[cold]
    pub(super) fn transmit(&mut self, now: Instant, net: &mut Net, host: &mut ProxyServer) -> io::Result<bool> {
        let (mut full, mut sent, mut twice, mut index) = (0_u32, 0_u32, false, 0);
        while let Some(Waiting { burst, bytes }) = self.waiting.get(index) {
            // (Only a port that there is has been full.)
            let port = 1 << burst.port();
            let is_next = full & port == 0;
            if is_next && net.transmit(now, burst, |each| each(Span::new(bytes)))? {
                sent |= port;
                self.spare.push(self.waiting.remove(index));
            } else {
                twice |= !is_next;
                full |= port;
                index += 1;
            }
        }
        self.is_blocked = twice || full != 0 && net.count() == 1;
        if net.count() > 1 {
            let free = (0..net.count()).filter(|port| sent & !full & 1 << port != 0);
            free.for_each(|port| host.hold_port(port, false));
        }
        Ok(sent != 0)
    }
}

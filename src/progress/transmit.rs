//! Bursts on their way from the messenger to the backend.

use std::{
    io::{self, IoSlice},
    mem,
};

use super::{Driver, parked::Parked};
use crate::{
    backends::{Sent, Transmit},
    messaging::SendOptions,
    reliability::{Burst, Limits, PeerId},
    time::Instant,
};

/// Slices that suffice for most bursts: header and payload of a few datagrams.
const FEW_SLICES: usize = 8;
/// Slices that suffice for a full batch: header and payload of each datagram.
const MANY_SLICES: usize = 128;

impl Driver {
    /// Transmits a message at once if it is small and no other waits before it. Returns `false` if nothing was done.
    #[inline]
    pub(super) fn send_inline(&mut self, peer: PeerId, options: &SendOptions, data: &[u8]) -> bool {
        if self.held {
            return false;
        }
        let now = self.read_clock();
        let Some(inline) = self.messenger.begin_inline(now, peer, options, data, &mut self.burst) else {
            return false;
        };
        let sent = if self.capabilities.holds_references {
            self.messenger.finish_inline(&inline, data, &mut self.burst);
            self.transmit_burst(now)
        } else {
            let sent = self.transmit_lent(now, data);
            self.messenger.finish_inline(&inline, data, &mut self.burst);
            sent
        };
        match sent {
            Ok(sent) => _ = self.note_sent(sent),
            Err(error) => self.failure = Some(error),
        }
        true
    }

    /// Transmits a burst whose payload is `data`, if the burst itself does not hold it.
    #[inline]
    fn transmit_lent(&mut self, now: Instant, data: &[u8]) -> io::Result<Sent> {
        let head = self.burst.head();
        let slices = [IoSlice::new(head), IoSlice::new(data)];
        let count = 1 + usize::from(head.len() < self.burst.len());
        self.backend.transmit(now, &transmit_of(&self.burst, &slices[..count]))
    }

    /// Transmits until there is nothing more to transmit, or the backend is busy.
    #[inline]
    pub(super) fn transmit(&mut self, now: Instant) -> io::Result<()> {
        if self.prepares {
            self.prepare(now)?;
        }
        while self.transmit_next(now)? {}
        Ok(())
    }

    /// Transmits the next burst. Returns `false` if there is none, or if the backend is busy.
    #[inline]
    pub(super) fn transmit_next(&mut self, now: Instant) -> io::Result<bool> {
        let sent = if self.held {
            self.transmit_held(now)?
        } else if self.messenger.poll_transmit(now, &mut self.burst) {
            self.transmit_burst(now)?
        } else {
            return Ok(false);
        };
        Ok(self.note_sent(sent))
    }

    /// Notes what happened to the burst. Returns `false` if the burst waits for room in the backend.
    #[inline]
    fn note_sent(&mut self, sent: Sent) -> bool {
        if sent == Sent::Busy {
            return self.park_or_hold();
        }
        self.held = false;
        if sent == Sent::Dropped {
            self.dropped();
        }
        true
    }

    /// The burst waits for room: beside others that go by other ports, or before all others. Returns whether others go on.
    #[cold]
    fn park_or_hold(&mut self) -> bool {
        let port = self.burst.port();
        let is_full = self.parked.iter().any(|parked| parked.port() == port);
        if is_full && !self.held && self.burst.sources().next().is_none() {
            // A question, or an answer, by a port that is full already: it will be repeated, and nothing waits for it.
            if self.capabilities.holds_references {
                self.messenger.handle_released(self.burst.token());
            }
            return true;
        }
        // (A link has one way, in whose order everything stays, whatever ports there are at its other end.)
        if self.held || is_full || self.capabilities.layered || self.backend.ports().len() < 2 {
            self.hold();
            return false;
        }
        let parked = if self.capabilities.holds_references {
            Parked::Referring(mem::take(&mut self.burst))
        } else {
            let mut bytes = Vec::with_capacity(self.burst.len());
            self.messenger.gather(&self.burst, |part| bytes.extend_from_slice(part));
            Parked::Copied {
                port,
                destination: self.burst.destination(),
                segment_size: self.burst.segment_size(),
                dont_fragment: self.burst.dont_fragment(),
                bytes,
            }
        };
        self.parked.push(parked);
        self.prepares = true;
        self.messenger.hold_port(port, true);
        true
    }

    #[cold]
    fn prepare(&mut self, now: Instant) -> io::Result<()> {
        if self.capabilities.holds_references {
            self.hear_notices(now);
        }
        for mut parked in mem::take(&mut self.parked) {
            match self.transmit_parked(now, &mut parked)? {
                Sent::Busy => self.parked.push(parked),
                sent => {
                    if let (Sent::Dropped, Parked::Referring(burst)) = (sent, &parked) {
                        self.messenger.handle_released(burst.token());
                    }
                    self.messenger.hold_port(parked.port(), false);
                }
            }
        }
        self.prepares = self.capabilities.holds_references || !self.parked.is_empty();
        Ok(())
    }

    fn transmit_parked(&mut self, now: Instant, parked: &mut Parked) -> io::Result<Sent> {
        match parked {
            Parked::Copied {
                port,
                destination,
                segment_size,
                dont_fragment,
                bytes,
            } => {
                let slices = [IoSlice::new(bytes)];
                let transmit = Transmit {
                    destination: *destination,
                    port: *port,
                    segment_size: *segment_size,
                    len: bytes.len(),
                    slices: &slices,
                    dont_fragment: *dont_fragment,
                    token: 0,
                };
                self.backend.transmit(now, &transmit)
            }
            Parked::Referring(burst) => {
                mem::swap(burst, &mut self.burst);
                let sent = self.transmit_burst(now);
                mem::swap(burst, &mut self.burst);
                sent
            }
        }
    }

    /// Tells the messenger which ports take smaller datagrams than others.
    pub(super) fn limit_ports(&mut self) {
        for (number, port) in (0..).zip(self.backend.ports()) {
            let most = port.capabilities().max_datagram;
            if most < self.capabilities.max_datagram {
                self.messenger.limit_port(number, most);
            }
        }
    }

    /// A burst waits for room in the backend.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        self.held || !self.parked.is_empty()
    }

    /// Keeps the burst for later.
    #[cold]
    fn hold(&mut self) {
        // (With a backend that holds references, the endpoint keeps the memory until the backend releases it.)
        if !self.held && !self.capabilities.holds_references {
            self.kept.clear();
            let kept = &mut self.kept;
            self.messenger
                .gather(&self.burst, |bytes| kept.extend_from_slice(bytes));
        }
        self.held = true;
    }

    #[cold]
    fn transmit_held(&mut self, now: Instant) -> io::Result<Sent> {
        if self.capabilities.holds_references {
            return self.transmit_burst(now);
        }
        let slices = [IoSlice::new(&self.kept)];
        self.backend.transmit(now, &transmit_of(&self.burst, &slices))
    }

    #[inline]
    fn transmit_burst(&mut self, now: Instant) -> io::Result<Sent> {
        let mut slices = [IoSlice::new(&[]); FEW_SLICES];
        let mut count = 0;
        self.messenger.gather(&self.burst, |bytes| {
            if let Some(slice) = slices.get_mut(count) {
                *slice = IoSlice::new(bytes);
            }
            count += 1;
        });
        match slices.get(..count) {
            Some(slices) => self.backend.transmit(now, &transmit_of(&self.burst, slices)),
            None => self.transmit_large(now),
        }
    }

    #[inline(never)]
    fn transmit_large(&mut self, now: Instant) -> io::Result<Sent> {
        let mut slices = [IoSlice::new(&[]); MANY_SLICES];
        let mut count = 0;
        self.messenger.gather(&self.burst, |bytes| {
            if let Some(slice) = slices.get_mut(count) {
                *slice = IoSlice::new(bytes);
            }
            count += 1;
        });
        if let Some(slices) = slices.get(..count) {
            return self.backend.transmit(now, &transmit_of(&self.burst, slices));
        }
        let mut slices = Vec::with_capacity(count);
        self.messenger
            .gather(&self.burst, |bytes| slices.push(IoSlice::new(bytes)));
        self.backend.transmit(now, &transmit_of(&self.burst, &slices))
    }

    /// Handles a burst that the backend dropped. The backend may have lost some of its abilities.
    #[cold]
    fn dropped(&mut self) {
        if self.capabilities.holds_references {
            self.messenger.handle_released(self.burst.token());
        }
        let capabilities = self.backend.capabilities();
        if capabilities != self.capabilities {
            self.capabilities = capabilities;
            self.messenger.set_limits(Limits::from(&capabilities));
            self.limit_ports();
        }
    }
}

#[inline]
fn transmit_of<'a>(burst: &Burst, slices: &'a [IoSlice<'a>]) -> Transmit<'a> {
    Transmit {
        destination: burst.destination(),
        port: burst.port(),
        segment_size: burst.segment_size(),
        len: burst.len(),
        slices,
        dont_fragment: burst.dont_fragment(),
        token: burst.token(),
    }
}

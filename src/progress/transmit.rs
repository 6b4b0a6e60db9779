//! Bursts on their way from the messenger to the backend.

use std::io::{self, IoSlice};

use super::Driver;
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
        if self.capabilities.holds_references {
            self.hear_notices(now);
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
            self.hold();
            return false;
        }
        self.held = false;
        if sent == Sent::Dropped {
            self.dropped();
        }
        true
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

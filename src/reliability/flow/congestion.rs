//! Congestion control: one trait, three controllers.

use core::fmt;

use crate::{
    config::{Config, Congestion},
    time::nanos,
};

/// The acknowledgement that a controller is informed of.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Bytes acknowledged now.
    pub bytes: u32,
    /// Bytes still in flight.
    pub in_flight: u32,
    /// The sender could have used more than it had (it ran out of window, not of data).
    pub limited: bool,
    /// A fresh round-trip time, ns; 0 if there is none.
    pub rtt: u32,
    /// The smallest round-trip time seen, ns.
    pub min_rtt: u32,
    /// Now, ns.
    pub now: u64,
}

/// Decides how many bytes of one flow may be in flight.
///
/// Windows count bytes of payload. The caller additionally obeys the peer's window and always lets one packet pass.
pub trait Controller: fmt::Debug + Send {
    /// Bytes that may be in flight now.
    fn window(&self) -> u32;
    /// Data was acknowledged.
    fn on_ack(&mut self, acked: &Acked);
    /// Packets were found lost; called once per round trip at most.
    fn on_loss(&mut self, now: u64);
    /// A time-out passed with nothing acknowledged, twice in a row.
    fn on_timeout(&mut self);
}

/// Always the same window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fixed {
    window: u32,
}

impl Controller for Fixed {
    #[inline]
    fn window(&self) -> u32 {
        self.window
    }
    #[inline]
    fn on_ack(&mut self, _: &Acked) {}
    fn on_loss(&mut self, _: u64) {}
    fn on_timeout(&mut self) {}
}

/// Additive increase by a datagram per round trip, halved on loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aimd {
    window: u32,
    max: u32,
    step: u32,
    slow_start: bool,
}

impl Controller for Aimd {
    #[inline]
    fn window(&self) -> u32 {
        self.window
    }

    fn on_ack(&mut self, acked: &Acked) {
        if !acked.limited {
            return;
        }
        let gain = if self.slow_start {
            acked.bytes
        } else {
            (u64::from(self.step) * u64::from(acked.bytes) / u64::from(self.window.max(1))).max(1) as u32
        };
        self.window = self.window.saturating_add(gain).min(self.max);
    }

    fn on_loss(&mut self, _: u64) {
        self.slow_start = false;
        self.window = (self.window / 2).max(2 * self.step);
    }

    fn on_timeout(&mut self) {
        self.slow_start = true;
        self.window = 2 * self.step;
    }
}

/// Processes that share a core answer late without any queue in the network: a window below this would only make them
/// wait for each other. A receiver bounds many senders by the window that it allows each.
const FLOOR: u32 = 128 << 10;

/// Keeps the round-trip time near a target beyond the smallest seen, in the manner of Swift (Kumar et al., SIGCOMM
/// 2020): additive increase below the target, decrease in proportion to the excess above it, at most once per round
/// trip. Lost packets are sent again without shrinking the window, for on a LAN random loss says nothing about
/// queues; queues show as delay, and overflow as time-out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    window: u32,
    max: u32,
    /// Increase per round trip is four of these, bytes.
    step: u32,
    /// The window never shrinks below this, bytes.
    floor: u32,
    target: u32,
    next_decrease: u64,
    losses: u8,
}

impl Controller for Delay {
    #[inline]
    fn window(&self) -> u32 {
        self.window
    }

    fn on_ack(&mut self, acked: &Acked) {
        let excess = acked.rtt.saturating_sub(acked.min_rtt);
        if excess <= self.target {
            self.losses = self.losses.saturating_sub(1);
            if acked.limited {
                let gain = u64::from(self.step) * 4 * u64::from(acked.bytes) / u64::from(self.window.max(1));
                self.window = self.window.saturating_add(gain.max(1) as u32).min(self.max);
            }
        } else if acked.now >= self.next_decrease {
            let cut = u64::from(self.window) * 4 / 10 * u64::from(excess - self.target) / u64::from(excess);
            self.window = self.window.saturating_sub(cut as u32).max(self.floor);
            self.next_decrease = acked.now + u64::from(acked.rtt);
        }
    }

    fn on_loss(&mut self, _: u64) {
        // Loss in nearly every round trip is congestion after all.
        self.losses = self.losses.saturating_add(2);
        if self.losses > 16 {
            self.losses = 8;
            self.window = (self.window / 4 * 3).max(self.floor);
        }
    }

    fn on_timeout(&mut self) {
        self.window = (self.window / 2).max(self.floor);
    }
}

/// The controller that the configuration names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AnyController {
    Fixed(Fixed),
    Aimd(Aimd),
    Delay(Delay),
}

impl AnyController {
    /// `step`: bytes of a full datagram.
    pub(crate) fn new(config: &Config, step: u32) -> Self {
        let max = config.window_bytes;
        match config.congestion {
            Congestion::Fixed => Self::Fixed(Fixed { window: max }),
            Congestion::Aimd => Self::Aimd(Aimd {
                window: max.min(16 * step),
                max,
                step,
                slow_start: true,
            }),
            Congestion::Delay => Self::Delay(Delay {
                window: max.min((512 << 10).max(4 * step)),
                max,
                step: step.max(max / 128),
                floor: max.min(FLOOR.max(2 * step)),
                target: u32::try_from(nanos(config.target_delay)).unwrap_or(u32::MAX),
                next_decrease: 0,
                losses: 0,
            }),
        }
    }
}

impl Controller for AnyController {
    #[inline]
    fn window(&self) -> u32 {
        match self {
            Self::Fixed(c) => c.window(),
            Self::Aimd(c) => c.window(),
            Self::Delay(c) => c.window(),
        }
    }

    #[inline]
    fn on_ack(&mut self, acked: &Acked) {
        match self {
            Self::Fixed(c) => c.on_ack(acked),
            Self::Aimd(c) => c.on_ack(acked),
            Self::Delay(c) => c.on_ack(acked),
        }
    }

    fn on_loss(&mut self, now: u64) {
        match self {
            Self::Fixed(c) => c.on_loss(now),
            Self::Aimd(c) => c.on_loss(now),
            Self::Delay(c) => c.on_loss(now),
        }
    }

    fn on_timeout(&mut self) {
        match self {
            Self::Fixed(c) => c.on_timeout(),
            Self::Aimd(c) => c.on_timeout(),
            Self::Delay(c) => c.on_timeout(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acked(rtt: u32, now: u64) -> Acked {
        Acked {
            bytes: 10_000,
            in_flight: 0,
            limited: true,
            rtt,
            min_rtt: 50_000,
            now,
        }
    }

    #[test]
    fn delay_grows_below_the_target_and_shrinks_above() {
        let config = Config::default();
        let mut c = AnyController::new(&config, 1_400);
        let start = c.window();
        c.on_ack(&acked(60_000, 0));
        assert!(c.window() > start);
        let grown = c.window();
        c.on_ack(&acked(5_000_000, 1));
        let cut = c.window();
        assert!(cut < grown);
        c.on_ack(&acked(5_000_000, 2));
        assert_eq!(c.window(), cut, "one decrease per round trip");
        c.on_loss(3);
        assert_eq!(c.window(), cut, "a single loss is no congestion");
    }

    #[test]
    fn aimd_halves_on_loss_and_starts_anew_after_time_out() {
        let config = Config {
            congestion: Congestion::Aimd,
            ..Config::default()
        };
        let mut c = AnyController::new(&config, 1_400);
        c.on_ack(&acked(60_000, 0));
        let grown = c.window();
        c.on_loss(1);
        assert_eq!(c.window(), grown / 2);
        c.on_timeout();
        assert_eq!(c.window(), 2_800);
    }
}

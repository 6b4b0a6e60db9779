//! How many bytes a receiver lets each of its senders have in flight.

use crate::{config::Config, reliability::Limits};

/// The window for each of `inbound` flows: a share of half the receive buffer (the kernel counts its own overhead too),
/// bytes.
pub(in crate::reliability) fn window_of(limits: &Limits, config: &Config, inbound: u32) -> u32 {
    let share = limits.receive_buffer / 2 / inbound.max(1) as usize;
    config
        .window_bytes
        .min(u32::try_from(share).unwrap_or(u32::MAX))
        .max(4 << 10)
}

/// Bytes after which an acknowledgement is due.
pub(in crate::reliability) fn ack_bytes_of(limits: &Limits, config: &Config) -> u32 {
    let most = u32::try_from(limits.ack_bytes).unwrap_or(u32::MAX);
    config.ack_bytes.min(window_of(limits, config, 1) / 4).min(most)
}

/// Counts the peers that have sent placements recently. The receiver has chosen how many it asks at a time, so these
/// share the receive buffer among themselves, and not with all peers that sent anything in the last second.
#[cfg_attr(test, derive(Clone, PartialEq))]
#[derive(Debug, Default)]
pub(crate) struct Placers {
    period: u64,
    now: u32,
    before: u32,
}

impl Placers {
    /// Periods are 2²⁰ ns, about a millisecond; they are numbered from 1 on.
    fn advance(&mut self, now: u64) {
        let period = (now >> 20) + 1;
        if period != self.period {
            self.before = if period == self.period + 1 { self.now } else { 0 };
            (self.period, self.now) = (period, 0);
        }
    }

    /// A peer or flow whose last period with placements is `last` has had none in this period.
    #[inline]
    pub(crate) fn is_first(&mut self, last: u64, now: u64) -> bool {
        self.advance(now);
        last != self.period
    }

    /// A peer whose last period with placements is `last` has sent one.
    pub(crate) fn note(&mut self, last: &mut u64, now: u64) {
        self.now += u32::from(self.is_first(*last, now));
        *last = self.period;
    }

    /// How many there are, if this peer, of which they came `last`, is one of them.
    #[inline]
    pub(crate) fn count(&mut self, last: u64, now: u64) -> Option<u32> {
        self.advance(now);
        (last != 0 && last + 1 >= self.period).then(|| self.now.max(self.before))
    }
}

#[cfg(test)]
mod tests {
    use super::Placers;

    #[test]
    fn those_that_place_of_late_are_counted() {
        const MS: u64 = 1 << 20;
        let (mut placers, mut last) = (Placers::default(), [0; 3]);
        assert_eq!(placers.count(0, 5), None, "who never placed anything does not share");
        for now in [0, 1, 7] {
            placers.note(&mut last[0], now);
        }
        placers.note(&mut last[1], 9);
        assert_eq!(placers.count(last[0], 10), Some(2));
        placers.note(&mut last[2], MS);
        assert_eq!(placers.count(last[2], MS), Some(2), "the period before counts");
        assert_eq!(placers.count(last[2], 2 * MS), Some(1));
        assert_eq!(placers.count(last[0], 2 * MS), None);
        placers.note(&mut last[0], 9 * MS);
        assert_eq!(placers.count(last[0], 9 * MS), Some(1));
    }
}

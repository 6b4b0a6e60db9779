//! How fast a rail carries bulk data.

/// A measurement ends after so many bytes if the rail does not fall silent before.
const ENOUGH: u64 = 256 << 10;
/// Fewer bytes show nothing: their time would be that of the way, not of the bytes.
pub(super) const LEAST: u64 = 8 << 10;
/// What is known of a rail halves with each 2^24 ns (17 ms) for which nothing was measured: a rail that was measured in a
/// bad moment is used less, is therefore measured less, and must come back all the same.
const HALVES: u32 = 24;

/// The time that a rail takes for a byte, measured while it has bulk data in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pace {
    /// When the first byte of a measurement could have been acknowledged, ns; 0: none is under way.
    since: u64,
    /// Bytes that the rail had delivered by then.
    delivered: u64,
    /// The estimate, ps a byte; 0: none.
    cost: u64,
    measured_at: u64,
}

impl Pace {
    /// The time of a byte when it was measured last, ps; 0: it was not.
    pub(super) fn measured(&self) -> u64 {
        self.cost
    }

    /// The time of a byte to reckon with now, ps; at least 1. `None`: it is not known.
    pub(super) fn cost(&self, now: u64) -> Option<u64> {
        Some(self.faded(now, self.cost)).filter(|&cost| cost > 0)
    }

    /// What is left of a time that is as old as the last measurement.
    pub(super) fn faded(&self, now: u64, time: u64) -> u64 {
        time >> (now.saturating_sub(self.measured_at) >> HALVES).min(63)
    }

    /// The rail works, since now.
    pub(super) fn rise(&mut self, now: u64) {
        self.measured_at = now;
    }

    /// A measurement is under way.
    pub(super) fn is_measuring(&self) -> bool {
        self.since != 0
    }

    /// Bulk data is sent on a rail that has sent `sent` bytes so far, with a round trip of at least `trip` ns.
    pub(super) fn begin(&mut self, now: u64, trip: u64, sent: u64) {
        if self.since == 0 {
            (self.since, self.delivered) = (now + trip, sent);
        }
    }

    /// The rail has delivered `delivered` bytes so far, and nothing is under way any more (`is_quiet`) or something is.
    /// Gives whether there is a new estimate.
    pub(super) fn note(&mut self, now: u64, delivered: u64, is_quiet: bool) -> bool {
        let bytes = delivered.saturating_sub(self.delivered);
        if !is_quiet && bytes < ENOUGH {
            return false;
        }
        // (None: the round trip was shorter than any before.)
        let nanos = now.checked_sub(self.since).filter(|&nanos| nanos > 0 && bytes >= LEAST);
        if let Some(nanos) = nanos {
            let cost = (nanos.saturating_mul(1_000) / bytes).max(1);
            self.cost = match self.cost(now) {
                Some(known) => known - known / 4 + cost.div_ceil(4),
                None => cost,
            };
            self.measured_at = now;
        }
        self.since = if is_quiet { 0 } else { now };
        self.delivered = delivered;
        nanos.is_some()
    }

    /// What is under way shows nothing of the rail's rate.
    pub(super) fn stop(&mut self) {
        self.since = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 Gbit/s: 8,000 ps a byte.
    #[test]
    fn a_burst_and_a_stream_show_the_same_rate() {
        let mut pace = Pace::default();
        assert_eq!(pace.cost(0), None);
        pace.begin(1_000, 50_000, 7);
        pace.note(1_000 + 50_000 + 400_000, 50_007, true);
        assert_eq!(pace.cost(500_000), Some(8_000));
        // A stream with 100,000 bytes in flight all the time.
        pace.begin(1_000_000, 50_000, 50_007);
        for bytes in (0..20).map(|n| n * 100_000) {
            pace.note(1_050_000 + 8 * bytes, 50_007 + bytes, false);
        }
        assert_eq!(pace.cost(18_000_000), Some(8_000));
        assert!(pace.is_measuring());
    }

    #[test]
    fn a_few_bytes_show_nothing_and_old_estimates_fade() {
        let mut pace = Pace::default();
        pace.begin(1, 10, 0);
        pace.note(1_000, LEAST - 1, true);
        assert_eq!((pace.cost(1_000), pace.is_measuring()), (None, false));
        pace.begin(1_000, 10, 0);
        pace.note(2_000, 1 << 20, true);
        let cost = pace.measured();
        for halvings in 0..64 {
            let left = Some(cost >> halvings).filter(|&cost| cost > 0);
            assert_eq!(pace.cost(2_000 + (halvings << HALVES)), left);
        }
    }
}

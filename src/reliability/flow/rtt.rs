//! Round-trip time and the retransmission time-out (RFC 6298, in nanoseconds).

/// Estimate of one flow. All times in ns, saturating at 2^32 − 1 (4.29 s); 0 means no sample yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rtt {
    pub(crate) smoothed: u32,
    pub(crate) variance: u32,
    pub(crate) min: u32,
}

impl Rtt {
    /// Takes in a sample.
    #[inline]
    pub(crate) fn sample(&mut self, nanos: u64) {
        let sample = u32::try_from(nanos).unwrap_or(u32::MAX).max(1);
        if self.smoothed == 0 {
            *self = Self {
                smoothed: sample,
                variance: sample / 2,
                min: sample,
            };
            return;
        }
        let deviation = self.smoothed.abs_diff(sample);
        self.variance = self.variance - self.variance / 4 + deviation / 4;
        self.smoothed = (self.smoothed - self.smoothed / 8 + sample / 8).max(1);
        self.min = self.min.min(sample);
    }

    /// Retransmission time-out before back-off: RFC 6298 (2.3), plus the time that the peer may hold an
    /// acknowledgement back.
    pub(crate) fn timeout(&self, initial: u64, min: u64, peer_ack_delay: u64) -> u64 {
        if self.smoothed == 0 {
            return initial;
        }
        let spread = (4 * u64::from(self.variance)).max(10_000);
        (u64::from(self.smoothed) + spread + peer_ack_delay).max(min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_rfc_6298() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(10, 1, 0), 10);
        rtt.sample(80_000);
        assert_eq!((rtt.smoothed, rtt.variance, rtt.min), (80_000, 40_000, 80_000));
        assert_eq!(rtt.timeout(10, 1, 5), 80_000 + 160_000 + 5);
        rtt.sample(40_000);
        assert_eq!((rtt.smoothed, rtt.variance, rtt.min), (75_000, 40_000, 40_000));
    }

    #[test]
    fn extreme_samples_saturate() {
        let mut rtt = Rtt::default();
        for _ in 0..100 {
            rtt.sample(u64::MAX);
        }
        assert!(rtt.timeout(0, 0, 0) < u64::from(u32::MAX) * 5);
    }
}

//! The search for the path MTU (RFC 8899): probes of growing size, acknowledged on their own.

/// Datagrams of this size pass nearly everywhere (RFC 8899, 5.1.2; RFC 9000, 14), bytes.
pub(in crate::reliability) const BASE_DATAGRAM: u16 = 1_200;
/// Probes of one size before it is taken for too large.
const TRIES: u8 = 3;
/// The search ends when the answer is known to this precision, bytes.
const PRECISION: u16 = 32;

/// A running search of one flow's path. Datagrams of `low` bytes are known to pass, those of more than `high` are not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Search {
    low: u16,
    high: u16,
    /// Size being tried; 0: no search runs.
    size: u16,
    /// Probes of this size that have been sent.
    tries: u8,
    /// Number of the last probe.
    number: u32,
    /// The probe of this size is to be sent.
    due: bool,
}

/// The action that follows an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A probe is to be sent.
    Probe,
    /// Found.
    Done,
}

impl Search {
    pub(crate) fn running(&self) -> bool {
        self.size != 0
    }

    /// Begins: the largest size first, for that is usually right.
    pub(crate) fn start(&mut self, low: u16, high: u16) -> Step {
        *self = Self {
            low,
            high,
            size: high,
            tries: 0,
            number: self.number,
            due: true,
        };
        if high.saturating_sub(low) < PRECISION / 2 {
            self.finish()
        } else {
            Step::Probe
        }
    }

    /// Nothing larger than `most` can be sent any more: a search that goes beyond begins again below.
    pub(crate) fn limit(&mut self, most: u16) -> Option<Step> {
        if !self.running() || self.high <= most {
            return None;
        }
        Some(self.start(self.low.min(most), most))
    }

    /// What was found out is not true any more.
    pub(crate) fn stop(&mut self) {
        self.finish();
    }

    fn finish(&mut self) -> Step {
        self.size = 0;
        self.due = false;
        Step::Done
    }

    /// The probe to send now: its number and size.
    pub(crate) fn take_due(&mut self) -> Option<(u32, u16)> {
        if !self.due {
            return None;
        }
        self.due = false;
        self.tries += 1;
        self.number = self.number.wrapping_add(1);
        Some((self.number, self.size))
    }

    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Probe `number` has been acknowledged: returns the size that is now known to pass, and the next step. Each probe of
    /// the size that is being tried counts: a full queue on the path holds the answer up for longer than the time limit.
    pub(crate) fn on_answer(&mut self, number: u32) -> Option<(u16, Step)> {
        if !self.running() || self.number.wrapping_sub(number) >= u32::from(self.tries) {
            return None;
        }
        self.low = self.size;
        Some((self.low, self.next()))
    }

    /// No answer in time.
    pub(crate) fn on_timeout(&mut self) -> Step {
        if self.tries < TRIES {
            self.due = true;
            return Step::Probe;
        }
        self.high = self.size - 1;
        self.next()
    }

    fn next(&mut self) -> Step {
        if self.high.saturating_sub(self.low) < PRECISION {
            return self.finish();
        }
        // Ethernet's own sizes first, then halves.
        const LIKELY: [u16; 3] = [8_972, 4_322, 1_472];
        let between = |size: &u16| *size > self.low && *size <= self.high;
        self.size = LIKELY
            .into_iter()
            .find(between)
            .unwrap_or_else(|| self.low + (self.high - self.low).div_ceil(2));
        self.tries = 0;
        self.due = true;
        Step::Probe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search against a path. Returns the size that it finds and the number of probes it took.
    fn search(low: u16, high: u16, path: u16) -> (u16, u32) {
        let mut search = Search::default();
        let mut known = low;
        let mut step = search.start(low, high);
        let mut probes = 0;
        while step == Step::Probe {
            let (number, size) = search.take_due().unwrap();
            probes += 1;
            step = if size <= path {
                let (found, step) = search.on_answer(number).unwrap();
                known = found;
                step
            } else {
                search.on_timeout()
            };
        }
        (known, probes)
    }

    #[test]
    fn finds_every_path() {
        assert_eq!(search(1_472, 65_507, 65_507), (65_507, 1));
        assert_eq!(search(1_472, 8_972, 1_472).0, 1_472);
        assert_eq!(search(1_472, 65_507, 8_972).0, 8_972);
        for path in (1_472..65_507).step_by(997) {
            let (found, probes) = search(1_472, 65_507, path);
            assert!(found <= path && path - found < PRECISION, "{path}: {found}");
            assert!(probes < 60, "{path}: {probes} probes");
        }
        assert_eq!(search(1_472, 1_472, 1_472), (1_472, 0));
    }

    #[test]
    fn answers_to_old_probes_do_not_count() {
        let mut search = Search::default();
        search.start(1_472, 9_000);
        let (number, _) = search.take_due().unwrap();
        assert_eq!(search.on_answer(number + 1), None);
        assert!(search.on_answer(number).is_some());
        assert_eq!(search.on_answer(number), None);
    }

    #[test]
    fn an_answer_that_comes_after_the_time_limit_counts() {
        let mut search = Search::default();
        search.start(1_472, 9_000);
        let (first, _) = search.take_due().unwrap();
        assert_eq!(search.on_timeout(), Step::Probe);
        search.take_due().unwrap();
        assert_eq!(search.on_answer(first), Some((9_000, Step::Done)));

        search.start(1_472, 9_000);
        assert_eq!(search.on_answer(first + 1), None, "a probe of the search before");
    }
}

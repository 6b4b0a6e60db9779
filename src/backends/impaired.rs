//! A backend that adds faults on purpose, reproducibly: loss, duplication, reordering, corruption, truncation, delay,
//! and a link of limited rate with a finite queue.
//!
//! It acts on transmitted datagrams. Randomness comes from a seed and time from the callers' `now`, so the same calls
//! give the same datagrams.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    io::{self, IoSlice},
    net::SocketAddr,
    ops::RangeInclusive,
    time::Duration,
};

use super::{Backend, BackendStats, Capabilities, Notice, Sent, Transmit, Wake};
use crate::{
    forward_backend,
    prng::Prng,
    time::{Instant, nanos},
};

/// The faults that [`Impaired`] applies to each datagram. The default has none.
#[derive(Clone, Debug, PartialEq)]
pub struct Impairments {
    /// Probability, 0 to 1, that a datagram is lost.
    pub loss: f64,
    /// Probability, 0 to 1, that a datagram is sent twice.
    pub duplicate: f64,
    /// Probability, 0 to 1, that a datagram is held back by [`reorder_delay`](Self::reorder_delay) on top of its
    /// delay, so that later ones overtake it.
    pub reorder: f64,
    /// See [`reorder`](Self::reorder). Default 1 ms.
    pub reorder_delay: Duration,
    /// Probability, 0 to 1, that one bit of a datagram is flipped.
    pub corrupt: f64,
    /// Probability, 0 to 1, that a datagram is cut to a random shorter length of at least 1.
    pub truncate: f64,
    /// Each datagram takes a random time from this range to arrive. Default 0. A range of more than one time also
    /// reorders.
    pub delay: RangeInclusive<Duration>,
    /// Bytes per second of the link, at least 1; `None`, the default: no limit.
    pub rate: Option<u64>,
    /// Bytes that may be held here, waiting for the link or for their time to arrive; a datagram that does not fit is
    /// lost. Default 16 MiB.
    pub queue_limit: usize,
}

impl Default for Impairments {
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_delay: Duration::from_millis(1),
            corrupt: 0.0,
            truncate: 0.0,
            delay: Duration::ZERO..=Duration::ZERO,
            rate: None,
            queue_limit: 16 << 20,
        }
    }
}

/// Impairments that are not valid.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum ImpairmentError {
    /// A probability is not within 0 to 1.
    Probability {
        /// Name of the field of [`Impairments`].
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// The shortest delay is longer than the longest.
    EmptyDelay,
    /// A rate of zero: nothing would ever pass.
    ZeroRate,
}

impl fmt::Display for ImpairmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probability { name, value } => {
                write!(f, "{name} is {value}, but a probability is within 0 to 1")
            }
            Self::EmptyDelay => f.write_str("the shortest delay is longer than the longest"),
            Self::ZeroRate => f.write_str("the rate is zero bytes per second"),
        }
    }
}

crate::debug_as_display!(ImpairmentError);

impl Error for ImpairmentError {}

impl Impairments {
    /// Checks the values.
    ///
    /// # Errors
    /// Names the first value that is not valid.
    pub fn validate(&self) -> Result<(), ImpairmentError> {
        let probabilities = [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("corrupt", self.corrupt),
            ("truncate", self.truncate),
        ];
        for (name, value) in probabilities {
            if !(0.0..=1.0).contains(&value) {
                return Err(ImpairmentError::Probability { name, value });
            }
        }
        if self.delay.is_empty() {
            return Err(ImpairmentError::EmptyDelay);
        }
        if self.rate == Some(0) {
            return Err(ImpairmentError::ZeroRate);
        }
        Ok(())
    }

    /// Returns whether nothing can happen to a datagram.
    fn harmless(&self) -> bool {
        let probabilities = [self.loss, self.duplicate, self.reorder, self.corrupt, self.truncate];
        probabilities == [0.0; 5] && self.rate.is_none() && *self.delay.end() == Duration::ZERO
    }
}

/// Counts the effects of [`Impaired`], in datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ImpairmentStats {
    /// Datagrams that were transmitted.
    pub datagrams: u64,
    /// Datagrams lost at random.
    pub lost: u64,
    /// Datagrams lost because the queue was full.
    pub overflowed: u64,
    /// Datagrams sent twice.
    pub duplicated: u64,
    /// Datagrams held back.
    pub reordered: u64,
    /// Datagrams in which one bit was changed.
    pub corrupted: u64,
    /// Datagrams that were truncated.
    pub truncated: u64,
    /// Datagrams that the backend below refused when their time had come.
    pub refused: u64,
}

crate::table::display_as_table!(ImpairmentStats {
    datagrams,
    lost,
    overflowed,
    duplicated,
    reordered,
    corrupted,
    truncated,
    refused,
});

/// A datagram on its way.
#[derive(Debug)]
struct Datagram {
    destination: SocketAddr,
    port: u8,
    data: Vec<u8>,
    dont_fragment: bool,
}

/// Memory that the backend below refers to.
#[derive(Debug)]
enum Lent {
    Caller(u64),
    /// A copy of ours, kept only to be freed at the right time.
    Ours {
        _data: Vec<u8>,
    },
}

/// A backend whose datagrams suffer [`Impairments`]. See the module's documentation.
#[derive(Debug)]
pub struct Impaired<B> {
    inner: B,
    impairments: Impairments,
    prng: Prng,
    /// Datagrams on their way, sorted by the time to send and, at equal times, by number.
    queue: BTreeMap<(Instant, u64), Datagram>,
    /// Bytes in `queue`.
    queued: usize,
    number: u64,
    /// The time at which the link has carried everything that it was given.
    link_free: Instant,
    /// The latest `now` seen.
    now: Instant,
    /// Keyed by tokens of this backend, which must not be mistaken for the caller's tokens.
    lent: BTreeMap<u64, Lent>,
    /// The caller's tokens of bursts whose bytes were copied.
    copied: Vec<u64>,
    busy: u64,
    stats: ImpairmentStats,
}

impl<B: Backend> Impaired<B> {
    /// Impairs `inner`, with randomness drawn from `seed`.
    ///
    /// # Errors
    /// The impairments are not valid.
    pub fn new(inner: B, impairments: Impairments, seed: u64) -> Result<Self, ImpairmentError> {
        impairments.validate()?;
        Ok(Self {
            inner,
            impairments,
            prng: Prng::new(seed),
            queue: BTreeMap::new(),
            queued: 0,
            number: 0,
            link_free: Instant::ZERO,
            now: Instant::ZERO,
            lent: BTreeMap::new(),
            copied: Vec::new(),
            busy: 0,
            stats: ImpairmentStats::default(),
        })
    }

    /// Changes the impairments from now on; datagrams under way keep their time.
    ///
    /// # Errors
    /// The impairments are not valid; the old ones stay.
    pub fn set_impairments(&mut self, impairments: Impairments) -> Result<(), ImpairmentError> {
        impairments.validate()?;
        self.impairments = impairments;
        Ok(())
    }

    /// The impairments.
    #[must_use]
    pub fn impairments(&self) -> &Impairments {
        &self.impairments
    }

    /// Counts of the effects so far.
    #[must_use]
    pub fn impairment_stats(&self) -> ImpairmentStats {
        self.stats
    }

    /// Datagrams held at present.
    #[must_use]
    pub fn held(&self) -> usize {
        self.queue.len()
    }

    /// The backend below.
    #[must_use]
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// The backend below; datagrams under way are lost.
    #[must_use]
    pub fn into_inner(self) -> B {
        self.inner
    }

    /// Sends the datagrams that are due.
    fn release(&mut self, now: Instant) -> io::Result<()> {
        self.now = self.now.max(now);
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let datagram = entry.get();
            let len = datagram.data.len();
            let token = self.number;
            let transmit = Transmit {
                destination: datagram.destination,
                port: datagram.port,
                segment_size: len,
                len,
                slices: &[IoSlice::new(&datagram.data)],
                dont_fragment: datagram.dont_fragment,
                token,
            };
            match self.inner.transmit(self.now, &transmit)? {
                Sent::Busy => break,
                Sent::All => {}
                Sent::Dropped => self.stats.refused += 1,
            }
            self.number += 1;
            self.queued -= len;
            let datagram = entry.remove();
            if self.inner.capabilities().holds_references {
                self.lent.insert(token, Lent::Ours { _data: datagram.data });
            }
        }
        Ok(())
    }

    /// Decides the fate of one datagram.
    fn suffer(&mut self, transmit: &Transmit<'_>, mut data: Vec<u8>) {
        let Impairments {
            loss,
            duplicate,
            reorder,
            corrupt,
            truncate,
            ..
        } = self.impairments;
        self.stats.datagrams += 1;
        // The link carries a datagram before anything else happens to it: lost ones cost their time too.
        let Some(departs) = self.depart(data.len()) else {
            self.stats.overflowed += 1;
            return;
        };
        if self.prng.chance(loss) {
            self.stats.lost += 1;
            return;
        }
        if self.prng.chance(truncate) && data.len() > 1 {
            data.truncate(self.prng.range(1..data.len() as u64) as usize);
            self.stats.truncated += 1;
        }
        if self.prng.chance(corrupt) {
            let bit = self.prng.below(data.len() as u64 * 8);
            data[(bit / 8) as usize] ^= 1 << (bit % 8);
            self.stats.corrupted += 1;
        }
        let copies = if self.prng.chance(duplicate) { 2 } else { 1 };
        self.stats.duplicated += copies - 1;
        for _ in 0..copies {
            let (shortest, longest) = (
                nanos(*self.impairments.delay.start()),
                nanos(*self.impairments.delay.end()),
            );
            let mut due = departs.plus_nanos(self.prng.range(shortest..longest.saturating_add(1)));
            if self.prng.chance(reorder) {
                due += self.impairments.reorder_delay;
                self.stats.reordered += 1;
            }
            // Without a delay the datagram leaves before the caller's next call, so it takes no room.
            if due > self.now && self.queued + data.len() > self.impairments.queue_limit {
                self.stats.overflowed += 1;
                continue;
            }
            self.queued += data.len();
            self.queue.insert(
                (due, self.number),
                Datagram {
                    destination: transmit.destination,
                    port: transmit.port,
                    data: data.clone(),
                    dont_fragment: transmit.dont_fragment,
                },
            );
            self.number += 1;
        }
    }

    /// Time at which the link will have carried `len` more bytes; `None` if they do not fit its queue.
    fn depart(&mut self, len: usize) -> Option<Instant> {
        let Some(rate) = self.impairments.rate else {
            return Some(self.now);
        };
        let backlog = u128::from(self.link_free.nanos_since(self.now)) * u128::from(rate) / 1_000_000_000;
        if backlog + len as u128 > self.impairments.queue_limit as u128 {
            return None;
        }
        let takes = (len as u128 * 1_000_000_000 / u128::from(rate)).min(u128::from(u64::MAX)) as u64;
        self.link_free = self.link_free.max(self.now).plus_nanos(takes);
        Some(self.link_free)
    }

    fn next_release(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|(&(due, _), _)| due)
    }
}

impl<B: Backend> Backend for Impaired<B> {
    forward_backend!(self => self.inner; name, local_addr, received, as_fd, descriptors, ports, neighbours);

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // Corruption and truncation here happen above any checksum of the backend below.
            checksummed: self.inner.capabilities().checksummed
                && self.impairments.corrupt == 0.0
                && self.impairments.truncate == 0.0,
            ..self.inner.capabilities()
        }
    }

    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        self.release(now)?;
        let holds_references = self.inner.capabilities().holds_references;
        if self.impairments.harmless() && self.queue.is_empty() {
            let token = self.number;
            let sent = self.inner.transmit(self.now, &Transmit { token, ..*transmit })?;
            self.stats.datagrams += if sent == Sent::Busy {
                0
            } else {
                transmit.segments() as u64
            };
            if holds_references && sent == Sent::All {
                self.number += 1;
                self.lent.insert(token, Lent::Caller(transmit.token));
            }
            return Ok(sent);
        }
        if self.next_release().is_some_and(|due| due <= self.now) {
            // The backend below is busy.
            self.busy += 1;
            return Ok(Sent::Busy);
        }
        let limit = self.inner.capabilities().max_datagram;
        let too_large = transmit.dont_fragment && transmit.segment_size.min(transmit.len) > limit;
        if transmit.segment_size == 0 || too_large {
            // The backend below says so, and counts it.
            return self.inner.transmit(self.now, transmit);
        }
        let mut burst = Vec::with_capacity(transmit.len);
        transmit.slices.iter().for_each(|slice| burst.extend_from_slice(slice));
        for datagram in burst.chunks(transmit.segment_size) {
            self.suffer(transmit, datagram.to_vec());
        }
        if holds_references {
            self.copied.push(transmit.token);
        }
        self.release(now)?;
        Ok(Sent::All)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.copied.drain(..).map(Notice::Released).for_each(&mut *each);
        let lent = &mut self.lent;
        self.inner.poll_notices(&mut |notice| match notice {
            Notice::Released(token) => {
                if let Some(Lent::Caller(token)) = lent.remove(&token) {
                    each(Notice::Released(token));
                }
            }
            Notice::Unreachable(_) => each(notice),
        });
    }

    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        self.release(now)?;
        self.inner.receive(now, budget)
    }

    /// Sleeps at most until the next held datagram is due; a later [`receive`](Backend::receive) sends it.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        // If a datagram is due by the last `now` and still held, the backend below was busy. Then sleep a little, do
        // not spin.
        let wait = |due: Instant| (due - self.now).max(Duration::from_micros(50));
        let due = self.next_release().map(wait);
        let shorter = due.filter(|&due| timeout.is_none_or(|timeout| due < timeout));
        match (shorter, self.inner.wait(shorter.or(timeout))?) {
            // The time until the next datagram has passed, not the caller's timeout.
            (Some(_), Wake::TimedOut) => Ok(Wake::Readable),
            (_, wake) => Ok(wake),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        [self.next_release(), self.inner.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn stats(&self) -> BackendStats {
        let mut stats = self.inner.stats();
        stats.busy += self.busy;
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::script::{Script, send},
        *,
    };

    const MILLI: u64 = 1_000_000;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * MILLI)
    }

    fn impaired(impairments: Impairments, seed: u64) -> Impaired<Script> {
        Impaired::new(Script::default(), impairments, seed).unwrap()
    }

    /// Sends `count` numbered datagrams in bursts of four, one burst a millisecond, and lets everything arrive.
    fn run(impairments: Impairments, seed: u64, count: u64) -> Impaired<Script> {
        let mut backend = impaired(impairments, seed);
        for burst in 0..count / 4 {
            let data: Vec<u8> = (burst * 4..burst * 4 + 4).flat_map(u64::to_be_bytes).collect();
            assert_eq!(send(&mut backend, at(burst), 8, &data, 0).unwrap(), Sent::All);
        }
        backend.receive(Instant::FAR_FUTURE, 1).unwrap();
        assert_eq!((backend.held(), backend.queued), (0, 0));
        backend
    }

    /// The numbers of the whole datagrams sent.
    fn numbers(backend: &Impaired<Script>) -> Vec<u64> {
        backend
            .inner
            .sent
            .iter()
            .filter_map(|(_, data)| data[..].try_into().ok().map(u64::from_be_bytes))
            .collect()
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |impairments: Impairments| Impaired::new(Script::default(), impairments, 0).unwrap_err();
        for value in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let error = refused(Impairments {
                reorder: value,
                ..Impairments::default()
            });
            assert!(
                matches!(error, ImpairmentError::Probability { name: "reorder", .. }),
                "{error}"
            );
        }
        let delay = Duration::from_millis(2)..=Duration::from_millis(1);
        assert_eq!(
            refused(Impairments {
                delay,
                ..Impairments::default()
            }),
            ImpairmentError::EmptyDelay
        );
        assert_eq!(
            refused(Impairments {
                rate: Some(0),
                ..Impairments::default()
            }),
            ImpairmentError::ZeroRate
        );
    }

    #[test]
    fn harmless_passes_bursts_untouched() {
        let backend = run(Impairments::default(), 1, 400);
        assert_eq!(numbers(&backend), (0..400).collect::<Vec<u64>>());
        assert_eq!(
            backend.impairment_stats(),
            ImpairmentStats {
                datagrams: 400,
                ..ImpairmentStats::default()
            }
        );
    }

    #[test]
    fn the_same_seed_does_the_same() {
        let all = Impairments {
            loss: 0.1,
            duplicate: 0.1,
            reorder: 0.1,
            corrupt: 0.1,
            truncate: 0.1,
            delay: Duration::ZERO..=Duration::from_millis(3),
            rate: Some(100_000),
            ..Impairments::default()
        };
        let (a, b, c) = (run(all.clone(), 5, 4000), run(all.clone(), 5, 4000), run(all, 6, 4000));
        assert_eq!(a.inner.sent, b.inner.sent);
        assert_eq!(a.impairment_stats(), b.impairment_stats());
        assert_ne!(a.inner.sent, c.inner.sent);
        let stats = a.impairment_stats();
        for (what, count) in [
            ("lost", stats.lost),
            ("duplicated", stats.duplicated),
            ("reordered", stats.reordered),
            ("corrupted", stats.corrupted),
            ("truncated", stats.truncated),
        ] {
            assert!((300..500).contains(&count), "{what}: {count} of 4000 at 10 %");
        }
        let arrived = stats.datagrams - stats.lost - stats.overflowed + stats.duplicated;
        assert_eq!(arrived, a.inner.sent.len() as u64);
    }

    #[test]
    fn loss_loses_and_duplication_doubles() {
        assert!(
            run(
                Impairments {
                    loss: 1.0,
                    ..Impairments::default()
                },
                1,
                40
            )
            .inner
            .sent
            .is_empty()
        );
        let doubled = numbers(&run(
            Impairments {
                duplicate: 1.0,
                ..Impairments::default()
            },
            1,
            40,
        ));
        assert_eq!(
            doubled,
            (0..40).flat_map(|number| [number, number]).collect::<Vec<u64>>()
        );
    }

    #[test]
    fn corruption_flips_one_bit_and_truncation_leaves_something() {
        let corrupted = run(
            Impairments {
                corrupt: 1.0,
                ..Impairments::default()
            },
            1,
            400,
        );
        for (sent, got) in (0_u64..).zip(numbers(&corrupted)) {
            assert_eq!((sent ^ got).count_ones(), 1);
        }
        assert!(!corrupted.capabilities().checksummed);
        let truncated = run(
            Impairments {
                truncate: 1.0,
                ..Impairments::default()
            },
            1,
            400,
        );
        let mut lens: Vec<usize> = truncated.inner.sent.iter().map(|(_, data)| data.len()).collect();
        lens.sort_unstable();
        lens.dedup();
        assert_eq!(lens, [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn reordered_datagrams_are_overtaken() {
        let backend = run(
            Impairments {
                reorder: 0.2,
                ..Impairments::default()
            },
            1,
            400,
        );
        let mut got = numbers(&backend);
        assert!(!got.is_sorted());
        got.sort_unstable();
        assert_eq!(got, (0..400).collect::<Vec<u64>>());
    }

    #[test]
    fn delayed_datagrams_leave_when_their_time_has_come() {
        let delay = Duration::from_millis(5)..=Duration::from_millis(5);
        let mut backend = impaired(
            Impairments {
                delay,
                ..Impairments::default()
            },
            1,
        );
        send(&mut backend, at(10), 2, b"aabb", 0).unwrap();
        assert_eq!(backend.next_deadline(), Some(at(15)));
        backend.receive(at(14), 1).unwrap();
        assert!(backend.inner.sent.is_empty());
        // A wait is cut short, and its end is not the caller's timeout.
        assert_eq!(backend.wait(None).unwrap(), Wake::Readable);
        assert_eq!(backend.wait(Some(Duration::from_nanos(1))).unwrap(), Wake::TimedOut);
        assert_eq!(
            backend.inner.waits,
            [Some(Duration::from_millis(1)), Some(Duration::from_nanos(1))]
        );
        backend.receive(at(15), 1).unwrap();
        assert_eq!(backend.inner.sent, [(at(15), b"aa".to_vec()), (at(15), b"bb".to_vec())]);
        assert_eq!(backend.next_deadline(), None);
    }

    #[test]
    fn the_link_has_a_rate_and_a_finite_queue() {
        let impairments = Impairments {
            rate: Some(1000),
            queue_limit: 10,
            ..Impairments::default()
        };
        let mut backend = impaired(impairments, 1);
        send(&mut backend, at(0), 2, &[0; 14], 0).unwrap();
        assert_eq!(backend.impairment_stats().overflowed, 2);
        for millis in 0..20 {
            backend.receive(at(millis), 1).unwrap();
        }
        let times: Vec<Instant> = backend.inner.sent.iter().map(|&(time, _)| time).collect();
        assert_eq!(times, [at(2), at(4), at(6), at(8), at(10)]);
    }

    #[test]
    fn what_is_held_is_bounded() {
        let delay = Duration::from_secs(1)..=Duration::from_secs(1);
        let mut backend = impaired(
            Impairments {
                delay,
                queue_limit: 1000,
                ..Impairments::default()
            },
            1,
        );
        for _ in 0..100 {
            send(&mut backend, at(0), 100, &[0; 300], 0).unwrap();
        }
        assert_eq!((backend.held(), backend.impairment_stats().overflowed), (10, 290));
    }

    #[test]
    fn busy_below_is_busy_above_and_loses_nothing() {
        let delay = Duration::from_millis(1)..=Duration::from_millis(1);
        let mut backend = impaired(
            Impairments {
                delay,
                ..Impairments::default()
            },
            1,
        );
        send(&mut backend, at(0), 1, b"a", 0).unwrap();
        backend.inner.busy = true;
        assert_eq!(send(&mut backend, at(1), 1, b"b", 0).unwrap(), Sent::Busy);
        backend.inner.busy = false;
        assert_eq!(send(&mut backend, at(1), 1, b"b", 0).unwrap(), Sent::All);
        backend.receive(at(2), 1).unwrap();
        assert_eq!(backend.inner.sent, [(at(1), b"a".to_vec()), (at(2), b"b".to_vec())]);
        assert!(backend.stats().busy >= 1);
    }

    #[test]
    fn every_token_comes_back_once() {
        let mut backend = impaired(Impairments::default(), 1);
        backend.inner.holds_references = true;
        let delay = Duration::from_millis(1)..=Duration::from_millis(1);
        for token in 0..10 {
            // Some bursts pass through, others are cut up. The caller's tokens have numbers that the backend's own
            // tokens have too.
            let delay = if token % 2 == 0 {
                delay.clone()
            } else {
                Impairments::default().delay
            };
            backend
                .set_impairments(Impairments {
                    delay,
                    ..Impairments::default()
                })
                .unwrap();
            send(&mut backend, at(token * 10), 2, b"abcde", token).unwrap();
        }
        backend.receive(Instant::FAR_FUTURE, 1).unwrap();
        let mut tokens = Vec::new();
        backend.poll_notices(&mut |notice| match notice {
            Notice::Released(token) => tokens.push(token),
            Notice::Unreachable(_) => panic!("{notice:?}"),
        });
        tokens.sort_unstable();
        assert_eq!(tokens, (0..10).collect::<Vec<u64>>());
        assert!(backend.lent.is_empty());
    }

    #[test]
    fn a_datagram_too_large_is_dropped_below() {
        let mut backend = impaired(
            Impairments {
                loss: 0.5,
                ..Impairments::default()
            },
            1,
        );
        let data = vec![0; Script::MAX_DATAGRAM + 1];
        assert_eq!(send(&mut backend, at(0), data.len(), &data, 0).unwrap(), Sent::Dropped);
        assert_eq!(backend.stats().dropped, 1);
    }
}

//! Attempts to reach lost peers, repeated until they answer.

use alloc::collections::BTreeMap;

use crate::prng::mix;

/// Time between the first two attempts, ns. It doubles with each attempt, …
const SOON: u64 = 50_000_000;
/// … up to this, ns.
const SELDOM: u64 = 1_000_000_000;

/// Peers that the endpoint tries to reach, by their number.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(super) struct Attempts(BTreeMap<u32, Attempt>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Attempt {
    /// Time of the first, ns of active time.
    since: u64,
    made: u32,
}

impl Attempts {
    /// Begins to try to reach a peer. `since`: ns of active time.
    pub(super) fn begin(&mut self, peer: u32, since: u64) {
        self.0.insert(peer, Attempt { since, made: 0 });
    }

    pub(super) fn end(&mut self, peer: u32) {
        self.0.remove(&peer);
    }

    pub(super) fn contains(&self, peer: u32) -> bool {
        self.0.contains_key(&peer)
    }

    /// Time of the first attempt to reach a peer, ns of active time, and how many there have been.
    pub(super) fn of(&self, peer: u32) -> Option<(u64, u32)> {
        self.0.get(&peer).map(|attempt| (attempt.since, attempt.made))
    }

    /// Counts an attempt, if the peer is being tried, and returns the time until the next, ns. `seed`: of this incarnation.
    pub(super) fn count(&mut self, peer: u32, seed: u64) -> Option<u64> {
        let attempt = self.0.get_mut(&peer)?;
        let chance = mix(seed ^ u64::from(peer) << 32 ^ u64::from(attempt.made)) >> 32;
        let wait = (SOON << attempt.made.min(8)).min(SELDOM);
        attempt.made = attempt.made.saturating_add(1);
        // Subtract a random part of up to a quarter: peers that were parted together must not all try at once.
        Some(wait - ((wait / 4 * chance) >> 32))
    }
}

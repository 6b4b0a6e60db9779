//! Peers that are called until they answer.

use alloc::collections::BTreeMap;

use crate::prng::mix;

/// The first two calls are so long apart, ns; then twice as long each time, …
const SOON: u64 = 50_000_000;
/// … up to this.
const SELDOM: u64 = 1_000_000_000;

/// Peers that are called, by their number.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(super) struct Calls(BTreeMap<u32, Call>);

/// A peer that is called.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Call {
    /// Since when, ns of active time.
    since: u64,
    calls: u32,
}

impl Calls {
    /// Begins to call a peer: `since`, ns of active time.
    pub(super) fn begin(&mut self, peer: u32, since: u64) {
        self.0.insert(peer, Call { since, calls: 0 });
    }

    pub(super) fn end(&mut self, peer: u32) {
        self.0.remove(&peer);
    }

    pub(super) fn contains(&self, peer: u32) -> bool {
        self.0.contains_key(&peer)
    }

    /// Since when a peer is called, ns of active time, and how often it has been.
    pub(super) fn of(&self, peer: u32) -> Option<(u64, u32)> {
        self.0.get(&peer).map(|call| (call.since, call.calls))
    }

    /// Counts a call of a peer, if it is called, and returns the time until the next, ns. `seed`: of this incarnation.
    pub(super) fn count(&mut self, peer: u32, seed: u64) -> Option<u64> {
        let call = self.0.get_mut(&peer)?;
        let chance = mix(seed ^ u64::from(peer) << 32 ^ u64::from(call.calls)) >> 32;
        let wait = (SOON << call.calls.min(8)).min(SELDOM);
        call.calls = call.calls.saturating_add(1);
        // Subtract a random part of up to a quarter: peers that were parted together must not all call at once.
        Some(wait - ((wait / 4 * chance) >> 32))
    }
}

//! Suspects: peers for whose address an ICMP message has reported that the port is unreachable.

use alloc::collections::BTreeMap;

/// The refusal of a probe sent this long after the first refusal ends the session, ns. Twice the round-trip time if
/// that is longer, because refusals of packets that were in flight at first arrive until then.
pub(super) const REFUSED_FOR: u64 = 100_000_000;
/// A suspicion that is not confirmed for so long is over, ns.
const SUSPECTED_FOR: u64 = 2_000_000_000;

/// Suspects, by their number.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(super) struct Suspects(BTreeMap<u32, Suspicion>);

/// A peer whose port the network has reported unreachable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Suspicion {
    /// When it was said first, …
    since: u64,
    /// … and last, ns.
    latest: u64,
    /// When the peer had been heard last before, ns of active time.
    heard: u64,
    /// If the next question is refused, too, the peer is lost.
    last_chance: bool,
}

impl Suspects {
    /// Begins to suspect a peer that was last `heard` then, ns of active time.
    pub(super) fn begin(&mut self, peer: u32, now: u64, heard: u64) {
        let suspicion = Suspicion {
            since: now,
            latest: now,
            heard,
            last_chance: false,
        };
        self.0.insert(peer, suspicion);
    }

    /// The suspicion of a peer, unless something has come from it since, or it was not confirmed for long.
    pub(super) fn of(&mut self, peer: u32, now: u64, heard: u64) -> Option<&mut Suspicion> {
        let suspicion = self.0.get(&peer)?;
        if heard != suspicion.heard || now - suspicion.latest >= SUSPECTED_FOR {
            self.0.remove(&peer);
            return None;
        }
        self.0.get_mut(&peer)
    }

    pub(super) fn remove(&mut self, peer: u32) {
        self.0.remove(&peer);
    }
}

impl Suspicion {
    /// The peer is refused again. Returns whether it is lost: this was its last chance.
    pub(super) fn is_confirmed(&mut self, now: u64) -> bool {
        self.latest = now;
        self.last_chance
    }

    /// The peer is asked again; `round_trip`, ns: its longest.
    pub(super) fn ask(&mut self, now: u64, round_trip: u64) {
        self.last_chance = now - self.since >= REFUSED_FOR.max(2 * round_trip);
    }
}

//! Messages that were lost when sessions ended.

use alloc::{collections::BTreeMap, vec::Vec};

/// Most pairs of processors that are named for a peer; the oldest go first.
const MAX_NAMED: usize = 4_096;

/// Messages in flight from one processor to another when a session ended. Messages are delivered in order, so these are
/// all from the first unacknowledged one on. Each of them may or may not have arrived; all before them have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostMessages {
    /// Number of the session, from 1.
    pub session: u32,
    /// Processor that has sent them.
    pub source: u32,
    /// Processor that they were for.
    pub destination: u32,
    /// How many messages were sent before the first of them, between these two in this session.
    pub first: u32,
}

/// Lost messages, by the number of the peer.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(super) struct LostByPeer(BTreeMap<u32, Vec<LostMessages>>);

impl LostByPeer {
    /// Adds what was lost with a peer.
    pub(super) fn add(&mut self, peer: u32, messages: impl Iterator<Item = LostMessages>) {
        let lost = self.0.entry(peer).or_default();
        lost.extend(messages);
        lost.drain(..lost.len().saturating_sub(MAX_NAMED));
        if lost.is_empty() {
            self.0.remove(&peer);
        }
    }

    /// What was lost with a peer; it is forgotten.
    pub(super) fn take(&mut self, peer: u32) -> Vec<LostMessages> {
        self.0.remove(&peer).unwrap_or_default()
    }
}

//! Vacancies in the table of peers, for strangers.

use alloc::collections::VecDeque;

use super::tokens::COOKIE_TIME;

/// The number of a peer that has left names no other one for so long, ns: no cookie is older, and every user of
/// the endpoint has heard of its end.
const REST: u64 = 2 * COOKIE_TIME;

/// Where newcomers find room.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(super) struct Vacancies {
    /// Peers that have left, and when, the oldest first. Every one of them has answered a challenge, so there are at most as
    /// many as challenges are sent in [`REST`].
    left: VecDeque<(u64, u32)>,
    /// Strangers in the order in which they came, or were looked at last. (Some may have been added since.)
    strangers: VecDeque<u32>,
    /// So many have been looked at in vain since there may have been one that can leave, and since when, ns.
    in_vain: usize,
    since: u64,
}

impl Vacancies {
    /// The place of a peer that left long ago.
    pub(super) fn take(&mut self, now: u64) -> Option<u32> {
        let &(left_at, index) = self.left.front()?;
        (now - left_at >= REST).then(|| self.left.pop_front())?;
        Some(index)
    }

    /// This peer has come by itself.
    pub(super) fn came(&mut self, peer: u32) {
        self.strangers.push_back(peer);
    }

    /// There may be one that can leave.
    pub(super) fn changed(&mut self) {
        self.in_vain = 0;
    }

    /// The same if nothing of the kind was noticed for `time`, ns: some may have fallen silent.
    pub(super) fn changed_with_time(&mut self, now: u64, time: u64) {
        if now - self.since >= time {
            (self.since, self.in_vain) = (now, 0);
        }
    }

    /// How many have left and have no successor.
    pub(super) fn vacant(&self) -> usize {
        self.left.len()
    }

    /// No peer can leave.
    pub(super) fn is_full(&self) -> bool {
        self.in_vain >= self.strangers.len()
    }

    /// The next stranger to look at, which is forgotten here. `None`: no peer can leave.
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.is_full() {
            None
        } else {
            self.strangers.pop_front()
        }
    }

    /// This stranger was looked at and stays.
    pub(super) fn stays(&mut self, peer: u32) {
        self.strangers.push_back(peer);
        self.in_vain += 1;
    }

    /// This stranger has left.
    pub(super) fn left(&mut self, peer: u32, now: u64) {
        self.left.push_back((now, peer));
    }
}

//! Deadlines of flows.
//!
//! Each active flow keeps its deadlines in an array; the endpoint keeps a heap with at least one entry per flow that
//! has any, no later than the earliest. Entries are not moved when a deadline is put off (which happens with every
//! packet): one that comes up too early is put back.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Timer {
    /// Nothing was acknowledged for too long.
    Rto,
    /// A gap in what is acknowledged has outlived the reordering window: lost (RFC 8985).
    Reorder,
    /// A delayed acknowledgement is due.
    Ack,
    /// A gap in what has arrived has outlived the reordering window: ask for it.
    Nack,
    /// The peer must give a sign of life or of credit.
    Persist,
    /// A watched peer has been silent for long.
    Keepalive,
    /// A path MTU probe is due or lost.
    Mtu,
    /// Nothing has happened for long: give the active part back.
    Idle,
}

pub(crate) const TIMERS: usize = 8;

/// "Not set".
pub(crate) const NEVER: u64 = u64::MAX;

/// Deadlines of one flow, ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    at: [u64; TIMERS],
    /// The earliest entry of this flow in the heap.
    pub(crate) scheduled: u64,
}

impl Deadlines {
    pub(crate) const fn new() -> Self {
        Self {
            at: [NEVER; TIMERS],
            scheduled: NEVER,
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, timer: Timer, at: u64) {
        self.at[timer as usize] = at;
    }

    #[inline]
    pub(crate) fn stop(&mut self, timer: Timer) {
        self.at[timer as usize] = NEVER;
    }

    #[inline]
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.at[timer as usize] != NEVER
    }

    /// Stops `timer` and says so if its time has come.
    pub(crate) fn take(&mut self, timer: Timer, now: u64) -> bool {
        let due = self.at[timer as usize] <= now;
        if due {
            self.stop(timer);
        }
        due
    }

    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        let mut min = NEVER;
        for at in self.at {
            min = min.min(at);
        }
        min
    }
}

/// The flows' earliest deadlines.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    entries: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Heap {
    pub(crate) fn push(&mut self, at: u64, flow: u32) {
        self.entries.push(Reverse((at, flow)));
    }

    pub(crate) fn earliest(&self) -> Option<u64> {
        self.entries.peek().map(|Reverse((at, _))| *at)
    }

    /// A flow whose entry is at or before `now`.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<(u64, u32)> {
        if self.earliest()? > now {
            return None;
        }
        self.entries.pop().map(|Reverse(entry)| entry)
    }
}

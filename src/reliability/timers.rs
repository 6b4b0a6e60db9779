//! Deadlines of flows.
//!
//! Each active flow keeps its deadlines in an array. The endpoint keeps a heap with one entry for each flow that has a
//! deadline, at its earliest deadline or before. A deadline that is postponed (which happens with every packet) does
//! not move the entry: an entry that comes up too early is put back.

use alloc::vec::Vec;

/// The purpose of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Timer {
    /// Nothing was acknowledged for too long.
    Rto,
    /// A gap in the acknowledged packets has outlived the reordering window: its packets are lost (RFC 8985).
    Reorder,
    /// A delayed acknowledgement is due.
    Ack,
    /// A gap in the received packets has outlived the reordering window: request them.
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Deadlines {
    at: [u64; TIMERS],
    /// The entry of this flow in the heap.
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

    /// Sets it, and the entry of this flow, which has the number `index`, in `heap` if it is to be sooner for that.
    #[inline]
    pub(crate) fn arm(&mut self, heap: &mut Heap, index: u32, timer: Timer, at: u64) {
        self.set(timer, at);
        if at < self.scheduled {
            self.scheduled = at;
            heap.set(at, index);
        }
    }

    /// The same, unless it is set.
    #[inline(always)]
    pub(crate) fn arm_once(&mut self, heap: &mut Heap, index: u32, timer: Timer, at: u64) {
        if !self.is_set(timer) {
            self.arm(heap, index, timer, at);
        }
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

/// The flows' earliest deadlines: a binary heap with at most one entry per flow.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Heap {
    entries: Vec<(u64, u32)>,
    /// Where the entry of each flow is; [`ABSENT`]: it has none.
    places: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;

impl Heap {
    /// Sets the entry of `flow`, replacing its previous one.
    pub(crate) fn set(&mut self, at: u64, flow: u32) {
        if flow as usize >= self.places.len() {
            self.places.resize(flow as usize + 1, ABSENT);
        }
        let place = self.places[flow as usize];
        if place == ABSENT {
            self.entries.push((at, flow));
            self.rise(self.entries.len() - 1);
        } else {
            self.entries[place as usize].0 = at;
            self.rise(place as usize);
            self.sink(self.places[flow as usize] as usize);
        }
    }

    #[inline]
    pub(crate) fn earliest(&self) -> Option<u64> {
        self.entries.first().map(|&(at, _)| at)
    }

    /// Removes and returns a flow whose entry is at or before `now`.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<u32> {
        let &(at, flow) = self.entries.first()?;
        if at > now {
            return None;
        }
        self.entries.swap_remove(0);
        self.places[flow as usize] = ABSENT;
        if !self.entries.is_empty() {
            self.sink(0);
        }
        Some(flow)
    }

    fn rise(&mut self, mut place: usize) {
        let entry = self.entries[place];
        while place > 0 && entry < self.entries[(place - 1) / 2] {
            self.put(place, self.entries[(place - 1) / 2]);
            place = (place - 1) / 2;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.entries[place];
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let child = match (self.entries.get(left), self.entries.get(right)) {
                (Some(a), Some(b)) if b < a => right,
                (Some(_), _) => left,
                (None, _) => break,
            };
            if entry <= self.entries[child] {
                break;
            }
            self.put(place, self.entries[child]);
            place = child;
        }
        self.put(place, entry);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: (u64, u32)) {
        self.entries[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain map from flows to times: the same comes out, and never two entries of a flow.
        #[test]
        fn heap_agrees_with_a_map(steps in prop::collection::vec((0_u32..20, 0_u64..100, any::<bool>()), 0..300)) {
            let mut heap = Heap::default();
            let mut map = BTreeMap::new();
            for (flow, at, set) in steps {
                if set {
                    heap.set(at, flow);
                    map.insert(flow, at);
                } else {
                    let first = map.iter().map(|(&flow, &at)| (at, flow)).min().filter(|&(due, _)| due <= at);
                    prop_assert_eq!(heap.pop_due(at), first.map(|(_, flow)| flow));
                    if let Some((_, flow)) = first {
                        map.remove(&flow);
                    }
                }
                prop_assert_eq!(heap.entries.len(), map.len());
                prop_assert_eq!(heap.earliest(), map.values().min().copied());
            }
        }
    }
}
